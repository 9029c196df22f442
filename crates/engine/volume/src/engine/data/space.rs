//! The free PBNs, and the order in which they are given out.

mod barred;
mod near;
mod runs;
mod used;

use barred::BarredPbns;
use gemelo_base::SparseBits;
use gemelo_format::Pbn;
use runs::{ANY, RUN_BLOCKS, run_starts};
use std::cmp::Reverse;
use std::ops::Range;
use used::{CHUNK_WORDS, Used, WORD_BLOCKS};

/// Words that a search for freed blocks looks at while writers wait: some 50 µs.
const LOOKED_AT: u64 = 16_384;
/// The same for a search for free blocks, which lie among others: less than 100 µs.
const MIXED_LOOKED_AT: u64 = 2048;

/// Parts of the store that are compared when it is opened.
const OPENING_PARTS: usize = 64;

/// Most blocks of a run that are looked for at once.
const MAX_RUN_BLOCKS: u64 = 4096;

/// The PBNs that are free, in bitmaps. They are given out in runs, so that blocks written together
/// have numbers in a row, which a store may lay out side by side. A run is given out from its first
/// PBN to its last one, over any number of writes. The next one is then the nearest free run of at
/// least 64 PBNs, in ascending order and around the end of the store; without one the nearest of
/// 32, and so on. Single holes are used when nothing else is left.
#[derive(Debug)]
pub(crate) struct Space {
    used: Used,
    /// Free PBNs that were used before and whose space can be given back to the system.
    freed: SparseBits,
    blocks: u64,
    free: u64,
    barred: BarredPbns,
    /// The rest of the run that is being given out. Others may have claimed PBNs of it.
    run: Range<u64>,
    /// Of the free blocks from here on it is not known whether they were used before the pool was
    /// opened.
    unswept: u64,
}

impl Space {
    /// The space of a data store of this many blocks, all free but block 0.
    pub(crate) fn new(blocks: u64) -> Self {
        let mut space = Self {
            used: Used::default(),
            freed: SparseBits::default(),
            blocks: 0,
            free: 0,
            barred: BarredPbns::default(),
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
        let words = self.used.words().div_ceil(OPENING_PARTS).max(1);
        // The header takes a block of the first part, which shall not make a fresh store begin
        // elsewhere.
        let nearly_empty = words as u64 * WORD_BLOCKS - 2;
        let free = |first: usize| {
            let end = (first + words).min(self.used.words());
            self.used.free_in(first..end).min(nearly_empty)
        };
        let parts = (0..self.used.words()).step_by(words);
        let best = parts.max_by_key(|first| (free(*first), Reverse(*first)));
        let first = best.map_or(0, |first| first as u64 * WORD_BLOCKS);
        self.run = first..first;
    }

    /// Notes that free blocks may have been used before.
    pub(crate) fn note_used_before(&mut self) {
        self.unswept = 0;
    }

    /// Adds free blocks up to this number of blocks. Block 0 is never free.
    pub(crate) fn grow(&mut self, blocks: u64) {
        const CHUNK_BLOCKS: u64 = CHUNK_WORDS as u64 * WORD_BLOCKS;
        self.used.resize(blocks.max(self.blocks).div_ceil(WORD_BLOCKS) as usize);
        let mut number = self.blocks.max(1);
        while number < blocks {
            let chunks = number / CHUNK_BLOCKS..blocks / CHUNK_BLOCKS;
            if number.is_multiple_of(CHUNK_BLOCKS) && !chunks.is_empty() {
                self.used.free_chunks(chunks.start as usize..chunks.end as usize);
                self.free += (chunks.end - chunks.start) * CHUNK_BLOCKS;
                number = chunks.end * CHUNK_BLOCKS;
                continue;
            }
            let end = word_end(number).min(blocks);
            self.change(place(number).0, |used| used & !bits(number..end));
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
        assert!(self.freed() <= self.free, "a block that was freed is free");
        assert!(self.unswept <= self.blocks, "blocks beyond the end are looked for");
    }

    /// Changes the used bits of a word. Returns those before; a word out of range is used.
    fn change(&mut self, word: usize, change: impl FnOnce(u64) -> u64) -> u64 {
        let before = self.used.word(word);
        let after = change(before);
        if word >= self.used.words() || after == before {
            return before;
        }
        self.used.set(word, after);
        self.free += u64::from(after.count_zeros());
        self.free -= u64::from(before.count_zeros());
        self.freed.remove_in_word(word as u64 * WORD_BLOCKS, after);
        before
    }

    /// Returns whether the PBN was used.
    fn set_free(&mut self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.change(word, |used| used & !bit) & bit != 0
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
        let (word, bit) = place(pbn.number());
        self.change(word, |used| used | bit) & bit == 0
    }

    /// Marks PBNs as used that come in order, those of a word at once.
    pub(crate) fn claim_visited<E>(
        &mut self,
        visit: impl FnOnce(&mut dyn FnMut(Pbn)) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut word, mut bits) = (0, 0);
        let visited = visit(&mut |pbn| {
            let (of, bit) = place(pbn.number());
            if of != word {
                self.change(word, |used| used | bits);
                (word, bits) = (of, 0);
            }
            bits |= bit;
        });
        self.change(word, |used| used | bits);
        visited
    }

    /// Returns whether a PBN is in use or out of range.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn.number());
        self.used.word(word) & bit != 0
    }

