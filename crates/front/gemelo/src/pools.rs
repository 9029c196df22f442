//! Access of commands to pools, which are opened by this process or served by another one.

use crate::context::Context;
use crate::exit::{Failure, failed};
use gemelo_adapters::{NbdAdapter, PoolAdapter, PoolHost, VhostAdapter};
use gemelo_place::PoolPlace;
use gemelo_serve::{PoolAccess, PoolRequest, Purpose, Reply, Settings, StatReport};
use gemelo_target::{AdapterError, Targets};
use gemelo_volume::{Pool, SnapshotSpace, Tuning, VolumeSpace};
use std::collections::BTreeMap;
use std::sync::Weak;

/// Opens a pool, or connects to the process that serves it.
pub(crate) fn open(
    place: &PoolPlace,
    purpose: Purpose,
    context: &Context,
) -> crate::Result<PoolAccess> {
    Ok(PoolAccess::open(place, purpose, &*context.monitor, &context.stop)?)
}

/// Returns the kinds of storage that load can run against. While a target has a pool open, other
/// commands can ask this process for the pool's figures.
pub(crate) fn targets() -> Targets {
    Targets::new().with(PoolAdapter::new(CommandLine)).with(NbdAdapter).with(VhostAdapter)
}

/// This program as the host of pools that are targets.
struct CommandLine;

impl PoolHost for CommandLine {
    fn tuning(&self, place: &PoolPlace) -> Result<Tuning, AdapterError> {
        let settings = Settings::read(place).map_err(AdapterError::new)?;
        Ok(settings.pool.tuning())
    }

    fn opened(&self, place: &PoolPlace, pool: Weak<Pool>) -> Option<Box<dyn Send + Sync>> {
        if let (Some(pool), Ok(settings)) = (pool.upgrade(), Settings::read(place)) {
            settings.give_to_volumes(&pool);
        }
        let looks = gemelo_serve::let_look(place, pool)?;
        Some(Box::new(looks))
    }
}

/// Sends one request to an open pool.
pub(crate) fn ask(
    access: &PoolAccess,
    request: &PoolRequest,
    context: &Context,
) -> crate::Result<Reply> {
    Ok(access.perform(request, &*context.monitor, &context.stop)?)
}

/// Opens a pool, performs one request that changes it, and closes it.
pub(crate) fn change(
    place: &PoolPlace,
    request: &PoolRequest,
    context: &Context,
) -> crate::Result<Reply> {
    let access = open(place, Purpose::Change, context)?;
    let reply = ask(&access, request, context);
    let closed = access.close();
    let reply = reply?;
    closed?;
    Ok(reply)
}

/// Opens a pool, returns its figures, and closes it.
pub(crate) fn stat(place: &PoolPlace, context: &Context) -> crate::Result<StatReport> {
    let access = open(place, Purpose::Look, context)?;
    let report = stat_of(&access, context)?;
    access.close()?;
    Ok(report)
}

/// Returns the figures of an open pool.
pub(crate) fn stat_of(access: &PoolAccess, context: &Context) -> crate::Result<StatReport> {
    match ask(access, &PoolRequest::Stat, context)? {
        Reply::Stat(report) => Ok(*report),
        _ => Err(other_version()),
    }
}

/// Returns the space of one volume, or of each volume, by name. Walks their maps.
pub(crate) fn volume_space(
    access: &PoolAccess,
    name: Option<&str>,
    context: &Context,
) -> crate::Result<BTreeMap<String, VolumeSpace>> {
    let request = PoolRequest::VolumeSpace { name: name.map(str::to_owned) };
    match ask(access, &request, context)? {
        Reply::VolumeSpace(spaces) => Ok(spaces),
        _ => Err(other_version()),
    }
}

/// Returns the blocks of a pool with and without its snapshots. Walks the maps of all volumes.
pub(crate) fn snapshot_space(
    access: &PoolAccess,
    context: &Context,
) -> crate::Result<SnapshotSpace> {
    match ask(access, &PoolRequest::SnapshotSpace, context)? {
        Reply::SnapshotSpace(space) => Ok(space),
        _ => Err(other_version()),
    }
}

/// Returns the purpose of a command that shows figures. Only a process that serves the pool
/// computes space for others; the command waits for any other process that has it.
pub(crate) const fn purpose_of_stat(with_space: bool) -> Purpose {
    if with_space { Purpose::Read } else { Purpose::Look }
}

/// Returns the error for a reply that does not belong to the request.
pub(crate) fn other_version() -> Failure {
    failed!(
        "the process that serves the pool sent an unknown reply, because it is of another version of \
         gemelo: restart it"
    )
}
