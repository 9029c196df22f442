//! `gemelo bench`: load with realistic contents against any storage.

mod effect;
mod execute;
pub(crate) mod job_file;
pub(crate) mod options;
mod resolve;
mod text;

pub(crate) use execute::Ran;
pub(crate) use resolve::{JobInput, ResolvedJob, resolve};
pub(crate) use text::verified;

use crate::context::Context;
use crate::exit::{OrBadInput, Outcome, bad_input};
use crate::files;
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_base::random::fresh_word;
use gemelo_load::RunResult;
use gemelo_report::{Provenance, ResultFile};
use options::JobOptions;
use std::path::{Path, PathBuf};

/// What a result file of this command says it is.
pub(crate) const SCHEMA: &str = "gemelo.bench/1";

/// Runs load against a target and measures it. Options on the command line go before those of the job file.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A TOML file with these options as keys; several [[job]] tables run in order
    job_file: Option<PathBuf>,
    #[command(flatten)]
    options: JobOptions,
    /// Write the result with all histograms to this file; - is standard output
    #[arg(long, value_name = "FILE", help_heading = "Measurement")]
    json: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let mut jobs = match &arguments.job_file {
        Some(path) => {
            let text = files::read_text(path)?;
            job_file::parse(&text).with_context(|| path.display().to_string()).or_bad_input()?
        }
        None => vec![JobOptions::default()],
    };
    for job in &mut jobs {
        *job = arguments.options.clone().or(std::mem::take(job));
        if let (None, Some(path)) = (&job.load.target, &arguments.job_file) {
            let path = path.display();
            return Err(bad_input(anyhow!(
                "{path}: a job has no target: give it the key target, or say --target"
            )));
        }
    }
    run_jobs(jobs, arguments.json.as_deref(), context)
}

/// Resolves, checks and runs jobs, prints their results and writes them to a file.
pub(crate) fn run_jobs(
    mut jobs: Vec<JobOptions>,
    json: Option<&Path>,
    context: &Context,
) -> anyhow::Result<Outcome> {
    // One for all jobs that name none: those that go on with the files of another must write the same contents.
    let run_id = fresh_word();
    for job in &mut jobs {
        job.content.run_id.get_or_insert(run_id);
    }
    let force = jobs.iter().any(|job| job.load.force == Some(true));
    json.map_or(Ok(()), |path| files::check_new(path, force))?;
    let jobs = jobs.into_iter().enumerate();
    let jobs: Vec<ResolvedJob> = jobs
        .map(|(index, options)| resolve(options, index, &context.targets, context.monitor.as_ref()))
        .collect::<anyhow::Result<_>>()?;
    effect::check(&jobs)?;
    execute::check(&jobs, json)?;
    let quiet = files::is_some_standard_output(json);
    let (ran, mut failures) = execute::run(jobs, context, |input, result| {
        if quiet { Ok(()) } else { context.print(&text::job(input, result)) }
    });
    if ran.results.is_empty() {
        return failures.or(Outcome::Done);
    }
    let monitor = context.monitor.as_ref();
    if ran.results.len() > 1 && !quiet {
        let summary = format!("\n{}", text::summary(&ran.inputs, &ran.results));
        failures.note(context.print(&summary), monitor);
    }
    let outcome = outcome(&ran.results);
    if let Some(path) = json {
        failures.note(write_result(path, force, ran, context), monitor);
    }
    failures.or(outcome)
}

fn outcome(results: &[RunResult]) -> Outcome {
    if results.iter().all(RunResult::is_success) { Outcome::Done } else { Outcome::Partial }
}

fn write_result(path: &Path, force: bool, ran: Ran, context: &Context) -> anyhow::Result<()> {
    let mut provenance = Provenance::of_this_process(context.started_at);
    provenance.target = ran.inputs.first().map(|input| input.target.clone());
    provenance.seed = ran.inputs.first().map(|input| input.content.seed);
    let warnings = ran.results.iter().flat_map(|result| result.warnings.iter().cloned()).collect();
    let result = ResultFile {
        schema: SCHEMA.to_owned(),
        provenance,
        input: ran.inputs,
        result: ran.results,
        warnings,
    };
    files::write_json(path, force, &result)
}
