//! `gemelo attach` and `gemelo detach`, which make volumes devices of this host.

use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_place::VolumePath;
use gemelo_serve::{PoolRequest, Reply};

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
}

pub(super) fn attach(arguments: &Attach, context: &Context) -> anyhow::Result<Outcome> {
    let volume = &arguments.volume;
    let request = PoolRequest::Attach { name: volume.name.clone() };
    match pools::change(&volume.pool, &request, context)? {
        Reply::Attached { path } => context.print(&format!("{path}\n"))?,
        _ => return Err(pools::other_version()),
    }
    Ok(Outcome::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Detach {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Remove a device in use as well: its requests fail
    #[arg(long)]
    force: bool,
}

pub(super) fn detach(arguments: &Detach, context: &Context) -> anyhow::Result<Outcome> {
    let Detach { volume, force } = arguments;
    let request = PoolRequest::Detach { name: volume.name.clone(), force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: detached\n"))?;
    Ok(Outcome::Done)
}
