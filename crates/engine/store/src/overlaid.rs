//! A store with contents in memory over it, which stand in for those below.

use crate::request::read_below;
use crate::{
    ContentComparison, ContentRead, ContentWrite, LentContent, Store, StoreRoom, StoreSetUp,
    compare_by_reading,
};
use gemelo_format::{FormatError, Pbn};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Contents in memory, by the PBN of the block that they stand for.
pub type Contents = HashMap<Pbn, Vec<u8>>;

/// A store that reads some contents from memory. It is for readers of a pool that nobody writes: a
/// content that is written stays hidden by the one in memory.
pub struct OverlaidStore {
    below: Arc<dyn Store>,
    contents: Arc<Contents>,
}

impl OverlaidStore {
    /// Returns a store that reads these contents from memory, and all others from the store below.
    #[must_use]
    pub fn over(below: Arc<dyn Store>, contents: Arc<Contents>) -> Arc<dyn Store> {
        if contents.is_empty() { below } else { Arc::new(Self { below, contents }) }
    }

    fn read_by(&self, reads: &mut [ContentRead<'_>], below: impl Fn(&mut [ContentRead<'_>])) {
        let mut rest = Vec::with_capacity(reads.len());
        for read in reads.iter_mut() {
            let content = self.contents.get(&read.pbn);
            let end = read.within + read.buffer.len();
            match content.and_then(|content| content.get(read.within..end)) {
                Some(part) => {
                    read.buffer.copy_from_slice(part);
                    read.outcome = Ok(());
                }
                None => rest.push(read),
            }
        }
        read_below(rest, below);
    }
}

impl StoreSetUp for OverlaidStore {
    fn blocks(&self) -> io::Result<u64> {
        self.below.blocks()
    }

    fn enlarge(&self, blocks: u64) -> io::Result<()> {
        self.below.enlarge(blocks)
    }

    fn write_labels(&self) -> Result<(), FormatError> {
        self.below.write_labels()
    }

    fn check_labels(&self) -> Result<Vec<String>, FormatError> {
        self.below.check_labels()
    }

    fn content_of_form(&self, pbn: Pbn, form: &[u8]) -> Option<Vec<u8>> {
        self.below.content_of_form(pbn, form)
    }

    fn write_forms(&self, forms: &[(Pbn, &[u8])]) -> io::Result<Vec<(Pbn, Vec<u8>)>> {
        self.below.write_forms(forms)
    }
}

impl StoreRoom for OverlaidStore {
    fn discard(&self, first: Pbn, count: u32) -> io::Result<()> {
        self.below.discard(first, count)
    }

    fn min_discard_blocks(&self) -> u32 {
        self.below.min_discard_blocks()
    }

    fn reserve(&self, writes: &mut [ContentWrite<'_>]) {
        self.below.reserve(writes);
    }

    fn wants_reserve_ahead(&self) -> bool {
        self.below.wants_reserve_ahead()
    }

    fn reserve_ahead(&self) {
        self.below.reserve_ahead();
    }

    fn allocated_bytes(&self) -> Option<u64> {
        self.below.allocated_bytes()
    }
}

impl Store for OverlaidStore {
    fn block_bytes(&self) -> usize {
        self.below.block_bytes()
    }

    fn read(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read(list));
    }

    fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read_ready(list));
    }

    fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.read_by(reads, |list| self.below.read_medium(list));
    }

    fn lend(&self, _: &[Pbn]) -> Vec<(usize, LentContent)> {
        Vec::new()
    }

    fn write(&self, writes: &mut [ContentWrite<'_>]) {
        self.below.write(writes);
    }

    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}
