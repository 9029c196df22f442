//! Reading pages through the cache, and writing new ones to free slots. A page on disk is never changed.

use super::cache::Cache;
use crate::backend::slots::Slots;
use crate::error::{Result, VolumeError};
use gemelo_disk::{Disk, DiskWrite};
use gemelo_format::{
    ChainPages, DiskRole, Link, NodeRef, PAGE_BYTES, Page, PoolSeed, Slot, build_chain,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages collected before they are written: 1 MiB, past which larger writes are no faster.
const WRITE_PAGES: usize = 256;

/// What the checkpoint under way has done to slots.
#[derive(Default)]
struct Changes {
    /// Not written yet.
    writes: Vec<(Slot, Arc<Page>)>,
    written: u64,
    /// Slots it took.
    taken: Vec<Slot>,
    /// Slots that the state before needs and the one after does not.
    retired: Vec<Slot>,
    /// Slots of checkpoints that failed: they stay taken until one succeeds.
    left: Vec<Slot>,
}

/// See the module.
pub(crate) struct Pages {
    disk: Arc<dyn Disk>,
    journal_pages: u64,
    seed: PoolSeed,
    cache: Cache,
    slots: Mutex<Slots>,
    changes: Mutex<Changes>,
    is_damaged: AtomicBool,
}

impl Pages {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        journal_pages: u64,
        seed: PoolSeed,
        cache_bytes: u64,
    ) -> Self {
        Self {
            disk,
            journal_pages,
            seed,
            cache: Cache::new(cache_bytes),
            slots: Mutex::default(),
            changes: Mutex::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    pub(super) const fn cache(&self) -> &Cache {
        &self.cache
    }

    pub(super) fn in_use(&self) -> u64 {
        self.slots.lock().in_use()
    }

    /// Whether a page was found damaged since the pool was opened.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Says that a page makes no sense.
    pub(super) fn damaged(&self, at: NodeRef) -> VolumeError {
        self.is_damaged.store(true, Ordering::Relaxed);
        VolumeError::damaged(format!("the page in slot {}", at.slot.number()))
    }

    /// A page; an error of the kind `Damaged` if it fails its checksum.
    pub(super) fn read(&self, at: NodeRef) -> Result<Arc<Page>> {
        if let Some(page) = self.cache.get(at) {
            return Ok(page);
        }
        // A page that the checkpoint under way has made and not written yet.
        let waiting = self
            .changes
            .lock()
            .writes
            .iter()
            .find(|(slot, _)| *slot == at.slot)
            .map(|(_, page)| page.clone());
        let page = match waiting {
            Some(page) => page,
            None => self.read_disk(at)?,
        };
        if self.seed.checksum(&*page) != at.checksum {
            return Err(self.damaged(at));
        }
        self.cache.put(at, Arc::clone(&page));
        Ok(page)
    }

    fn read_disk(&self, at: NodeRef) -> Result<Arc<Page>> {
        let mut page = [0; PAGE_BYTES];
        match self.disk.read_at(at.slot.offset(self.journal_pages), &mut page) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.damaged(at))
            }
            other => {
                other.map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
                Ok(Arc::new(page))
            }
        }
    }

    /// A slot is in use; whether it was not before.
    pub(super) fn claim(&self, slot: Slot) -> bool {
        self.slots.lock().claim(slot)
    }

    /// A checkpoint begins.
    pub(super) fn begin(&self) {
        self.slots.lock().rewind();
        self.changes.lock().written = 0;
    }

    fn take(&self) -> Result<Slot> {
        let slot =
            self.slots.lock().take().ok_or_else(|| VolumeError::damaged("all slots are in use"))?;
        self.changes.lock().taken.push(slot);
        Ok(slot)
    }

    /// Puts a new page in a free slot. It may be on disk only after [`Self::flush`].
    pub(super) fn write(&self, page: Box<Page>) -> Result<NodeRef> {
        let at = NodeRef { slot: self.take()?, checksum: self.seed.checksum(&*page) };
        let page: Arc<Page> = Arc::from(page);
        self.cache.put(at, Arc::clone(&page));
        let is_much = {
            let mut changes = self.changes.lock();
            changes.writes.push((at.slot, page));
            changes.writes.len() >= WRITE_PAGES
        };
        if is_much {
            self.flush()?;
        }
        Ok(at)
    }

    /// The state after the checkpoint does not need this slot.
    pub(super) fn retire(&self, slot: Slot) {
        self.changes.lock().retired.push(slot);
    }

    /// Writes what waits, in the order of the slots and neighbours at once. Gives the pages written since the beginning.
    pub(super) fn flush(&self) -> Result<u64> {
        // They stay where readers find them until they are on disk. Nobody adds any meanwhile: one checkpoint at a time.
        let mut writes = self.changes.lock().writes.clone();
        writes.sort_unstable_by_key(|(slot, _)| *slot);
        let mut list: Vec<DiskWrite<'_>> = writes
            .iter()
            .map(|(slot, page)| DiskWrite::new(slot.offset(self.journal_pages), page.as_slice()))
            .collect();
        self.disk.write_all(&mut list).map_err(VolumeError::io(DiskRole::Metadata, "write"))?;
        let mut changes = self.changes.lock();
        changes.writes.clear();
        changes.written += writes.len() as u64;
        Ok(changes.written)
    }

    /// The pages of a table, each with its slot, and where it begins.
    pub(super) fn chain(&self, stream: &[u8]) -> Result<(ChainPages, Link)> {
        build_chain(stream, self.seed, || self.take().ok())
            .ok_or_else(|| VolumeError::damaged("all slots are in use"))
    }

    /// The root is durable: what only the one before needed is free.
    pub(super) fn finish(&self) {
        let mut changes = self.changes.lock();
        let mut slots = self.slots.lock();
        let Changes { taken, retired, left, .. } = &mut *changes;
        taken.clear();
        retired.drain(..).chain(left.drain(..)).for_each(|slot| slots.release(slot));
    }

    /// The checkpoint failed: the state before needs what it did, and the root on disk may be either one.
    pub(super) fn abandon(&self) {
        let mut changes = self.changes.lock();
        let Changes { writes, taken, retired, left, .. } = &mut *changes;
        writes.clear();
        retired.clear();
        left.append(taken);
    }
}
