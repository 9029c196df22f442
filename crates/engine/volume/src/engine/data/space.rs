//! The free PBNs, and the order in which they are given out.

mod runs;

use gemelo_format::Pbn;
use runs::{ANY, RUN_BLOCKS, RunWords, run_starts};
use std::cmp::Reverse;
use std::ops::Range;

/// Words that a search for freed blocks looks at while writers wait: some 50 µs.
const LOOKED_AT: u32 = 16_384;
/// The same for a search for free blocks, which lie among others: less than 100 µs.
const MIXED_LOOKED_AT: u32 = 2048;

/// Parts of the store that are compared when it is opened.
const OPENING_PARTS: usize = 64;

/// Most blocks of a run that are looked for at once.
const MAX_RUN_BLOCKS: u32 = 4096;

/// A bitmap of the PBNs. Free PBNs are given out in runs, so that blocks written together have
/// numbers in a row, which a store may lay out side by side. A run is given out from its first PBN
/// to its last one, over any number of writes. The next one is then the nearest free run of at
/// least 64 PBNs, in ascending order and around the end of the store; without one the nearest of
/// 32, and so on. Single holes are used when nothing else is left.
#[derive(Debug)]
pub(crate) struct Space {
    /// A set bit is a PBN that is in use or out of range.
    used: Vec<u64>,
    /// The words of `used` by the free runs that they have.
    runs: RunWords,
    /// A set bit is a free PBN that was used before and whose space can be given back to the
    /// system.
    freed: Vec<u64>,
    blocks: u64,
    free: u64,
    freed_blocks: u64,
    /// The rest of the run that is being given out. Others may have claimed PBNs of it.
    run: Range<u32>,
    /// Of the free blocks from here on it is not known whether they were used before the pool was
    /// opened.
    unswept: u64,
}

impl Space {
    /// The space of a data store of this many blocks, all free but block 0. Bitmaps of zeros take
    /// no memory before they are touched.
    pub(crate) fn new(blocks: u64) -> Self {
        let mut space = Self {
            used: Vec::new(),
            runs: RunWords::default(),
            freed: Vec::new(),
            blocks: 0,
            free: 0,
            freed_blocks: 0,
            run: 0..0,
            unswept: 0,
        };
        space.grow(blocks);
        space
    }

    /// Goes on where most PBNs are free: right behind the last ones that were given out before the
    /// pool was closed, if blocks have been overwritten at random. The beginning of the store has
    /// only holes then, and its long runs are those of the last openings.
    pub(crate) fn begin_where_most_is_free(&mut self) {
        let words = self.used.len().div_ceil(OPENING_PARTS).max(1);
        // The header takes a block of the first part, which shall not make a fresh store begin
        // elsewhere.
        let nearly_empty = words as u64 * 64 - 2;
        let free = |part: &[u64]| {
            let free: u64 = part.iter().map(|used| u64::from(used.count_zeros())).sum();
            free.min(nearly_empty)
        };
        let parts = self.used.chunks(words).enumerate();
        let best = parts.max_by_key(|(at, part)| (free(part), Reverse(*at)));
        let first = best.map_or(0, |(at, _)| at * words * 64);
        // A store has at most 2^32 blocks.
        let first = u32::try_from(first).unwrap_or(0);
        self.run = first..first;
    }

    /// Notes that free blocks may have been used before.
    pub(crate) fn note_used_before(&mut self) {
        self.unswept = 0;
    }

    /// Adds free blocks up to this number of blocks. Block 0 is never free.
    pub(crate) fn grow(&mut self, blocks: u64) {
        let words = blocks.div_ceil(64) as usize;
        self.used.resize(words, u64::MAX);
        self.runs.resize(words);
        self.freed.resize(words, 0);
        let mut number = self.blocks.max(1);
        while number < blocks {
            let end = (number / 64 * 64 + 64).min(blocks);
            self.change(number as usize / 64, |used| used & !bits(number..end));
            number = end;
        }
        if self.unswept == self.blocks {
            self.unswept = blocks.max(self.blocks);
        }
        self.blocks = self.blocks.max(blocks);
        self.check();
    }

    /// Asserts what holds between the counts.
    fn check(&self) {
        assert!(self.free < self.blocks.max(1), "more blocks are free than there are");
        assert!(self.freed_blocks <= self.free, "a block that was freed is free");
        assert!(self.unswept <= self.blocks, "blocks beyond the end are looked for");
    }

    /// Changes the used bits of a word. Returns those before; a word out of range is used.
    fn change(&mut self, word: usize, change: impl FnOnce(u64) -> u64) -> u64 {
        let Some(used) = self.used.get_mut(word) else { return u64::MAX };
        let before = *used;
        let after = change(before);
        *used = after;
        self.free += u64::from(after.count_zeros());
        self.free -= u64::from(before.count_zeros());
        self.runs.note(word, before, after);
        if let Some(freed) = self.freed.get_mut(word) {
            self.freed_blocks -= u64::from((*freed & after).count_ones());
            *freed &= !after;
        }
        before
    }

