//! Finds words of a bitmap that have long runs of free bits.

use super::used::CHUNK_WORDS;
use std::ops::Range;

/// Lengths of the runs that are looked for, the longest first. They begin anywhere in a word. In a
/// store of which 70 % is in use and overwritten at random, these lengths give runs half as long
/// again as 64, 16, 4 and 1 at multiples of themselves (2.5 and 1.7 blocks).
pub(super) const RUN_BLOCKS: [u32; 8] = [64, 32, 16, 8, 4, 3, 2, 1];

/// The level of [`RUN_BLOCKS`] of words that have any free bit.
pub(super) const ANY: usize = RUN_BLOCKS.len() - 1;

/// A set of chunks, with a set of its own words that have members above it.
#[derive(Debug, Default)]
pub(super) struct ChunkSet {
    members: Vec<u64>,
    occupied: Vec<u64>,
}

/// Returns the first set bit at or after `start` in a bitmap.
fn first_set(bitmap: &[u64], start: usize) -> Option<usize> {
    let first = start / 64;
    let below = (1u64 << (start % 64)) - 1;
    let mut words = bitmap.iter().enumerate().skip(first);
    words.find_map(|(at, bits)| {
        let bits = if at == first { bits & !below } else { *bits };
        (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)
    })
}

impl ChunkSet {
    pub(super) fn resize(&mut self, chunks: usize) {
        self.members.resize(chunks.div_ceil(64), 0);
        self.occupied.resize(self.members.len().div_ceil(64), 0);
    }

    pub(super) fn has(&self, chunk: usize) -> bool {
        self.members.get(chunk / 64).is_some_and(|members| members & 1 << (chunk % 64) != 0)
    }

    pub(super) fn set(&mut self, chunk: usize, is_member: bool) {
        let (at, bit) = (chunk / 64, 1u64 << (chunk % 64));
        let (above, above_bit) = (at / 64, 1u64 << (at % 64));
        let (Some(members), Some(occupied)) =
            (self.members.get_mut(at), self.occupied.get_mut(above))
        else {
            return;
        };
        if is_member {
            *members |= bit;
            *occupied |= above_bit;
        } else {
            *members &= !bit;
            if *members == 0 {
                *occupied &= !above_bit;
            }
        }
    }

    /// Adds chunks.
    pub(super) fn add(&mut self, chunks: Range<usize>) {
        let mut chunk = chunks.start;
        while chunk < chunks.end {
            let end = (chunk / 64 * 64 + 64).min(chunks.end);
            if let Some(members) = self.members.get_mut(chunk / 64) {
                *members |= u64::MAX >> (64 - (end - chunk)) << (chunk % 64);
            }
            self.set(chunk, true);
            chunk = end;
        }
    }

    /// Returns the first member at or after `start`.
    pub(super) fn next(&self, start: usize) -> Option<usize> {
        let at = start / 64;
        let below = (1u64 << (start % 64)) - 1;
        let here = self.members.get(at)? & !below;
        if here != 0 {
            return Some(at * 64 + here.trailing_zeros() as usize);
        }
        let at = first_set(&self.occupied, at + 1)?;
        Some(at * 64 + self.members.get(at)?.trailing_zeros() as usize)
    }
}

/// The words of a chunk by the free runs that they have: a bit for each word and level.
#[derive(Debug)]
pub(super) struct Levels([[u64; CHUNK_WORDS / 64]; RUN_BLOCKS.len()]);

impl Levels {
    /// All words are free as a whole, or none has a free bit.
    pub(super) const fn new(are_free: bool) -> Self {
        let bits = if are_free { u64::MAX } else { 0 };
        Self([[bits; CHUNK_WORDS / 64]; RUN_BLOCKS.len()])
    }

    /// Notes whether a word has a run of this level. Returns whether any word has.
    pub(super) fn set(&mut self, level: usize, word: usize, has_run: bool) -> bool {
        let bit = 1 << (word % 64);
        let words = &mut self.0[level];
        words[word / 64] = if has_run { words[word / 64] | bit } else { words[word / 64] & !bit };
        words.iter().any(|bits| *bits != 0)
    }

    /// Returns the first word at or after `start` that has a run of this level.
    pub(super) fn next(&self, level: usize, start: usize) -> Option<usize> {
        first_set(&self.0[level], start)
    }
}

/// Returns the first bits of the free runs of at least this length, one of [`RUN_BLOCKS`].
pub(super) const fn run_starts(used: u64, run_blocks: u32) -> u64 {
    let free = !used;
    let two = free & (free >> 1);
    let four = two & (two >> 2);
    let eight = four & (four >> 4);
    match run_blocks {
        64 => (used == 0) as u64,
        32 => {
            let sixteen = eight & (eight >> 8);
            sixteen & (sixteen >> 16)
        }
        16 => eight & (eight >> 8),
        8 => eight,
        4 => four,
        3 => two & (free >> 2),
        2 => two,
        _ => free,
    }
}

/// Returns the first level of [`RUN_BLOCKS`] of which the word has a run, or their number.
pub(super) fn level_of(used: u64) -> usize {
    let found = RUN_BLOCKS.iter().position(|run_blocks| run_starts(used, *run_blocks) != 0);
    found.unwrap_or(RUN_BLOCKS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_wherever_they_begin() {
        assert_eq!(run_starts(0, 64), 1);
        assert_eq!(run_starts(1, 64), 0);
        assert_eq!(run_starts(u64::MAX, 1), 0);
        for run_blocks in RUN_BLOCKS.into_iter().filter(|length| *length < 64) {
            for first in [0, 1, 7, 64 - run_blocks] {
                let run = ((1u64 << run_blocks) - 1) << first;
                assert_eq!(run_starts(!run, run_blocks), 1 << first, "{run_blocks} at {first}");
                let shorter = run & (run - 1);
                assert_eq!(run_starts(!shorter, run_blocks), 0, "{run_blocks} at {first}");
            }
        }
        assert_eq!([0, 1, !0b111, !0b11, !1, u64::MAX].map(level_of), [0, 1, 5, 6, 7, 8]);
    }

    #[test]
    fn the_next_chunk_is_found_over_any_distance() {
        let mut chunks = ChunkSet::default();
        chunks.resize(64 * 64 * 3);
        assert_eq!(chunks.next(0), None);
        let members = [0, 63, 64, 5000, 64 * 64 * 3 - 1];
        members.iter().for_each(|chunk| chunks.set(*chunk, true));
        let (mut found, mut start) = (Vec::new(), 0);
        while let Some(chunk) = chunks.next(start) {
            found.push(chunk);
            start = chunk + 1;
        }
        assert_eq!(found, members);
        chunks.set(5000, false);
        chunks.add(70..200);
        assert!((66..210).all(|chunk| chunks.has(chunk) == (70..200).contains(&chunk)));
        assert_eq!((chunks.next(65), chunks.next(200)), (Some(70), Some(64 * 64 * 3 - 1)));
    }
}
