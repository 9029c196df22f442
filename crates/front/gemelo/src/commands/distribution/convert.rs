//! `gemelo distribution convert` writes a distribution in another format.

use super::DistributionOutput;
use crate::context::Context;
use crate::exit::{OrFailure as _, Outcome};
use crate::values::BlockSize;
use clap::Args;
use gemelo_job::distributions;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A distribution in any format
    #[arg(value_name = "NAME|FILE")]
    distribution: String,
    /// Block size to write to a profile [default: the profile's, or 4k]
    #[arg(long, value_name = "SIZE")]
    block_size: Option<BlockSize>,
    #[command(flatten)]
    output: DistributionOutput,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let output = DistributionOutput {
        output: Some(arguments.output.output.clone().unwrap_or_else(|| PathBuf::from("-"))),
        ..arguments.output
    };
    output.check()?;
    let named = distributions::load(&arguments.distribution).or_bad_input()?;
    for note in &named.notes {
        context.monitor.warn(&distributions::formats::note_at(&named.name, note));
    }
    output.write(&named.to_profile(arguments.block_size.map(|size| size.0)))?;
    Ok(Outcome::Done)
}
