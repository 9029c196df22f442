//! The ledger's record of a block.

use gemelo_domain::MemberId;
use gemelo_format::{Fingerprint, Pbn};

/// A block of a member.
pub(crate) type Place = (MemberId, Pbn);

/// The relation of a block to the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// The block is in the index, and this member refers to it.
    Published,
    /// The block is in the index, and this member does not refer to it.
    Lent,
    /// The content lies at another place, to which this member refers.
    Borrowed(Place),
    /// The content lies here, and the reference to another place is to be released.
    Restored(Place),
    /// The content lies here and is never shared: the index has a copy of it that differs or cannot
    /// be read.
    Alone,
}

/// The ledger's record of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) kind: BlockState,
}

impl BlockState {
    /// Returns the other place.
    pub(crate) const fn place(self) -> Option<Place> {
        match self {
            Self::Borrowed(place) | Self::Restored(place) => Some(place),
            Self::Published | Self::Lent | Self::Alone => None,
        }
    }
}
