//! Divides records into blocks: the blocks of a device that an operation touches, and the content
//! of each.

use crate::record::{ContentHash, Record, TraceOperation};
use gemelo_base::random::mix_pair;
use gemelo_base::{Classified, Remedy};
use thiserror::Error;

/// The hashes of a record stand for more data than a block, or for a part that does not divide a
/// block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Classified)]
#[kind(BadInput, remedy = block_size)]
#[error(
    "the trace has one hash for every {hash_bytes} bytes, so a block of {block_bytes} bytes has \
     none"
)]
pub struct BlockError {
    /// Bytes of data for each hash.
    pub hash_bytes: u32,
    /// Block size in bytes.
    pub block_bytes: u64,
}

impl BlockError {
    const fn block_size(&self) -> Option<Remedy> {
        Some(Remedy::BlockSize(self.hash_bytes))
    }
}

/// A block that an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TouchedBlock {
    /// Block number on the device.
    pub block: u64,
    /// Content that the operation reads or writes there, if the trace has hashes. If a block has
    /// several hashes, they are combined: equal parts at equal places of a block give equal
    /// contents.
    pub content: Option<ContentHash>,
}

/// Iterates over the blocks that a record touches.
///
/// If a hash stands for a whole block, blocks are counted from the start of the operation. Traces
/// of partitions that do not begin at a multiple of the block size thus keep one hash a block.
/// Otherwise every block counts that is touched at least in part. A trim counts only the blocks
/// that it covers completely, because the others keep some of their content.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    record: &'a Record,
    block_bytes: u64,
    next: u64,
    end: u64,
}

impl<'a> Blocks<'a> {
    /// Returns the blocks of `block_bytes` (at least 1) that the record touches. A flush touches
    /// none.
    ///
    /// # Errors
    /// If the block size is not a multiple of the bytes for each hash of the record.
    #[inline]
    pub fn new(record: &'a Record, block_bytes: u64) -> Result<Self, BlockError> {
        let block_bytes = block_bytes.max(1);
        if !record.hashes.is_empty()
            && !block_bytes.is_multiple_of(u64::from(record.hash_bytes.max(1)))
        {
            return Err(BlockError { hash_bytes: record.hash_bytes, block_bytes });
        }
        if record.operation == TraceOperation::Trim {
            let next = record.offset_bytes.div_ceil(block_bytes);
            let end = (record.end_bytes() / block_bytes).max(next);
            return Ok(Self { record, block_bytes, next, end });
        }
        let next = record.offset_bytes / block_bytes;
        let end = if record.length_bytes == 0 {
            next
        } else if Self::has_hash_per_block(record, block_bytes) {
            next + record.length_bytes.div_ceil(block_bytes)
        } else {
            (record.end_bytes() - 1) / block_bytes + 1
        };
        Ok(Self { record, block_bytes, next, end })
    }

    /// Returns the numbers of the remaining blocks.
    #[must_use]
    pub const fn range(&self) -> std::ops::Range<u64> {
        self.next..self.end
    }

    #[inline]
    fn has_hash_per_block(record: &Record, block_bytes: u64) -> bool {
        !record.hashes.is_empty() && u64::from(record.hash_bytes) == block_bytes
    }

    /// Returns the content of a block: one hash, or a combination of several.
    #[inline]
    fn content(&self, block: u64) -> Option<ContentHash> {
        let record = self.record;
        if record.hashes.is_empty() {
            return None;
        }
        if Self::has_hash_per_block(record, self.block_bytes) {
            let index = block - record.offset_bytes / self.block_bytes;
            let hash = record.hashes.get(usize::try_from(index).ok()?).copied()?;
            let is_zeros = ContentHash::of_zeros(record.hash_bytes) == Some(hash);
            return Some(if is_zeros { ContentHash::ZEROS } else { hash });
        }
        let unit = u64::from(record.hash_bytes);
        let block_start = block * self.block_bytes;
        let from = block_start.max(record.offset_bytes);
        let to = block_start.saturating_add(self.block_bytes).min(record.end_bytes());
        let first = (from - record.offset_bytes) / unit;
        let last = (to - record.offset_bytes).div_ceil(unit);
        let range = usize::try_from(first).ok()?..usize::try_from(last).ok()?;
        let parts = record.hashes.get(range)?;
        let is_zeros = |part: &ContentHash| ContentHash::of_zeros(record.hash_bytes) == Some(*part);
        if to - from == self.block_bytes && parts.iter().all(is_zeros) {
            return Some(ContentHash::ZEROS);
        }
        Some(put_together(parts, from - block_start))
    }
}

/// Combines several hashes, and the offset in the block at which they begin, into one hash.
#[inline]
fn put_together(parts: &[ContentHash], start_bytes: u64) -> ContentHash {
    let (mut high, mut low) = (start_bytes, !start_bytes);
    for ContentHash(part) in parts {
        high = mix_pair(high, (*part >> 64) as u64);
        low = mix_pair(low, *part as u64 ^ high);
    }
    ContentHash((u128::from(high) << 64) | u128::from(low))
}

