//! The PBNs whose contents have left a cache lately, or were read and did not enter it.

use super::hash;
use gemelo_format::Pbn;

/// Places for each content that is remembered. With more of them, fewer meet at a place, where the
/// newer one takes it.
const PLACES: usize = 2;
/// PBNs that are remembered at most, however large the cache is: 4 MiB of memory.
const MAX_REMEMBERED: usize = 1 << 18;

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    /// The lower half of a PBN's number; 0 for a place that nothing has taken.
    low: u32,
    at: u32,
}

const fn low_of(pbn: Pbn) -> u32 {
    pbn.number() as u32
}

/// The last PBNs that were noted, by their hashes. One may be missing; a cache is as right without
/// it, and only holds less of what is read often.
#[derive(Debug)]
pub(super) struct Ghost {
    /// None before the first PBN is noted, so that a pool that is opened for one command has none.
    marks: Vec<Mark>,
    /// PBNs that were noted. It may wrap around.
    noted: u32,
    most: usize,
}

impl Ghost {
    /// Makes one that remembers the last PBNs, as many as a cache has contents.
    pub(super) fn new(contents: usize) -> Self {
        Self { marks: Vec::new(), noted: 0, most: contents.min(MAX_REMEMBERED) }
    }

    /// Notes a PBN.
    pub(super) fn note(&mut self, pbn: Pbn) {
        if self.marks.is_empty() {
            self.marks = vec![Mark::default(); (self.most * PLACES).next_power_of_two()];
        }
        self.noted = self.noted.wrapping_add(1);
        let mark = Mark { low: low_of(pbn), at: self.noted };
        if let Some(place) = self.place(pbn) {
            *place = mark;
        }
    }

    /// Returns whether a PBN is among the last ones.
    pub(super) fn knows(&mut self, pbn: Pbn) -> bool {
        let (noted, most) = (self.noted, self.most);
        let mark = self.place(pbn).filter(|mark| mark.low == low_of(pbn));
        mark.is_some_and(|mark| (noted.wrapping_sub(mark.at) as usize) < most)
    }

    /// Forgets a PBN.
    pub(super) fn forget(&mut self, pbn: Pbn) {
        if let Some(mark) = self.place(pbn).filter(|mark| mark.low == low_of(pbn)) {
            *mark = Mark::default();
        }
    }

    fn place(&mut self, pbn: Pbn) -> Option<&mut Mark> {
        let last = self.marks.len().checked_sub(1)? as u64;
        // The cast is safe: the place is below the length.
        self.marks.get_mut((hash(pbn) & last) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pbn(number: u64) -> Pbn {
        Pbn::new(number).unwrap()
    }

    #[test]
    fn the_last_ones_are_remembered_and_no_others() {
        let mut ghost = Ghost::new(1000);
        assert!(!ghost.knows(pbn(1)));
        (1..3000).for_each(|number| ghost.note(pbn(number)));
        let found: Vec<u64> = (1..3500).filter(|number| ghost.knows(pbn(*number))).collect();
        assert!(found.iter().all(|number| (2000..3000).contains(number)), "{found:?}");
        assert!(found.len() > 600, "{} of 1000", found.len());
        found.iter().for_each(|number| ghost.forget(pbn(*number)));
        assert!(!(1..3500).any(|number| ghost.knows(pbn(number))));
    }
}
