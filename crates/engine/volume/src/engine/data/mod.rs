//! The data path: contents on disk, and which blocks of the data store are free.
//!
//! A block of the data store is owned in one way at a time. It is *free*; *taken* by a write that
//! has not made its change yet, or by the collector; *mapped*, when the metadata refer to it;
//! freed by a change that is not durable yet, which the log keeps; *retired*, when no durable state
//! refers to it and a request may still read it, or maps may still name it; or *held* by the veto
//! of a pool that shares contents with others. [`DataPath`] has the free, the taken, the retired
//! and the held ones. Debug builds check the owner at each step.

mod allocator;
mod content_space;
mod contents;
mod owners;
mod packer;
mod readers;
mod remembered;
mod space;
mod storing;
mod syncing;

use super::health::{Health, Syncs};
use super::locks::{OrderedGuard, OrderedMutex, Rank};
use crate::counters::PoolCounters;
use crate::error::{Result, VolumeError};
pub(crate) use allocator::{Allocator, RunSearch, TakenPbns};
pub(crate) use content_space::ContentSpace;
pub use content_space::LeftBlocks;
pub(crate) use content_space::{CONTENT, MAX_CONTENTS, Rule, Window};
pub(crate) use contents::ContentStore;
use gemelo_format::{DiskRole, Fingerprint, Pbn};
use gemelo_store::{
    BufferStats, ContentCacheStats, ContentComparison, ContentRead, ContentWrite, FreeVeto, Store,
    WriteBuffer,
};
pub(crate) use readers::Pin;
use readers::{Readers, Retired};
pub(crate) use remembered::Remembered;
pub use remembered::RememberedStats;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
pub(crate) use storing::{FormRoom, GoodForm, NewPlace, StoredContents};

/// A file system may take this much for itself.
const SPARE_BYTES: u64 = 256 << 10;
/// A wait for blocks that others are about to give back.
const WAIT: Duration = Duration::from_millis(1);
/// Waits for requests that still read freed blocks: 0.1 s in all. A later round finds blocks that
/// are freed later.
const MAX_RETIRED_WAITS: u32 = 100;
/// Waits for contents of a domain that were asked for.
const MAX_COMING_WAITS: u32 = 1000;

/// The data store of an open pool; see the module.
pub(crate) struct DataPath {
    contents: ContentStore,
    health: Arc<Health>,
    syncs: Syncs,
    /// Which PBNs are free, and who has those that are not mapped.
    pub(crate) allocator: Allocator,
    readers: Readers,
    retired: OrderedMutex<Retired>,
    free_veto: Option<Arc<dyn FreeVeto>>,
    /// `true` while a command makes the store smaller.
    is_shrinking: AtomicBool,
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
    /// Retired blocks that maps may name until the next checkpoint.
    pub(crate) named: u64,
    pub(crate) taken: u64,
    pub(crate) held: u64,
    /// Held blocks that the veto is about to give back.
    pub(crate) due: u64,
}

/// A store that becomes smaller.
pub(crate) struct Shrinking<'d>(&'d AtomicBool);

impl Drop for Shrinking<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl DataPath {
    /// The buffer of the contents shows them to the remembered fingerprints.
    pub(crate) fn new(
        (contents, remembered): (ContentStore, Arc<Remembered>),
        (space, free_veto): (ContentSpace, Option<Arc<dyn FreeVeto>>),
        (health, counters): (Arc<Health>, Arc<PoolCounters>),
    ) -> Self {
        let block_bytes = contents.store().block_bytes();
        Self {
            free_veto,
            contents,
            syncs: Syncs::new(DiskRole::Data, &health),
            allocator: Allocator::new(space, &health),
            readers: Readers::default(),
            retired: OrderedMutex::new(Rank::Retired, &health, Retired::default()),
            is_shrinking: AtomicBool::new(false),
            discarding: OrderedMutex::new(Rank::Discarding, &health, ()),
            health,
            remembered,
            counters,
            block_bytes,
        }
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
        debug_assert!(writes.iter().all(|write| self.allocator.is_used(write.pbn)), "a free block");
        self.store().write(writes);
    }

    /// Writes the content of a damaged block to that block again.
    pub(crate) fn write_again(&self, pbn: Pbn, content: &[u8]) -> io::Result<()> {
        let write = || {
            let mut writes = [ContentWrite::new(pbn, content)];
            self.write(&mut writes);
            let [write] = writes;
            write.outcome
        };
        match &self.free_veto {
            Some(free_veto) if free_veto.is_elsewhere(pbn) => free_veto
                .restore(pbn, &mut || write().and_then(|()| self.sync().map_err(io::Error::other))),
            _ => write(),
        }
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

    /// Notes that the store becomes smaller, until the guard is dropped, unless it does already.
    pub(crate) fn begin_shrinking(&self) -> Result<Shrinking<'_>> {
        match self.is_shrinking.swap(true, Ordering::AcqRel) {
            false => Ok(Shrinking(&self.is_shrinking)),
            true => Err(VolumeError::being_shrunk()),
        }
    }

    /// Fails while the store becomes smaller.
    pub(crate) fn check_may_grow(&self) -> Result<()> {
        match self.is_shrinking.load(Ordering::Acquire) {
            false => Ok(()),
            true => Err(VolumeError::being_shrunk()),
        }
    }

    /// Makes room for this many blocks in the store.
    pub(crate) fn enlarge(&self, data_blocks: u64) -> Result<()> {
        self.store().enlarge(data_blocks).map_err(VolumeError::io(DiskRole::Data, "enlarge"))?;
        self.sync_written()
    }

