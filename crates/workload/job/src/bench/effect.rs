//! Finds options that have no effect in any job. They are refused, because the user expects an
//! effect.

use super::error::ResolveError;
use crate::options::{LoadOptions, SyncChoice};
use gemelo_load::{Job, JobOperation, Pace};
use gemelo_target::Storage;

/// An option that was given for a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct GivenOption {
    option: &'static str,
    has_effect: bool,
    /// The jobs in which the option has an effect.
    purpose: &'static str,
}

/// Returns the given options of a job that may have no effect in it.
pub(super) fn given(options: &LoadOptions, job: &Job, storage: &dyn Storage) -> Vec<GivenOption> {
    let spec = job.spec();
    let is_drawn = !matches!(spec.pace, Pace::Rates { .. });
    let all = [
        (
            options.write_share.is_some(),
            "--write-share",
            spec.operation == JobOperation::Mixed && is_drawn,
            "--operation mixed without --read-rate and --write-rate",
        ),
        (
            options.fsync_every.is_some(),
            "--fsync-every",
            spec.sync.is_synced() && job.may_write(),
            "writes with --sync fsync or both",
        ),
        (
            options.sync == Some(SyncChoice::Fsync),
            "--sync fsync",
            job.may_write(),
            "jobs that write",
        ),
        (
            options.access_log.is_some(),
            "--access-log",
            storage.holds_data(),
            "targets that hold data",
        ),
    ];
    let given = all.into_iter().filter(|(is_given, ..)| *is_given);
    given
        .map(|(_, option, has_effect, purpose)| GivenOption { option, has_effect, purpose })
        .collect()
}

/// Refuses an option that has no effect in any of the jobs. A key that a file gives for all its
/// jobs need not have an effect in each.
pub(super) fn check(jobs: &[&[GivenOption]]) -> Result<(), ResolveError> {
    let all = || jobs.iter().copied().flatten();
    let idle =
        all().find(|given| !all().any(|other| other.option == given.option && other.has_effect));
    idle.map_or(Ok(()), |GivenOption { option, purpose, .. }| {
        Err(ResolveError::NoEffect { option, purpose })
    })
}
