//! Reads pages through the cache, and writes new pages to free slots. A page on disk is never
//! changed in place.

use super::cache::{Cache, Width};
use super::held;
use crate::error::{MetadataError, Result};
use crate::slot_owners::SlotOwners;
use crate::slots::Slots;
use crate::{BackendContext, FoundDamage};
use gemelo_base::locks::Mutex;
use gemelo_disk::{Disk, DiskRead, DiskWrite};
use gemelo_format::{
    COPIES, Chain, DiskRole, FormatError, NodeRef, PAGE_BYTES, Page, PoolSeed, Reading, Regions,
    Slot, build_chain, read_slot,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SendError, SyncSender, sync_channel};

/// Pages collected before they are written: 1 MiB. Larger writes are no faster.
const WRITE_PAGES: usize = 256;
/// The share of the cache that one list of reads may fill, so that its pages are still there when
/// they are looked at.
const FETCH_SHARE: usize = 8;

/// Arrays keep their leaves while at most this share of the cache's pages is in use.
const TABLE_SHARE: u64 = 2;

/// Lists of new pages that wait for the thread that writes them; then those who make them wait.
const MAX_WAITING_LISTS: usize = 2;

/// Pages with their slots.
type NewPages = Vec<(Slot, Arc<Page>)>;

/// Slots and pages that the checkpoint under way has changed.
#[derive(Default)]
struct Changes {
    /// Pages that nobody writes yet.
    waiting: NewPages,
    /// These, and those that threads are writing. Readers find them here until they are on disk.
    unwritten: HashMap<Slot, Arc<Page>>,
    written: u64,
    /// Slots that the checkpoint has taken.
    taken: Vec<Slot>,
    /// Slots that the state before the checkpoint needs and the state after it does not.
    retired: Vec<Slot>,
}

/// Pages of a pool that is salvaged.
#[derive(Default)]
struct Salvaged {
    /// Pages with one good copy.
    halved: Vec<NodeRef>,
    /// Pages without a good copy. They are read as empty ones until a checkpoint has replaced them.
    lost: HashSet<NodeRef>,
}

/// The pages of a metadata disk, with their cache.
pub(crate) struct Pages {
    disk: Arc<dyn Disk>,
    regions: Regions,
    seed: PoolSeed,
    cache: Cache,
    /// `true` while the pages in use fit the cache well.
    fit: AtomicBool,
    /// Bytes of the tables of arrays, without their leaves, which the cache has.
    table_bytes: Arc<AtomicU64>,
    slots: Mutex<Slots>,
    owners: SlotOwners,
    changes: Mutex<Changes>,
    /// The thread that writes new pages, while there is one.
    writer: Mutex<Option<SyncSender<NewPages>>>,
    damage: FoundDamage,
    /// Pages that were read from their second copies.
    damaged_copies: AtomicU64,
    /// `true` while both copies of each page are read.
    reads_both: AtomicBool,
    salvaged: Mutex<Salvaged>,
}

impl Pages {
    pub(super) fn new(home: &BackendContext<'_>, seed: PoolSeed, cache_bytes: u64) -> Self {
        home.disk.expect_scattered_reads();
        Self {
            disk: Arc::clone(&home.disk),
            regions: home.superblock.regions(),
            seed,
            cache: Cache::new(cache_bytes),
            fit: AtomicBool::new(true),
            table_bytes: Arc::default(),
            slots: Mutex::default(),
            owners: SlotOwners::default(),
            changes: Mutex::default(),
            writer: Mutex::default(),
            damage: home.damage.clone(),
            damaged_copies: AtomicU64::new(0),
            reads_both: AtomicBool::new(false),
            salvaged: Mutex::default(),
        }
    }

    pub(super) const fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The bytes of the tables of arrays, which these count.
    pub(super) const fn table_bytes(&self) -> &Arc<AtomicU64> {
        &self.table_bytes
    }

