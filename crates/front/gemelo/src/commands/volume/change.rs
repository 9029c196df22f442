//! The commands `resize`, `rename`, `rm` and `set`, which change a volume as a whole.

use super::mode::Mode;
use crate::context::Context;
use crate::exit::Outcome;
use crate::pools;
use crate::values::volume_path_parser;
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_place::VolumePath;
use gemelo_serve::PoolRequest;

#[derive(Debug, Args)]
pub(crate) struct Resize {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The new size, a multiple of the pool's block size
    #[arg(long, value_name = "SIZE")]
    size: Size,
    /// Permit a smaller size; data beyond the new end are lost
    #[arg(long)]
    force: bool,
}

pub(super) fn resize(arguments: &Resize, context: &Context) -> anyhow::Result<Outcome> {
    let Resize { volume, size, force } = arguments;
    let request =
        PoolRequest::ResizeVolume { name: volume.name.clone(), size_bytes: size.0, force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: a volume of {}\n", format_size(size.0)))?;
    Ok(Outcome::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Rename {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// The new name
    #[arg(value_name = "NEW")]
    new_name: String,
}

pub(super) fn rename(arguments: &Rename, context: &Context) -> anyhow::Result<Outcome> {
    let Rename { volume, new_name } = arguments;
    let request =
        PoolRequest::RenameVolume { name: volume.name.clone(), new_name: new_name.clone() };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: renamed to {new_name}\n"))?;
    Ok(Outcome::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Rm {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Remove a volume that holds data or has connected clients, which are disconnected
    #[arg(long)]
    force: bool,
}

pub(super) fn remove(arguments: &Rm, context: &Context) -> anyhow::Result<Outcome> {
    let Rm { volume, force } = arguments;
    let request = PoolRequest::RemoveVolume { name: volume.name.clone(), force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: removed\n"))?;
    Ok(Outcome::Done)
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Mode of deduplication of further writes
    #[arg(long, value_name = "MODE")]
    dedup: Mode,
}

pub(super) fn set(arguments: &Set, context: &Context) -> anyhow::Result<Outcome> {
    let Set { volume, dedup } = arguments;
    let mode = (*dedup).into();
    pools::change(
        &volume.pool,
        &PoolRequest::SetMode { name: volume.name.clone(), mode },
        context,
    )?;
    context.print(&format!("{volume}: dedup {}\n", super::mode::name_of(mode)))?;
    Ok(Outcome::Done)
}
