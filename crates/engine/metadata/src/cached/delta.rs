//! The changes of counts and identities that are not in the pages on disk yet.

use super::by_pbn::ByPbn;
use super::count_pages::CountPages;
use super::parted::PartedTable;
use gemelo_base::locks::Mutex;
use gemelo_base::random::mix64;
use gemelo_format::{Fingerprint, Identity};
use std::sync::Arc;

/// Memory of an entry in a hash table that is filled to 0.6, its mean from one growth to the next.
const COUNT_BYTES: usize = 15;
const IDENTITY_BYTES: usize = 35;
const INDEX_BYTES: usize = 17;
/// The memory of a delta is kept for another one if a part of it was used, at least one in so many.
const LEAST_USE: u64 = 8;

/// New values by key. A key without an entry here has the value of the older layer: the frozen
/// delta, or else the pages.
#[derive(Default)]
pub(super) struct Delta {
    pub(super) counts: ByPbn<u32>,
    /// Identities as their bytes, which need no alignment.
    identities: ByPbn<[u8; 16]>,
    /// PBNs by fingerprint. All of them are referenced and have their identity in `identities`.
    index: PartedTable<IndexEntry>,
    /// The pages of counts that the changes needed, whether they were on disk or not.
    pub(super) read_counts: CountPages,
}

/// A PBN and a part of its fingerprint, in 9 bytes.
#[derive(Clone, Copy)]
struct IndexEntry {
    pbn: [u8; 5],
    tag: [u8; 4],
}

impl IndexEntry {
    const fn of(pbn: u64, tag: u32) -> Self {
        let [b0, b1, b2, b3, b4, ..] = pbn.to_le_bytes();
        Self { pbn: [b0, b1, b2, b3, b4], tag: tag.to_le_bytes() }
    }

    const fn pbn(self) -> u64 {
        let [b0, b1, b2, b3, b4] = self.pbn;
        u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0])
    }

    const fn tag(self) -> u32 {
        u32::from_le_bytes(self.tag)
    }

    const fn hash(&self) -> u64 {
        hash(self.tag())
    }
}

const fn tag(fingerprint: Fingerprint) -> u32 {
    fingerprint.low() as u32
}

const fn hash(tag: u32) -> u64 {
    mix64(tag as u64)
}

fn identity_of(identities: &ByPbn<[u8; 16]>, pbn: u64) -> Option<Identity> {
    identities.get(pbn).map(|bytes| Identity::from_bytes(*bytes))
}

fn fingerprint_of(identities: &ByPbn<[u8; 16]>, pbn: u64) -> Fingerprint {
    identity_of(identities, pbn).unwrap_or(Identity::NONE).fingerprint()
}

/// The memory of a delta that a checkpoint has written, for a later one. Its tables would grow anew
/// for each checkpoint, and leave gaps in the allocator's memory.
#[derive(Clone, Default)]
pub(super) struct SpareDelta(Arc<Mutex<Option<Delta>>>);

impl SpareDelta {
    /// Returns a delta without changes.
    pub(super) fn take(&self) -> Delta {
        self.0.lock().take().unwrap_or_default()
    }

    /// Keeps the memory of a delta, unless little of it was used: there are fewer changes now.
    pub(super) fn keep(&self, mut delta: Delta) {
        if delta.bytes() >= delta.allocated_bytes() / LEAST_USE {
            delta.clear();
            *self.0.lock() = Some(delta);
        }
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        self.0.lock().as_ref().map_or(0, Delta::allocated_bytes)
    }
}

impl Delta {
    /// The new identity of a PBN.
    pub(super) fn identity(&self, pbn: u64) -> Option<Identity> {
        identity_of(&self.identities, pbn)
    }

    /// Returns whether a PBN has a new identity.
    pub(super) fn has_identity(&self, pbn: u64) -> bool {
        self.identities.has(pbn)
    }

    /// The new identities as their bytes, in the order of their PBNs.
    pub(super) fn sorted_identities(&self) -> Vec<(u64, [u8; 16])> {
        self.identities.sorted()
    }

    /// Returns a PBN that has this content, if it was stored since the delta began.
    pub(super) fn find(&self, wanted: Fingerprint) -> Option<u64> {
        let (identities, tag) = (&self.identities, tag(wanted));
        let has = |entry: &IndexEntry| {
            entry.tag() == tag && fingerprint_of(identities, entry.pbn()) == wanted
        };
        self.index.find(hash(tag), has).map(|entry| entry.pbn())
    }

