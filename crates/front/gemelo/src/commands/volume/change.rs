//! The commands `resize`, `rename`, `rm` and `set`, which change a volume as a whole.

use super::limits::{self, Rates, Space};
use super::mode::Mode;
use crate::context::Context;
use crate::exit::{Outcome, refused};
use crate::pools;
use crate::values::{parse_compression, volume_path_parser};
use clap::Args;
use gemelo_base::units::format_size;
use gemelo_base::values::Size;
use gemelo_format::{Compression, DedupMode, VolumeLimits};
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

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Mode of deduplication of further writes
    #[arg(long, value_name = "MODE")]
    dedup: Option<Mode>,
    /// Compression of further writes: off, lz4, zstd or zstd:LEVEL, where LEVEL is 1 to 19. The
    /// pool must have been created with --compression. 'gemelo pool recompress' does the same for
    /// earlier contents
    #[arg(long, value_name = "KIND", value_parser = parse_compression)]
    compression: Option<Compression>,
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    space: Space,
}

pub(super) fn set(arguments: &Set, context: &Context) -> crate::Result<Outcome> {
    let Set { volume, dedup, compression, rates, space } = arguments;
    let limits = rates.with(*space);
    if dedup.is_none() && compression.is_none() && limits == VolumeLimits::default() {
        return Err(refused!(
            "give what to change: --dedup, --compression, --iops or another limit"
        ));
    }
    let name = || volume.name.clone();
    // It is the one that may be refused, so it comes first.
    if let Some(compression) = *compression {
        let request = PoolRequest::SetCompression { name: name(), compression };
        pools::change(&volume.pool, &request, context)?;
        context.print(&format!("{volume}: compression {compression}\n"))?;
    }
    if limits != VolumeLimits::default() {
        pools::change(&volume.pool, &PoolRequest::SetLimits { name: name(), limits }, context)?;
        let line = |[name, value]: [String; 2]| format!("{volume}: {name} {value}\n");
        context.print(&limits::rows(limits).into_iter().map(line).collect::<String>())?;
    }
    if let Some(mode) = dedup.map(DedupMode::from) {
        pools::change(&volume.pool, &PoolRequest::SetMode { name: name(), mode }, context)?;
        context.print(&format!("{volume}: dedup {}\n", super::mode::name_of(mode)))?;
    }
    Ok(Outcome::Done)
}
