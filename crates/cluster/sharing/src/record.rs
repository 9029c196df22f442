//! The ledger's record of a block.

use gemelo_domain::MemberId;
use gemelo_format::{Fingerprint, Pbn};

/// A block of a member.
pub(crate) type Place = (MemberId, Pbn);

/// The place of a content that lies in another block than the one that refers to it: a block never
/// borrows from itself, because it would be given up and nothing would be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elsewhere(Place);

impl Elsewhere {
    /// Returns the place as another one than the block's own, or [`None`] if it is that block.
    pub(crate) fn of(block: Place, place: Place) -> Option<Self> {
        (block != place).then_some(Self(place))
    }

    /// Reads one from a table in memory, which took it as one.
    pub(crate) const fn of_table(place: Place) -> Self {
        Self(place)
    }

    pub(crate) const fn place(self) -> Place {
        self.0
    }
}

/// The relation of a block to the domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockState {
    /// The block is in the index, and this member refers to it.
    Published,
    /// The block is in the index, and this member does not refer to it.
    Lent,
    /// The content lies at another place, to which this member refers.
    Borrowed(Elsewhere),
    /// The content lies here, and the reference to another place is to be released.
    Restored(Elsewhere),
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
            Self::Borrowed(other) | Self::Restored(other) => Some(other.place()),
            Self::Published | Self::Lent | Self::Alone => None,
        }
    }

    /// Returns whether the index counts the member for the content.
    pub(crate) const fn is_counted(self) -> bool {
        !matches!(self, Self::Lent | Self::Alone)
    }

    /// Returns whether the index has the block as the place of the content.
    pub(crate) const fn is_home(self) -> bool {
        matches!(self, Self::Published | Self::Lent)
    }
}
