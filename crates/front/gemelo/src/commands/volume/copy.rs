//! `gemelo volume snapshot` and `clone`, which copy the map of a volume by reference.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_place::VolumePath;
use gemelo_serve::PoolRequest;

#[derive(Debug, Args)]
pub(crate) struct Snapshot {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The snapshot's name
    #[arg(value_name = "NEW")]
    new_name: String,
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

pub(super) fn snapshot(arguments: &Snapshot, context: &Context) -> crate::Result<Outcome> {
    copy(&arguments.volume, &arguments.new_name, true, context)
}

pub(super) fn clone(arguments: &Clone, context: &Context) -> crate::Result<Outcome> {
    copy(&arguments.volume, &arguments.new_name, false, context)
}

fn copy(
    volume: &VolumePath,
    new_name: &str,
    read_only: bool,
    context: &Context,
) -> crate::Result<Outcome> {
    let request = PoolRequest::CopyVolume {
        name: volume.name.clone(),
        new_name: new_name.to_owned(),
        read_only,
    };
    pools::change(&volume.pool, &request, context)?;
    let kind = if read_only { "snapshot" } else { "clone" };
    let new = VolumePath { pool: volume.pool.clone(), name: new_name.to_owned() };
    context.print(&format!("{new}: a {kind} of {}\n", volume.name))?;
    Ok(Outcome::Done)
}
