//! `gemelo scan merge`.

use super::arguments::Zeros;
use super::finish;
use super::outputs::{OutputOptions, Saving};
use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_scan::ZeroPolicy;
use serde::Serialize;
use std::path::PathBuf;

/// Merge fingerprint sets that were saved on one host or on several.
///
/// The result equals that of one scan of all the data.
#[derive(Debug, Args)]
pub(super) struct MergeArguments {
    /// Files that `gemelo scan --save` wrote with equal block sizes, --fingerprint and --tail
    #[arg(required = true, value_name = "SET")]
    sets: Vec<PathBuf>,
    /// Treatment of blocks of zeros in the dedup ratio and the distribution
    #[arg(long, value_enum, default_value_t = Zeros::Include)]
    zeros: Zeros,
    #[command(flatten)]
    outputs: OutputOptions,
}

/// The request of a merge, as its result file has it.
#[derive(Serialize)]
struct MergeRequest<'a> {
    sets: &'a [PathBuf],
    zeros: ZeroPolicy,
}

pub(super) fn run(arguments: &MergeArguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.outputs.check(&[])?;
    let saving = Saving::begin(&arguments.outputs)?;
    let saved = gemelo_scan::merge_sets(
        &arguments.sets,
        arguments.zeros.into(),
        saving.file(),
        context.monitor.as_ref(),
        &context.stop,
    )?;
    let sizes = saved.result.block_sizes.iter().map(|size| size.block_bytes).collect::<Vec<_>>();
    // The block sizes, and thus the files of distributions, are known only from the sets.
    arguments.outputs.check(&sizes)?;
    let input = MergeRequest { sets: &arguments.sets, zeros: arguments.zeros.into() };
    finish(saved, saving, &input, &[], &arguments.outputs, context)
}
