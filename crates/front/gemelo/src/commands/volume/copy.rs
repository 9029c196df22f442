//! `gemelo volume snapshot`, `clone`, `rollback`, `hold` and `release`.

use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_place::VolumePath;
use gemelo_serve::PoolRequest;
use gemelo_volume::NewCopy;
use std::ffi::OsString;

/// The tag of a hold for which none is given.
const USUAL_TAG: &str = "keep";

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The snapshot's name
    #[arg(value_name = "NEW")]
    new_name: String,
    /// Further volumes of the pool with names for their snapshots: all are of the same moment
    #[arg(value_name = "POOL/NAME NEW", num_args = 2)]
    others: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Clone {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The clone's name
    #[arg(value_name = "NEW")]
    new_name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The name of a snapshot of the volume
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// Roll back a volume that has connected clients, which are disconnected
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Hold {
    /// The pool and the snapshot's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/SNAPSHOT", value_parser = volume_path_parser())]
    snapshot: VolumePath,
    /// Who needs the snapshot; each of up to four tags is a hold of its own
    #[arg(long, value_name = "TAG", default_value = USUAL_TAG)]
    tag: String,
}

pub(super) fn snapshot(arguments: &Snapshot, context: &Context) -> crate::Result<Outcome> {
    let Snapshot { volume, new_name, others } = arguments;
    let pool = &volume.pool;
    let mut copies = vec![NewCopy { source: volume.name.clone(), name: new_name.clone() }];
    let (pairs, rest) = others.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(refused!("give a name for each snapshot: POOL/NAME NEW POOL/NAME NEW"));
    }
    for [source, name] in pairs {
        let source = VolumePath::from_os_text(source).map_err(|error| refused!("{error}"))?;
        if source.pool != *pool {
            return Err(refused!(
                "{source} is of another pool than {volume}: snapshots of one moment are of one pool"
            ));
        }
        let name = name.to_str().ok_or_else(|| refused!("the name of a volume must be UTF-8"))?;
        copies.push(NewCopy { source: source.name, name: name.to_owned() });
    }
    let request = PoolRequest::SnapshotVolumes { copies: copies.clone() };
    pools::change(pool, &request, context)?;
    let line = |copy: &NewCopy| format!("{pool}/{}: a snapshot of {}\n", copy.name, copy.source);
    context.print(&copies.iter().map(line).collect::<String>())?;
    Ok(Outcome::Done)
}

pub(super) fn clone(arguments: &Clone, context: &Context) -> crate::Result<Outcome> {
    let Clone { volume, new_name } = arguments;
    let request =
        PoolRequest::CloneVolume { name: volume.name.clone(), new_name: new_name.clone() };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{}/{new_name}: a clone of {}\n", volume.pool, volume.name))?;
    Ok(Outcome::Done)
}

pub(super) fn roll_back(arguments: &Rollback, context: &Context) -> crate::Result<Outcome> {
    let Rollback { volume, snapshot, force } = arguments;
    // Commands print a snapshot as POOL/NAME.
    let of_pool = format!("{}/", volume.pool);
    let snapshot = snapshot.strip_prefix(&of_pool).unwrap_or(snapshot).to_owned();
    let name = volume.name.clone();
    let request = PoolRequest::RollBack { name, snapshot: snapshot.clone(), force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: has the contents of {snapshot} again\n"))?;
    Ok(Outcome::Done)
}

pub(super) fn hold(arguments: &Hold, is_held: bool, context: &Context) -> crate::Result<Outcome> {
    let Hold { snapshot, tag } = arguments;
    let (name, tag) = (snapshot.name.clone(), tag.clone());
    let request = PoolRequest::Hold { name, tag: tag.clone(), is_held };
    pools::change(&snapshot.pool, &request, context)?;
    let done = if is_held { "held by" } else { "released by" };
    context.print(&format!("{snapshot}: {done} '{tag}'\n"))?;
    Ok(Outcome::Done)
}
