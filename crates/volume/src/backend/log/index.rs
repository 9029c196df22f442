//! The index: fingerprint to PBN. It holds PBNs alone; the fingerprints are in the records.

use super::records::Records;
use crate::types::{Fingerprint, Pbn};
use hashbrown::HashTable;

/// Tables, chosen by the upper half of the fingerprint. Each grows on its own, so that no write waits until millions of
/// entries have been moved.
const SHARDS: usize = 256;

/// The index of a pool.
pub(super) struct Index {
    shards: Vec<HashTable<u32>>,
}

impl Index {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    const fn shard(fingerprint: Fingerprint) -> usize {
        fingerprint.high() as usize % SHARDS
    }

    /// Makes room for so many entries at once.
    pub(super) fn reserve(&mut self, entries: u64, records: &Records) {
        let each = (entries as usize / SHARDS) * 33 / 32;
        for shard in &mut self.shards {
            shard.reserve(each, |number| hash_of(*number, records));
        }
    }

    #[inline]
    pub(super) fn find(&self, wanted: Fingerprint, records: &Records) -> Option<Pbn> {
        if wanted.is_none() {
            return None;
        }
        let shard = self.shards.get(Self::shard(wanted))?;
        shard.find(wanted.low(), |number| has(*number, wanted, records)).copied().and_then(Pbn::new)
    }

    /// The content is in this PBN from now on. The PBN's record has the fingerprint already.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint, pbn: Pbn, records: &Records) {
        let Some(shard) = self.shards.get_mut(Self::shard(fingerprint)) else { return };
        if fingerprint.is_none() {
            return;
        }
        shard
            .entry(
                fingerprint.low(),
                |number| has(*number, fingerprint, records),
                |number| hash_of(*number, records),
            )
            .and_modify(|number| *number = pbn.number())
            .or_insert(pbn.number());
    }

    /// Forgets the PBN, if it is the one that the index has for its fingerprint.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, pbn: Pbn) {
        if let Some(shard) = self.shards.get_mut(Self::shard(fingerprint))
            && let Ok(entry) = shard.find_entry(fingerprint.low(), |number| *number == pbn.number())
        {
            entry.remove();
        }
    }

    pub(super) fn clear(&mut self) {
        for shard in &mut self.shards {
            shard.clear();
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }

    /// All PBNs in it.
    pub(super) fn pbns(&self) -> impl Iterator<Item = Pbn> {
        self.shards.iter().flat_map(|shard| shard.iter().copied().filter_map(Pbn::new))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.allocation_size() as u64).sum()
    }
}

#[inline]
fn has(number: u32, wanted: Fingerprint, records: &Records) -> bool {
    Pbn::new(number).is_some_and(|pbn| records.fingerprint(pbn) == wanted)
}

#[inline]
fn hash_of(number: u32, records: &Records) -> u64 {
    Pbn::new(number).map_or(0, |pbn| records.fingerprint(pbn).low())
}
