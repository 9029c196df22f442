//! `gemelo scan merge`.

use super::finish;
use super::outputs::{Saving, ScanOutputs};
use crate::context::Context;
use crate::exit::Outcome;
use clap::Args;
use gemelo_scan::ScanInput;
use std::path::PathBuf;

/// Merge fingerprint sets that were saved on one host or on several.
///
/// The result equals that of one scan of all the data.
#[derive(Debug, Args)]
pub(super) struct MergeArguments {
    /// Files that `gemelo scan --save` wrote with equal block sizes, --fingerprint and --tail
    #[arg(required = true, value_name = "SET")]
    sets: Vec<PathBuf>,
    #[command(flatten)]
    outputs: ScanOutputs,
}

pub(super) fn run(arguments: &MergeArguments, context: &Context) -> crate::Result<Outcome> {
    arguments.outputs.check(&[])?;
    let saving = Saving::begin(&arguments.outputs)?;
    let saved = gemelo_scan::merge_sets(
        &arguments.sets,
        saving.file(),
        context.monitor.as_ref(),
        &context.stop,
    )?;
    let sizes = saved.result.block_sizes.iter().map(|size| size.block_bytes).collect::<Vec<_>>();
    // The block sizes, and thus the files of distributions, are known only from the sets.
    arguments.outputs.check(&sizes)?;
    let input = ScanInput::Merge { sets: arguments.sets.clone() };
    finish(saved, saving, input, Vec::new(), &arguments.outputs, context)
}
