//! The reasons why a replay does not begin.

use gemelo_base::Classified;
use gemelo_target::{IoFailure, TargetError};
use gemelo_trace::{BlockError, TraceError};
use thiserror::Error;

/// The reason why a replay did not begin.
#[derive(Debug, Error, Classified)]
pub enum ReplayError {
    /// The second reading of the trace failed.
    #[kind(source)]
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has changed since the first reading.
    // The trace was read well before: it has changed since.
    #[kind(Failed, remedy = source)]
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The target cannot be opened.
    #[kind(source)]
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Populating failed.
    // The trace was read well before: it has changed since.
    #[kind(Failed)]
    #[error("cannot populate the target")]
    Populate(#[source] Box<IoFailure>),
    /// There are more processes than the target permits queues.
    #[kind(BadInput, remedy = OneProcess)]
    #[error(
        "the server permits one connection at a time (no multi-conn), but the replay has several \
         processes"
    )]
    OneQueue,
    /// A thread cannot be started, so that no process began.
    #[kind(Failed)]
    #[error(
        "cannot start thread {} of {processes} on this machine: give fewer --processes, or {}",
        number + 1,
        gemelo_base::threads::REFUSED
    )]
    Thread {
        /// Number of the process, counted from 0.
        number: u32,
        /// Number of processes.
        processes: u32,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// Reads are to be checked on a target that holds no data.
    #[kind(BadInput, remedy = CheckNoReads)]
    #[error("this target holds no data, so reads cannot be checked")]
    NothingToVerify,
}
