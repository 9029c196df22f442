//! The changes of counts and identities that are not in the pages on disk yet.

use super::by_pbn::ByPbn;
use super::count_pages::CountPages;
use gemelo_format::{Fingerprint, Identity};
use hashbrown::HashTable;

/// Memory of an entry with its share of the tree's nodes, which are two thirds full. Measured.
const COUNT_BYTES: usize = 16;
const IDENTITY_BYTES: usize = 40;

/// New values by key. A key without an entry here has the value of the older layer: the frozen
/// delta, or else the pages.
#[derive(Default)]
pub(super) struct Delta {
    pub(super) counts: ByPbn<u32>,
    pub(super) identities: ByPbn<Identity>,
    /// PBNs by fingerprint. All of them are referenced and have their identity in `identities`.
    index: HashTable<ShortPbn>,
    /// The pages of counts that the changes needed, whether they were on disk or not.
    pub(super) read_counts: CountPages,
}

/// A PBN in 5 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ShortPbn([u8; 5]);

impl ShortPbn {
    const fn of(pbn: u64) -> Self {
        let [b0, b1, b2, b3, b4, ..] = pbn.to_le_bytes();
        Self([b0, b1, b2, b3, b4])
    }

    const fn number(self) -> u64 {
        let Self([b0, b1, b2, b3, b4]) = self;
        u64::from_le_bytes([b0, b1, b2, b3, b4, 0, 0, 0])
    }
}

fn fingerprint_of(identities: &ByPbn<Identity>, pbn: u64) -> Fingerprint {
    identities.get(pbn).copied().unwrap_or(Identity::NONE).fingerprint()
}

impl Delta {
    /// Returns a PBN that has this content, if it was stored since the delta began.
    pub(super) fn find(&self, wanted: Fingerprint) -> Option<u64> {
        let has = |pbn: &ShortPbn| fingerprint_of(&self.identities, pbn.number()) == wanted;
        self.index.find(wanted.low(), has).map(|pbn| pbn.number())
    }

    /// Sets the identity of a PBN, and makes its fingerprint lead to it.
    pub(super) fn set_identity(&mut self, pbn: u64, identity: Identity) {
        self.forget_identity(pbn);
        self.identities.insert(pbn, identity);
        let fingerprint = identity.fingerprint();
        if fingerprint.is_none() {
            return;
        }
        let identities = &self.identities;
        let of = |other: &ShortPbn| fingerprint_of(identities, other.number());
        let has = |other: &ShortPbn| of(other) == fingerprint;
        let hash = |other: &ShortPbn| of(other).low();
        let entry = self.index.entry(fingerprint.low(), has, hash);
        // The index leads to a suspect block only while no other block has the content.
        let pbn = ShortPbn::of(pbn);
        let is_better = |other: &mut ShortPbn| {
            if !identity.is_suspect() {
                *other = pbn;
            }
        };
        entry.and_modify(is_better).or_insert(pbn);
    }

    /// Removes the identity of a PBN that has lost its last reference.
    pub(super) fn forget_identity(&mut self, pbn: u64) {
        if let Some(identity) = self.identities.get(pbn) {
            let hash = identity.fingerprint().low();
            if let Ok(entry) = self.index.find_entry(hash, |other| other.number() == pbn) {
                entry.remove();
            }
            self.identities.remove(pbn);
        }
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
            + self.index.allocation_size()
            + self.read_counts.bytes();
        bytes as u64
    }

    /// Adds the entries of an older delta where this one has none.
    pub(super) fn put_under(&mut self, older: &Self) {
        for (pbn, identity) in older.identities.iter() {
            // A block freed since then has a count of 0 here, and must not get back its
            // fingerprint.
            let is_live = self.counts.get(pbn).is_none_or(|count| *count > 0);
            if is_live && !self.identities.has(pbn) {
                match self.find(identity.fingerprint()) {
                    Some(_) => self.identities.insert(pbn, *identity),
                    None => self.set_identity(pbn, *identity),
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
