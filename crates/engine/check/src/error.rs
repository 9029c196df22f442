//! Errors of a check.

use gemelo_base::{Classified, FailureKind};
use gemelo_format::FormatError;
use thiserror::Error;

/// The reason why a check cannot be finished. Damage goes to the report and is not an error.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The disks hold no pool, or a disk cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The stop flag was raised.
    #[error("stopped before the end")]
    Interrupted,
}

impl Classified for CheckError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Format(source) => source.kind(),
            Self::Interrupted => FailureKind::Failed,
        }
    }
}
