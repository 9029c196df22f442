//! A cache of contents by PBN: what was written lately, and what is read often.
//!
//! A content is there once, however many volumes share its block. Its bytes are those that the
//! store below returns for the PBN at that time: who changes them says so by [`ContentCache::keep`]
//! or [`ContentCache::forget`]. A read that began before a change fills nothing after it.
//!
//! Neighbouring PBNs share a [`Shard`], with a lock of its own, under which nothing is copied and
//! nothing is read. A reader copies from a slot without a lock. A slot is used again when no reader
//! has it any more. Memory is made ahead by a thread, from the first use of the cache on, because
//! the system may take long to give a fresh page.
//!
//! Reads do not fill the cache if the system keeps what was read in memory anyway: a second copy
//! would cost time and save none. Elsewhere, readers that miss a content at the same time wait for
//! the first of them, which reads it for all.

mod fill;
mod ghost;
mod memory;
mod parts;
mod reads;
mod shard;
mod stats;
#[cfg(test)]
mod tests;

pub use reads::ReadCache;
pub use stats::ContentCacheStats;

use crate::memory::{Memory, Slot};
pub(crate) use fill::{Purpose, copy_all};
use gemelo_base::random::mix_pair;
use gemelo_format::Pbn;
use memory::CacheMemory;
use parts::{Locking, Part};
use shard::Shard;
use stats::CacheCounts;
use std::ops::Range;

/// Neighbouring PBNs whose contents share a lock: 1 << 6 of them.
const NEIGHBOURS_SHIFT: u32 = 6;
/// Most parts of a cache: threads that read at the same time seldom meet at a lock.
const MAX_SHARDS: usize = 16;
/// A part has this many contents at least, so that its queues are as good as those of the whole.
const MIN_SHARD_CONTENTS: usize = 1024;

/// The hash of a PBN in tables.
pub(crate) fn hash(pbn: Pbn) -> u64 {
    mix_pair(pbn.number(), 0)
}

/// A cache of contents; see the module.
#[derive(Debug)]
pub(crate) struct ContentCache {
    /// None for a cache without memory, which holds nothing.
    parts: Vec<Part>,
    memory: CacheMemory,
    block_bytes: usize,
    capacity: usize,
    /// `true` if it is filled with what is read.
    takes_reads: bool,
    counts: CacheCounts,
}

impl ContentCache {
    /// Makes a cache of at most this many bytes. With `takes_reads`, it is filled with what is read
    /// and not only with what is written. With `has_thread`, a thread calls
    /// [`Self::make_memory`].
    pub(crate) fn new(
        block_bytes: usize,
        (bytes, takes_reads): (u64, bool),
        has_thread: bool,
    ) -> Self {
        assert!(block_bytes > 0, "contents without bytes");
        let slots = usize::try_from(bytes).unwrap_or(usize::MAX) / block_bytes;
        let shards = (slots / MIN_SHARD_CONTENTS).clamp(usize::from(slots > 0), MAX_SHARDS);
        let of_each = slots.checked_div(shards).unwrap_or(0);
        let capacity = of_each * shards;
        Self {
            parts: (0..shards).map(|_| Part::new(Shard::new(of_each))).collect(),
            memory: CacheMemory::new(Memory::new(block_bytes, capacity), has_thread),
            block_bytes,
            capacity,
            takes_reads,
            counts: CacheCounts::default(),
        }
    }

    /// Returns whether it holds nothing, ever.
    pub(crate) const fn is_off(&self) -> bool {
        self.parts.is_empty()
    }

    /// Makes the memory ahead of need, until all is there or [`Self::end`] is called.
    pub(crate) fn make_memory(&self) {
        self.memory.make();
    }

    /// Ends the thread that makes memory.
    pub(crate) fn end(&self) {
        self.memory.end();
    }

    /// Returns the figures of the cache.
    pub(crate) fn figures(&self) -> ContentCacheStats {
        let bytes = |contents: usize| (contents * self.block_bytes) as u64;
        self.counts.figures(bytes(self.capacity), bytes(self.contents()))
    }

    /// Returns the number of contents.
    fn contents(&self) -> usize {
        self.parts.iter().map(Part::contents).sum()
    }

    /// CacheCounts contents that readers found, and did not find in memory.
    pub(crate) fn count(&self, hits: usize, misses: usize) {
        if !self.is_off() {
            self.counts.add(hits, misses);
        }
    }

    /// CacheCounts contents that readers waited for.
    pub(crate) fn count_awaited(&self, hits: usize, misses: usize) {
        self.counts.add_awaited(hits);
        self.counts.add(hits, misses);
    }

    fn part(&self, pbn: Pbn) -> Option<&Part> {
        let group = (pbn.number() >> NEIGHBOURS_SHIFT) as usize;
        self.parts.get(group.checked_rem(self.parts.len())?)
    }

    const fn locking(&self) -> Locking<'_> {
        Locking::new(self)
    }

    /// Returns the content of a PBN.
    pub(crate) fn find(&self, pbn: Pbn) -> Option<Slot> {
        self.locking().shard(pbn)?.find(pbn)
    }

    /// Returns those of these contents that are there, each with its place in a list.
    pub(crate) fn find_all<'p>(
        &self,
        pbns: impl Iterator<Item = (usize, &'p Pbn)>,
    ) -> Vec<(usize, Slot)> {
        let mut locking = self.locking();
        pbns.filter_map(|(at, pbn)| Some((at, locking.shard(*pbn)?.find(*pbn)?))).collect()
    }

    /// Takes contents that were written to the disk, the newest ones of their PBNs, in their slots.
    /// Calls `given` with as many slots in exchange. Other readers may have some of them.
    pub(crate) fn keep(
        &self,
        contents: impl Iterator<Item = (Pbn, Slot)>,
        mut given: impl FnMut(Slot),
    ) {
        let mut locking = self.locking();
        for (pbn, slot) in contents {
            assert_eq!(slot.len(), self.block_bytes, "a whole content is kept");
            given(match locking.shard(pbn) {
                Some(shard) => shard.keep(pbn, slot, &self.memory),
                None => slot,
            });
        }
    }

    /// Forgets the contents of PBNs with these numbers, which have changed on the disk.
    pub(crate) fn forget(&self, numbers: Range<u64>) {
        if self.is_off() {
            return;
        }
        // The shorter one of the range and the table is searched. Few numbers are searched for in
        // any case, because that takes one lock.
        let count = numbers.end - numbers.start;
        if count <= 1 << NEIGHBOURS_SHIFT || count <= self.contents() as u64 {
            let mut locking = self.locking();
            for pbn in numbers.filter_map(Pbn::new) {
                locking.shard(pbn).into_iter().for_each(|shard| shard.forget(pbn));
            }
            return;
        }
        for mut shard in self.parts.iter().filter_map(Part::lock) {
            shard.note_changes();
            let pbns: Vec<Pbn> =
                shard.pbns().filter(|pbn| numbers.contains(&pbn.number())).collect();
            pbns.into_iter().for_each(|pbn| shard.forget(pbn));
        }
    }
}
