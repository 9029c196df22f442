//! The part of a device that a request reads or changes, and the requests that must not overtake
//! each other.

use std::ops::Range;

/// The part of a device that a request touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It reads these bytes.
    Read(Range<u64>),
    /// It changes these bytes.
    Change {
        /// The bytes of the device.
        range: Range<u64>,
        /// `true` if the change is durable when it is answered.
        is_durable: bool,
    },
    /// It makes changes durable.
    Flush,
}

fn touch(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

impl Claim {
    /// Returns whether this request must wait until an earlier one has ended. A flush waits for
    /// changes, because it may have to cover them.
    #[must_use]
    pub fn waits_for(&self, earlier: &Self) -> bool {
        match (self, earlier) {
            (Self::Read(_), Self::Read(_)) | (_, Self::Flush) | (Self::Flush, Self::Read(_)) => {
                false
            }
            (Self::Flush, Self::Change { is_durable, .. }) => !is_durable,
            (
                Self::Read(one) | Self::Change { range: one, .. },
                Self::Read(other) | Self::Change { range: other, .. },
            ) => touch(one, other),
        }
    }

    /// Returns the claim on the whole blocks that the request touches, in numbers of blocks.
    #[must_use]
    pub fn in_blocks(self, block_bytes: u64) -> Self {
        let blocks = |range: Range<u64>| match range.is_empty() {
            true => 0..0,
            false => range.start / block_bytes..range.end.div_ceil(block_bytes),
        };
        match self {
            Self::Read(range) => Self::Read(blocks(range)),
            Self::Change { range, is_durable } => Self::Change { range: blocks(range), is_durable },
            Self::Flush => Self::Flush,
        }
    }

    /// What the request touches; `None` for a flush.
    #[must_use]
    pub const fn range(&self) -> Option<&Range<u64>> {
        match self {
            Self::Read(range) | Self::Change { range, .. } => Some(range),
            Self::Flush => None,
        }
    }

    /// Returns whether this request must wait until a read of these bytes has ended.
    pub(super) fn waits_for_read(&self, read: &Range<u64>) -> bool {
        matches!(self, Self::Change { range, .. } if touch(range, read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_one_block_are_one_claim_on_blocks() {
        let write = |range| Claim::Change { range, is_durable: false }.in_blocks(512);
        assert_eq!(write(511..513).range(), Some(&(0..2)));
        assert!(write(0..10).waits_for(&write(500..512)));
        assert!(write(0..10).waits_for(&Claim::Read(511..512).in_blocks(512)));
        assert!(!write(0..512).waits_for(&write(512..513)));
        assert!(!write(512..512).waits_for(&write(0..4096)), "nothing is written");
        assert_eq!(Claim::Flush.in_blocks(512), Claim::Flush);
    }

    #[test]
    fn requests_of_one_range_keep_their_order_and_a_flush_covers_changes() {
        let read = |range| Claim::Read(range);
        let change = |range, is_durable| Claim::Change { range, is_durable };
        for (later, earlier, waits) in [
            (read(0..8), read(0..8), false),
            (read(0..8), change(7..9, false), true),
            (read(0..8), change(8..9, false), false),
            (read(0..8), Claim::Flush, false),
            (change(0..8, false), read(7..9), true),
            (change(0..8, true), read(8..9), false),
            (change(0..8, false), change(4..5, true), true),
            (change(0..8, false), change(8..9, true), false),
            (change(0..8, false), Claim::Flush, false),
            (Claim::Flush, read(0..8), false),
            (Claim::Flush, change(0..8, false), true),
            (Claim::Flush, change(0..8, true), false),
            (Claim::Flush, Claim::Flush, false),
        ] {
            assert_eq!(later.waits_for(&earlier), waits, "{later:?} after {earlier:?}");
            if let Claim::Read(range) = &earlier {
                assert_eq!(later.waits_for_read(range), waits, "{later:?} after {earlier:?}");
            }
        }
    }
}
