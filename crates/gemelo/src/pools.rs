//! What commands on pools have in common: getting at a pool, served or not, and turning failures into errors.

use crate::context::Context;
use anyhow::anyhow;
use gemelo_serve::{Access, Purpose, Reply, Request, StatReport};
use std::path::Path;

/// Opens a pool, or finds who serves it.
pub(crate) fn open(
    directory: &Path,
    purpose: Purpose,
    context: &Context,
) -> anyhow::Result<Access> {
    Ok(Access::open(directory, purpose, &*context.monitor, &context.stop)?)
}

/// Lets other commands look at the figures of the pool that a target has open, until the result is
/// dropped.
pub(crate) fn let_look(target: &dyn gemelo_target::Target) -> Option<gemelo_serve::Looks> {
    let opened = target.pool()?;
    gemelo_serve::let_look(&opened.directory, opened.pool)
}

/// Asks one thing of an open pool.
pub(crate) fn ask(access: &Access, request: &Request, context: &Context) -> anyhow::Result<Reply> {
    Ok(access.perform(request, &*context.monitor, &context.stop)?)
}

/// Opens a pool, changes one thing, and closes it.
pub(crate) fn change(
    directory: &Path,
    request: &Request,
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
pub(crate) fn stat_of(access: &Access, context: &Context) -> anyhow::Result<StatReport> {
    match ask(access, &Request::Stat, context)? {
        Reply::Stat(report) => Ok(*report),
        _ => Err(other_version()),
    }
}

/// For replies that belong to another request.
pub(crate) fn other_version() -> anyhow::Error {
    anyhow!("the process that serves the pool does not understand: it is of another version")
}
