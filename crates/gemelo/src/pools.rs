//! What commands on pools have in common: getting at a pool, served or not, and turning failures into errors.

use crate::context::Context;
use anyhow::anyhow;
use gemelo_adapters::{NbdAdapter, OnOpen, PoolAdapter};
use gemelo_serve::{PoolAccess, PoolRequest, Purpose, Reply, StatReport};
use gemelo_target::Targets;
use std::path::Path;
use std::sync::Arc;

/// Opens a pool, or finds who serves it.
pub(crate) fn open(
    directory: &Path,
    purpose: Purpose,
    context: &Context,
) -> anyhow::Result<PoolAccess> {
    Ok(PoolAccess::open(directory, purpose, &*context.monitor, &context.stop)?)
}

/// The storage that load can run against. Other commands can look at the figures of a pool while a
/// target has it open.
pub(crate) fn targets() -> Targets {
    let on_open: OnOpen = Arc::new(|directory, pool| {
        let looks = gemelo_serve::let_look(directory, pool)?;
        Some(Box::new(looks) as Box<dyn Send + Sync>)
    });
    Targets::new().with(PoolAdapter::new(on_open)).with(NbdAdapter)
}

/// Asks one thing of an open pool.
pub(crate) fn ask(
    access: &PoolAccess,
    request: &PoolRequest,
    context: &Context,
) -> anyhow::Result<Reply> {
    Ok(access.perform(request, &*context.monitor, &context.stop)?)
}

/// Opens a pool, changes one thing, and closes it.
pub(crate) fn change(
    directory: &Path,
    request: &PoolRequest,
    context: &Context,
) -> anyhow::Result<Reply> {
    let access = open(directory, Purpose::Change, context)?;
    let reply = ask(&access, request, context);
    let closed = access.close();
    let reply = reply?;
    closed?;
    Ok(reply)
}

/// A pool in numbers.
pub(crate) fn stat(directory: &Path, context: &Context) -> anyhow::Result<StatReport> {
    let access = open(directory, Purpose::Look, context)?;
    let report = stat_of(&access, context)?;
    access.close()?;
    Ok(report)
}

/// An open pool in numbers.
pub(crate) fn stat_of(access: &PoolAccess, context: &Context) -> anyhow::Result<StatReport> {
    match ask(access, &PoolRequest::Stat, context)? {
        Reply::Stat(report) => Ok(*report),
        _ => Err(other_version()),
    }
}

/// For replies that belong to another request.
pub(crate) fn other_version() -> anyhow::Error {
    anyhow!("the process that serves the pool does not understand: it is of another version")
}
