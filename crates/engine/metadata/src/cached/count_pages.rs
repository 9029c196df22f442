//! A set of pages of counts. It tells how many of them a replay of the changes would read.

use gemelo_format::{COUNT_PAGE_PBNS, MANY, Part};

/// Words of a piece of the bitmap.
const PIECE_WORDS: usize = 64;
/// Pages of a piece.
const PIECE_PAGES: u64 = PIECE_WORDS as u64 * u64::BITS as u64;

/// Pages of an array by number: a bitmap in pieces, of which many are absent.
#[derive(Default)]
struct PageSet {
    pieces: Vec<Option<Box<[u64; PIECE_WORDS]>>>,
}

impl PageSet {
    fn piece(&mut self, number: usize) -> &mut [u64; PIECE_WORDS] {
        if number >= self.pieces.len() {
            self.pieces.resize_with(number + 1, || None);
        }
        self.pieces[number].get_or_insert_with(|| Box::new([0; PIECE_WORDS]))
    }

    /// Adds a page. Returns whether it is new.
    fn add(&mut self, page: u64) -> bool {
        let words = self.piece((page / PIECE_PAGES) as usize);
        let (place, bit) = (page % PIECE_PAGES / u64::from(u64::BITS), page % u64::from(u64::BITS));
        let word = &mut words[place as usize];
        let is_new = *word & 1 << bit == 0;
        *word |= 1 << bit;
        is_new
    }

    fn present(&self) -> impl Iterator<Item = (usize, &[u64; PIECE_WORDS])> {
        let all = self.pieces.iter().enumerate();
        all.filter_map(|(number, piece)| Some((number, piece.as_deref()?)))
    }

    fn add_all(&mut self, other: &Self) {
        for (number, more) in other.present() {
            let words = self.piece(number);
            words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
        }
    }

    fn pages(&self) -> u64 {
        let words = self.present().flat_map(|(_, words)| words);
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    fn bytes(&self) -> usize {
        self.pieces.len() * size_of::<usize>()
            + self.present().count() * PIECE_WORDS * size_of::<u64>()
    }
}

/// Pages of counts, as an array of counts has them.
#[derive(Default)]
pub(super) struct CountPages {
    small: PageSet,
    /// Those of the large counts.
    large: PageSet,
    pages: u64,
}

impl CountPages {
    /// Adds the page with the count of a PBN, and that of its large count, if the PBN had as many
    /// references before its change.
    pub(super) fn add(&mut self, pbn: u64, references: u32) {
        self.pages += u64::from(self.small.add(pbn / COUNT_PAGE_PBNS));
        if references >= MANY {
            self.pages += u64::from(self.large.add(pbn / Part::Many.array_entries() as u64));
        }
    }

    /// Adds the pages of another set.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.small.add_all(&other.small);
        self.large.add_all(&other.large);
        self.pages = self.small.pages() + self.large.pages();
    }

    /// The number of pages.
    pub(super) const fn pages(&self) -> u64 {
        self.pages
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.small.bytes() + self.large.bytes()
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
