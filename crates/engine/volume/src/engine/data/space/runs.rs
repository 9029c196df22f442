//! Finds words of a bitmap that have long runs of free bits.

/// Lengths of the runs that are looked for, the longest first. They begin anywhere in a word. In a
/// store of which 70 % is in use and overwritten at random, these lengths give runs half as long
/// again as 64, 16, 4 and 1 at multiples of themselves (2.5 and 1.7 blocks).
pub(super) const RUN_BLOCKS: [u32; 8] = [64, 32, 16, 8, 4, 3, 2, 1];

/// The level of [`RUN_BLOCKS`] of words that have any free bit.
pub(super) const ANY: usize = RUN_BLOCKS.len() - 1;

/// A set of words, with a set of its own words that have members above it.
#[derive(Debug, Default)]
struct WordSet {
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

impl WordSet {
    fn resize(&mut self, words: usize) {
        self.members.resize(words.div_ceil(64), 0);
        self.occupied.resize(self.members.len().div_ceil(64), 0);
    }

    fn set(&mut self, word: usize, is_member: bool) {
        let (at, bit) = (word / 64, 1u64 << (word % 64));
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

    /// Returns the first member at or after `start`.
    fn next(&self, start: usize) -> Option<usize> {
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

/// The words of a bitmap by the free runs that they have.
#[derive(Debug, Default)]
pub(super) struct RunWords {
    levels: [WordSet; RUN_BLOCKS.len()],
}

impl RunWords {
    /// Covers this many words. Words that are added have no free bit.
    pub(super) fn resize(&mut self, words: usize) {
        self.levels.iter_mut().for_each(|level| level.resize(words));
    }

    /// Notes that the used bits of a word have changed.
    pub(super) fn note(&mut self, word: usize, before: u64, after: u64) {
        let (was, is) = (level_of(before), level_of(after));
        // A word with a run has all shorter ones as well.
        for level in was.min(is)..was.max(is) {
            if let Some(words) = self.levels.get_mut(level) {
                words.set(word, is < was);
            }
        }
    }

    /// Returns the first word at or after `start` that has a run of this level.
    pub(super) fn next(&self, level: usize, start: usize) -> Option<usize> {
        self.levels.get(level)?.next(start)
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
fn level_of(used: u64) -> usize {
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
    fn the_next_word_is_found_over_any_distance() {
        let mut words = RunWords::default();
        words.resize(64 * 64 * 3);
        assert_eq!(words.next(ANY, 0), None);
        for word in [0, 63, 64, 5000, 64 * 64 * 3 - 1] {
            words.note(word, u64::MAX, !1);
        }
        let mut found = Vec::new();
        let mut start = 0;
        while let Some(word) = words.next(ANY, start) {
            found.push(word);
            start = word + 1;
        }
        assert_eq!(found, [0, 63, 64, 5000, 64 * 64 * 3 - 1]);
        assert_eq!(words.next(0, 0), None, "no word is free as a whole");
        words.note(5000, !1, 0);
        assert_eq!(words.next(0, 0), Some(5000));
        words.note(5000, 0, u64::MAX);
        assert_eq!((words.next(0, 0), words.next(ANY, 65)), (None, Some(64 * 64 * 3 - 1)));
    }
}
