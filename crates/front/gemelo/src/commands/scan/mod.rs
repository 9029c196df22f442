//! `gemelo scan` counts the duplicates of data at several block sizes.

mod arguments;
mod merge;
mod on_hosts;
mod outputs;
mod plan;
mod text;

use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::json::Made;
pub(crate) use arguments::Arguments;
use arguments::{Action, ScanArguments};
use gemelo_scan::{Saved, ScanOptions, ScanRequest, ScanResult};
use on_hosts::HostScan;
use outputs::Saving;
use serde_json::Value;

/// The schema of the result files of this command.
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
    if let Some(fleet) = arguments.hosts.fleet()? {
        return on_hosts::run(arguments, &fleet, context);
    }
    let options = ScanOptions::new(arguments.to_request())?;
    let saving = Saving::begin(&arguments.outputs)?;
    let monitor = context.monitor.as_ref();
    let saved = gemelo_scan::scan_and_save(&options, saving.file(), monitor, &context.stop);
    finish(saved?, saving, options.request(), &[], &arguments.outputs, context)
}

/// Returns the result of the scan of one host.
pub(super) fn file_of_host(
    result: &ScanResult,
    request: &ScanRequest,
    context: &Context,
) -> anyhow::Result<Value> {
    let made = Made { schema: SCHEMA, input: request, result, warnings: text::warnings(result) };
    Ok(serde_json::to_value(made.into_file(context))?)
}

/// Prints a result, with the hosts that it is of, and writes its files. A failure of one output
/// does not prevent the others.
fn finish<Input: serde::Serialize>(
    saved: Saved,
    saving: Saving<'_>,
    input: &Input,
    hosts: &[HostScan],
    outputs: &outputs::OutputOptions,
    context: &Context,
) -> anyhow::Result<Outcome> {
    let Saved { result, set } = saved;
    let (monitor, mut failures) = (context.monitor.as_ref(), Failures::default());
    let warnings = text::warnings(&result);
    for warning in &warnings {
        monitor.warn(warning);
    }
    if !outputs.files.is_standard_output() {
        let text = if outputs.brief { text::brief(&result) } else { text::of_result(&result) };
        let text = text + &on_hosts::table(hosts);
        failures.note(context.print(&text), monitor);
    }
    let made = Made { schema: SCHEMA, input, result: &result, warnings };
    outputs.write_result(context, made, hosts, &mut failures);
    failures.note(outputs.write_distributions(&result), monitor);
    failures.note(saving.finish(set), monitor);
    let is_whole = !result.partial && result.files.unreadable == 0;
    failures.or(if is_whole { Outcome::Done } else { Outcome::Partial })
}
