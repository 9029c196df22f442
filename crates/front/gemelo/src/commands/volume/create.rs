//! `gemelo volume create`.

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
pub(crate) struct Arguments {
    /// The pool and the volume's name: DIRECTORY/NAME or rados:POOL/NAMESPACE/MEMBER/NAME
    #[arg(value_name = "POOL/NAME", value_parser = volume_path_parser())]
    volume: VolumePath,
    /// Size of the volume, a multiple of the pool's block size
    #[arg(long, value_name = "SIZE")]
    size: Size,
    /// Mode of deduplication
    #[arg(long, value_name = "MODE", default_value = "inline")]
    dedup: Mode,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let volume = &arguments.volume;
    let request = PoolRequest::CreateVolume {
        name: volume.name.clone(),
        size_bytes: arguments.size.0,
        mode: arguments.dedup.into(),
        is_imported: false,
    };
    pools::change(&volume.pool, &request, context)?;
    context.print(&format!("{volume}: a volume of {}\n", format_size(arguments.size.0)))?;
    Ok(Outcome::Done)
}
