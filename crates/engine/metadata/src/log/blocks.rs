//! The blocks of the data store: their records, the references to them, and the index.

use super::index::HashIndex;
use super::pager::Pager;
use super::records::Records;
use gemelo_format::{Fingerprint, Identity, Pbn, WordForm};

/// A saturated reference count, which no longer changes.
pub(super) const FULL_COUNT: u32 = u32::MAX;

/// The blocks of a pool. A leaf that several maps have holds one reference to each of its blocks.
pub(super) struct Blocks {
    pub(super) records: Records,
    pub(super) index: HashIndex,
    /// PBNs that have a reference.
    pub(super) physical: u64,
    /// `false` while the journal is replayed. Counts and the index are computed after the replay.
    pub(super) is_counting: bool,
}

impl Blocks {
    pub(super) fn new() -> Self {
        Self {
            records: Records::default(),
            index: HashIndex::new(),
            physical: 0,
            is_counting: true,
        }
    }

    pub(super) fn identify(&mut self, pager: &mut Pager, pbn: Pbn, fingerprint: Fingerprint) {
        self.records.set_identity(pager, pbn, Identity::of(fingerprint));
        if self.is_counting {
            self.index.insert(fingerprint, pbn, &self.records);
        }
    }

    pub(super) fn add_reference(&mut self, pbn: Pbn) {
        if self.is_counting {
            self.count(pbn);
        }
    }

    /// Counts a reference.
    pub(super) fn count(&mut self, pbn: Pbn) {
        let count = self.records.count_mut(pbn);
        self.physical += u64::from(*count == 0);
        *count = count.saturating_add(1);
    }

    /// Drops the reference of a word of a map, if it is one to a block.
    pub(super) fn drop_word(&mut self, word: u64, freed: &mut Vec<Pbn>) {
        if let (Some(pbn), true) = (WordForm::Narrow.pbn(word), self.is_counting) {
            self.drop_reference(pbn, freed);
        }
    }

    fn drop_reference(&mut self, pbn: Pbn, freed: &mut Vec<Pbn>) {
        let count = self.records.count_mut(pbn);
        if *count == FULL_COUNT {
            // The true number is unknown until the next opening counts all references.
            return;
        }
        assert!(*count > 0, "block {} has a reference to drop", pbn.number());
        *count -= 1;
        if *count == 0 {
            self.physical -= 1;
            self.index.remove(self.records.fingerprint(pbn), pbn);
            freed.push(pbn);
        }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.records.memory_bytes() + self.index.memory_bytes()
    }
}
