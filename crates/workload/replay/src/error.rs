//! The reasons why a replay does not begin.

use gemelo_base::{Classified, FailureKind};
use gemelo_target::{IoFailure, TargetError};
use gemelo_trace::{BlockError, TraceError};
use thiserror::Error;

/// The reason why a replay did not begin.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The second reading of the trace failed.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace has changed since the first reading.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The target cannot be opened.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// Populating failed.
    #[error("cannot populate the target")]
    Populate(#[source] Box<IoFailure>),
    /// There are more processes than the target permits queues.
    #[error(
        "the server permits one connection at a time (no multi-conn), but the replay has several \
         processes"
    )]
    OneQueue,
    /// Reads are to be checked on a target that holds no data.
    #[error("this target holds no data, so reads cannot be checked")]
    NothingToVerify,
}

impl Classified for ReplayError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Trace(source) => source.kind(),
            Self::Target(source) => source.kind(),
            Self::OneQueue | Self::NothingToVerify => FailureKind::BadInput,
            // The trace was read well before: it has changed since.
            Self::Block(_) | Self::Populate(_) => FailureKind::Failed,
        }
    }
}
