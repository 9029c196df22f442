//! A set of pages of counts. It tells how many of them a replay of the changes would read.

use gemelo_format::{COUNT_PAGE_PBNS, MANY, Part};
use std::collections::BTreeMap;

/// Words of a piece of the bitmap.
const PIECE_WORDS: usize = 64;
/// Pages of a piece.
const PIECE_PAGES: u64 = PIECE_WORDS as u64 * u64::BITS as u64;

/// Pages of counts, as an array of counts has them: a bitmap in pieces.
#[derive(Default)]
pub(super) struct CountPages {
    /// By the number of the piece, those of the large counts after the others.
    pieces: BTreeMap<(bool, u64), Box<[u64; PIECE_WORDS]>>,
    pages: u64,
}

impl CountPages {
    /// Adds the page with the count of a PBN, and that of its large count, if the PBN had as many
    /// references before its change.
    pub(super) fn add(&mut self, pbn: u64, references: u32) {
        self.add_page(false, pbn / COUNT_PAGE_PBNS);
        if references >= MANY {
            self.add_page(true, pbn / Part::Many.array_entries() as u64);
        }
    }

    fn add_page(&mut self, is_large: bool, page: u64) {
        let words = self.pieces.entry((is_large, page / PIECE_PAGES));
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
        const OF_PAGE: u64 = COUNT_PAGE_PBNS;
        let (mut one, mut other) = (CountPages::default(), CountPages::default());
        [0, 1, OF_PAGE - 1, 64 * OF_PAGE, 1 << 35].into_iter().for_each(|pbn| one.add(pbn, 1));
        assert_eq!(one.pages(), 3);
        [OF_PAGE, 64 * OF_PAGE + 1].into_iter().for_each(|pbn| other.add(pbn, 2));
        other.add_all(&one);
        assert_eq!(other.pages(), 4);
        one.add_all(&other);
        assert_eq!(one.pages(), 4);
        one.add(1, MANY);
        assert_eq!(one.pages(), 5, "a page of large counts");
        one.add(2, MANY + 1);
        assert_eq!(one.pages(), 5);
    }
}
