//! The errors of sharing.

use gemelo_base::Classified;
use gemelo_domain::{Damage, DomainError};
use gemelo_format::Pbn;
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
    /// Records of the ledger are damaged or lost, so that blocks which other members use would
    /// count as free.
    #[kind(Damaged)]
    #[error(
        "the ledger of this member is damaged or has lost records, without which contents would be \
         destroyed: {}{}. Nothing was changed. Run 'gemelo domain check --repair' on its domain, \
         which writes the records again; until then the member can be read: 'gemelo serve \
         --read-only', 'gemelo volume export'",
        DomainError::from(first.clone()),
        if *more == 0 { String::new() } else { format!(", and {more} more") }
    )]
    LedgerDamaged {
        /// The first damaged value.
        first: Damage,
        /// The number of further ones.
        more: usize,
    },
    /// The index names a block of this member of which the ledger has no record: records are lost.
    #[kind(Damaged)]
    #[error("{}", lost_record(*pbn))]
    LedgerLost {
        /// The block.
        pbn: Pbn,
    },
    /// The ledger refers to a pool that was not opened with its veto.
    #[kind(Bug)]
    #[error("the pool of this member was not opened with the member's ledger")]
    NoPool,
}

/// Says what a lost record means, in words that may follow "because".
fn lost_record(pbn: Pbn) -> String {
    format!(
        "the index of the domain names block {pbn} of this member, and its ledger has no such \
         record: records are lost. Nothing is shared, freed or written until 'gemelo domain check \
         --repair' has written them again",
        pbn = pbn.number()
    )
}

impl From<ObjectError> for SharingError {
    fn from(error: ObjectError) -> Self {
        Self::Domain(error.into())
    }
}
