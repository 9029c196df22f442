//! The reasons why jobs are refused or fail.

use crate::OutputError;
use crate::contents::ContentOptionsError;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_content::ContentError;
use gemelo_load::JobError;
use gemelo_target::{TargetError, TargetUri};
use std::collections::TryReserveError;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why options are not a valid job. Nothing was touched.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ResolveError {
    /// A job of several is refused.
    #[kind(source)]
    #[error("job {name}")]
    InJob {
        /// Name of the job.
        name: String,
        /// The reason for which the job is refused.
        source: Box<ResolveError>,
    },
    /// The content options are invalid.
    #[error(transparent)]
    ContentOptions(#[from] ContentOptionsError),
    /// The contents do not suit the job.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A figure is outside its range, or two settings contradict each other.
    #[kind(source)]
    #[error(transparent)]
    Job(#[from] JobError),
    /// The target is refused.
    #[kind(source, untouched)]
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The job has no target.
    #[error(
        "say where load goes: --target DIRECTORY, FILE, DEVICE, pool:DIRECTORY/VOLUME, \
         nbd://HOST/EXPORT or null:"
    )]
    NoTarget,
    /// An engine was given for a volume or an export.
    #[error("--engine is for files and devices: leave it out for {target}, and give --queue-depth")]
    NoEngines {
        /// The target of the job.
        target: TargetUri,
    },
    /// Both a peak load and a rate were given.
    #[error("--peak and a rate exclude each other: give one of them")]
    PeakAndRate,
    /// One of the separate rates is missing.
    #[error("--read-rate and --write-rate go together: give both, or --rate")]
    OneRate,
    /// A common rate and a separate one were given.
    #[error(
        "--rate covers all operations: leave it out, or leave out --read-rate and --write-rate"
    )]
    RateForAll,
    /// A duration does not fit 64 bits of nanoseconds.
    #[error("a duration is longer than 584 years, the limit: give a shorter one")]
    Duration,
    /// The size of an operation is not a whole number of blocks.
    #[error(
        "--request-size is {request_bytes} bytes, which is not a multiple of the block size, \
         {block_bytes} bytes"
    )]
    RequestSize {
        /// The bytes of an operation.
        request_bytes: u64,
        /// The bytes of a block.
        block_bytes: u64,
    },
    /// The target has less than an operation for each process.
    #[error(
        "{target} is too small for an operation of each process: use fewer --processes, or a \
         smaller --block-size or --request-size"
    )]
    NoRoom {
        /// The target of the job.
        target: TargetUri,
    },
    /// An option has no effect in any of the jobs.
    #[error("{option} has no effect here, because it is for {purpose}: leave it out")]
    NoEffect {
        /// The name of the option.
        option: &'static str,
        /// The jobs in which the option has an effect.
        purpose: &'static str,
    },
    /// An option was given for a run on several hosts that is for one process.
    #[error("{option} is of one program: leave it out, or leave out --hosts")]
    OnHosts {
        /// The name of the option.
        option: &'static str,
    },
    /// Several hosts would write to one volume of a pool.
    #[error(
        "{target} can be open on one host only: name a target for each host with {{host}} or \
         {{index}}, or give --own-targets"
    )]
    OneOpener {
        /// The target of the job.
        target: TargetUri,
    },
    /// An option was given that the suite decides itself.
    #[error("the suite sets {option} itself: leave it out")]
    OfSuite {
        /// The name of the option.
        option: &'static str,
    },
}

/// The reason why a job did not begin or did not end well. Earlier results are kept.
#[derive(Debug, Error, Classified)]
pub enum ExecuteError {
    /// The target cannot carry the job.
    #[kind(source, untouched)]
    #[error("job {job}")]
    Plan {
        /// Name of the job.
        job: String,
        /// The error of the target.
        source: TargetError,
    },
    /// The target cannot be prepared.
    #[kind(source, midway)]
    #[error("job {job}")]
    Prepare {
        /// Name of the job.
        job: String,
        /// The error of the target.
        source: TargetError,
    },
    /// The job cannot continue with the files of the job before it.
    #[kind(source)]
    #[error("job {job}")]
    Continue {
        /// Name of the job.
        job: String,
        /// The rule that the job breaks.
        source: JobError,
    },
    /// The run cannot begin.
    #[kind(source)]
    #[error("job {job}")]
    Begin {
        /// Name of the job.
        job: String,
        /// The error that ended the run.
        source: gemelo_load::RunError,
    },
    /// The files of the run cannot be removed, or the storage cannot be closed.
    #[kind(source, midway)]
    #[error("cannot remove the files of the run")]
    Finish(#[source] TargetError),
    /// The log of operations cannot be completed.
    #[kind(source)]
    #[error("cannot write the log of operations")]
    Log(#[source] std::io::Error),
    /// The counts of accesses do not fit into memory.
    #[kind(Exhausted)]
    #[error("the counts of accesses for {} do not fit into memory: leave out --access-log", path.shown())]
    Memory {
        /// The file that was to hold the counts.
        path: PathBuf,
        /// The failed allocation.
        source: TryReserveError,
    },
    /// The counts of accesses cannot be written.
    #[kind(source)]
    #[error("cannot write {}", path.shown())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// Error of the system call.
        source: std::io::Error,
    },
    /// A further output file cannot be created or completed.
    #[kind(source)]
    #[error(transparent)]
    Output(OutputError),
}
