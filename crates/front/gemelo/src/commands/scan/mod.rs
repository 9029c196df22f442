//! `gemelo scan` counts the duplicates of data at several block sizes.

mod arguments;
mod merge;
mod on_hosts;
mod outputs;
mod plan;
mod text;

use super::hosts;
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::kind::{Described, Kind};
pub(crate) use arguments::Arguments;
use arguments::{Action, ScanArguments};
use gemelo_record::{HostsFile, ResultFile};
use gemelo_scan::{SCAN_SCHEMA, Saved, ScanInput, ScanOptions, ScanRequest, ScanResult};
use on_hosts::HostScan;
use outputs::Saving;

const KIND: Kind<HostsFile<ScanInput, ScanResult>> =
    Kind::new(SCAN_SCHEMA, "Result of gemelo scan and gemelo scan merge");

/// The kinds of results of these commands.
pub(crate) const KINDS: [Described; 2] = [KIND.described(), plan::DESCRIBED];

pub(crate) fn run(arguments: Arguments, context: &Context) -> crate::Result<Outcome> {
    match arguments.action {
        Some(Action::Merge(arguments)) => merge::run(&arguments, context),
        None if arguments.scan.plan => plan::run(&arguments.scan, context),
        None => scan(&arguments.scan, context),
    }
}

fn scan(arguments: &ScanArguments, context: &Context) -> crate::Result<Outcome> {
    arguments.outputs.check(&arguments.block_size)?;
    if let Some(fleet) = arguments.hosts.fleet()? {
        return on_hosts::run(arguments, &fleet, context);
    }
    let options = ScanOptions::new(arguments.to_request())?;
    let saving = Saving::begin(&arguments.outputs)?;
    let monitor = context.monitor.as_ref();
    let saved = gemelo_scan::scan_and_save(&options, saving.file(), monitor, &context.stop);
    let input = ScanInput::Scan(Box::new(options.request().clone()));
    finish(saved?, saving, input, Vec::new(), &arguments.outputs, context)
}

/// Returns the result of the scan of one host.
pub(super) fn file_of_host(
    result: ScanResult,
    request: &ScanRequest,
    context: &Context,
) -> ResultFile<ScanInput, ScanResult> {
    let warnings = text::warnings(&result);
    let input = ScanInput::Scan(Box::new(request.clone()));
    KIND.made(input, result, warnings).into_file(context)
}

/// Prints a result, with the hosts that it is of, and writes its files. A failure of one output
/// does not prevent the others.
fn finish(
    saved: Saved,
    saving: Saving<'_>,
    input: ScanInput,
    hosts: Vec<HostScan>,
    outputs: &outputs::ScanOutputs,
    context: &Context,
) -> crate::Result<Outcome> {
    let Saved { result, set } = saved;
    let (monitor, mut failures) = (context.monitor.as_ref(), Failures::default());
    let warnings = text::warnings(&result);
    for warning in &warnings {
        monitor.warn(warning);
    }
    if !outputs.files.is_standard_output() {
        let text = if outputs.brief { text::brief(&result) } else { text::of_result(&result) };
        let text = text + &on_hosts::table(&hosts);
        failures.note(context.print(&text), monitor);
    }
    let file = KIND.made(input, result, warnings).into_file(context);
    let file = hosts::join(hosts, on_hosts::bytes_per_s, |_| Some(file))?;
    outputs.write_result(context, &file, &mut failures);
    let result = &file.file.result;
    failures.note(outputs.write_distributions(result), monitor);
    failures.note(saving.finish(set), monitor);
    let is_whole = !result.partial && result.files.unreadable == 0;
    failures.or(if is_whole { Outcome::Done } else { Outcome::Partial })
}
