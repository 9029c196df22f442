//! Segments of memory, of one size, in few allocations.
//!
//! The segments in use are always the first ones: when one is given back, the last one moves there,
//! and what it is of is told. Each would otherwise be an allocation among others, and leave a gap
//! there that something smaller cuts.

/// Words of a segment: 64 KiB.
pub(super) const SEGMENT_WORDS: usize = 8192;
/// Segments of an allocation: 4 MiB, which is a mapping of its own. The system gives it pages when
/// they are first used.
const SEGMENTS_AT_ONCE: usize = 64;

/// What a segment is of: slots of a size, and its place among the segments of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentOf {
    pub(super) units: u16,
    pub(super) place: u32,
}

/// All segments.
pub(super) struct Segments {
    memory: Vec<Box<[u64]>>,
    /// Those in use.
    used: Vec<SegmentOf>,
}

/// The allocation of a segment, and its first word there.
const fn place(segment: u32) -> (usize, usize) {
    let segment = segment as usize;
    (segment / SEGMENTS_AT_ONCE, segment % SEGMENTS_AT_ONCE * SEGMENT_WORDS)
}

impl Segments {
    pub(super) const fn new() -> Self {
        Self { memory: Vec::new(), used: Vec::new() }
    }

    pub(super) fn words(&self, segment: u32) -> &[u64] {
        let (memory, first) = place(segment);
        &self.memory[memory][first..first + SEGMENT_WORDS]
    }

    pub(super) fn words_mut(&mut self, segment: u32) -> &mut [u64] {
        let (memory, first) = place(segment);
        &mut self.memory[memory][first..first + SEGMENT_WORDS]
    }

    /// Takes a segment. Its words have any values.
    pub(super) fn take(&mut self, of: SegmentOf) -> u32 {
        let segment = self.used.len() as u32;
        self.used.push(of);
        if self.memory.len() <= place(segment).0 {
            self.memory.push(vec![0; SEGMENTS_AT_ONCE * SEGMENT_WORDS].into_boxed_slice());
        }
        segment
    }

    /// Gives a segment back. Returns what that segment is of which has its number now, if another
    /// one has moved there.
    #[must_use]
    pub(super) fn give_back(&mut self, segment: u32) -> Option<SegmentOf> {
        let of = self.used.pop();
        let last = self.used.len() as u32;
        assert!(segment <= last, "a segment is given back once");
        let moved = of.filter(|_| segment < last);
        if let Some(of) = moved {
            self.used[segment as usize] = of;
            self.copy((last, 0), (segment, 0), SEGMENT_WORDS);
        }
        // One allocation stays, for a segment that is taken next.
        self.memory.truncate(self.used.len().div_ceil(SEGMENTS_AT_ONCE) + 1);
        moved
    }

    /// Copies words, each place a segment and its first word.
    pub(super) fn copy(&mut self, from: (u32, usize), to: (u32, usize), words: usize) {
        let at = |(segment, first): (u32, usize)| {
            let (memory, of_segment) = place(segment);
            (memory, of_segment + first)
        };
        let ((from, first), (to, to_first)) = (at(from), at(to));
        let range = first..first + words;
        if from == to {
            self.memory[to].copy_within(range, to_first);
            return;
        }
        let both = self.memory.get_disjoint_mut([from, to]);
        assert!(both.is_ok(), "both are there");
        if let Ok([from, to]) = both {
            to[to_first..to_first + words].copy_from_slice(&from[range]);
        }
    }

    /// Bytes of memory that were used.
    pub(super) fn bytes(&self) -> u64 {
        (self.used.len() * (SEGMENT_WORDS * 8 + size_of::<SegmentOf>())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;

    #[test]
    fn they_keep_their_words_when_others_are_given_back_and_no_memory_stays() {
        let (mut segments, mut random) = (Segments::new(), Random::new(1));
        // What each is of, by its number.
        let mut model: Vec<SegmentOf> = Vec::new();
        for round in 0..2000u32 {
            let grows = if round < 1000 { 70 } else { 20 };
            if model.is_empty() || random.below(100) < grows {
                let of = SegmentOf { units: 7, place: round };
                let taken = segments.take(of);
                assert_eq!(taken as usize, model.len());
                segments.words_mut(taken).fill(u64::from(round));
                model.push(of);
            } else {
                let given = random.below(model.len() as u64) as u32;
                let moved = segments.give_back(given);
                model.swap_remove(given as usize);
                assert_eq!(moved, model.get(given as usize).copied());
            }
            assert!(segments.memory.len() <= model.len() / SEGMENTS_AT_ONCE + 2);
        }
        for (number, of) in (0..).zip(&model) {
            assert!(segments.words(number).iter().all(|word| *word == u64::from(of.place)));
        }
        assert!(segments.bytes() < 80_000 * (model.len() as u64 + 1));
    }

    #[test]
    fn words_are_copied_within_an_allocation_and_to_another_one() {
        let mut segments = Segments::new();
        let last = SEGMENTS_AT_ONCE as u32;
        (0..=last).for_each(|place| _ = segments.take(SegmentOf { units: 1, place }));
        let fill = |segments: &mut Segments, segment, first: usize, value: u64| {
            segments.words_mut(segment)[first..first + 8].fill(value);
        };
        for (from, to) in [((0, 8), (0, 64)), ((0, 8), (last, 0)), ((last, 16), (3, 8))] {
            let value = u64::from(from.0 + to.0) + 5;
            fill(&mut segments, from.0, from.1, value);
            segments.copy(from, to, 8);
            let copied = &segments.words(to.0)[to.1..to.1 + 9];
            assert_eq!(copied, [value, value, value, value, value, value, value, value, 0]);
        }
    }
}