    /// Sets the identity of a PBN, and makes its fingerprint lead to it.
    pub(super) fn set_identity(&mut self, pbn: u64, identity: Identity) {
        if let Some(known) = self.identities.insert(pbn, identity.to_bytes()) {
            self.forget_content(pbn, Identity::from_bytes(known));
        }
        let fingerprint = identity.fingerprint();
        if fingerprint.is_none() {
            return;
        }
        let (identities, tag) = (&self.identities, tag(fingerprint));
        let has = |entry: &IndexEntry| {
            entry.tag() == tag && fingerprint_of(identities, entry.pbn()) == fingerprint
        };
        let new = IndexEntry::of(pbn, tag);
        match self.index.find_mut(hash(tag), has) {
            // The index leads to a suspect block only while no other block has the content.
            Some(_) if identity.is_suspect() => {}
            Some(known) => *known = new,
            None => self.index.add(hash(tag), new, IndexEntry::hash),
        }
    }

    /// Removes the identity of a PBN that has lost its last reference.
    pub(super) fn forget_identity(&mut self, pbn: u64) {
        if let Some(identity) = self.identity(pbn) {
            self.forget_content(pbn, identity);
            self.identities.remove(pbn);
        }
    }

    /// Has the fingerprint of an identity no longer lead to its PBN.
    fn forget_content(&mut self, pbn: u64, identity: Identity) {
        let hash = hash(tag(identity.fingerprint()));
        self.index.remove(hash, |entry| entry.pbn() == pbn);
    }

    pub(super) fn index_entries(&self) -> u64 {
        self.index.len() as u64
    }

    /// The number of keys whose values change, those of the index and of the used blocks included.
    pub(super) fn entries(&self) -> u64 {
        3 * self.counts.len() as u64 + 2 * self.identities.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.counts.len() * COUNT_BYTES
            + self.identities.len() * IDENTITY_BYTES
            + self.index.len() * INDEX_BYTES
            + self.read_counts.bytes();
        bytes as u64
    }

    /// Bytes of memory of the tables, as full as they are.
    pub(super) fn allocated_bytes(&self) -> u64 {
        let tables = self.counts.allocated_bytes()
            + self.identities.allocated_bytes()
            + self.index.allocated_bytes();
        (tables + self.read_counts.bytes()) as u64
    }

    /// Forgets all changes, and keeps their memory for others.
    fn clear(&mut self) {
        self.counts.clear();
        self.identities.clear();
        self.index.clear();
        self.read_counts = CountPages::default();
    }

    /// Adds the entries of an older delta where this one has none.
    pub(super) fn put_under(&mut self, older: &Self) {
        for (pbn, bytes) in older.identities.iter() {
            let identity = Identity::from_bytes(*bytes);
            // A block freed since then has a count of 0 here, and must not get back its
            // fingerprint.
            let is_live = self.counts.get(pbn).is_none_or(|count| *count > 0);
            if is_live && !self.identities.has(pbn) {
                match self.find(identity.fingerprint()) {
                    Some(_) => _ = self.identities.insert(pbn, *bytes),
                    None => self.set_identity(pbn, identity),
                }
            }
        }
        for (pbn, count) in older.counts.iter() {
            if !self.counts.has(pbn) {
                self.counts.insert(pbn, *count);
            }
        }
        self.read_counts.add_all(&older.read_counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(number: u64) -> Fingerprint {
        Fingerprint::from_bytes(u128::from(mix64(number)).to_le_bytes())
    }

    #[test]
    fn memory_of_an_older_delta_has_none_of_its_changes() {
        let (spare, pbns) = (SpareDelta::default(), 1..1000);
        let mut delta = spare.take();
        for pbn in pbns.clone() {
            delta.set_identity(pbn, Identity::of(fingerprint(pbn)));
            delta.counts.insert(pbn, 2);
            delta.read_counts.add(pbn, 1);
        }
        assert!(pbns.clone().all(|pbn| delta.find(fingerprint(pbn)) == Some(pbn)));
        let bytes = delta.index.allocated_bytes();
        spare.keep(delta);
        let delta = spare.take();
        assert_eq!((delta.bytes(), delta.entries(), delta.index_entries()), (0, 0, 0));
        assert_eq!((delta.read_counts.pages(), delta.index.allocated_bytes()), (0, bytes));
        for pbn in pbns {
            let known = (delta.find(fingerprint(pbn)), delta.identity(pbn), delta.counts.get(pbn));
            assert_eq!(known, (None, None, None));
        }
        assert_eq!(spare.take().index.allocated_bytes(), 0, "the memory is given once");
        let mut delta = delta;
        delta.set_identity(1, Identity::of(fingerprint(1)));
        spare.keep(delta);
        assert_eq!(spare.allocated_bytes(), 0, "little of it was used");
    }
}
