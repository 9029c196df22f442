//! `gemelo filebench` runs a script of Filebench's workload language.

mod console;
mod on_hosts;
mod sweep;

use super::hosts::HostOptions;
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::files;
use crate::kind::{Described, Kind};
use crate::result_options::ResultOptions;
use clap::Args;
use console::Lines;
use gemelo_base::ShowPath as _;
use gemelo_filebench::Console;
use gemelo_job::filebench::{self, FilebenchInput, FilebenchOptions, Point, resolve};
use gemelo_record::HostsFile;
use std::sync::Arc;

/// The kind of results of this command.
pub(crate) const KINDS: [Described; 1] = [Kind::<HostsFile<FilebenchInput, Vec<Point>>>::new(
    filebench::SCHEMA,
    "Result of gemelo filebench",
)
.described()];

/// Run a script of Filebench's workload language, with data of a chosen entropy or distribution.
///
/// The processes of the script are threads of this program. Errors name the line of the script.
/// Where a result goes to standard output, the lines of the run go to standard error.
/// With --hosts, each host runs the whole script in a directory of its own.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    job: FilebenchOptions,
    /// Check the script, and do not run it
    #[arg(long, conflicts_with_all = ["json", "keep", "report", "hosts"])]
    check: bool,
    #[command(flatten)]
    files: ResultOptions,
    #[command(flatten)]
    hosts: HostOptions,
    /// Each host has a directory of its own, although all have the same name [default: the name of
    /// --dir has {host} or {index}]
    #[arg(long, requires = "hosts", help_heading = "Hosts")]
    own_targets: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { job, check, files: results, hosts, .. } = arguments;
    let text = files::read_text(&job.script)?;
    results.check(job.force)?;
    if let Some(fleet) = hosts.fleet()? {
        return on_hosts::run(arguments, &text, &fleet, context);
    }
    let resolved = resolve(job, text)?;
    if *check {
        context.print(&format!("{}: the script is valid\n", job.script.shown()))?;
        return Ok(Outcome::Done);
    }
    let lines = Lines::new(results.is_standard_output(), Arc::clone(&context.monitor));
    let console: Arc<dyn Console> = Arc::new(lines);
    let ran = resolved.run(&console, &context.job_environment())?;
    if let Some(sweep) = &job.sweep {
        console.line(&format!("\n{}", sweep::table(&sweep.name, &ran.result)));
    }
    results.conclude(job.force, ran, Failures::default(), context)
}
