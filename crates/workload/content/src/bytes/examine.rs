//! Comparison of a block that was read with the content that it should hold.

use super::Generator;
use crate::{BlockContent, ContentId};

/// The unit that storage writes atomically. A block that mixes sectors of two contents is torn.
const SECTOR_BYTES: usize = 512;

/// The result of examining a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Examination {
    /// The block is the expected content, byte for byte.
    Match,
    /// The block is all zeros instead of the expected content.
    Zeros,
    /// The block is another content, byte for byte.
    Other(ContentId),
    /// Some sectors belong to the expected content, the others to something else.
    Torn {
        /// The number of sectors of 512 bytes that hold the expected bytes.
        intact_sectors: usize,
        /// The number of sectors in the block.
        sectors: usize,
        /// The content of the other sectors, if the block's mark names it.
        other: Option<ContentId>,
    },
    /// The block holds no known content.
    Garbage {
        /// The offset of the first byte that differs from the expected content.
        first_difference: usize,
        /// The number of bytes that differ from the expected content.
        different_bytes: usize,
    },
}

impl Generator {
    /// Compares a block with the content it should hold. `scratch` must have the block's length and
    /// is overwritten.
    #[inline]
    pub fn examine(
        &self,
        expected: impl Into<BlockContent>,
        block: &[u8],
        scratch: &mut [u8],
    ) -> Examination {
        self.fill(expected, scratch);
        if block == scratch { Examination::Match } else { self.explain(block, scratch) }
    }

    /// Classifies a block that differs from the expected content. `expected` is overwritten.
    #[cold]
    fn explain(&self, block: &[u8], expected: &mut [u8]) -> Examination {
        if gemelo_base::is_zero(block) {
            return Examination::Zeros;
        }
        let sectors = block.chunks(SECTOR_BYTES).zip(expected.chunks(SECTOR_BYTES));
        let intact: Vec<bool> = sectors.map(|(found, wanted)| found == wanted).collect();
        let pairs = || block.iter().zip(expected.iter());
        let garbage = Examination::Garbage {
            first_difference: pairs().position(|(found, wanted)| found != wanted).unwrap_or(0),
            different_bytes: pairs().filter(|(found, wanted)| found != wanted).count(),
        };
        let intact_sectors = intact.iter().filter(|same| **same).count();
        let claimed = self.identify(block);
        if let Some(other) = claimed {
            self.fill(other, expected);
            if block == expected {
                return Examination::Other(other);
            }
        }
        let foreign = block.chunks(SECTOR_BYTES).zip(expected.chunks(SECTOR_BYTES)).zip(&intact);
        let mut foreign = foreign.filter(|(_, same)| !**same).map(|(pair, _)| pair);
        // A torn block: each sector that differs either equals the sector of the other content, or
        // differs so much that it is not a damaged copy.
        let explained =
            foreign.all(|(found, other)| found == other || mostly_different(found, other));
        if intact_sectors > 0 && explained {
            let other = claimed.filter(|_| intact.first() == Some(&false));
            return Examination::Torn { intact_sectors, sectors: intact.len(), other };
        }
        garbage
    }
}

/// Returns whether at least half of the bytes of two sectors differ, so that neither is a damaged
/// copy of the other.
fn mostly_different(first: &[u8], second: &[u8]) -> bool {
    let different = first.iter().zip(second).filter(|(one, other)| one != other).count();
    different * 2 >= first.len()
}
