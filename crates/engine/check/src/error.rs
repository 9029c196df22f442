//! Errors of a check.

use gemelo_base::Classified;
use gemelo_format::FormatError;
use thiserror::Error;

/// The reason why a check cannot be finished. Damage goes to the report and is not an error.
#[derive(Debug, Error, Classified)]
pub enum CheckError {
    /// The disks hold no pool, or a disk cannot be read.
    #[kind(source)]
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The stop flag was raised.
    #[kind(Failed)]
    #[error("stopped before the end")]
    Interrupted,
}