    /// Marks the PBN as free.
    pub(crate) fn release(&mut self, pbn: Pbn) {
        assert!(pbn.number() < self.blocks, "a block outside of the store is freed");
        if self.barred.parks(pbn.number()) {
            return;
        }
        let was_used = self.set_free(pbn.number());
        assert!(was_used, "block {} is freed twice", pbn.number());
        self.freed.insert(pbn.number());
    }

    /// Marks PBNs from `first` on as free, whose space the system has back.
    pub(crate) fn release_discarded(&mut self, first: Pbn, count: u32) {
        let mut number = first.number();
        let end = number + u64::from(count);
        while number < end {
            let word = number..word_end(number).min(end);
            let given = bits(word.clone());
            let before = self.change(place(number).0, |used| used & !given);
            assert!(before & given == given, "a block was free while the collector had it");
            number = word.end;
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
            let in_run = self.free_from(first, most.min(WORD_BLOCKS - first % WORD_BLOCKS));
            if in_run == 0 {
                self.run = self.next_run();
                continue;
            }
            let end = first + wanted.min(in_run);
            let given = bits(first..end);
            self.change((first / WORD_BLOCKS) as usize, |used| used | given);
            taken.extend((first..end).filter_map(Pbn::new));
            wanted -= end - first;
            self.run.start = end;
        }
    }

    /// Finds the run to give out next; there is a free PBN.
    fn next_run(&self) -> Range<u64> {
        let from = (self.run.end / WORD_BLOCKS) as usize;
        let found = RUN_BLOCKS.iter().enumerate().find_map(|(level, run_blocks)| {
            let next = |start| self.used.next(level, start);
            next(from).or_else(|| next(0)).map(|word| (word, *run_blocks))
        });
        assert!(found.is_some(), "{} blocks are free, but none is found", self.free);
        let (word, run_blocks) = found.unwrap_or_default();
        let bit = run_starts(self.used.word(word), run_blocks).trailing_zeros();
        let before = u64::from(self.free_before(word, bit));
        let first = word as u64 * WORD_BLOCKS + u64::from(bit) - before;
        first..first + self.free_from(first, MAX_RUN_BLOCKS)
    }

    /// The number of free PBNs in a row right before a bit of a word: in the word, or in the one
    /// before it.
    fn free_before(&self, word: usize, bit: u32) -> u32 {
        match (word.checked_sub(1), bit) {
            (None, 0) => 0,
            (Some(before), 0) => self.used.word(before).leading_zeros(),
            (_, bit) => (self.used.word(word) << (u64::BITS - bit)).leading_zeros().min(bit),
        }
    }

    /// Takes the first run of freed PBNs at or after `from` that has at least `least` of them, at
    /// most `most`. Returns the first and their number. Looks at no more than `LOOKED_AT` words;
    /// returns where to go on, or [`None`] at the end.
    pub(crate) fn take_freed_run(&mut self, from: u64, least: u32, most: u32) -> FoundRun {
        if self.freed() == 0 {
            return (None, None);
        }
        let mut at = from;
        let look_end = self.blocks.min(at + LOOKED_AT * WORD_BLOCKS);
        while at < look_end {
            let next = self.freed.skip_empty_piece(at);
            if next > at {
                at = next;
                continue;
            }
            if at.is_multiple_of(WORD_BLOCKS) && self.freed.word(at) == 0 {
                at += WORD_BLOCKS;
                continue;
            }
            let mut count = 0;
            while count < most && self.freed.has(at + u64::from(count)) {
                count += 1;
            }
            if count >= least.max(1) {
                return self.claim_run(at, count);
            }
            at += u64::from(count.max(1));
        }
        let at = at.min(look_end);
        (None, (at < self.blocks).then_some(at))
    }

