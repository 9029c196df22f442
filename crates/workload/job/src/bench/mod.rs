//! Resolves, checks and runs jobs of load, one after the other.

mod effect;
mod error;
mod execute;
pub mod hosts;
mod resolve;
mod sweep;

pub use error::{ExecuteError, ResolveError};
pub use execute::{check, run, run_telling};
pub use resolve::{JobInput, ResolvedJob};
pub use sweep::{SweepError, swept};

use crate::{JobEnvironment, JobOptions, Ran};
use gemelo_base::random::fresh_word;
use gemelo_load::{History, RunResult};
use gemelo_record::ResultFile;
use resolve::OfHosts;

/// Schema name of a [`BenchFile`].
pub const SCHEMA: &str = "gemelo.bench/1";

/// The results of jobs, as a file keeps them.
pub type BenchFile = ResultFile<Vec<JobInput>, Vec<RunResult>>;

/// The jobs that have a result. Each warning about jobs is there once, before those of the results.
pub type BenchRun = Ran<Vec<JobInput>, Vec<RunResult>, ExecuteError>;

/// Schema name of a [`BegunFile`].
pub const BEGUN_SCHEMA: &str = "gemelo.bench-begun/1";

/// What a check of the files needs if the run is killed. It is written when a job begins, and the
/// results replace it. The last of the jobs is the one that began. The file of several hosts has no
/// history itself, but one for each host.
pub type BegunFile = ResultFile<Vec<JobInput>, Option<History>>;

/// Resolves the options of the jobs of one run.
///
/// # Errors
/// Fails if options contradict each other, or one has no effect in any of the jobs.
pub fn resolve_all(
    jobs: Vec<JobOptions>,
    environment: &JobEnvironment<'_>,
) -> Result<Vec<ResolvedJob>, ResolveError> {
    place_all(with_run_ids(jobs), OfHosts::ONE, environment)
}

/// Gives one run id to the jobs without one, because a job that continues with the files of another
/// must write the same contents.
fn with_run_ids(mut jobs: Vec<JobOptions>) -> Vec<JobOptions> {
    let run_id = fresh_word();
    for job in &mut jobs {
        job.content.run_id.get_or_insert(run_id);
    }
    jobs
}

/// Resolves the jobs of one run.
fn place_all(
    jobs: Vec<JobOptions>,
    of: OfHosts,
    environment: &JobEnvironment<'_>,
) -> Result<Vec<ResolvedJob>, ResolveError> {
    let jobs = jobs
        .into_iter()
        .enumerate()
        .map(|(index, options)| resolve::resolve(options, index, of, environment))
        .collect::<Result<Vec<_>, _>>()?;
    let given: Vec<_> = jobs.iter().map(|job| job.given.as_slice()).collect();
    effect::check(&given)?;
    Ok(jobs)
}