    /// Returns whether the PBN was used.
    fn set_free(&mut self, number: usize) -> bool {
        let bit = 1u64 << (number % 64);
        self.change(number / 64, |used| used & !bit) & bit != 0
    }

    pub(crate) const fn free(&self) -> u64 {
        self.free
    }

    /// The number of blocks, block 0 included.
    pub(crate) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Marks a PBN as used. Returns whether it was free.
    pub(crate) fn claim(&mut self, pbn: Pbn) -> bool {
        let bit = 1u64 << (pbn.index() % 64);
        self.change(pbn.index() / 64, |used| used | bit) & bit == 0
    }

    /// Returns whether a PBN is in use or out of range.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        let (word, bit) = (pbn.index() / 64, 1u64 << (pbn.index() % 64));
        self.used.get(word).is_none_or(|bits| bits & bit != 0)
    }

    /// Marks the PBN as free.
    pub(crate) fn release(&mut self, pbn: Pbn) {
        assert!(pbn.number() as u64 <= self.blocks, "a block outside of the store is freed");
        let was_used = self.set_free(pbn.index());
        assert!(was_used, "block {} is freed twice", pbn.number());
        if let Some(freed) = self.freed.get_mut(pbn.index() / 64) {
            *freed |= 1 << (pbn.index() % 64);
            self.freed_blocks += 1;
        }
    }

    /// Marks PBNs from `first` on as free, whose space the system has back.
    pub(crate) fn release_discarded(&mut self, first: Pbn, count: u32) {
        for number in first.index()..first.index() + count as usize {
            let was_used = self.set_free(number);
            assert!(was_used, "block {number} was free while the collector had it");
        }
        self.check();
    }

    /// Adds `count` free PBNs to `taken`. The caller knows that there are as many.
    pub(crate) fn take(&mut self, count: usize, taken: &mut Vec<Pbn>) {
        let (before, free) = (taken.len(), self.free);
        self.take_some(count, taken);
        assert_eq!(taken.len() - before, count, "as many blocks are taken as were free");
        assert_eq!(free - self.free, count as u64, "the count of free blocks is right");
        self.check();
    }

    fn take_some(&mut self, count: usize, taken: &mut Vec<Pbn>) {
        let mut wanted = (count as u64).min(self.free);
        while wanted > 0 {
            let first = self.run.start;
            let most = self.run.end - first;
            let in_run = self.free_from(first, most.min(64 - first % 64));
            if in_run == 0 {
                self.run = self.next_run();
                continue;
            }
            let end = first + u32::try_from(wanted).unwrap_or(u32::MAX).min(in_run);
            let given = bits(u64::from(first)..u64::from(end));
            self.change(first as usize / 64, |used| used | given);
            taken.extend((first..end).filter_map(Pbn::new));
            wanted -= u64::from(end - first);
            self.run.start = end;
        }
    }

    /// Finds the run to give out next; there is a free PBN.
    fn next_run(&self) -> Range<u32> {
        let from = self.run.end as usize / 64;
        let found = RUN_BLOCKS.iter().enumerate().find_map(|(level, run_blocks)| {
            let next = |start| self.runs.next(level, start);
            next(from).or_else(|| next(0)).map(|word| (word, *run_blocks))
        });
        assert!(found.is_some(), "{} blocks are free, but none is found", self.free);
        let (word, run_blocks) = found.unwrap_or_default();
        let used = self.used.get(word).copied().unwrap_or(u64::MAX);
        let bit = run_starts(used, run_blocks).trailing_zeros();
        let first = word as u32 * 64 + bit - self.free_before(word, bit);
        first..first + self.free_from(first, MAX_RUN_BLOCKS)
    }

    /// The number of free PBNs in a row right before a bit of a word: in the word, or in the one
    /// before it.
    fn free_before(&self, word: usize, bit: u32) -> u32 {
        match (word.checked_sub(1), bit) {
            (None, 0) => 0,
            (Some(before), 0) => self.used.get(before).map_or(0, |used| used.leading_zeros()),
            (_, bit) => {
                self.used.get(word).map_or(0, |used| (used << (64 - bit)).leading_zeros().min(bit))
            }
        }
    }

    /// Takes the first run of freed PBNs at or after `from` that has at least `least` of them, at
    /// most `most`. Returns the first and their number. Looks at no more than `LOOKED_AT` words;
    /// returns where to go on, or [`None`] at the end.
    pub(crate) fn take_freed_run(
        &mut self,
        from: u32,
        least: u32,
        most: u32,
    ) -> (Option<(Pbn, u32)>, Option<u32>) {
        if self.freed_blocks == 0 {
            return (None, None);
        }
        let is_freed = |space: &Self, number: u32| {
            space
                .freed
                .get(number as usize / 64)
                .is_some_and(|bits| bits & (1 << (number % 64)) != 0)
        };
        let mut at = from;
        let end = u32::try_from(self.blocks).unwrap_or(u32::MAX);
        let look_end = end.min(at.saturating_add(LOOKED_AT * 64));
        while at < look_end {
            if at.is_multiple_of(64) && self.freed.get(at as usize / 64) == Some(&0) {
                at = at.saturating_add(64);
                continue;
            }
            let mut count = 0;
            while count < most && is_freed(self, at + count) {
                count += 1;
            }
            if count >= least.max(1)
                && let Some(first) = Pbn::new(at)
            {
                for number in at..at + count {
                    Pbn::new(number).map(|pbn| self.claim(pbn));
                }
                return (Some((first, count)), Some(at + count));
            }
            at += count.max(1);
        }
        (None, (at < end).then_some(at))
    }

    /// Takes the first run of free PBNs at or after `from` that has at least `least` of them, at
    /// most `most`. Looks at no more than `MIXED_LOOKED_AT` words; returns the same as
    /// [`Self::take_freed_run`].
    pub(crate) fn take_free_run(
        &mut self,
        from: u32,
        least: u32,
        most: u32,
    ) -> (Option<(Pbn, u32)>, Option<u32>) {
        let end = u32::try_from(self.blocks).unwrap_or(u32::MAX);
        let look_end = end.min(from.saturating_add(MIXED_LOOKED_AT * 64));
        let mut at = from;
        while at < look_end {
            let used = self
                .used
                .get(at as usize / 64)
                .map_or(64, |bits| (*bits >> (at % 64)).trailing_ones());
            if used > 0 {
                at = at.saturating_add(used.min(64 - at % 64));
                continue;
            }
            let count = self.free_from(at, most);
            if count >= least.max(1)
                && let Some(first) = Pbn::new(at)
            {
                (at..at + count).filter_map(Pbn::new).for_each(|pbn| {
                    self.claim(pbn);
                });
                return (Some((first, count)), Some(at + count));
            }
            at = at.saturating_add(count.max(1));
        }
        (None, (at < end).then_some(at))
    }

    /// The number of free PBNs in a row from this one on, at most `most`.
    fn free_from(&self, first: u32, most: u32) -> u32 {
        let mut count = 0;
        while count < most {
            let at = first + count;
            let Some(bits) = self.used.get(at as usize / 64) else { break };
            let left = 64 - at % 64;
            let free = (*bits >> (at % 64)).trailing_zeros().min(left);
            count += free;
            if free < left {
                break;
            }
        }
        count.min(most)
    }

    /// Free PBNs that were used before.
    pub(crate) const fn freed(&self) -> u64 {
        self.freed_blocks
    }

    /// Takes the next run of free PBNs of which it is not known whether they were used before, at
    /// most `most` of them. Returns the first and their number; `None` at the end of the store.
    pub(crate) fn take_unswept(&mut self, most: u32) -> Option<(Pbn, u32)> {
        let run = self.free_run_from(u32::try_from(self.unswept).ok()?, most);
        self.unswept = match run {
            Some((first, count)) => u64::from(first.number()) + u64::from(count),
            None => self.blocks,
        };
        self.check();
        run
    }

    fn free_run_from(&mut self, from: u32, most: u32) -> Option<(Pbn, u32)> {
        let word = self.runs.next(ANY, from as usize / 64)?;
        let mut first = from.max(word as u32 * 64);
        while Pbn::new(first).is_none_or(|pbn| self.is_used(pbn)) {
            first += 1;
            if first.is_multiple_of(64) {
                first = self.runs.next(ANY, first as usize / 64)? as u32 * 64;
            }
        }
        let count = self.free_from(first, most);
        (first..first + count).filter_map(Pbn::new).for_each(|pbn| {
            self.claim(pbn);
        });
        Some((Pbn::new(first)?, count))
    }

    /// The number of free blocks that may have been used before.
    pub(crate) const fn unswept(&self) -> u64 {
        if self.unswept < self.blocks { self.free - self.freed_blocks } else { 0 }
    }
}

/// A mask of these numbers, which are in one word.
fn bits(numbers: Range<u64>) -> u64 {
    let count = numbers.end - numbers.start;
    debug_assert!(count <= 64 - numbers.start % 64, "in one word");
    if count == 64 { u64::MAX } else { ((1 << count) - 1) << (numbers.start % 64) }
}

#[cfg(test)]
mod tests;
