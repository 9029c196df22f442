//! `gemelo bench` runs load with realistic contents on any storage and measures it.

mod begun;
mod on_hosts;
mod repeated;
mod text;

pub(crate) use begun::file_of as begun_file;
pub(crate) use text::verified;

use super::hosts::HostOptions;
use crate::context::Context;
use crate::exit::{Failures, OrFailure as _, Outcome, refused};
use crate::files;
use crate::kind::{Described, Kind};
use crate::result_options::ResultOptions;
use begun::Begun;
use clap::Args;
use gemelo_base::ShowPath as _;
use gemelo_job::bench::{self, JobInput};
use gemelo_job::{JobOptions, Sweep, job_file};
use gemelo_load::RunResult;
use gemelo_record::HostsFile;
use repeated::Repetitions;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// The kinds of results of these commands.
pub(crate) const KINDS: [Described; 3] = [
    Kind::<HostsFile<Vec<JobInput>, Vec<RunResult>>>::new(
        bench::SCHEMA,
        "Result of gemelo bench and gemelo suite",
    )
    .described(),
    begun::KIND.described(),
    repeated::KIND.described(),
];

/// Run load on a target and measure it.
///
/// Options of the command line take precedence over those of the job file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A TOML file with the options below as keys; several [[job]] tables run in order
    job_file: Option<PathBuf>,
    #[command(flatten)]
    options: JobOptions,
    /// Run each job once for each value of an option, such as queue-depth=1,4,16 or
    /// entropy=0,1,...,8
    #[arg(long, value_name = "OPTION=VALUE,...", help_heading = "Load")]
    sweep: Option<Sweep>,
    /// Check the jobs and print them, and do not run them
    #[arg(long, conflicts_with_all = ["json", "report"], help_heading = "Measurement")]
    dry_run: bool,
    #[command(flatten, next_help_heading = "Measurement")]
    repetitions: Repetitions,
    #[command(flatten, next_help_heading = "Measurement")]
    outputs: Outputs,
    #[command(flatten)]
    places: Places,
}

/// The hosts on which jobs run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Places {
    #[command(flatten)]
    hosts: HostOptions,
    /// Each host has a target of its own, although all have the same name [default: a target
    /// without {host} and {index} is one for all hosts]
    #[arg(long, requires = "hosts", help_heading = "Hosts")]
    own_targets: bool,
}

/// The forms in which the results of jobs are written.
#[derive(Debug, Args)]
pub(crate) struct Outputs {
    #[command(flatten)]
    files: ResultOptions,
    /// Print a table with a line for each job, instead of all figures
    #[arg(long)]
    brief: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> crate::Result<Outcome> {
    let mut jobs = match &arguments.job_file {
        Some(path) => {
            let text = files::read_text(path)?;
            job_file::parse(&text, &context.targets)
                .with_context(|| path.shown().to_string())
                .or_bad_input()?
        }
        None => vec![JobOptions::default()],
    };
    for job in &mut jobs {
        *job = arguments.options.clone().or(std::mem::take(job));
        if let (None, Some(path)) = (&job.load.target, &arguments.job_file) {
            let path = path.shown();
            return Err(refused!(
                "{path}: a job has no target: add the key target, or give --target"
            ));
        }
    }
    if let Some(sweep) = &arguments.sweep {
        jobs = bench::swept(&jobs, sweep, &context.targets).context("--sweep").or_bad_input()?;
    }
    if arguments.places.hosts.are_given()
        && (arguments.dry_run || arguments.repetitions.are_wanted())
    {
        return Err(refused!(
            "--dry-run and --repetitions are for runs on this host: leave out --hosts"
        ));
    }
    if arguments.dry_run {
        return dry_run(jobs, context);
    }
    if arguments.repetitions.are_wanted() {
        return repeated::run(&jobs, arguments.repetitions, &arguments.outputs, context);
    }
    run_jobs(jobs, &arguments.outputs, &arguments.places, context)
}

/// Resolves and checks jobs as for a run, and prints them.
fn dry_run(jobs: Vec<JobOptions>, context: &Context) -> crate::Result<Outcome> {
    let force = jobs.iter().any(|job| job.load.force == Some(true));
    let jobs = bench::resolve_all(jobs, &context.job_environment())?;
    files::check_all_new(jobs.iter().flat_map(bench::ResolvedJob::outputs), force)?;
    bench::check(&jobs)?;
    context.print(&jobs.iter().map(|job| text::plan(&job.input)).collect::<String>())?;
    let warnings = jobs.iter().filter_map(bench::ResolvedJob::warning);
    warnings.for_each(|warning| context.monitor.warn(&warning));
    Ok(Outcome::Done)
}

/// Resolves, checks and runs jobs. Prints their results and writes them to a file.
pub(crate) fn run_jobs(
    jobs: Vec<JobOptions>,
    outputs: &Outputs,
    places: &Places,
    context: &Context,
) -> crate::Result<Outcome> {
    if let Some(fleet) = places.hosts.fleet()? {
        return on_hosts::run(jobs, outputs, (&fleet, places.own_targets), context);
    }
    let Outputs { files: results, brief } = outputs;
    let force = jobs.iter().any(|job| job.load.force == Some(true));
    results.check(force)?;
    let environment = context.job_environment();
    let jobs = bench::resolve_all(jobs, &environment)?;
    let outputs = jobs.iter().flat_map(bench::ResolvedJob::outputs);
    files::check_all_new(outputs.chain(results.paths()), force)?;
    bench::check(&jobs)?;
    let quiet = results.is_standard_output();
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    let mut begun = Begun::new(results, force, context);
    let begins = |input, history| begun.note(input, history);
    let mut ran = bench::run_telling(jobs, &environment, begins, |input, result| {
        let printed =
            if quiet || *brief { Ok(()) } else { context.print(&text::job(input, result)) };
        let shown =
            if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
        failures.note(printed, monitor);
        shown
    });
    failures.note_all(&mut ran.errors, monitor);
    if ran.result.is_empty() {
        return failures.or(Outcome::Done);
    }
    if (ran.result.len() > 1 || *brief) && !quiet {
        let gap = if *brief { "" } else { "\n" };
        let summary = format!("{gap}{}", text::summary(&ran.input, &ran.result));
        failures.note(context.print(&summary), monitor);
    }
    // A run that failed has something more important to say.
    if ran.is_success {
        let of_jobs = ran.warnings.iter().filter(|warning| !text::has(&ran.result, warning));
        of_jobs.for_each(|warning| monitor.warn(warning));
    }
    results.conclude(begun.may_overwrite(), ran, failures, context)
}
