//! A store with contents in memory over it, which stand in for those below.

use crate::request::read_below;
use crate::{
    ContentComparison, ContentRead, LentContent, Store, StoreRoom, StoreSetUp, compare_by_reading,
};
use gemelo_format::Pbn;
use std::collections::HashMap;
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
    forward_to!(below: blocks, enlarge, cut, copy_label, write_labels, check_labels, content_of_form, write_forms);
}

impl StoreRoom for OverlaidStore {
    forward_to!(below: discard, min_discard_blocks, reserve, wants_reserve_ahead, reserve_ahead, allocated_bytes);
}

impl Store for OverlaidStore {
    forward_to!(below: block_bytes, write, sync);

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

    fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        compare_by_reading(self, comparisons);
    }
}
