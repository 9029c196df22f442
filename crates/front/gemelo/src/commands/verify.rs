//! `gemelo verify` checks the data that a run left on its target, by the run's result file.

use super::bench::verified;
use crate::context::Context;
use crate::exit::{OrBadInput, Outcome};
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_job::bench::{JobInput, SCHEMA};
use gemelo_job::verify::{VerifyError, verify};
use gemelo_load::RunResult;
use gemelo_target::TargetUri;
use std::path::PathBuf;

/// Check every block that a run with --keep left on its target.
///
/// The result file of the run determines the expected content of each block.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The result file that `gemelo bench --json` wrote
    result: PathBuf,
    /// The target that holds the data now [default: the target of the run]
    #[arg(long, value_name = "URI")]
    target: Option<TargetUri>,
}

pub(crate) fn run(arguments: Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let file =
        gemelo_record::read_result::<Vec<JobInput>, Vec<RunResult>>(&arguments.result, SCHEMA)
            .or_bad_input()?;
    let checked = verify(&file, arguments.target, &context.job_environment());
    let checked = match checked {
        Err(error @ VerifyError::NothingKept) => {
            return Err(error)
                .with_context(|| arguments.result.display().to_string())
                .or_bad_input();
        }
        other => other?,
    };
    context.print(&format!("{}:\n{}", checked.target, verified(&checked.verification)))?;
    match checked.failure {
        Some(failure) => Err(anyhow!("{failure}")),
        None if checked.verification.is_success() => Ok(Outcome::Done),
        None => Ok(Outcome::Partial),
    }
}
