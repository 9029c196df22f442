//! A set of pages of counts. It tells how many of them a replay of the changes would read.

use gemelo_format::Part;
use std::collections::BTreeMap;

/// Words of a piece of the bitmap.
const PIECE_WORDS: usize = 64;
/// Pages of a piece.
const PIECE_PAGES: u64 = PIECE_WORDS as u64 * u64::BITS as u64;

/// Pages of counts, as an array of counts has them: a bitmap in pieces.
#[derive(Default)]
pub(super) struct CountPages {
    pieces: BTreeMap<u64, Box<[u64; PIECE_WORDS]>>,
    pages: u64,
}

impl CountPages {
    /// Adds the page with the count of a PBN.
    pub(super) fn add(&mut self, pbn: u64) {
        let page = pbn / Part::Counts.array_entries() as u64;
        let words = self.pieces.entry(page / PIECE_PAGES);
        let words = words.or_insert_with(|| Box::new([0; PIECE_WORDS]));
        let (place, bit) = (page % PIECE_PAGES / u64::from(u64::BITS), page % u64::from(u64::BITS));
        let word = &mut words[place as usize];
        self.pages += u64::from(*word & 1 << bit == 0);
        *word |= 1 << bit;
    }

    /// Adds the pages of another set.
    pub(super) fn add_all(&mut self, other: &Self) {
        for (piece, more) in &other.pieces {
            let words = self.pieces.entry(*piece).or_insert_with(|| Box::new([0; PIECE_WORDS]));
            words.iter_mut().zip(more.iter()).for_each(|(word, more)| *word |= more);
        }
        let words = self.pieces.values().flat_map(|words| words.iter());
        self.pages = words.map(|word| u64::from(word.count_ones())).sum();
    }

    /// The number of pages.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.len() * PIECE_WORDS * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_counts_once_in_sets_and_their_sum() {
        let entries = Part::Counts.array_entries() as u64;
        let (mut one, mut other) = (CountPages::default(), CountPages::default());
        [0, 1, entries - 1, 64 * entries, 1 << 35].into_iter().for_each(|pbn| one.add(pbn));
        assert_eq!(one.pages(), 3);
        [entries, 64 * entries + 1].into_iter().for_each(|pbn| other.add(pbn));
        other.add_all(&one);
        assert_eq!(other.pages(), 4);
        one.add_all(&other);
        assert_eq!(one.pages(), 4);
    }
}
