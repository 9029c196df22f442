//! A filter that says which LBNs a layer may have. Most look-ups in a layer are of LBNs that it has
//! not, and would walk a tree of a hundred thousand for nothing.

use gemelo_base::random::mix64;

/// The bits of a filter from each number of LBNs on. With more LBNs than the last one it lets more
/// of the others through. The growth at the last one takes a millisecond, and nobody waits longer.
const SIZES: [(usize, usize); 3] = [(1 << 10, 1 << 15), (1 << 13, 1 << 18), (1 << 16, 1 << 22)];

/// A filter of LBNs, one bit each. An empty one lets all through.
#[derive(Debug, Default)]
pub(super) struct LbnFilter {
    words: Vec<u64>,
}

impl LbnFilter {
    /// Adds an LBN to a filter of this many LBNs with it. The filter is made anew of all of them
    /// where it has too few bits.
    pub(super) fn add(&mut self, lbn: u64, lbns: usize, all: impl Iterator<Item = u64>) {
        match SIZES.iter().find(|(from, _)| *from == lbns) {
            Some((_, bits)) if self.words.len() * (u64::BITS as usize) < *bits => {
                self.words = vec![0; bits / u64::BITS as usize];
                all.for_each(|lbn| self.set(lbn));
            }
            _ => self.set(lbn),
        }
    }

    /// Returns `false` if the LBN was never added.
    pub(super) fn may_have(&self, lbn: u64) -> bool {
        let (word, bit) = self.place(lbn);
        self.words.get(word).is_none_or(|word| word & bit != 0)
    }

    fn set(&mut self, lbn: u64) {
        let (word, bit) = self.place(lbn);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// The word of an LBN and its bit there. The number of words is 0 or a power of two.
    const fn place(&self, lbn: u64) -> (usize, u64) {
        let hash = mix64(lbn);
        let mask = self.words.len().saturating_sub(1);
        ((hash >> 6) as usize & mask, 1 << (hash % u64::BITS as u64))
    }
}

/// The leaves that a set knows from each number of LBNs on: two bytes for each LBN at most.
const KNOWN_LEAVES: [(usize, usize); 3] =
    [(1 << 6, 1 << 10), (1 << 10, 1 << 14), (1 << 14, 1 << 18)];

/// The set of the leaves that have LBNs, a bit each. It knows the first leaves of a map, and more
/// of them with more LBNs.
#[derive(Debug, Default)]
pub(super) struct LeafSet {
    words: Vec<u64>,
}

impl LeafSet {
    const fn place(leaf: u64) -> (usize, u64) {
        ((leaf / u64::BITS as u64) as usize, 1 << (leaf % u64::BITS as u64))
    }

    /// Adds a leaf to the set of the leaves of this many LBNs with it. The set is made anew of all
    /// of them where it gets to know more leaves.
    pub(super) fn add(&mut self, leaf: u64, lbns: usize, all: impl Iterator<Item = u64>) {
        match KNOWN_LEAVES.iter().find(|(from, _)| *from == lbns) {
            Some((_, leaves)) if self.words.len() * (u64::BITS as usize) < *leaves => {
                self.words = vec![0; leaves / u64::BITS as usize];
                all.for_each(|leaf| self.set(leaf));
            }
            _ => self.set(leaf),
        }
    }

    fn set(&mut self, leaf: u64) {
        let (word, bit) = Self::place(leaf);
        if let Some(word) = self.words.get_mut(word) {
            *word |= bit;
        }
    }

    /// Removes a leaf, all of whose LBNs go.
    pub(super) fn remove(&mut self, leaf: u64) {
        let (word, bit) = Self::place(leaf);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Returns whether a leaf has LBNs; [`None`] for a leaf that the set does not know.
    pub(super) fn has(&self, leaf: u64) -> Option<bool> {
        let (word, bit) = Self::place(leaf);
        self.words.get(word).map(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_what_was_added_and_little_else() {
        let (mut filter, mut lbns) = (LbnFilter::default(), Vec::new());
        assert!(filter.may_have(7), "an empty one knows nothing");
        for lbn in (0..300_000).map(|number| number * 1000) {
            lbns.push(lbn);
            filter.add(lbn, lbns.len(), lbns.iter().copied());
            if lbns.len().is_power_of_two() && lbns.len() >= SIZES[0].0 {
                assert!(lbns.iter().all(|lbn| filter.may_have(*lbn)), "{} LBNs", lbns.len());
                let others = (0..10_000).filter(|lbn| filter.may_have(lbn * 1000 + 1)).count();
                assert!(others < 2800, "{others} of 10,000 others with {} LBNs", lbns.len());
            }
        }
        assert_eq!(filter.words.len(), SIZES[2].1 / 64);
    }

    #[test]
    fn a_set_of_leaves_is_right_where_it_knows_them_and_takes_two_bytes_an_lbn() {
        let (mut set, mut leaves) = (LeafSet::default(), Vec::new());
        for number in 0..20_000u64 {
            let leaf = mix64(number) % 40_000;
            leaves.push(leaf);
            set.add(leaf, leaves.len(), leaves.iter().copied());
            assert!(set.words.len() * size_of::<u64>() <= 2 * leaves.len());
            if KNOWN_LEAVES.iter().any(|(from, _)| from.abs_diff(leaves.len()) < 2) {
                for leaf in 0..40_000 {
                    assert!(set.has(leaf).is_none_or(|has| has == leaves.contains(&leaf)));
                }
            }
        }
        assert_eq!((set.has(1 << 18), set.has((1 << 18) - 1)), (None, Some(false)));
        let (gone, other) =
            (leaves[0], (0..).find(|leaf| *leaf != leaves[0] && leaves.contains(leaf)));
        set.remove(gone);
        assert_eq!((set.has(gone), set.has(other.unwrap())), (Some(false), Some(true)));
    }
}
