//! The reasons why a replay is refused or fails.

use crate::contents::ContentOptionsError;
use gemelo_base::Classified;
use gemelo_base::units::format_duration_ns;
use gemelo_content::ContentError;
use gemelo_replay::{PlanError, ReplayError, ReplayOptions, Speed};
use gemelo_target::{TargetError, TargetUri};
use gemelo_trace::TraceError;
use thiserror::Error;

/// Most operations in flight of one process of a replay. Storage does not benefit from more.
pub(super) const MAX_QUEUE_DEPTH: u32 = 1024;

/// The reason why a replay is refused, or did not begin.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ReplayJobError {
    /// The number of processes is outside its range.
    #[error("--processes is {0}: give a number from 1 to {most}", most = ReplayOptions::MAX_PROCESSES)]
    Processes(u32),
    /// An engine was given for a volume or an export.
    #[error("--engine is for files and devices: leave it out for {target}, and give --queue-depth")]
    NoEngines {
        /// The target of the replay.
        target: TargetUri,
    },
    /// The queue depth is outside its range.
    #[error("--queue-depth is {0}: give a number from 1 to {MAX_QUEUE_DEPTH}")]
    QueueDepth(usize),
    /// The engine does one operation at a time.
    #[error("--engine psync performs one operation at a time: use io-uring for --queue-depth {0}")]
    SynchronousDepth(usize),
    /// The block size is outside its range.
    #[error("--block-size is {0} bytes: give a size from 512 bytes to 1 MiB")]
    BlockSize(u64),
    /// Several hosts would replay onto one target.
    #[error(
        "--target {target} is the same on all hosts, and each replays the whole trace: give a \
         target with {{host}} or {{index}}, or use --own-targets"
    )]
    CommonTarget {
        /// The target of the replay.
        target: TargetUri,
    },
    /// The trace comes from standard input.
    #[error("cannot replay standard input, because a replay reads its trace twice: name a file")]
    StandardInput,
    /// The replay would take longer than any replay that is meant.
    #[error(
        "the replay would take {} at --speed {speed}: give a higher --speed or max, or a part of \
         the trace by --time, --skip or --limit; gemelo trace stat tells where its time jumps",
        format_duration_ns(*duration_ns)
    )]
    Endless {
        /// Time that the replay would take.
        duration_ns: u64,
        /// Requested speed.
        speed: Speed,
    },
    /// A distribution was given, and the trace states all contents.
    #[error(
        "--distribution has no effect, because the trace states the content of every block: leave it out"
    )]
    NoDrawnBlocks,
    /// The trace cannot be read.
    #[kind(source)]
    #[error(transparent)]
    Trace(TraceError),
    /// The trace cannot be mapped to the target.
    #[kind(source)]
    #[error(transparent)]
    Plan(PlanError),
    /// The target is refused or cannot be prepared.
    #[kind(source)]
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The content options are invalid.
    #[error(transparent)]
    ContentOptions(#[from] ContentOptionsError),
    /// The contents do not suit the trace.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The replay cannot begin, or the second reading of the trace failed.
    #[kind(source)]
    #[error(transparent)]
    Replay(ReplayError),
    /// The file cannot be removed, or the storage cannot be closed.
    #[kind(source, midway)]
    #[error("cannot remove the file of the replay")]
    Finish(#[source] TargetError),
}

impl From<PlanError> for ReplayJobError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Trace(error) => Self::Trace(error),
            error => Self::Plan(error),
        }
    }
}

impl From<ReplayError> for ReplayJobError {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Trace(error) => Self::Trace(error),
            ReplayError::Target(error) => Self::Target(error),
            error => Self::Replay(error),
        }
    }
}
