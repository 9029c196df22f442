//! The data path: contents on disk, and which blocks of the data store are free.
//!
//! A block of the data store is owned in one way at a time. It is *free*; *taken* by a write that
//! has not made its change yet, or by the collector; *mapped*, when the metadata refer to it;
//! freed by a change that is not durable yet, which the log keeps; *retired*, when no durable state
//! refers to it and a request may still read it; or *held* by the veto of a pool that shares
//! contents with others. [`DataPath`] has the free, the taken, the retired and the held ones. Debug
//! builds check the owner at each step.

mod content_space;
mod contents;
mod owners;
mod packing;
mod readers;
mod remembered;
mod reserved;
mod space;
mod syncing;
mod waits;

use super::health::{Health, Syncs};
use super::locks::{OrderedGuard, OrderedMutex, Rank};
use crate::counters::PoolCounters;
use crate::error::{Result, VolumeError};
pub(crate) use content_space::ContentSpace;
pub use content_space::LeftBlocks;
pub(crate) use content_space::{CONTENT, MAX_CONTENTS, Rule, Window};
use content_space::{Runs, Taking};
pub(crate) use contents::ContentStore;
use gemelo_format::{DiskRole, Fingerprint, PackedPlace, Pbn};
use gemelo_store::{
    BufferStats, ContentCacheStats, ContentComparison, ContentRead, ContentWrite, FreeVeto, Store,
    WriteBuffer,
};
use owners::Owners;
pub(crate) use readers::Pin;
use readers::{Readers, Retired};
pub(crate) use remembered::Remembered;
pub use remembered::RememberedStats;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file system may take this much for itself.
const SPARE_BYTES: u64 = 256 << 10;
/// Contents whose blocks are looked at while writers wait for the lock of the space.
const LEFT_AT_ONCE: usize = 1024;

/// The data store of an open pool; see the module.
pub(crate) struct DataPath {
    contents: ContentStore,
    health: Arc<Health>,
    syncs: Syncs,
    space: OrderedMutex<ContentSpace>,
    owners: Owners,
    readers: Readers,
    retired: OrderedMutex<Retired>,
    /// Blocks that writes under way have taken. It grows with the space locked alone, so that the
    /// sum of these and the free blocks is known at one instant.
    taken: AtomicU64,
    free_veto: Option<Arc<dyn FreeVeto>>,
    /// Blocks that the veto holds and nothing refers to. It changes with the space locked.
    held: AtomicU64,
    /// Locked while free blocks are discarded, because they are not in `space` then.
    discarding: OrderedMutex<()>,
    remembered: Arc<Remembered>,
    counters: Arc<PoolCounters>,
    block_bytes: usize,
}

/// Blocks that no durable state refers to, counted at one instant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unmapped {
    /// Free blocks for writers.
    pub(crate) free: u64,
    pub(crate) retired: u64,
    pub(crate) taken: u64,
    pub(crate) held: u64,
    /// Held blocks that the veto is about to give back.
    pub(crate) due: u64,
}

impl DataPath {
    /// The buffer of the contents shows them to the remembered fingerprints.
    pub(crate) fn new(
        (contents, remembered): (ContentStore, Arc<Remembered>),
        (space, free_veto): (ContentSpace, Option<Arc<dyn FreeVeto>>),
        (health, counters): (Arc<Health>, Arc<PoolCounters>),
    ) -> Self {
        let block_bytes = contents.store().block_bytes();
        let data = Self {
            free_veto,
            held: AtomicU64::new(0),
            contents,
            syncs: Syncs::new(DiskRole::Data, &health),
            space: OrderedMutex::new(Rank::Space, &health, space),
            owners: Owners::default(),
            readers: Readers::default(),
            retired: OrderedMutex::new(Rank::Retired, &health, Retired::default()),
            taken: AtomicU64::new(0),
            discarding: OrderedMutex::new(Rank::Discarding, &health, ()),
            health,
            remembered,
            counters,
            block_bytes,
        };
        data.fill_reserve();
        data
    }

