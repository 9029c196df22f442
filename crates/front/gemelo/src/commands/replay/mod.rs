//! `gemelo replay` replays a recorded trace with its content on storage.

mod on_hosts;
mod text;

use super::hosts::HostOptions;
use crate::context::Context;
use crate::exit::{Failures, Outcome};
use crate::kind::{Described, Kind};
use crate::result_options::ResultOptions;
use clap::Args;
use gemelo_job::replay::{self, ReplayInput, ReplayJobOptions, resolve};
use gemelo_record::HostsFile;
use gemelo_replay::ReplayResult;

/// The kind of results of this command.
pub(crate) const KINDS: [Described; 1] =
    [Kind::<HostsFile<ReplayInput, ReplayResult>>::new(replay::SCHEMA, "Result of gemelo replay")
        .described()];

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
    #[command(flatten)]
    files: ResultOptions,
    #[command(flatten)]
    hosts: HostOptions,
    /// Each host has a target of its own, although all have the same name [default: the name has
    /// {host} or {index}, and so may those of traces]
    #[arg(long, requires = "hosts", help_heading = "Hosts")]
    own_targets: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let Arguments { job, dry_run, files, hosts, .. } = arguments;
    files.check(job.force)?;
    if let Some(fleet) = hosts.fleet()? {
        return on_hosts::run(arguments, &fleet, context);
    }
    let environment = context.job_environment();
    let resolved = resolve(job, &environment)?;
    let quiet = files.is_standard_output();
    if !quiet {
        context.print(&text::plan(&resolved.plan, &resolved.options, &resolved.target))?;
    }
    if *dry_run {
        return Ok(Outcome::Done);
    }
    let ran = resolved.run(&environment)?;
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    if !quiet {
        failures.note(context.print(&text::result(&ran.result)), monitor);
        ran.warnings.iter().for_each(|warning| monitor.warn(warning));
    }
    files.conclude(job.force, ran, failures, context)
}
