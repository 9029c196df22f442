//! What a block that was read holds, when it should hold a given content.

use super::Generator;
use crate::ContentId;

/// The unit that storage writes whole; a block that mixes units of two contents was torn.
const SECTOR_BYTES: usize = 512;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Examination {
    /// The content expected, byte by byte.
    Match,
    /// Zeros throughout.
    Zeros,
    /// Another content, byte by byte.
    Other(ContentId),
    /// Some sectors of the content expected, others of something else.
    Torn {
        /// Sectors of 512 bytes that hold what was expected.
        intact_sectors: usize,
        /// Sectors of the block.
        sectors: usize,
        /// The content of the other sectors, where they say it.
        other: Option<ContentId>,
    },
    /// Bytes of no known content.
    Garbage {
        /// The first byte that is not as expected, counted from the start of the block.
        first_difference: usize,
        /// Bytes that are not as expected.
        different_bytes: usize,
    },
}

impl Generator {
    /// Compares a block with the content it should hold. `scratch` has the block's length; its bytes are overwritten.
    #[inline]
    pub fn examine(&self, expected: ContentId, block: &[u8], scratch: &mut [u8]) -> Examination {
        self.fill(expected, scratch);
        if block == scratch { Examination::Match } else { self.explain(block, scratch) }
    }

    /// Says what a block that is not as expected holds. `expected` is overwritten.
    #[cold]
    fn explain(&self, block: &[u8], expected: &mut [u8]) -> Examination {
        if block.iter().all(|byte| *byte == 0) {
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
        // The sectors that differ are all the other content's, or all so different that they are no damaged copies.
        let explained =
            foreign.all(|(found, other)| found == other || mostly_different(found, other));
        if intact_sectors > 0 && explained {
            let other = claimed.filter(|_| intact.first() == Some(&false));
            return Examination::Torn { intact_sectors, sectors: intact.len(), other };
        }
        garbage
    }
}

/// Whether two sectors have nothing to do with each other: half of their bytes differ.
fn mostly_different(first: &[u8], second: &[u8]) -> bool {
    let different = first.iter().zip(second).filter(|(one, other)| one != other).count();
    different * 2 >= first.len()
}
