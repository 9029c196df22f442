//! The store of a pool, with the buffer that a pool has which takes changes.

use super::super::health::Health;
use super::super::locks::{OrderedMutex, Rank};
use gemelo_format::{PackedPlace, Pbn, PoolSeed, StoreKind, Superblock};
use gemelo_store::{
    Codec, ContentCacheStats, PackedStore, Packer, PoolDisks, ReadCache, Store, WriteBuffer,
    block_number,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The store through which contents are read and written.
pub(crate) struct ContentStore {
    store: Arc<dyn Store>,
    /// The buffer over the blocks of the store; [`None`] in a pool that takes no changes.
    pub(super) buffer: Option<Arc<WriteBuffer>>,
    /// Of a packed store.
    pub(super) packing: Option<Packing>,
    /// Contents that a packed store reads elsewhere.
    elsewhere: Option<Arc<ReadCache>>,
}

/// The parts of a packed store that give new contents their places.
pub(super) struct Packing {
    pub(super) packer: OrderedMutex<Packer>,
    pub(super) codec: Codec,
    pub(super) seed: PoolSeed,
}

impl ContentStore {
    /// Takes the store of a pool that takes no changes.
    pub(crate) const fn plain(store: Arc<dyn Store>) -> Self {
        Self { store, buffer: None, packing: None, elsewhere: None }
    }

    /// Takes a buffer over the blocks of the disks' store, and a cache of contents that a packed
    /// store reads elsewhere.
    pub(crate) fn buffered(
        (buffer, elsewhere): (WriteBuffer, Option<Arc<ReadCache>>),
        (disks, superblock): (&PoolDisks, &Superblock),
        health: &Arc<Health>,
    ) -> Self {
        let buffer = Arc::new(buffer);
        let blocks = Arc::clone(&buffer) as Arc<dyn Store>;
        let store = match superblock.store {
            // The veto has its store below the buffer, which then caches what lies elsewhere.
            StoreKind::Plain => blocks,
            StoreKind::Packed(_) => disks.packed_over(blocks, superblock, elsewhere.clone()),
        };
        let (block_bytes, seed) = (superblock.block_bytes as usize, PoolSeed::of(superblock));
        let packing = match superblock.store {
            StoreKind::Plain => None,
            StoreKind::Packed(_) => Some(Packing {
                packer: OrderedMutex::new(Rank::Packer, health, Packer::new(block_bytes, seed)),
                codec: Codec::new(block_bytes),
                seed,
            }),
        };
        Self { store, buffer: Some(buffer), packing, elsewhere }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The buffer, for an opening that fills it.
    pub(crate) fn buffer(&self) -> Option<&WriteBuffer> {
        self.buffer.as_deref()
    }

    /// Figures of the cache of contents; zeros without one.
    pub(super) fn cache_figures(&self) -> ContentCacheStats {
        let own = self.buffer.as_ref().map(|buffer| buffer.cache_figures()).unwrap_or_default();
        let elsewhere = self.elsewhere.as_ref().map(|cache| cache.figures()).unwrap_or_default();
        own + elsewhere
    }

    /// Forgets what the cache has of a content.
    pub(super) fn forget_cached(&self, pbn: Pbn) {
        self.elsewhere.iter().for_each(|cache| cache.forget(pbn));
        let Some(buffer) = &self.buffer else { return };
        if self.packing.is_none() {
            return buffer.forget_cached(std::iter::once(pbn));
        }
        let place = PackedPlace::of(pbn);
        let next = (place.block + 1)..(place.block + 1 + u32::from(place.is_spanning()));
        let blocks = std::iter::once(place.block).chain(next);
        buffer.forget_cached(blocks.filter_map(block_number));
    }

    /// Shows what a commit carries for these contents, if all are in memory. Returns `false`
    /// otherwise, and may have shown some.
    pub(super) fn show(&self, pbns: &[Pbn], mut each: impl FnMut(Pbn, &[u8])) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        if self.packing.is_none() {
            return buffer.show(pbns, each);
        }
        let mut numbers = Vec::new();
        for place in pbns.iter().map(|pbn| PackedPlace::of(*pbn)) {
            numbers.extend(block_number(place.block));
            numbers.extend(block_number(place.block + 1).filter(|_| place.is_spanning()));
        }
        numbers.sort_unstable();
        numbers.dedup();
        let mut blocks: HashMap<u32, Vec<u8>> = HashMap::new();
        let keep = |number: Pbn, bytes: &[u8]| drop(blocks.insert(number.narrow(), bytes.to_vec()));
        if !buffer.show(&numbers, keep) {
            return false;
        }
        pbns.iter().all(|pbn| {
            let place = PackedPlace::of(*pbn);
            let next = blocks.get(&(place.block + 1)).filter(|_| place.is_spanning());
            let block = blocks.get(&place.block);
            let next = next.map(Vec::as_slice);
            // A block that the cache has from the disk may have been damaged there.
            let form = block.and_then(|block| PackedStore::form_in(*pbn, block, next));
            form.map(|form| each(*pbn, &form)).is_some()
        })
    }
}