    /// Bytes of a content.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Reads contents, or parts of them.
    pub(crate) fn read(&self, reads: &mut [ContentRead<'_>]) {
        self.store().read(reads);
    }

    /// Reads the contents that need not wait for the medium, and starts the others.
    pub(crate) fn read_ready(&self, reads: &mut [ContentRead<'_>]) {
        self.store().read_ready(reads);
    }

    /// Reads contents from the medium, past any cache of the system.
    pub(crate) fn read_medium(&self, reads: &mut [ContentRead<'_>]) {
        self.store().read_medium(reads);
    }

    /// Reads one whole content from the medium, for a second look at it. The caller compares it
    /// with a checksum or a fingerprint.
    pub(crate) fn read_one(&self, pbn: Pbn, content: &mut [u8]) -> io::Result<()> {
        let mut reads = [ContentRead::new(pbn, 0, content).compared()];
        self.read_medium(&mut reads);
        let [read] = reads;
        read.outcome
    }

    /// Writes contents to blocks that are taken, or whose content is damaged.
    pub(crate) fn write(&self, writes: &mut [ContentWrite<'_>]) {
        debug_assert!(writes.iter().all(|write| self.is_used(write.pbn)), "a free block");
        self.store().write(writes);
    }

    /// Compares stored contents with given ones.
    pub(crate) fn compare(&self, comparisons: &mut [ContentComparison<'_>]) {
        self.store().compare(comparisons);
    }

    /// Figures of the write buffer; zeros without one.
    pub(crate) fn buffer_figures(&self) -> BufferStats {
        self.contents.buffer().map(WriteBuffer::figures).unwrap_or_default()
    }

    /// Figures of the cache of contents; zeros without one.
    pub(crate) fn content_cache_figures(&self) -> ContentCacheStats {
        self.contents.cache_figures()
    }

    /// Forgets what the cache has of a content that was found damaged: it may be good on the disk.
    pub(crate) fn forget_cached(&self, pbn: Pbn) {
        self.contents.forget_cached(pbn);
    }

    /// Returns whether writers wait for the disk.
    pub(in crate::engine) fn is_overloaded(&self) -> bool {
        self.contents.buffer().is_some_and(WriteBuffer::is_overloaded)
    }

    fn store(&self) -> &dyn Store {
        self.contents.store()
    }

    /// Makes room for this many blocks in the store.
    pub(crate) fn enlarge(&self, data_blocks: u64) -> Result<()> {
        self.store().enlarge(data_blocks).map_err(VolumeError::io(DiskRole::Data, "enlarge"))?;
        self.sync_written()
    }

    /// Makes the blocks usable that [`Self::enlarge`] has added.
    pub(crate) fn grow(&self, data_blocks: u64) {
        self.space.lock().grow(data_blocks);
        self.fill_reserve();
    }

    /// Keeps every block that is looked up from now on from being written again, until the pin is
    /// dropped.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.readers.pin()
    }

    /// Returns whether the content of a PBN was written when it was taken.
    pub(crate) fn is_written(&self, pbn: Pbn) -> bool {
        self.is_packed() && !PackedPlace::of(pbn).is_whole()
    }

    /// Returns whether contents share blocks.
    pub(crate) const fn is_packed(&self) -> bool {
        self.contents.packing.is_some()
    }

    /// Contents in use, with `reserved` blocks that have none.
    pub(crate) fn contents_in_use(&self, reserved: u64) -> u64 {
        self.space.lock().contents(reserved)
    }

    /// Takes the next run of free blocks at or after `from`, of a length in `lengths`, unless fewer
    /// than `kept` blocks would stay free. Looks at a part of the store only.
    pub(crate) fn take_run(&self, from: u64, lengths: (u32, u32), kept: u64) -> RunSearch<'_> {
        let (least, most) = lengths;
        let mut space = self.space.lock();
        let space = space.blocks_mut();
        if space.free() < kept + u64::from(least) {
            return RunSearch::Full;
        }
        let most = u64::from(most).min(space.free() - kept) as u32;
        let (run, next) = space.take_free_run(from, least, most);
        let Some((first, count)) = run else { return next.map_or(RunSearch::End, RunSearch::GoOn) };
        let numbers = first.number()..first.number() + u64::from(count);
        let pbns: Vec<Pbn> = numbers.filter_map(Pbn::new).collect();
        pbns.iter().for_each(|pbn| self.owners.take(*pbn));
        self.taken.fetch_add(u64::from(count), Ordering::Relaxed);
        self.remembered.forget(&pbns);
        RunSearch::Found(pbns, Taken { all: &self.taken, count: u64::from(count) })
    }

    /// Frees blocks that were taken, and that nothing has ever referred to.
    pub(crate) fn give_back(&self, pbns: Vec<Pbn>) {
        if !pbns.is_empty() {
            let mut space = self.space.lock();
            for pbn in pbns {
                self.owners.give_back(pbn);
                space.release(pbn, |_| ());
            }
        }
    }

    /// The fingerprints of blocks, which are forgotten when a block is taken.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Notes that the metadata refer to a block that was taken.
    pub(crate) fn note_mapped(&self, pbn: Pbn) {
        debug_assert!(self.is_used(pbn), "block {} is free", pbn.number());
        self.owners.map(pbn);
    }

    /// Returns whether the block exists and is not free. Takes a lock, so only assertions call it.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        let space = self.space.lock();
        space.is_within(pbn) && space.is_used(pbn)
    }

    /// Retires blocks that no durable state refers to, and frees the retired ones that no request
    /// reads any more.
    pub(crate) fn retire(&self, freed: &mut Vec<Pbn>) {
        let mut retired = self.retired.lock();
        freed.iter().for_each(|pbn| self.owners.retire(*pbn));
        retired.add(freed);
        if retired.len() == 0 {
            return;
        }
        let (mut unread, before) = (Vec::new(), retired.len());
        retired.collect(&self.readers, |pbn| unread.push(pbn));
        assert_eq!(retired.len() + unread.len(), before, "a retired block is lost");
        let (mut space, mut freed) = (self.space.lock(), Vec::new());
        for pbn in unread {
            if self.free_veto.as_ref().is_some_and(|free_veto| free_veto.keep(pbn)) {
                self.owners.hold(pbn);
                self.held.fetch_add(1, Ordering::Relaxed);
            } else {
                self.owners.free(pbn);
                space.release(pbn, |block| freed.push(block));
            }
        }
        // No request reads them, and no writer can have them yet.
        self.forget_given_up(&freed);
    }

    /// Keeps blocks that nothing refers to, and that the veto holds since the pool was opened.
    pub(crate) fn hold_unused(&self, pbns: &[Pbn]) {
        let mut space = self.space.lock();
        for pbn in pbns {
            let was_free = space.claim(*pbn);
            assert!(was_free, "block {} is held and in use", pbn.number());
            self.owners.hold_unused(*pbn);
        }
        self.held.fetch_add(pbns.len() as u64, Ordering::Relaxed);
    }

    /// Frees blocks that the veto held.
    pub(crate) fn free_held(&self, pbns: &[Pbn]) {
        let mut space = self.space.lock();
        for pbn in pbns {
            self.owners.free_held(*pbn);
            space.release(*pbn, |_| ());
        }
        self.held.fetch_sub(pbns.len() as u64, Ordering::Relaxed);
    }

    /// The contents in use.
    pub(crate) fn used(&self) -> Vec<Pbn> {
        let mut used = Vec::new();
        self.space.lock().each_used(&mut |pbn| used.push(pbn));
        used
    }

    /// Looks for blocks whose space can be given back; see [`ContentSpace::left_blocks`].
    pub(crate) fn left_blocks(
        &self,
        pbns: &[Pbn],
        is_elsewhere: &dyn Fn(&Pbn) -> bool,
    ) -> LeftBlocks {
        let mut left = LeftBlocks::default();
        for some in pbns.chunks(LEFT_AT_ONCE) {
            let LeftBlocks { unused, open } = self.space.lock().left_blocks(some, is_elsewhere);
            left.unused.extend(unused);
            left.open.extend(open);
        }
        left.unused.sort_unstable();
        left.unused.dedup();
        left
    }

    /// Tells the veto of blocks whose contents and fingerprints are durable.
    pub(crate) fn note_identified(&self, pbns: &[Pbn]) {
        if let Some(free_veto) = &self.free_veto
            && !pbns.is_empty()
        {
            free_veto.identified(pbns);
        }
    }

    /// Tells the veto that a content was found damaged, or is good again, and of another block that
    /// may have it.
    pub(crate) fn doubt(&self, pbn: Pbn, copy: Option<Pbn>) {
        self.free_veto.iter().for_each(|free_veto| free_veto.doubt(pbn, copy));
    }

    /// Returns blocks that only others use, with the fingerprints of their contents.
    pub(crate) fn lent(&self, after: Option<Pbn>, most: usize) -> Result<Vec<(Pbn, Fingerprint)>> {
        let lent = self.free_veto.as_ref().map(|free_veto| free_veto.lent(after, most));
        let lent = lent.transpose().map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        Ok(lent.unwrap_or_default())
    }

    /// Returns whether the pool shares contents with others.
    pub(crate) const fn has_free_veto(&self) -> bool {
        self.free_veto.is_some()
    }

    /// Returns whether the block would not become free if it lost its references.
    pub(crate) fn is_kept(&self, pbn: Pbn) -> bool {
        self.free_veto.as_ref().is_some_and(|free_veto| free_veto.is_kept(pbn))
    }

    /// Returns whether a block that is kept may become the pool's own alone.
    pub(crate) fn may_come_back(&self, pbn: Pbn) -> bool {
        self.free_veto.as_ref().is_some_and(|free_veto| free_veto.may_come_back(pbn))
    }

    /// Asks for those of these blocks that may come back. Returns whether there are any.
    pub(crate) fn want_back(&self, pbns: &[Pbn]) -> bool {
        let Some(free_veto) = &self.free_veto else { return false };
        free_veto.want_back(pbns);
        pbns.iter().any(|pbn| free_veto.may_come_back(*pbn))
    }

    /// Returns whether blocks that were asked for are not decided about.
    pub(crate) fn is_coming_back(&self) -> bool {
        self.free_veto.as_ref().is_some_and(|free_veto| free_veto.is_coming_back())
    }

    /// Frees the retired blocks that no request reads any more. Returns the number that is left.
    pub(crate) fn free_retired(&self) -> usize {
        self.retire(&mut Vec::new());
        self.retired.lock().len()
    }

    /// Blocks that can be taken at once.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.space.lock().free_blocks()
    }

    /// Free blocks whose space on disk was used before and was not given back.
    pub(crate) fn undiscarded_blocks(&self) -> u64 {
        self.space.lock().blocks().freed()
    }

    /// Counts blocks that no durable state refers to.
    pub(crate) fn unmapped(&self) -> Unmapped {
        let retired = self.retired.lock();
        let space = self.space.lock();
        let taken = self.taken.load(Ordering::Relaxed);
        let held = self.held.load(Ordering::Relaxed);
        let due = self.free_veto.as_ref().map_or(0, |free_veto| free_veto.due_blocks()).min(held);
        let free = space.blocks().free();
        Unmapped { free, retired: retired.len() as u64, taken, held, due }
    }

    /// Waits until no free block is being discarded, and lets no discard begin meanwhile.
    pub(crate) fn pause_discards(&self) -> OrderedGuard<'_, ()> {
        self.discarding.lock()
    }

