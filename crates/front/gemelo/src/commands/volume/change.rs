//! The commands `resize`, `rename` and `rm`, which change a volume as a whole.

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

pub(super) fn resize(arguments: &Resize, context: &Context) -> crate::Result<Outcome> {
    let Resize { volume, size, force } = arguments;
    let (name, size_bytes) = (volume.name.clone(), size.0);
    let request = PoolRequest::ResizeVolume { name, size_bytes, padding_bytes: 0, force: *force };
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

pub(super) fn rename(arguments: &Rename, context: &Context) -> crate::Result<Outcome> {
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

pub(super) fn remove(arguments: &Rm, context: &Context) -> crate::Result<Outcome> {
    let Rm { volume, force } = arguments;
    let request = PoolRequest::RemoveVolume { name: volume.name.clone(), force: *force };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: removed\n"))?;
    Ok(Outcome::Done)
}
