//! The errors of the metadata.

use gemelo_format::FormatError;
use thiserror::Error;

/// An error of the metadata of a pool.
#[derive(Debug, Error)]
pub enum MetadataError {
    /// A page cannot be read or written, or is not a page of this pool.
    #[error(transparent)]
    Format(FormatError),
    /// The metadata do not match their checksum, or contradict themselves.
    #[error("the metadata is damaged: {what}")]
    Damaged {
        /// The name of the damaged part.
        what: String,
    },
    /// All slots of the metadata disk hold pages in use. The metadata is intact, and removing
    /// volumes makes room.
    #[error("all slots of the metadata disk are in use")]
    NoSlot,
    /// A look that reads nothing needs a page that is not in memory; see [`crate::HeldPages`].
    #[error("a page of the metadata is not in memory")]
    Missing,
    /// A reference count would exceed its limit.
    #[error("a block would have more than 2^32 - 1 references")]
    TooManyReferences,
}

impl MetadataError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}

/// Damage is one kind of error, whether a page or what it says is damaged.
impl From<FormatError> for MetadataError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Damaged { what } => Self::Damaged { what },
            error => Self::Format(error),
        }
    }
}

/// A result with a [`MetadataError`].
pub(crate) type Result<T> = std::result::Result<T, MetadataError>;
