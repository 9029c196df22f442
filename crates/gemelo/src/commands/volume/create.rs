//! `gemelo volume create`.

use super::name::VolumeName;
use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use crate::values::Size;
use clap::Args;
use gemelo_base::SystemClock;
use gemelo_volume::{DedupMode, Pool, Tuning};
use std::sync::Arc;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pool's directory and the volume's name
    #[arg(value_name = "POOL/NAME")]
    volume: VolumeName,
    /// Its size
    #[arg(long, value_name = "SIZE")]
    size: Size,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let volume = &arguments.volume;
    let pool = Pool::open(&volume.pool, Tuning::default(), Arc::new(SystemClock::new())).or_bad_input()?;
    pool.create_volume(&volume.name, arguments.size.0, DedupMode::Inline).or_bad_input()?;
    pool.close()?;
    context.print(&format!("made {volume}\n"))?;
    Ok(Outcome::Done)
}
