//! `gemelo verify`: re-checks the files that a run kept, from its result file.

use super::bench::{JobInput, SCHEMA, verified};
use crate::context::Context;
use crate::exit::{OrBadInput, Outcome, bad_input};
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_base::SystemClock;
use gemelo_load::{Contents, Environment, Job, RunResult};
use gemelo_target::{Access, TargetUri};
use std::path::PathBuf;

/// Checks every block that a run with --keep left, against what the result file says it wrote.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The result that `gemelo bench --json` wrote
    result: PathBuf,
    /// Where the files are now [default: where the run wrote them]
    #[arg(long, value_name = "URI")]
    target: Option<TargetUri>,
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let file =
        gemelo_report::read_result::<Vec<JobInput>, Vec<RunResult>>(&arguments.result, SCHEMA)
            .or_bad_input()?;
    // Of jobs on the same files, the last one's history holds those of all.
    let last = file.input.iter().zip(&file.result).rev().find_map(|(input, result)| {
        result.history.as_ref().filter(|_| input.job.keep).map(|history| (input, history))
    });
    let Some((input, history)) = last else {
        return Err(bad_input(anyhow!(
            "{} has no job with --keep: there are no files to check",
            arguments.result.display()
        )));
    };
    let first = file.input.iter().find(|job| job.target == input.target).unwrap_or(input);
    let uri = match arguments.target {
        Some(uri) => uri,
        None => input.target.as_str().into(),
    };
    let job = Job::new(input.job.clone()).or_bad_input()?;
    let first_job = Job::new(first.job.clone()).or_bad_input()?;
    let contents = Contents::new(&first.content, &first_job).or_bad_input()?;
    let storage = context.targets.storage(&uri).or_bad_input()?;
    let plan = storage.plan(&job.layout_with(Access::Read, false)).or_bad_input()?;
    let mut target = plan.prepare().context("cannot open the files")?;
    let clock = SystemClock::new();
    let environment =
        Environment { clock: &clock, monitor: context.monitor.as_ref(), stop: &context.stop };
    let (verification, failure) =
        gemelo_load::verify(history, &contents, target.as_ref(), &environment);
    target.finish(true)?;
    context.print(&format!("{}:\n{}", uri, verified(&verification)))?;
    match failure {
        Some(failure) => Err(anyhow!("{failure}")),
        None if verification.is_success() => Ok(Outcome::Done),
        None => Ok(Outcome::Partial),
    }
}
