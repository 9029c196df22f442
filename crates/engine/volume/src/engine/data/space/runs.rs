//! Finds words of a bitmap that have long runs of free bits.

/// Lengths of the runs that are looked for, the longest first. Each begins at a multiple of its
/// length.
pub(super) const RUN_BLOCKS: [u32; 4] = [64, 16, 4, 1];

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
        for (level, run_blocks) in self.levels.iter_mut().zip(RUN_BLOCKS) {
            let has_run = aligned_runs(after, run_blocks) != 0;
            if has_run != (aligned_runs(before, run_blocks) != 0) {
                level.set(word, has_run);
            }
        }
    }

    /// Returns the first word at or after `start` that has a run of this level.
    pub(super) fn next(&self, level: usize, start: usize) -> Option<usize> {
        self.levels.get(level)?.next(start)
    }
}

/// Returns the first bits of the free runs of this length that begin at a multiple of it.
pub(super) const fn aligned_runs(used: u64, run_blocks: u32) -> u64 {
    let free = !used;
    match run_blocks {
        64 => (used == 0) as u64,
        16 => {
            let fours = aligned_runs(used, 4);
            fours & (fours >> 4) & (fours >> 8) & (fours >> 12) & 0x0001_0001_0001_0001
        }
        4 => free & (free >> 1) & (free >> 2) & (free >> 3) & 0x1111_1111_1111_1111,
        _ => free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_where_they_begin_at_a_multiple_of_their_length() {
        assert_eq!(aligned_runs(0, 64), 1);
        assert_eq!(aligned_runs(1, 64), 0);
        assert_eq!(aligned_runs(1, 16), 1 << 16 | 1 << 32 | 1 << 48);
        assert_eq!(aligned_runs(!(0xffff << 8), 16), 0, "not at a multiple");
        assert_eq!(aligned_runs(!(0xffff << 8), 4), 1 << 8 | 1 << 12 | 1 << 16 | 1 << 20);
        assert_eq!(aligned_runs(u64::MAX, 1), 0);
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
