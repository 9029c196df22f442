//! `gemelo replay` replays a recorded trace with its content on storage.

mod on_hosts;
mod text;

use super::hosts::HostOptions;
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::files;
use crate::report_option::ReportOption;
use clap::Args;
use gemelo_job::replay::{ReplayJobOptions, resolve};
use gemelo_record::Provenance;
use std::path::PathBuf;

/// Replay a trace of block I/O with its content.
///
/// Blocks with equal hashes in the trace get equal contents. Traces without hashes get contents
/// from --distribution. With --hosts, each host replays the whole trace onto a target of its own.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: ReplayJobOptions,
    /// Print the plan, and do not replay
    #[arg(long, conflicts_with_all = ["json", "report", "hosts"])]
    dry_run: bool,
    /// Write the result as JSON to this file; - writes it to standard output in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOption,
    #[command(flatten)]
    hosts: HostOptions,
    /// Each host has a target of its own, although all have the same name [default: the name has
    /// {host} or {index}, and so may those of traces]
    #[arg(long, requires = "hosts", help_heading = "Hosts")]
    own_targets: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let Arguments { job, dry_run, json, report, hosts, .. } = arguments;
    files::check_all_new(json.as_deref().into_iter().chain(report.path()), job.force)?;
    if let Some(fleet) = hosts.fleet()? {
        return on_hosts::run(arguments, &fleet, context);
    }
    let environment = context.job_environment();
    let resolved = resolve(job, &environment)?;
    let quiet = files::is_some_standard_output(json.as_deref()) || report.is_standard_output();
    if !quiet {
        context.print(&text::plan(&resolved.plan, &resolved.options, &resolved.target))?;
    }
    if *dry_run {
        return Ok(Outcome::Done);
    }
    let mut ran = resolved.run(&environment)?;
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !quiet {
        failures.note(context.print(&text::result(&ran.result)), monitor);
        ran.warnings.iter().for_each(|warning| monitor.warn(warning));
    }
    let finished = ran.error.take().map_or(Ok(()), |error| Err(error.into()));
    let outcome = if ran.is_success() { Outcome::Done } else { Outcome::Partial };
    if json.is_some() || report.path().is_some() {
        let file = ran.into_file(Provenance::of_this_process(context.started_at));
        let written =
            json.as_ref().map_or(Ok(()), |path| files::write_json(path, job.force, &file));
        failures.note(written, monitor);
        failures.note(report.write(job.force, &file), monitor);
    }
    failures.note(finished, monitor);
    failures.or(outcome)
}