    /// Free blocks that may have been used before the pool was opened.
    pub(crate) fn unswept_blocks(&self) -> u64 {
        self.space.lock().blocks().unswept()
    }

    /// Returns whether the store may have space for more blocks than this: free blocks that were
    /// used before the pool was opened, or space that was reserved.
    pub(crate) fn has_space_beyond(&self, used_blocks: u64) -> bool {
        let used_bytes = used_blocks * self.store().block_bytes() as u64;
        self.store().allocated_bytes().is_none_or(|bytes| bytes > used_bytes + SPARE_BYTES)
    }

    /// Gives the space of the next free blocks of which it is not known whether they were used back
    /// to the system, at most `most` at once. Returns their number, or `None` at the end of the
    /// store.
    pub(crate) fn sweep(&self, most: u32) -> Result<Option<u32>> {
        let _discarding = self.discarding.lock();
        let Some((first, count)) = self.space.lock().blocks_mut().take_unswept(most) else {
            return Ok(None);
        };
        self.discard(first, count)?;
        Ok(Some(count))
    }

    /// The fewest blocks in a row that are worth a discard in the background.
    pub(crate) fn min_discard_blocks(&self) -> u32 {
        self.store().min_discard_blocks()
    }

    /// Gives the space of the next free blocks at or after `from` back to the system that were used
    /// since their last discard, in runs of a length in `lengths`. Returns the number of blocks and
    /// where to go on, or `None` at the end of the store.
    pub(crate) fn discard_undiscarded(
        &self,
        from: u64,
        lengths: RangeInclusive<u32>,
    ) -> Result<(u32, Option<u64>)> {
        let (least, most) = (*lengths.start(), *lengths.end());
        let _discarding = self.discarding.lock();
        let (run, next) = self.space.lock().blocks_mut().take_freed_run(from, least, most);
        let Some((first, count)) = run else { return Ok((0, next)) };
        self.discard(first, count)?;
        Ok((count, next))
    }

    /// Discards blocks that were taken out of the space, and frees them again.
    fn discard(&self, first: Pbn, count: u32) -> Result<()> {
        let result = self.store().discard(first, count);
        let mut space = self.space.lock();
        let space = space.blocks_mut();
        if result.is_ok() {
            space.release_discarded(first, count);
        } else {
            let numbers = first.number()..first.number() + u64::from(count);
            numbers.filter_map(Pbn::new).for_each(|pbn| space.release(pbn));
        }
        result.map_err(VolumeError::io(DiskRole::Data, "discard from"))
    }
}

/// The outcome of a search for a run of free blocks.
pub(crate) enum RunSearch<'e> {
    /// The run, whose blocks count as taken until the guard is dropped.
    Found(Vec<Pbn>, Taken<'e>),
    /// There is none in the part that was searched. The search goes on here.
    GoOn(u64),
    /// There is none up to the end of the store.
    End,
    /// Too few blocks are free.
    Full,
}

/// Blocks that a write has taken, until it has made its changes or given them back.
pub(crate) struct Taken<'e> {
    all: &'e AtomicU64,
    count: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.count, Ordering::Relaxed);
    }
}