impl Iterator for Blocks<'_> {
    type Item = TouchedBlock;

    #[inline]
    fn next(&mut self) -> Option<TouchedBlock> {
        if self.next >= self.end {
            return None;
        }
        let block = self.next;
        self.next += 1;
        Some(TouchedBlock { block, content: self.content(block) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.next).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(offset_bytes: u64, length_bytes: u64, hash_bytes: u32, hashes: &[u128]) -> Record {
        let hashes = hashes.iter().copied().map(ContentHash).collect();
        Record { offset_bytes, length_bytes, hash_bytes, hashes, ..Record::new() }
    }

    fn blocks(record: &Record, block_bytes: u64) -> Vec<u64> {
        Blocks::new(record, block_bytes).unwrap().map(|touched| touched.block).collect()
    }

    #[test]
    fn without_hashes_every_touched_block_counts() {
        assert_eq!(blocks(&record(4095, 2, 0, &[]), 4096), [0, 1]);
        assert_eq!(blocks(&record(4096, 4096, 0, &[]), 4096), [1]);
        assert!(blocks(&record(4096, 0, 0, &[]), 4096).is_empty());
    }

    #[test]
    fn a_hash_for_each_block_is_its_content() {
        let shifted = record(63 * 512, 8192, 4096, &[7, 8]);
        let found: Vec<_> = Blocks::new(&shifted, 4096).unwrap().collect();
        assert_eq!(
            found,
            [
                TouchedBlock { block: 7, content: Some(ContentHash(7)) },
                TouchedBlock { block: 8, content: Some(ContentHash(8)) }
            ]
        );
    }

    #[test]
    fn hashes_of_sectors_make_one_of_a_block() {
        let content =
            |record: &Record| Blocks::new(record, 4096).unwrap().next().unwrap().content.unwrap();
        let page: Vec<u128> = (0..8).collect();
        let first = content(&record(0, 4096, 512, &page));
        assert_eq!(first, content(&record(40_960, 4096, 512, &page)));
        let mut swapped = page.clone();
        swapped.swap(0, 1);
        assert_ne!(first, content(&record(0, 4096, 512, &swapped)));
        assert_ne!(content(&record(0, 512, 512, &[1])), content(&record(512, 512, 512, &[1])));
        let two = record(0, 8192, 512, &[page.clone(), page].concat());
        let contents: Vec<_> =
            Blocks::new(&two, 4096).unwrap().map(|touched| touched.content).collect();
        assert_eq!(contents, [Some(first), Some(first)]);
    }

    #[test]
    fn zeros_are_one_content_for_hashes_of_any_size() {
        let of = |hash_bytes, count| {
            let hash = ContentHash::of_zeros(hash_bytes).unwrap().0;
            let record = record(0, 4096, hash_bytes, &vec![hash; count]);
            Blocks::new(&record, 4096).unwrap().next().unwrap().content.unwrap()
        };
        assert_eq!(of(4096, 1), ContentHash::ZEROS);
        assert_eq!(of(512, 8), ContentHash::ZEROS);
        let [sector, page] = [512, 4096].map(|bytes| ContentHash::of_zeros(bytes).unwrap().0);
        let content = |record: &Record, block_bytes| {
            Blocks::new(record, block_bytes).unwrap().next().unwrap().content.unwrap()
        };
        assert_eq!(content(&record(0, 512, 512, &[sector]), 512), ContentHash::ZEROS);
        assert_eq!(content(&record(0, 8192, 4096, &[page; 2]), 8192), ContentHash::ZEROS);
        // A part of a block leaves the rest as it was.
        assert_ne!(content(&record(0, 512, 512, &[sector]), 4096), ContentHash::ZEROS);
        assert_ne!(content(&record(0, 1024, 512, &[sector, 1]), 1024), ContentHash::ZEROS);
    }

    #[test]
    fn the_last_block_of_the_address_space_has_a_content() {
        let last = u64::MAX / 4096 * 4096;
        let found: Vec<_> = Blocks::new(&record(last, 1024, 512, &[1, 2]), 4096).unwrap().collect();
        let [TouchedBlock { block, content: Some(content) }] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(*block, last / 4096);
        assert_eq!(*content, put_together(&[ContentHash(1), ContentHash(2)], 0));
    }

    #[test]
    fn blocks_smaller_than_a_hash_are_refused() {
        let error = Blocks::new(&record(0, 4096, 4096, &[1]), 512).unwrap_err();
        assert_eq!(error, BlockError { hash_bytes: 4096, block_bytes: 512 });
    }

    proptest! {
        #[test]
        fn every_block_is_touched_once(
            offset in 0u64..1 << 40, length in 0u64..200_000, shift in 9u32..17
        ) {
            let block_bytes = 1u64 << shift;
            let found = blocks(&record(offset, length, 0, &[]), block_bytes);
            let expected: Vec<u64> = if length == 0 { vec![] } else {
                (offset / block_bytes..=(offset + length - 1) / block_bytes).collect()
            };
            prop_assert_eq!(found, expected);
        }
    }
}
