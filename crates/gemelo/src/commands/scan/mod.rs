//! `gemelo scan`: which duplicates data has, at which block size.

mod arguments;
mod merge;
mod outputs;
mod plan;
mod text;

use crate::context::Context;
use crate::exit::{Outcome, bad_input};
use anyhow::{Context as _, anyhow};
pub(crate) use arguments::Arguments;
use arguments::{Action, ScanArguments};
use gemelo_scan::{SavedSetError, ScanError, ScanOptions, ScanResult};
use outputs::Saving;

/// What a result file of this command says it is.
const SCHEMA: &str = "gemelo.scan/1";

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    match arguments.action {
        Some(Action::Merge(arguments)) => merge::run(&arguments, context),
        None if arguments.scan.plan => plan::run(&arguments.scan, context),
        None => scan(&arguments.scan, context),
    }
}

fn scan(arguments: &ScanArguments, context: &Context) -> anyhow::Result<Outcome> {
    arguments.outputs.check(&arguments.block_size)?;
    let options = ScanOptions::new(arguments.to_request()).map_err(ScanError::from).map_err(classified)?;
    let saving = Saving::begin(arguments.outputs.save.as_deref())?;
    let monitor = context.monitor.as_ref();
    let result = gemelo_scan::scan_and_save(&options, saving.file(), monitor, &context.stop);
    let result = result.map_err(classified)?;
    saving.finish()?;
    finish(&result, &options.request(), &arguments.outputs, context)
}

/// Prints and writes a result.
fn finish<Input: serde::Serialize>(
    result: &ScanResult,
    input: &Input,
    outputs: &outputs::OutputOptions,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let warnings = text::warnings(result);
    for warning in &warnings {
        context.monitor.warn(warning);
    }
    outputs.write_json(SCHEMA, input, result, &warnings, context)?;
    if !outputs.is_json_standard_output() {
        context.print(&text::of_result(result))?;
    }
    outputs.write_distributions(result).context("there is no distribution to write")?;
    let is_whole = !result.partial && result.files.unreadable == 0;
    Ok(if is_whole { Outcome::Done } else { Outcome::Partial })
}

/// What was refused before anything was read is bad input.
fn classified(error: ScanError) -> anyhow::Error {
    match error {
        ScanError::Saved(error) => classified_set(error),
        ScanError::Options(_)
        | ScanError::Path { .. }
        | ScanError::Kind { .. }
        | ScanError::Overlap { .. } => bad_input(anyhow!(error)),
        ScanError::Thread { .. } | ScanError::Spill { .. } => anyhow!(error),
    }
}

fn classified_set(error: SavedSetError) -> anyhow::Error {
    match error {
        SavedSetError::Write(_) | SavedSetError::WriteColumns(_) | SavedSetError::Stopped => anyhow!(error),
        refused => bad_input(anyhow!(refused)),
    }
}
