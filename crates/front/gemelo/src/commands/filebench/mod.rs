//! `gemelo filebench` runs a script of Filebench's workload language.

mod console;
mod on_hosts;
mod sweep;

use super::hosts::HostOptions;
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::files;
use crate::report_option::ReportOption;
use clap::Args;
use console::Lines;
use gemelo_filebench::Console;
use gemelo_job::filebench::{FilebenchOptions, resolve};
use gemelo_record::Provenance;
use std::path::PathBuf;
use std::sync::Arc;

/// Run a script of Filebench's workload language, with data of a chosen entropy or distribution.
///
/// The processes of the script are threads of this program. Errors name the line of the script.
/// With --hosts, each host runs the whole script in a directory of its own.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: FilebenchOptions,
    /// Check the script, and do not run it
    #[arg(long, conflicts_with_all = ["json", "keep", "report", "hosts"])]
    check: bool,
    /// Write the results as JSON to this file; - writes to standard output, and the lines of the
    /// run go to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    report: ReportOption,
    #[command(flatten)]
    hosts: HostOptions,
    /// Each host has a directory of its own, although all have the same name [default: the name of
    /// --dir has {host} or {index}]
    #[arg(long, requires = "hosts", help_heading = "Hosts")]
    own_targets: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let Arguments { job, check, json, report, hosts, .. } = arguments;
    let text = files::read_text(&job.script)?;
    files::check_all_new(json.as_deref().into_iter().chain(report.path()), job.force)?;
    if let Some(fleet) = hosts.fleet()? {
        return on_hosts::run(arguments, &text, &fleet, context);
    }
    let resolved = resolve(job, text)?;
    if *check {
        context.print(&format!("{}: the script is valid\n", job.script.display()))?;
        return Ok(Outcome::Done);
    }
    let to_stderr = files::is_some_standard_output(json.as_deref()) || report.is_standard_output();
    let console: Arc<dyn Console> = Arc::new(Lines::new(to_stderr, Arc::clone(&context.monitor)));
    let mut ran = resolved.run(&console, &context.job_environment())?;
    if let Some(sweep) = &job.sweep {
        console.line(&format!("\n{}", sweep::table(&sweep.name, &ran.points)));
    }
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if let Some(error) = ran.error.take() {
        failures.note(Err(error.into()), monitor);
    }
    let outcome = if ran.is_complete { Outcome::Done } else { Outcome::Partial };
    if json.is_some() || report.path().is_some() {
        let file = ran.into_file(Provenance::of_this_process(context.started_at));
        let written =
            json.as_ref().map_or(Ok(()), |path| files::write_json(path, job.force, &file));
        failures.note(written, monitor);
        failures.note(report.write(job.force, &file), monitor);
    }
    failures.or(outcome)
}
