//! The errors of sharing.

use gemelo_base::Classified;
use gemelo_domain::DomainError;
use gemelo_objects::ObjectError;
use gemelo_volume::VolumeError;
use std::io;
use thiserror::Error;

/// The result of most functions of this crate.
pub type Result<T> = std::result::Result<T, SharingError>;

/// The reason why sharing contents with other members failed.
#[derive(Debug, Error, Classified)]
pub enum SharingError {
    /// The index, the ledger or the store of objects failed.
    #[kind(source)]
    #[error(transparent)]
    Domain(#[from] DomainError),
    /// The pool failed.
    #[kind(source)]
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Contents could not be compared or given up.
    #[kind(source)]
    #[error("cannot {action} shared contents")]
    Contents {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The error of the store.
        source: io::Error,
    },
    /// The ledger refers to a pool that was not opened with its veto.
    #[kind(Bug)]
    #[error("the pool of this member was not opened with the member's ledger")]
    NoPool,
}

impl From<ObjectError> for SharingError {
    fn from(error: ObjectError) -> Self {
        Self::Domain(error.into())
    }
}
