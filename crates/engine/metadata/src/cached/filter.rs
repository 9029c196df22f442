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
}
