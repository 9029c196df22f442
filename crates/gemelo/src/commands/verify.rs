//! `gemelo verify`: re-checks the files that a run kept, from its result file.

use super::bench::verified;
use crate::context::Context;
use crate::exit::{OrBadInput, Outcome, by_kind};
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_job::bench::{JobInput, SCHEMA};
use gemelo_job::verify::{VerifyError, verify};
use gemelo_load::RunResult;
use gemelo_target::TargetUri;
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
    let checked = verify(&file, arguments.target, &context.job_environment());
    let checked = match checked {
        Err(error @ VerifyError::NothingKept) => {
            return Err(error)
                .with_context(|| arguments.result.display().to_string())
                .or_bad_input();
        }
        other => other.map_err(by_kind)?,
    };
    context.print(&format!("{}:\n{}", checked.target, verified(&checked.verification)))?;
    match checked.failure {
        Some(failure) => Err(anyhow!("{failure}")),
        None if checked.verification.is_success() => Ok(Outcome::Done),
        None => Ok(Outcome::Partial),
    }
}
