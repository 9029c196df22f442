//! A set of pages of counts. It tells how many of them a replay of the changes would read.

use gemelo_format::Part;

/// Pages of counts, as an array of counts has them.
#[derive(Default)]
pub(super) struct CountPages {
    bits: Vec<u64>,
    pages: u64,
}

impl CountPages {
    /// Adds the page with the count of a PBN.
    pub(super) fn add(&mut self, pbn: u32) {
        let page = pbn as usize / Part::Counts.array_entries();
        let place = page / u64::BITS as usize;
        if place >= self.bits.len() {
            self.bits.resize(place + 1, 0);
        }
        if let Some(word) = self.bits.get_mut(place) {
            let bit = 1 << (page % u64::BITS as usize);
            self.pages += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Adds the pages of another set.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.bits.resize(self.bits.len().max(other.bits.len()), 0);
        self.bits.iter_mut().zip(&other.bits).for_each(|(word, more)| *word |= more);
        self.pages = self.bits.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    /// The number of pages.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory.
    pub(super) const fn bytes(&self) -> usize {
        self.bits.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_counts_once_in_sets_and_their_sum() {
        let entries = Part::Counts.array_entries() as u32;
        let (mut one, mut other) = (CountPages::default(), CountPages::default());
        [0, 1, entries - 1, 64 * entries, u32::MAX].into_iter().for_each(|pbn| one.add(pbn));
        assert_eq!(one.pages(), 3);
        [entries, 64 * entries + 1].into_iter().for_each(|pbn| other.add(pbn));
        other.add_all(&one);
        assert_eq!(other.pages(), 4);
        one.add_all(&other);
        assert_eq!(one.pages(), 4);
    }
}
