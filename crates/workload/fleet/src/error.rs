//! The reasons why a run on many hosts does not begin.

use crate::message::Refusal;
use gemelo_base::{Classified, FailureKind};
use thiserror::Error;

/// The reason why a run on many hosts did not begin. No host has changed anything.
#[derive(Debug, Error)]
pub enum FleetError {
    /// The command that connects cannot be started.
    #[error("cannot start {command}")]
    Start {
        /// The program of the transport.
        command: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A host is not reached, or its connection ended.
    #[error("host {host}: {reason}")]
    Lost {
        /// Name of the host.
        host: String,
        /// The end of the connection, as text.
        reason: String,
    },
    /// A host refuses its task.
    #[error("host {host}: {}", refusal.message)]
    Refused {
        /// Name of the host.
        host: String,
        /// The reason that the host gives, with the kind of its failure.
        refusal: Refusal,
    },
    /// The tasks of the hosts do not fit together.
    #[error("{0}")]
    Disagreed(String),
    /// The user stopped the run before it began.
    #[error("stopped before the run began")]
    Stopped,
}

impl Classified for FleetError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Refused { refusal, .. } => refusal.kind,
            Self::Disagreed(_) => FailureKind::BadInput,
            Self::Start { .. } | Self::Lost { .. } | Self::Stopped => FailureKind::Failed,
        }
    }
}
