//! `gemelo scan merge`.

use super::arguments::Zeros;
use super::finish;
use super::outputs::{OutputOptions, Saving};
use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use std::path::PathBuf;

/// Unites fingerprint sets, taken on one host or on several.
#[derive(Debug, Args)]
pub(super) struct MergeArguments {
    /// Files that `gemelo scan --save` wrote, all with the same block sizes, fingerprints and tails
    #[arg(required = true, value_name = "SET")]
    sets: Vec<PathBuf>,
    /// Whether blocks of zeros enter the dedup ratio and the distribution
    #[arg(long, value_enum, default_value_t = Zeros::Include)]
    zeros: Zeros,
    #[command(flatten)]
    outputs: OutputOptions,
}

pub(super) fn run(arguments: &MergeArguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.outputs.check(&[])?;
    let saving = Saving::begin(&arguments.outputs)?;
    let saved = gemelo_scan::merge_sets(
        &arguments.sets,
        arguments.zeros.policy(),
        saving.file(),
        context.monitor.as_ref(),
        &context.stop,
    )?;
    let sizes = saved.result.block_sizes.iter().map(|size| size.block_bytes).collect::<Vec<_>>();
    // Only the sets say which block sizes there are, and so which distributions.
    arguments.outputs.check(&sizes)?;
    finish(saved, saving, &arguments.sets, &arguments.outputs, context)
}
