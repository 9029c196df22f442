//! An index in memory as a clean stop leaves it on the disk, so that the next opening leads to
//! every block at once.
//!
//! It is a stream of words in the leaves of an array: the bits of a hash, the sample, the entries
//! and the number of buckets; then each bucket, a word with its entries and the bits of its PBNs,
//! and the words that these take. It is a copy of what the records say, and an entry is a hint that
//! the record of its PBN decides on. So a stream that cannot be read, or that was made for another
//! size of store or sample, is left, and the index is computed from the records.

use super::bucket::{Shape, is_sound};
use super::table::Table;
use crate::cached::array::LeafEdits;
use crate::cached::layer::FANOUT;
use crate::error::Result;
use gemelo_format::{MAX_LEVELS, PAGE_BYTES, Page, Part, WordForm};
use std::sync::Arc;

/// Words of a page.
const PAGE_WORDS: usize = PAGE_BYTES / 8;
/// Words before the buckets.
const HEAD_WORDS: usize = 4;
/// Bits of the number of entries of a bucket; those above are for the bits of a PBN.
const ENTRIES_BITS: u32 = 16;

/// What an index depends on beside the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cached) struct SavedFor {
    pub(super) hash_bits: u32,
    pub(super) sample: u32,
    /// A number above all PBNs.
    pub(super) pbn_end: u64,
}

/// The head of a bucket.
const fn head_of(shape: Shape) -> u64 {
    shape.entries as u64 | (shape.pbn_bits as u64) << ENTRIES_BITS
}

/// Pages that a table takes on the disk, those above the leaves included.
pub(super) fn pages_of(table_bytes: u64) -> u64 {
    let leaves = table_bytes / PAGE_BYTES as u64 + 1;
    leaves + leaves / (FANOUT - 1) + u64::from(MAX_LEVELS)
}

/// Makes the leaves of a table.
pub(super) struct Writer<'t> {
    table: &'t Table,
    /// The leaf that comes next, and the number of leaves.
    next: u64,
    leaves: u64,
    /// Words that are in no leaf yet, and the bucket after them.
    left: Vec<u64>,
    bucket: usize,
}

impl<'t> Writer<'t> {
    pub(super) fn new(table: &'t Table, made_for: SavedFor) -> Self {
        let words = |bucket| 1 + table.shape(bucket).words();
        let words = HEAD_WORDS + (0..table.buckets()).map(words).sum::<usize>();
        let SavedFor { hash_bits, sample, .. } = made_for;
        let buckets = table.buckets() as u64;
        Self {
            table,
            next: 0,
            leaves: words.div_ceil(PAGE_WORDS) as u64,
            left: vec![u64::from(hash_bits), u64::from(sample), table.entries(), buckets],
            bucket: 0,
        }
    }

    pub(super) const fn last(&self) -> u64 {
        self.leaves - 1
    }
}

impl LeafEdits for Writer<'_> {
    fn part(&self) -> Part {
        Part::Saved
    }

    fn next(&mut self) -> Option<u64> {
        (self.next < self.leaves).then_some(self.next)
    }

    /// No leaf was there before.
    fn upcoming(&self, _end: u64) -> Vec<u64> {
        Vec::new()
    }

    fn change(&mut self, _number: u64, _before: Option<Arc<Page>>) -> Result<Option<Arc<Page>>> {
        while self.left.len() < PAGE_WORDS && self.bucket < self.table.buckets() {
            let shape = self.table.shape(self.bucket);
            self.left.push(head_of(shape));
            self.left.extend_from_slice(&self.table.words(self.bucket)[..shape.words()]);
            self.bucket += 1;
        }
        let mut page = [0; PAGE_BYTES];
        let words = self.left.len().min(PAGE_WORDS);
        for (to, word) in page.chunks_exact_mut(8).zip(self.left.drain(..words)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.next += 1;
        // Also a page of zeros, so that none is missing between two others.
        Ok(Some(Arc::new(page)))
    }
}

/// Makes a table of its leaves.
pub(super) struct SavedReader {
    made_for: SavedFor,
    /// Words of the head or of a bucket, until they are complete.
    words: Vec<u64>,
    /// The table, and the bucket whose words come next, with its shape.
    table: Option<Table>,
    bucket: usize,
    shape: Option<Shape>,
}

impl SavedReader {
    pub(super) const fn new(made_for: SavedFor) -> Self {
        Self { made_for, words: Vec::new(), table: None, bucket: 0, shape: None }
    }

