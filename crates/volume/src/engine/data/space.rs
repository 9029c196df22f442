//! The free PBNs, and the order in which they are given out.

use gemelo_format::Pbn;

/// Words that a search for freed blocks looks at while writers wait: some 50 µs.
const LOOKED_AT: u32 = 16_384;
/// The same for a search for free blocks, which lie among others: less than 100 µs.
const MIXED_LOOKED_AT: u32 = 2048;

/// A bitmap of the PBNs, with a bitmap of its full words above it. Free PBNs are given in ascending
/// order from the last ones on, so that blocks written together have numbers in a row, which a
/// store may lay out side by side.
#[derive(Debug)]
pub(crate) struct Space {
    /// A set bit is a PBN that is in use or out of range.
    words: Vec<u64>,
    /// A set bit is a word without a free PBN.
    full: Vec<u64>,
    /// A set bit is a free PBN that was used before and whose space can be given back to the
    /// system.
    freed: Vec<u64>,
    blocks: u64,
    free: u64,
    freed_blocks: u64,
    cursor: usize,
    /// Of the free blocks from here on it is not known whether they were used before the pool was
    /// opened.
    unswept: u64,
}

impl Space {
    /// The space of a data store of this many blocks, all free but block 0. Bitmaps of zeros take
    /// no memory before they are touched.
    pub(crate) fn new(blocks: u64) -> Self {
        let words = blocks.div_ceil(64) as usize;
        let mut space = Self {
            words: vec![0; words],
            full: vec![0; words.div_ceil(64)],
            freed: vec![0; words],
            blocks,
            free: blocks.saturating_sub(1),
            freed_blocks: 0,
            cursor: 0,
            unswept: blocks,
        };
        // Block 0 and the bits beyond the end are never free.
        if let Some(first) = space.words.first_mut() {
            *first |= 1;
        }
        if let (Some(last), rest @ 1..) = (space.words.last_mut(), blocks % 64) {
            *last |= u64::MAX << rest;
        }
        if let (Some(last), rest @ 1..) = (space.full.last_mut(), words % 64) {
            *last |= u64::MAX << rest;
        }
        for word in [0, words.saturating_sub(1)] {
            let is_full = space.words.get(word) == Some(&u64::MAX);
            space.note_full(word, is_full);
        }
        space
    }

    /// Notes that free blocks may have been used before.
    pub(crate) fn note_used_before(&mut self) {
        self.unswept = 0;
    }

    /// Adds free blocks up to this number of blocks.
    pub(crate) fn grow(&mut self, blocks: u64) {
        let words = blocks.div_ceil(64) as usize;
        self.words.resize(words, u64::MAX);
        self.full.resize(words.div_ceil(64), u64::MAX);
        self.freed.resize(words, 0);
        let mut number = self.blocks.max(1) as usize;
        while number < blocks as usize {
            if number.is_multiple_of(64) && number + 64 <= blocks as usize {
                self.set_word_free(number / 64);
                number += 64;
            } else {
                self.set_free(number);
                number += 1;
            }
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

    /// Marks all blocks of a word as free, none of which was.
    fn set_word_free(&mut self, word: usize) {
        if let (Some(bits), Some(full)) = (self.words.get_mut(word), self.full.get_mut(word / 64)) {
            *bits = 0;
            *full &= !(1 << (word % 64));
            self.free += 64;
        }
    }

    fn set_free(&mut self, number: usize) -> bool {
        let (word, bit) = (number / 64, 1u64 << (number % 64));
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_used = *bits & bit != 0;
        *bits &= !bit;
        if let Some(full) = self.full.get_mut(word / 64) {
            *full &= !(1 << (word % 64));
        }
        self.free += u64::from(was_used);
        was_used
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
        let (word, bit) = (pbn.index() / 64, 1u64 << (pbn.index() % 64));
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_free = *bits & bit == 0;
        *bits |= bit;
        let is_full = *bits == u64::MAX;
        self.free -= u64::from(was_free);
        self.note_full(word, is_full);
        self.note_used(word);
        was_free
    }

    /// Returns whether a PBN is in use or out of range.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        let (word, bit) = (pbn.index() / 64, 1u64 << (pbn.index() % 64));
        self.words.get(word).is_none_or(|bits| bits & bit != 0)
    }

    /// Notes the blocks of a word that became used, which no longer count as freed.
    fn note_used(&mut self, word: usize) {
        if let (Some(freed), Some(bits)) = (self.freed.get_mut(word), self.words.get(word)) {
            let used = *freed & bits;
            *freed &= !used;
            self.freed_blocks -= u64::from(used.count_ones());
        }
    }

    fn note_full(&mut self, word: usize, is_full: bool) {
        if is_full && let Some(full) = self.full.get_mut(word / 64) {
            *full |= 1 << (word % 64);
        }
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
            let Some(word) = self.next_word() else { return };
            self.cursor = word;
            let Some(bits) = self.words.get_mut(word) else { return };
            while wanted > 0 && *bits != u64::MAX {
                let bit = bits.trailing_ones();
                *bits |= 1 << bit;
                taken.extend(Pbn::new(word as u32 * 64 + bit));
                wanted -= 1;
                self.free -= 1;
            }
            let is_full = *bits == u64::MAX;
            self.note_full(word, is_full);
            self.note_used(word);
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
                .words
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
            let Some(bits) = self.words.get(at as usize / 64) else { break };
            let left = 64 - at % 64;
            let free = (*bits >> (at % 64)).trailing_zeros().min(left);
            count += free;
            if free < left {
                break;
            }
        }
        count.min(most)
    }

    /// Returns the first word with a free PBN, from the cursor on and then from the start.
    fn next_word(&self) -> Option<usize> {
        self.word_from(self.cursor).or_else(|| self.word_from(0))
    }

    fn word_from(&self, start: usize) -> Option<usize> {
        let first = start / 64;
        let masked = |(at, full): (usize, &u64)| {
            let before = if at == first { (1u64 << (start % 64)) - 1 } else { 0 };
            let full = full | before;
            (full != u64::MAX).then(|| at * 64 + full.trailing_ones() as usize)
        };
        self.full.iter().enumerate().skip(first).find_map(masked)
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
        let word = self.word_from(from as usize / 64)?;
        let mut first = from.max(word as u32 * 64);
        while Pbn::new(first).is_none_or(|pbn| self.is_used(pbn)) {
            first += 1;
            if first.is_multiple_of(64) {
                first = self.word_from(first as usize / 64)? as u32 * 64;
            }
        }
        let count = self.free_from(first, most);
        (first..first + count).filter_map(Pbn::new).for_each(|pbn| {
            self.claim(pbn);
        });
        Some((Pbn::new(first)?, count))
    }

    /// The number of free blocks of which it may not be known whether they were used before.
    pub(crate) const fn unswept(&self) -> u64 {
        if self.unswept < self.blocks { self.free - self.freed_blocks } else { 0 }
    }
}

#[cfg(test)]
mod tests;
