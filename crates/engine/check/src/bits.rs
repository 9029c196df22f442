//! The blocks that maps refer to, a bit for each.

use gemelo_base::SparseBits;
use gemelo_format::{MapEntry, Pbn, Superblock};
use std::collections::BTreeSet;
use std::ops::Range;

/// The PBNs that maps refer to.
pub(crate) struct UsedPbns {
    bits: SparseBits,
    end: u64,
    /// Those outside of the data store.
    outside: BTreeSet<u64>,
}

impl UsedPbns {
    /// None of a data store of this many blocks.
    pub(crate) fn new(superblock: &Superblock, data_blocks: u64) -> Self {
        let end = superblock.pbn_end(data_blocks);
        Self { bits: SparseBits::default(), end, outside: BTreeSet::new() }
    }

    /// A number above all PBNs of the data store.
    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// Notes the blocks of entries.
    pub(crate) fn note(&mut self, entries: &[(u64, MapEntry)]) {
        for pbn in entries.iter().filter_map(|(_, place)| place.pbn()).map(Pbn::number) {
            if pbn < self.end {
                self.bits.insert(pbn);
            } else {
                self.outside.insert(pbn);
            }
        }
    }

    pub(crate) fn has(&self, pbn: u64) -> bool {
        self.bits.has(pbn) || self.outside.contains(&pbn)
    }

    /// The number of PBNs.
    pub(crate) fn count(&self) -> u64 {
        self.bits.ones() + self.outside.len() as u64
    }

    /// The first PBN at or after this number in the data store.
    pub(crate) fn next(&self, from: u64) -> Option<u64> {
        self.bits.next(from)
    }

    /// All PBNs, those outside of the data store last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let within = std::iter::successors(self.next(0), |pbn| self.next(pbn + 1));
        within.chain(self.outside().iter().copied())
    }

    /// Those outside of the data store.
    pub(crate) const fn outside(&self) -> &BTreeSet<u64> {
        &self.outside
    }

    /// Cuts all numbers into ranges with at most so many of the PBNs each.
    pub(crate) fn windows(&self, most: u64) -> Vec<Range<u64>> {
        let (mut windows, mut start, mut inside) = (Vec::new(), 0, 0);
        for pbn in self.iter().take_while(|pbn| *pbn < self.end) {
            if inside == most.max(1) {
                windows.push(start..pbn);
                (start, inside) = (pbn, 0);
            }
            inside += 1;
        }
        windows.push(start..u64::MAX);
        windows
    }

    /// Ranges of so many numbers that have all PBNs of the data store.
    pub(crate) fn ranges(&self, numbers: u64) -> Vec<Range<u64>> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while let Some(first) = self.next(from) {
            from = first.saturating_add(numbers.max(1)).min(self.end);
            ranges.push(first..from);
        }
        ranges
    }
}