    /// Takes the next leaf. Returns `None` if the index is not one for this store.
    pub(super) fn push(&mut self, page: &Page) -> Option<()> {
        let mut page_words = [0; PAGE_WORDS];
        for (word, bytes) in page_words.iter_mut().zip(page.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let mut rest = &page_words[..];
        loop {
            let wanted = match (&self.table, self.shape) {
                (None, _) => HEAD_WORDS,
                (Some(table), None) if self.bucket == table.buckets() => return Some(()),
                (Some(_), None) => 1,
                (Some(_), Some(shape)) => shape.words(),
            };
            let (some, after) = rest.split_at(rest.len().min(wanted - self.words.len()));
            self.words.extend_from_slice(some);
            rest = after;
            if self.words.len() < wanted {
                return Some(());
            }
            self.take()?;
            self.words.clear();
        }
    }

    /// Takes words that are complete.
    fn take(&mut self) -> Option<()> {
        let SavedFor { hash_bits, sample, pbn_end } = self.made_for;
        match (&mut self.table, self.shape.take()) {
            (None, _) => {
                let [bits, of_sample, entries, buckets] = *self.words.first_chunk()?;
                let is_same = (bits, of_sample) == (hash_bits.into(), sample.into());
                let table = Table::of_saved(hash_bits, (entries, buckets), pbn_end);
                self.table = Some(table.filter(|_| is_same)?);
            }
            (Some(table), None) => {
                let head = *self.words.first()?;
                let entries = (head & ((1 << ENTRIES_BITS) - 1)) as usize;
                let pbn_bits = u32::try_from(head >> ENTRIES_BITS).ok()?;
                let shape = Shape { entries, pbn_bits, ..table.shape(self.bucket) };
                if entries == 0 {
                    self.bucket += 1;
                } else {
                    let can_be = (1..=WordForm::Wide.end().ilog2()).contains(&pbn_bits);
                    self.shape = Some(Some(shape).filter(|_| can_be)?);
                }
            }
            (Some(table), Some(shape)) => {
                let is_put = is_sound(&self.words, shape)
                    && table.put_saved(self.bucket, shape, &self.words);
                is_put.then_some(())?;
                self.bucket += 1;
            }
        }
        Some(())
    }

    /// Takes the table, if all of it was there.
    pub(super) fn finish(&mut self) -> Option<Table> {
        self.table.take().filter(|table| table.buckets() == self.bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cached::layout::IndexEdit;
    use gemelo_base::random::{Random, mix64};

    const FOR: SavedFor = SavedFor { hash_bits: 20, sample: 1, pbn_end: 1 << 16 };

    fn edit(pbn: u64, comes: bool) -> IndexEdit {
        IndexEdit { hash: mix64(pbn), pbn, comes }
    }

    fn table() -> Table {
        let mut table = Table::new(FOR.hash_bits);
        (1..20_000).for_each(|pbn| table.edit(&edit(pbn, true)));
        // Some buckets are empty.
        (1..20_000).for_each(|pbn| table.edit(&edit(pbn, pbn % 3 == 0 && mix64(pbn) & 15 > 3)));
        table
    }

    fn leaves(table: &Table) -> Vec<Page> {
        let mut writer = Writer::new(table, FOR);
        let last = writer.last();
        let mut pages = Vec::new();
        while let Some(number) = writer.next() {
            pages.push(*writer.change(number, None).unwrap().unwrap());
        }
        assert_eq!(pages.len() as u64, last + 1);
        assert!(pages.len() as u64 <= pages_of(table.bytes()));
        pages
    }

    fn read(pages: &[Page], made_for: SavedFor) -> Option<Table> {
        let mut reader = SavedReader::new(made_for);
        pages.iter().try_for_each(|page| reader.push(page))?;
        reader.finish()
    }

    fn found(table: &Table, pbn: u64) -> Vec<u64> {
        let mut found = Vec::new();
        table.candidates(mix64(pbn), 100, |pbn| found.push(pbn));
        found
    }

    #[test]
    fn a_table_is_read_as_it_was_written_for_the_same_store_alone() {
        let table = table();
        let pages = leaves(&table);
        let again = read(&pages, FOR).unwrap();
        assert_eq!(again.entries(), table.entries());
        assert!((1..21_000).all(|pbn| found(&again, pbn) == found(&table, pbn)));
        for other in [
            SavedFor { hash_bits: 21, ..FOR },
            SavedFor { sample: 2, ..FOR },
            SavedFor { pbn_end: 1000, ..FOR },
        ] {
            assert!(read(&pages, other).is_none(), "{other:?}");
        }
        assert!(read(&pages[..pages.len() - 1], FOR).is_none(), "a leaf is missing");
        assert_eq!(read(&leaves(&Table::new(20)), FOR).unwrap().entries(), 0);
    }

    /// Whatever the words are, no look-up and no change panics.
    #[test]
    fn a_table_of_any_words_is_refused_or_can_be_used() {
        let good = leaves(&table());
        let mut kept = 0;
        for seed in 0..2000 {
            let (mut pages, mut random) = (good.clone(), Random::new(seed));
            for _ in 0..=random.below(3) {
                let at = random.below(pages.len() as u64) as usize;
                let word = random.below(if seed % 4 == 0 { 8 } else { PAGE_WORDS as u64 }) as usize;
                let bit = random.below(64);
                let value = match seed % 3 {
                    0 => random.below(u64::MAX),
                    1 => random.below(1 << 24),
                    _ => {
                        let bytes = pages[at][word * 8..][..8].try_into().unwrap();
                        u64::from_le_bytes(bytes) ^ 1 << bit
                    }
                };
                pages[at][word * 8..][..8].copy_from_slice(&value.to_le_bytes());
            }
            let Some(mut table) = read(&pages, FOR) else { continue };
            kept += 1;
            for _ in 0..300 {
                let pbn = 1 + random.below(30_000);
                assert!(found(&table, pbn).iter().all(|pbn| *pbn < WordForm::Wide.end()));
                table.edit(&edit(pbn, random.below(2) == 0));
            }
        }
        assert!(kept > 100, "{kept} tables can be used");
    }
}
