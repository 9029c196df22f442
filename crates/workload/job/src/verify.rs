//! Checks the data that a run left on its target, by the run's result.

use crate::JobEnvironment;
use crate::bench::{BegunFile, BenchFile, JobInput};
use gemelo_base::Classified;
use gemelo_content::ContentError;
use gemelo_load::{Contents, History, Job, JobError, OperationFailure, Verification};
use gemelo_target::{PlaceAccess, TargetError, TargetUri};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The reason why the files of a run cannot be checked.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum VerifyError {
    /// No job of the result kept its files.
    #[error("no job of the result has --keep: there are no files to check")]
    NothingKept,
    /// The history of the files has another layout, or more jobs, than the result.
    #[error("the result contradicts itself: the writes that it lists are not those of its jobs")]
    OtherHistory,
    /// The job in the result is invalid.
    #[kind(source)]
    #[error(transparent)]
    Job(#[from] JobError),
    /// The contents in the result are invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The target does not hold the files.
    #[kind(source, untouched)]
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The files cannot be opened.
    #[kind(source, midway)]
    #[error("cannot open the files")]
    Open(#[source] TargetError),
    /// The target cannot be closed.
    #[kind(source, midway)]
    #[error(transparent)]
    Close(TargetError),
}

/// The files that were checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// The target that holds the files.
    pub target: TargetUri,
    /// The numbers of checked and of wrong blocks.
    pub verification: Verification,
    /// Time that the check took.
    pub elapsed_ns: u64,
    /// The failure of a read, if there was one. The blocks before it were checked.
    pub failure: Option<OperationFailure>,
}

/// Checks every block that a run left on `target`, or without it on the target of the run.
///
/// # Errors
/// Fails if no job of the result kept its files, or if the files cannot be opened.
pub fn verify(
    file: &BenchFile,
    target: Option<TargetUri>,
    environment: &JobEnvironment<'_>,
) -> Result<Verified, VerifyError> {
    let jobs = file.input.iter().zip(&file.result).enumerate();
    let last = jobs.rev().find_map(|(number, (input, result))| {
        let history = result.history.as_ref().filter(|_| input.job.keep)?;
        Some((number, input, history))
    });
    let (number, input, history) = last.ok_or(VerifyError::NothingKept)?;
    check_files(&file.input, (number, input, history), target, environment)
}

/// Checks every block that a run wrote before it was killed, as [`verify`] does.
///
/// # Errors
/// Fails if the files cannot be opened, or the history is not that of the jobs.
pub fn verify_begun(
    file: &BegunFile,
    target: Option<TargetUri>,
    environment: &JobEnvironment<'_>,
) -> Result<Verified, VerifyError> {
    let number = file.input.len().checked_sub(1).ok_or(VerifyError::OtherHistory)?;
    let input = file.input.last().ok_or(VerifyError::OtherHistory)?;
    let history = file.result.as_ref().filter(|history| history.open.is_some());
    let history = history.ok_or(VerifyError::OtherHistory)?;
    check_files(&file.input, (number, input, history), target, environment)
}

/// Checks the files that the job of this number left.
fn check_files(
    inputs: &[JobInput],
    (number, input, history): (usize, &JobInput, &History),
    target: Option<TargetUri>,
    environment: &JobEnvironment<'_>,
) -> Result<Verified, VerifyError> {
    // The history has a segment for each job that used the files, and its contents are those of the
    // first of them.
    let first = history.segments.len().checked_sub(1).and_then(|others| number.checked_sub(others));
    let first = first.and_then(|first| inputs.get(first)).ok_or(VerifyError::OtherHistory)?;
    let target = target.unwrap_or_else(|| input.target.clone());
    let job = Job::new(input.job.clone())?;
    let first_job = Job::new(first.job.clone())?;
    for job in [&job, &first_job] {
        history.check(job).map_err(|_| VerifyError::OtherHistory)?;
    }
    let contents = Contents::new(&first.content, &first_job)?;
    let storage = environment.targets.storage(&target)?;
    let plan = storage.plan(&job.layout_with(PlaceAccess::Read, false))?;
    let mut open = plan.prepare().map_err(VerifyError::Open)?;
    let began_ns = environment.clock.now_ns();
    let (verification, failure) =
        gemelo_load::verify(history, &contents, open.as_ref(), &environment.of_load());
    let elapsed_ns = environment.clock.now_ns().saturating_sub(began_ns);
    open.finish(true).map_err(VerifyError::Close)?;
    Ok(Verified { target, verification, elapsed_ns, failure })
}