    /// Makes the blocks usable that [`Self::enlarge`] has added.
    pub(crate) fn grow(&self, data_blocks: u64) {
        self.allocator.grow(data_blocks);
    }

    /// Gives out no block of these any more. Writes that have taken one go on.
    pub(crate) fn bar(&self, blocks: Range<u64>) {
        let _paused = self.discarding.lock();
        self.allocator.bar(blocks);
        self.close_open_blocks();
    }

    /// Gives out barred blocks again, to which nothing on disk refers.
    pub(crate) fn unbar(&self) {
        self.allocator.unbar();
    }

    /// Copies the label of the store to a block that is parked, in place of another one.
    pub(crate) fn move_header(&self, from: Pbn, to: Pbn) -> Result<()> {
        self.store().copy_label(to)?;
        self.allocator.move_fixed(from, to);
        Ok(())
    }

    /// Forgets the blocks from this one on, of which none has a content.
    pub(crate) fn cut(&self, data_blocks: u64) {
        let _paused = self.discarding.lock();
        self.allocator.cut(data_blocks);
    }

    /// Gives the space of parked blocks back to the system.
    pub(crate) fn discard_parked(&self, blocks: &Range<u64>) {
        let mut next = blocks.start;
        while let Some(first) = Pbn::new(next).filter(|_| next < blocks.end) {
            let count = u32::try_from(blocks.end - next).unwrap_or(u32::MAX);
            // Where that fails, they have space until the store is shortened.
            let _ = self.store().discard(first, count);
            next += u64::from(count);
        }
    }

    /// Makes the storage shorter by these blocks, which no durable state names.
    pub(crate) fn cut_store(&self, blocks: Range<u64>) -> Result<()> {
        self.store().cut(blocks).map_err(VolumeError::io(DiskRole::Data, "shorten"))
    }

    /// Keeps every block that is looked up from now on from being written again, until the pin is
    /// dropped.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.readers.pin()
    }

    /// Returns whether contents share blocks.
    pub(crate) const fn has_forms(&self) -> bool {
        self.contents.forms.is_some()
    }

    /// Returns whether new contents are packed.
    pub(crate) const fn is_packed(&self) -> bool {
        self.contents.packing.is_some()
    }

    /// The fingerprints of blocks, which are forgotten when a block is taken.
    pub(crate) fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    /// Retires blocks that no durable state refers to, but that maps may name until the next
    /// checkpoint.
    pub(crate) fn retire_named(&self, pbns: Vec<Pbn>) {
        let mut retired = self.retired.lock();
        pbns.iter().for_each(|pbn| self.allocator.owners.retire(*pbn));
        retired.add_named(pbns);
    }

    /// Lets those of them be free that no map names any more, after a checkpoint.
    pub(crate) fn settle_named(&self, is_named: impl Fn(&Pbn) -> bool) {
        self.retired.lock().settle(is_named);
    }

    /// Retires blocks that no durable state refers to, and frees the retired ones that no request
    /// reads any more.
    pub(crate) fn retire(&self, freed: &mut Vec<Pbn>) {
        let mut retired = self.retired.lock();
        freed.iter().for_each(|pbn| self.allocator.owners.retire(*pbn));
        retired.add(freed);
        if retired.len() == 0 {
            return;
        }
        let (mut unread, before) = (Vec::new(), retired.len());
        retired.collect(&self.readers, |pbn| unread.push(pbn));
        assert_eq!(retired.len() + unread.len(), before, "a retired block is lost");
        let keeps = |pbn| self.free_veto.as_ref().is_some_and(|free_veto| free_veto.keep(pbn));
        // No request reads them, and no writer can have them yet.
        self.allocator.free(unread, keeps, |freed| self.forget_given_up(freed));
    }

    /// Waits for a limited time until it is decided about contents that were asked for.
    pub(crate) fn await_coming_back(&self) {
        for _ in 0..MAX_COMING_WAITS {
            if !self.is_coming_back() {
                return;
            }
            gemelo_base::pause(WAIT);
        }
    }

    /// Waits for a limited time until no request reads freed blocks any more.
    pub(crate) fn await_retired(&self) {
        for _ in 0..MAX_RETIRED_WAITS {
            if self.free_retired() == 0 {
                return;
            }
            gemelo_base::pause(WAIT);
        }
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
    fn is_coming_back(&self) -> bool {
        self.free_veto.as_ref().is_some_and(|free_veto| free_veto.is_coming_back())
    }

    /// Frees the retired blocks that no request reads any more. Returns the number that is left.
    pub(crate) fn free_retired(&self) -> usize {
        self.retire(&mut Vec::new());
        self.retired.lock().len()
    }

    /// Counts blocks that no durable state refers to.
    pub(crate) fn unmapped(&self) -> Unmapped {
        let retired = self.retired.lock();
        let due = || self.free_veto.as_ref().map_or(0, |free_veto| free_veto.due_blocks());
        self.allocator.unmapped((retired.len() as u64, retired.named() as u64), due)
    }

    /// Waits until no free block is being discarded, and lets no discard begin meanwhile.
    pub(crate) fn pause_discards(&self) -> OrderedGuard<'_, ()> {
        self.discarding.lock()
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
        let Some((first, count)) = self.allocator.lock().blocks_mut().take_unswept(most) else {
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
        let (run, next) = self.allocator.lock().blocks_mut().take_freed_run(from, least, most);
        let Some((first, count)) = run else { return Ok((0, next)) };
        self.discard(first, count)?;
        Ok((count, next))
    }

    /// Discards blocks that were taken out of the space, and frees them again.
    fn discard(&self, first: Pbn, count: u32) -> Result<()> {
        let result = self.store().discard(first, count);
        let mut space = self.allocator.lock();
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
