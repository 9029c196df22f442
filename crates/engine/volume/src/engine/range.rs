//! Ranges of bytes of a volume, and the blocks that they touch.

use std::ops;

/// A range of bytes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Range {
    pub(crate) const fn end(self) -> u64 {
        self.offset + self.length
    }

    /// The blocks that the range touches.
    pub(crate) fn blocks(self, block_bytes: u64) -> ops::Range<u64> {
        if self.length == 0 {
            return 0..0;
        }
        self.offset / block_bytes..self.end().div_ceil(block_bytes)
    }

    /// The number of bytes that the range has in these blocks.
    pub(crate) fn part(self, blocks: ops::Range<u64>, block_bytes: u64) -> u64 {
        let start = (blocks.start * block_bytes).max(self.offset);
        (blocks.end * block_bytes).min(self.end()).saturating_sub(start)
    }

    /// The blocks that lie in the range as a whole.
    pub(super) fn whole_blocks(self, block_bytes: u64) -> ops::Range<u64> {
        let start = self.offset.div_ceil(block_bytes);
        start..(self.end() / block_bytes).max(start)
    }
}
