//! The store of a pool, in layers from the top:
//!
//! | layer | what passes it |
//! |---|---|
//! | veto, with a cache of its own | contents; those that lie elsewhere are read there |
//! | forms, in a packed pool | contents in blocks |
//! | buffer of writes, and cache | blocks |
//! | disk | blocks |
//!
//! A pool that takes no changes has no buffer.

use super::packer::Packer;
use super::remembered::Remembered;
use crate::engine::health::Health;
use crate::engine::locks::{OrderedMutex, Rank};
use crate::error::{Result, VolumeError};
use crate::pool::Tuning;
use gemelo_base::Clock;
use gemelo_format::{
    DiskRole, Fingerprinter, PackedPlace, Pbn, PoolSeed, StoreKind, Superblock, WHOLE_SLOT,
};
use gemelo_store::{
    BufferOptions, Codec, ContentCacheStats, PackedStore, PoolDisks, ReadCache, Store, WriteBuffer,
    WriteObserver, WrittenContent, block_number,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The store through which contents are read and written.
pub(crate) struct ContentStore {
    store: Arc<dyn Store>,
    /// The buffer over the blocks of the store; [`None`] in a pool that takes no changes.
    pub(super) buffer: Option<Arc<WriteBuffer>>,
    /// The blocks in which a packed store has its forms, and the seed of their checksums.
    pub(super) forms: Option<(Arc<dyn Store>, PoolSeed)>,
    /// Of a packed store that takes changes.
    pub(super) packing: Option<Packing>,
    /// Contents that are read elsewhere.
    elsewhere: Option<Arc<ReadCache>>,
}

/// The parts of a packed store that give new contents their places.
pub(super) struct Packing {
    pub(super) packer: OrderedMutex<Packer>,
    pub(super) codec: Codec,
    pub(super) seed: PoolSeed,
}

impl ContentStore {
    /// Returns the contents of a pool, whose medium is `store`, with the fingerprints that the
    /// buffer takes. A pool that is read only has no buffer.
    pub(crate) fn open(
        (disks, store, data_blocks): (&PoolDisks, Arc<dyn Store>, u64),
        superblock: &Superblock,
        tuning: &Tuning,
        (clock, health): (&Arc<dyn Clock>, &Arc<Health>),
    ) -> Result<(ContentStore, Arc<Remembered>)> {
        let remembered = Arc::new(Remembered::new(
            (tuning.finder.memory_bytes, data_blocks),
            Fingerprinter::new(superblock.fingerprint, superblock.key),
            Arc::clone(clock),
        ));
        if tuning.read_only {
            let forms = match superblock.store {
                StoreKind::Plain => None,
                StoreKind::Packed(_) => Some((disks.blocks(superblock), PoolSeed::of(superblock))),
            };
            let (buffer, packing, elsewhere) = (None, None, None);
            return Ok((Self { store, buffer, forms, packing, elsewhere }, remembered));
        }
        let system = disks.data.system_cache();
        // Contents that are read elsewhere pass no buffer.
        let is_apart = disks.free_veto().is_some();
        let cache_bytes = tuning.content_cache_bytes(system) / if is_apart { 2 } else { 1 };
        let elsewhere = is_apart
            .then(|| Arc::new(ReadCache::new(superblock.block_bytes as usize, cache_bytes)));
        let options = BufferOptions {
            bytes: tuning.write_buffer_bytes,
            cache_bytes,
            caches_reads: !system.keeps_read,
            background: tuning.background,
            threads: tuning.write_threads,
        };
        let observer = match superblock.store {
            StoreKind::Plain => Arc::clone(&remembered) as Arc<dyn WriteObserver>,
            StoreKind::Packed(_) => Arc::new(OfWholeBlocks { observer: Arc::clone(&remembered) }),
        };
        let stopped = Arc::clone(health);
        let told = Arc::new(move |panicked| stopped.stop_by_panic(panicked));
        let blocks = disks.blocks(superblock);
        let buffer = WriteBuffer::new(blocks, options, Arc::clone(clock), Some(observer), told)
            .map_err(VolumeError::io(DiskRole::Data, "start the threads that write to"))?;
        let contents = Self::buffered((buffer, elsewhere), (disks, superblock), health);
        Ok((contents, remembered))
    }

    /// Takes a buffer over the blocks of the disks' store, and a cache of contents that are read
    /// elsewhere.
    fn buffered(
        (buffer, elsewhere): (WriteBuffer, Option<Arc<ReadCache>>),
        (disks, superblock): (&PoolDisks, &Superblock),
        health: &Arc<Health>,
    ) -> Self {
        let buffer = Arc::new(buffer);
        let blocks = Arc::clone(&buffer) as Arc<dyn Store>;
        let store = disks.store_over(blocks, superblock, elsewhere.clone());
        let (block_bytes, seed) = (superblock.block_bytes as usize, PoolSeed::of(superblock));
        let packing = match superblock.store {
            StoreKind::Plain => None,
            StoreKind::Packed(_) => Some(Packing {
                packer: OrderedMutex::new(Rank::Packer, health, Packer::new(block_bytes, seed)),
                codec: Codec::new(block_bytes),
                seed,
            }),
        };
        let blocks = Arc::clone(&buffer) as Arc<dyn Store>;
        let forms = packing.is_some().then_some((blocks, seed));
        Self { store, buffer: Some(buffer), forms, packing, elsewhere }
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

/// Shows contents that fill blocks of a packed store to an observer. The finder reads the others
/// when it needs their fingerprints.
struct OfWholeBlocks {
    observer: Arc<Remembered>,
}

impl WriteObserver for OfWholeBlocks {
    fn wants(&self, contents: usize) -> bool {
        self.observer.wants(contents)
    }

    fn written(&self, contents: &[WrittenContent<'_>]) {
        let pbn_of = |block| PackedPlace { block, slot: WHOLE_SLOT }.pbn();
        let contents: Vec<WrittenContent<'_>> = contents
            .iter()
            .filter_map(|one| Some(WrittenContent { pbn: pbn_of(one.pbn.narrow())?, ..*one }))
            .collect();
        self.observer.written(&contents);
    }

    fn missed(&self, contents: usize) {
        self.observer.missed(contents);
    }
}