    /// Takes the first run of free PBNs at or after `from` that has at least `least` of them, at
    /// most `most`. Looks at no more than `MIXED_LOOKED_AT` words; returns the same as
    /// [`Self::take_freed_run`].
    pub(crate) fn take_free_run(&mut self, from: u64, least: u32, most: u32) -> FoundRun {
        let look_end = self.blocks.min(from + MIXED_LOOKED_AT * WORD_BLOCKS);
        let mut at = from;
        while at < look_end {
            let used = (self.used.word(place(at).0) >> (at % WORD_BLOCKS)).trailing_ones();
            if used > 0 {
                at += u64::from(used).min(WORD_BLOCKS - at % WORD_BLOCKS);
                if at.is_multiple_of(WORD_BLOCKS) {
                    at = self.used.next_with_free(place(at).0, place(look_end).0).max(place(at).0)
                        as u64
                        * WORD_BLOCKS;
                }
                continue;
            }
            let count = self.free_from(at, u64::from(most)) as u32;
            if count >= least.max(1) {
                return self.claim_run(at, count);
            }
            at += u64::from(count.max(1));
        }
        (None, (at < self.blocks).then_some(at))
    }

    /// Marks the PBNs of a run that was found as used.
    fn claim_run(&mut self, first: u64, count: u32) -> FoundRun {
        let (mut number, end) = (first, first + u64::from(count));
        while number < end {
            let word = number..word_end(number).min(end);
            let given = bits(word.clone());
            let before = self.change(place(number).0, |used| used | given);
            assert!(before & given == 0, "the blocks of a free run are free");
            number = word.end;
        }
        (Pbn::new(first).map(|first| (first, count)), Some(end))
    }

    /// The number of free PBNs in a row from this one on, at most `most`.
    fn free_from(&self, first: u64, most: u64) -> u64 {
        let mut count = 0;
        while count < most {
            let (word, at) = ((first + count) / WORD_BLOCKS, (first + count) % WORD_BLOCKS);
            let left = WORD_BLOCKS - at;
            let free = u64::from((self.used.word(word as usize) >> at).trailing_zeros()).min(left);
            count += free;
            if free < left {
                break;
            }
        }
        count.min(most)
    }

    /// Free PBNs that were used before.
    pub(crate) const fn freed(&self) -> u64 {
        self.freed.ones()
    }

    /// Takes the next run of free PBNs of which it is not known whether they were used before, at
    /// most `most` of them. Returns the first and their number; `None` at the end of the store.
    pub(crate) fn take_unswept(&mut self, most: u32) -> Option<(Pbn, u32)> {
        let run = self.free_run_from(self.unswept, most);
        self.unswept = match run {
            Some((first, count)) => first.number() + u64::from(count),
            None => self.blocks,
        };
        self.check();
        run
    }

    fn free_run_from(&mut self, from: u64, most: u32) -> Option<(Pbn, u32)> {
        let word = self.used.next(ANY, place(from).0)?;
        let mut first = from.max(word as u64 * WORD_BLOCKS);
        while Pbn::new(first).is_none_or(|pbn| self.is_used(pbn)) {
            first += 1;
            if first.is_multiple_of(WORD_BLOCKS) {
                first = self.used.next(ANY, place(first).0)? as u64 * WORD_BLOCKS;
            }
        }
        let count = self.free_from(first, u64::from(most)) as u32;
        self.claim_run(first, count).0
    }

    /// The number of free blocks that may have been used before.
    pub(crate) const fn unswept(&self) -> u64 {
        if self.unswept < self.blocks { self.free - self.freed() } else { 0 }
    }
}

/// The run that a search has found, and the PBN where to go on.
type FoundRun = (Option<(Pbn, u32)>, Option<u64>);

/// The word of a PBN, and its bit there.
const fn place(number: u64) -> (usize, u64) {
    ((number / WORD_BLOCKS) as usize, 1 << (number % WORD_BLOCKS))
}

/// The first number after the word of a PBN.
const fn word_end(number: u64) -> u64 {
    (number / WORD_BLOCKS + 1) * WORD_BLOCKS
}

/// A mask of these numbers, which are in one word.
fn bits(numbers: Range<u64>) -> u64 {
    let count = numbers.end - numbers.start;
    debug_assert!(count <= 64 - numbers.start % 64, "in one word");
    if count == 64 { u64::MAX } else { ((1 << count) - 1) << (numbers.start % 64) }
}

#[cfg(test)]
mod tests;
