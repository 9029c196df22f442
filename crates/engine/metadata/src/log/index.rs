//! The index: fingerprint to PBN. It holds PBNs alone, because the fingerprints are in the records.

use super::records::Records;
use gemelo_base::locks::Mutex;
use gemelo_format::{Fingerprint, Pbn};
use hashbrown::HashTable;

/// Tables, chosen by the upper half of the fingerprint. Each grows on its own, so that no write
/// waits until millions of entries have been moved.
const SHARDS: usize = 256;
/// Shards whose PBNs are gathered in one pass over the records. Takes 3 bytes per block of the pool
/// for each thread.
const SHARDS_AT_ONCE: usize = 64;
/// Below this number of records one thread fills the index faster than several threads start.
const FEW_RECORDS: u64 = 100_000;
/// Most fill threads; the memory budget allows two.
const MAX_FILLERS: usize = 2;

type Shard = HashTable<u32>;

/// The index of a pool.
pub(super) struct HashIndex {
    shards: Vec<Shard>,
}

impl HashIndex {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }

    const fn shard(fingerprint: Fingerprint) -> usize {
        fingerprint.high() as usize % SHARDS
    }

    /// Fills the index anew from the records of all referenced PBNs; `physical` is their number.
    ///
    /// PBNs are gathered by shard first, because a shard stays in the processor's caches while it
    /// is filled, and the whole index does not.
    pub(super) fn fill(&mut self, physical: u64, records: &Records) {
        let each = (physical as usize / SHARDS) * 33 / 32;
        let parts =
            Mutex::new((0..).step_by(SHARDS_AT_ONCE).zip(self.shards.chunks_mut(SHARDS_AT_ONCE)));
        let fill = || {
            loop {
                let Some((first, part)) = parts.lock().next() else { return };
                fill_part(first, part, each, records);
            }
        };
        let fillers = if physical < FEW_RECORDS { 1 } else { MAX_FILLERS };
        let fillers =
            std::thread::available_parallelism().map_or(1, |cores| cores.get().min(fillers));
        std::thread::scope(|scope| {
            for _ in 1..fillers {
                // If no thread starts, this thread fills all parts.
                let _ = std::thread::Builder::new().spawn_scoped(scope, fill);
            }
            fill();
        });
    }

    #[inline]
    pub(super) fn find(&self, wanted: Fingerprint, records: &Records) -> Option<Pbn> {
        if wanted.is_none() {
            return None;
        }
        let shard = self.shards.get(Self::shard(wanted))?;
        shard.find(wanted.low(), |number| has(*number, wanted, records)).copied().and_then(pbn_of)
    }

    /// Makes the fingerprint lead to this PBN. The PBN's record must have the fingerprint already.
    pub(super) fn insert(&mut self, fingerprint: Fingerprint, pbn: Pbn, records: &Records) {
        if !fingerprint.is_none()
            && let Some(shard) = self.shards.get_mut(Self::shard(fingerprint))
        {
            shard
                .entry(
                    fingerprint.low(),
                    |number| has(*number, fingerprint, records),
                    |number| hash_of(*number, records),
                )
                .and_modify(|number| *number = pbn.narrow())
                .or_insert(pbn.narrow());
        }
    }

    /// Removes the entry of a fingerprint, if it leads to this PBN.
    pub(super) fn remove(&mut self, fingerprint: Fingerprint, pbn: Pbn) {
        if let Some(shard) = self.shards.get_mut(Self::shard(fingerprint))
            && let Ok(entry) = shard.find_entry(fingerprint.low(), |number| *number == pbn.narrow())
        {
            entry.remove();
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }

    /// All PBNs in the index.
    pub(super) fn pbns(&self) -> impl Iterator<Item = Pbn> {
        self.shards.iter().flat_map(|shard| shard.iter().copied().filter_map(pbn_of))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.allocation_size() as u64).sum()
    }
}

/// Fills the shards from number `first` on.
fn fill_part(first: usize, part: &mut [Shard], each: usize, records: &Records) {
    for shard in part.iter_mut() {
        shard.clear();
        shard.reserve(each, |number| hash_of(*number, records));
    }
    let mut gathered: Vec<Vec<Gathered>> = part.iter().map(|_| Vec::with_capacity(each)).collect();
    records.visit(&mut |pbn, record| {
        let at = HashIndex::shard(record.fingerprint).checked_sub(first);
        if let Some(pbns) = at.and_then(|at| gathered.get_mut(at))
            && record.references > 0
            && !record.fingerprint.is_none()
        {
            let low = record.fingerprint.low();
            pbns.push(Gathered { low: [low as u32, (low >> 32) as u32], number: pbn.narrow() });
        }
    });
    for (shard, pbns) in part.iter_mut().zip(gathered) {
        for Gathered { low: [low, high], number } in pbns {
            // A content that is stored twice gets two entries, and look-ups find one of them.
            // Checking for an earlier entry would read records all over memory.
            let hash = u64::from(high) << 32 | u64::from(low);
            shard.insert_unique(hash, number, |number| hash_of(*number, records));
        }
    }
}

/// A PBN and its hash, packed in 12 bytes.
struct Gathered {
    low: [u32; 2],
    number: u32,
}

fn pbn_of(number: u32) -> Option<Pbn> {
    Pbn::new(number.into())
}

#[inline]
fn has(number: u32, wanted: Fingerprint, records: &Records) -> bool {
    pbn_of(number).is_some_and(|pbn| records.fingerprint(pbn) == wanted)
}

#[inline]
fn hash_of(number: u32, records: &Records) -> u64 {
    pbn_of(number).map_or(0, |pbn| records.fingerprint(pbn).low())
}