    /// Bytes of the pages in memory, and of what leads to them.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.cache.memory_bytes() + self.table_bytes.load(Ordering::Relaxed)
    }

    /// Notes that the first slots have their space on the disk.
    pub(super) fn note_allocated(&self, slots: u64) {
        self.slots.lock().note_allocated(slots);
    }

    /// Returns whether arrays may keep their leaves in tables. These are pages that the cache has
    /// as well, or had: at most as many more as half of those that it may have.
    pub(super) fn fit(&self) -> bool {
        self.fit.load(Ordering::Relaxed)
    }

    /// Notes whether the pages of the last checkpoint fit the cache.
    pub(super) fn note_fit(&self) {
        let most = self.cache.max_pages() as u64 / TABLE_SHARE;
        self.fit.store(self.in_use() <= most, Ordering::Relaxed);
    }

    /// Lets the cache have more bytes.
    pub(super) fn grow_cache(&self, bytes: u64) {
        self.cache.grow(bytes);
        self.note_fit();
    }

    pub(super) fn in_use(&self) -> u64 {
        self.slots.lock().in_use()
    }

    /// Returns whether any page was found damaged since the pool was opened.
    pub(super) fn is_damaged(&self) -> bool {
        self.damage.is_found()
    }

    /// Returns the number of pages that were read from their second copies so far.
    pub(super) fn damaged_copies(&self) -> u64 {
        self.damaged_copies.load(Ordering::Relaxed)
    }

    /// Notes that a page is malformed, and returns the error for it.
    pub(super) fn damaged(&self, at: NodeRef) -> MetadataError {
        let what = format!("the page in slot {}", at.slot.number());
        self.damage.note(&what);
        MetadataError::damaged(what)
    }

    /// A page that this thread holds or the cache has.
    pub(super) fn in_memory(&self, at: NodeRef, width: Width) -> Option<Arc<Page>> {
        // A list of look-ups needs some pages many times, and the cache is locked once for each.
        held::get_or_keep(at, || self.cache.get(at, width))
    }

    /// Reads a page. Fails with the kind `Damaged` if the page does not match its checksum.
    pub(super) fn read(&self, at: NodeRef, width: Width) -> Result<Arc<Page>> {
        if let Some(page) = self.in_memory(at, width) {
            return Ok(page);
        }
        // The page may be one that the checkpoint under way has made and not written yet.
        let unwritten = self.changes.lock().unwritten.get(&at.slot).map(Arc::clone);
        let page = match unwritten {
            Some(page) => page,
            None if self.salvaged.lock().lost.contains(&at) => {
                return Ok(Arc::new([0; PAGE_BYTES]));
            }
            None => {
                held::refuse(at)?;
                self.cache.count_misses(1);
                self.read_disk(at)?
            }
        };
        assert!(
            self.seed.checksum(&*page) == at.checksum,
            "the page in slot {} is the one that was made for it",
            at.slot.number()
        );
        held::keep(at, &page);
        self.cache.put(at, width, Arc::clone(&page));
        Ok(page)
    }

    /// A page that nobody else has, to be changed: a copy of this one, if others have it.
    pub(super) fn own_or_empty(&self, page: Option<Arc<Page>>) -> Arc<Page> {
        page.map_or_else(|| Arc::new([0; PAGE_BYTES]), |page| self.cache.own(page))
    }

    /// Returns whether the cache has a page, or this thread holds it.
    pub(super) fn has(&self, at: NodeRef) -> bool {
        held::has(at) || self.cache.has(at)
    }

    /// The most pages that one list of reads brings into the cache.
    pub(super) fn max_fetched(&self) -> usize {
        self.cache.max_pages() / FETCH_SHARE
    }

    /// Brings pages into the cache, those that are missing in one list of reads. A page that cannot
    /// be read is left to [`Self::read`], and so are those for which the cache is too small.
    pub(super) fn fetch(&self, mut wanted: Vec<NodeRef>) {
        wanted.sort_unstable_by_key(|at| at.slot);
        wanted.dedup();
        wanted.retain(|at| !self.has(*at));
        wanted.truncate(self.max_fetched().max(held::room()));
        if held::is_noting() {
            let changes = self.changes.lock();
            wanted.retain(|at| !changes.unwritten.contains_key(&at.slot));
            return held::note(wanted);
        }
        self.cache.count_misses(wanted.len());
        for (at, page) in wanted.iter().zip(self.read_ahead(&wanted)) {
            if let Some(page) = page {
                held::keep(*at, &page);
                self.cache.put(*at, Width::Narrow, page);
            }
        }
    }

    /// Reads pages that the cache has not, in one list, and leaves them out of it. A page that
    /// cannot be read is left to [`Self::read`], and so are those for which a cache is too small.
    pub(super) fn read_once(&self, mut wanted: Vec<NodeRef>) -> HashMap<NodeRef, Arc<Page>> {
        wanted.retain(|at| !self.has(*at));
        wanted.truncate(self.max_fetched());
        self.cache.count_misses(wanted.len());
        let pages = wanted.iter().zip(self.read_ahead(&wanted));
        pages.filter_map(|(at, page)| Some((*at, page?))).collect()
    }

    /// Starts to read pages into the system's cache, from their first copies, and does not wait.
    pub(super) fn start(&self, all: &[NodeRef]) {
        let mut pages = vec![[0; PAGE_BYTES]; all.len()];
        let offsets = all.iter().map(|at| self.regions.slot(at.slot)[0]);
        let reads = offsets.zip(&mut pages).map(|(offset, page)| DiskRead::new(offset, page));
        self.disk.read_ready(&mut reads.collect::<Vec<_>>());
    }

    /// Reads pages in one list, past the cache, from their first copies. A page that is not good
    /// there is `None`: [`Self::read`] tries the other copy.
    pub(super) fn read_ahead(&self, all: &[NodeRef]) -> Vec<Option<Arc<Page>>> {
        let mut pages = self.read_copies(all, |[first, _]| first);
        if self.reads_both.load(Ordering::Relaxed) {
            for (page, other) in pages.iter_mut().zip(self.read_copies(all, |[_, second]| second)) {
                *page = page.take().filter(|_| other.is_some());
            }
        }
        pages
    }

    /// Reads pages that the pool can do without, past the cache. One that cannot be read is `None`,
    /// and no damage.
    pub(super) fn read_spare(&self, all: &[NodeRef]) -> Vec<Option<Arc<Page>>> {
        let mut pages = self.read_copies(all, |[first, _]| first);
        for (page, at) in pages.iter_mut().zip(all).filter(|(page, _)| page.is_none()) {
            *page = self.read_copies(&[*at], |[_, second]| second).pop().flatten();
        }
        pages
    }

    /// Reads one of the copies of each page, in one list. Those that are not good are `None`.
    fn read_copies(&self, all: &[NodeRef], of: fn([u64; COPIES]) -> u64) -> Vec<Option<Arc<Page>>> {
        if all.is_empty() {
            return Vec::new();
        }
        let mut pages: Vec<Arc<Page>> = all.iter().map(|_| self.cache.memory()).collect();
        let offsets = all.iter().map(|at| of(self.regions.slot(at.slot)));
        let mut reads: Vec<DiskRead<'_>> = offsets
            .zip(&mut pages)
            .map(|(offset, page)| DiskRead::new(offset, Arc::make_mut(page).as_mut_slice()))
            .collect();
        reads.sort_unstable_by_key(|read| read.offset);
        self.disk.read_many(&mut reads);
        // Their memory may have held the very pages, and the checksum of zeros is wrong.
        reads.iter_mut().filter(|read| read.outcome.is_err()).for_each(|read| read.buffer.fill(0));
        drop(reads);
        let is_good =
            |(at, page): &(&NodeRef, Arc<Page>)| self.seed.checksum(&**page) == at.checksum;
        let pages = all.iter().zip(pages).map(|page| is_good(&page).then_some(page.1));
        pages.collect()
    }

    /// Reads a page from the first of its copies that is good.
    fn read_disk(&self, at: NodeRef) -> Result<Arc<Page>> {
        let reads_both = self.reads_both.load(Ordering::Relaxed);
        let reading = if reads_both { Reading::All } else { Reading::OneGood };
        let read = read_slot(&*self.disk, self.regions, at, self.seed, reading)?;
        let page = read.page.ok_or_else(|| self.damaged(at))?;
        if read.damaged_copies > 0 {
            self.damaged_copies.fetch_add(1, Ordering::Relaxed);
            self.salvaged.lock().halved.extend(reads_both.then_some(at));
        }
        Ok(Arc::from(page))
    }

    /// Reads both copies of each page from now on.
    pub(super) fn begin_salvage(&self) {
        self.reads_both.store(true, Ordering::Relaxed);
    }

    /// Ends the reading of both copies. These pages are read as empty ones from now on.
    pub(super) fn end_salvage(&self, lost: HashSet<NodeRef>) {
        self.reads_both.store(false, Ordering::Relaxed);
        self.damage.clear();
        self.salvaged.lock().lost = lost;
    }

    /// Writes the damaged copies of pages again of which one copy is good.
    pub(super) fn mend_copies(&self) -> Result<()> {
        let mut halved = std::mem::take(&mut self.salvaged.lock().halved);
        halved.sort_unstable_by_key(|at| at.slot);
        halved.dedup();
        let (io, mut copy) =
            (|action| FormatError::io(DiskRole::Metadata, action), [0; PAGE_BYTES]);
        for at in &halved {
            let page = self.read(*at, Width::Narrow)?;
            for offset in self.regions.slot(at.slot) {
                let is_good = self.disk.read_at(offset, &mut copy).is_ok() && copy == *page;
                if !is_good {
                    self.disk.write_at(offset, page.as_slice()).map_err(io("write"))?;
                }
            }
        }
        if !halved.is_empty() {
            self.disk.sync().map_err(io("sync"))?;
        }
        Ok(())
    }

    /// Marks a slot as used. Returns whether it was free.
    pub(super) fn claim(&self, slot: Slot) -> bool {
        self.slots.lock().claim(slot).then(|| self.owners.claim(slot)).is_some()
    }

    /// Marks a slot as free again that was marked as used at the opening.
    pub(super) fn unclaim(&self, slot: Slot) {
        self.owners.unclaim(slot);
        self.slots.lock().release(slot);
    }

    /// Begins a checkpoint.
    pub(super) fn begin(&self) {
        self.slots.lock().rewind();
        self.changes.lock().written = 0;
    }

    /// The number of slots in use, and those of them that the checkpoint has taken so far.
    pub(super) fn accounted(&self) -> (u64, HashSet<Slot>) {
        let changes = self.changes.lock();
        (self.in_use(), changes.taken.iter().copied().collect())
    }

    fn take(&self) -> Result<Slot> {
        let mut changes = self.changes.lock();
        let slot = self.slots.lock().take().ok_or(MetadataError::NoSlot)?;
        self.owners.take(slot);
        changes.taken.push(slot);
        Ok(slot)
    }

    /// Puts a new page in a free slot. The page may stay in memory until [`Self::flush`].
    pub(super) fn write(&self, page: Arc<Page>, width: Width) -> Result<NodeRef> {
        let at = NodeRef { slot: self.take()?, checksum: self.seed.checksum(&*page) };
        self.cache.put(at, width, Arc::clone(&page));
        let flight = {
            let mut changes = self.changes.lock();
            changes.unwritten.insert(at.slot, Arc::clone(&page));
            changes.waiting.push((at.slot, page));
            let is_full = changes.waiting.len() >= WRITE_PAGES;
            is_full.then(|| std::mem::take(&mut changes.waiting))
        };
        flight.map_or(Ok(()), |flight| self.hand_on(flight))?;
        Ok(at)
    }

    /// Gives new pages to the thread that writes them. Without one, or when it has failed, the
    /// caller writes them.
    fn hand_on(&self, flight: NewPages) -> Result<()> {
        let writer = self.writer.lock().clone();
        let left = match writer {
            Some(writer) => writer.send(flight).err().map(|SendError(flight)| flight),
            None => Some(flight),
        };
        left.map_or(Ok(()), |flight| self.land(&flight))
    }

    /// Does work that makes new pages while a thread writes them. Where no thread can be had, the
    /// work writes them.
    pub(super) fn write_beside<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        /// Ends the thread, after a panic of the work as well.
        struct Writing<'p>(&'p Pages);
        impl Drop for Writing<'_> {
            fn drop(&mut self) {
                *self.0.writer.lock() = None;
            }
        }
        let (writer, lists) = sync_channel::<NewPages>(MAX_WAITING_LISTS);
        *self.writer.lock() = Some(writer);
        std::thread::scope(|scope| {
            let writing = Writing(self);
            let write = move || lists.into_iter().try_for_each(|flight| self.land(&flight));
            let written = std::thread::Builder::new().spawn_scoped(scope, write);
            let done = work();
            drop(writing);
            if let Ok(written) = written {
                written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            done
        })
    }

    /// Notes a slot that the state after the checkpoint does not need.
    pub(super) fn retire(&self, slot: Slot) {
        self.owners.retire(slot);
        self.changes.lock().retired.push(slot);
    }

    /// Writes the pages that wait. Returns the number of pages written since the checkpoint began.
    /// Nobody else writes any more.
    pub(super) fn flush(&self) -> Result<u64> {
        let flight = std::mem::take(&mut self.changes.lock().waiting);
        self.land(&flight)?;
        let changes = self.changes.lock();
        assert!(changes.unwritten.is_empty(), "threads that write pages end before the last flush");
        Ok(changes.written)
    }

    /// Writes pages in the order of their slots and neighbours together.
    fn land(&self, flight: &NewPages) -> Result<()> {
        let mut list: Vec<DiskWrite<'_>> = flight
            .iter()
            .flat_map(|(slot, page)| {
                let [first, second] =
                    self.regions.slot(*slot).map(|at| DiskWrite::new(at, page.as_slice()));
                // Nobody reads second copies, and the system's cache is the first ones' alone.
                [first, second.unread()]
            })
            .collect();
        list.sort_unstable_by_key(|write| write.offset);
        self.disk.write_all(&mut list).map_err(FormatError::io(DiskRole::Metadata, "write"))?;
        // A commit of the journal would wait in its sync for all pages that are not written out.
        self.disk.start_write_back();
        let mut changes = self.changes.lock();
        flight.iter().for_each(|(slot, _)| _ = changes.unwritten.remove(slot));
        changes.written += flight.len() as u64;
        Ok(())
    }

    /// Builds the pages of a table in free slots.
    pub(super) fn chain(&self, stream: &[u8]) -> Result<Chain> {
        build_chain(stream, self.seed, || self.take().ok()).ok_or(MetadataError::NoSlot)
    }

    /// Ends a checkpoint whose root is durable. Slots that only the state before needed become
    /// free.
    pub(super) fn finish(&self) {
        let mut changes = self.changes.lock();
        let mut slots = self.slots.lock();
        let Changes { unwritten, taken, retired, .. } = &mut *changes;
        assert!(unwritten.is_empty(), "a checkpoint that ends has written its pages");
        self.salvaged.lock().lost.clear();
        retired.iter().for_each(|slot| slots.release(*slot));
        self.owners.finish(taken, retired, slots.in_use());
        taken.clear();
        retired.clear();
        drop((changes, slots));
        self.note_fit();
    }

    /// Ends a checkpoint that failed before its root was written. No state has the slots that it
    /// took, so the next one takes them again: a checkpoint that fails for ever takes no space.
    pub(super) fn abandon(&self) {
        let mut changes = self.changes.lock();
        let mut slots = self.slots.lock();
        let Changes { waiting, unwritten, taken, retired, .. } = &mut *changes;
        waiting.clear();
        unwritten.clear();
        retired.clear();
        taken.iter().for_each(|slot| slots.release(*slot));
        self.owners.abandon(taken, slots.in_use());
        taken.clear();
    }
}

#[cfg(test)]
mod tests;
