//! Keeps track of the pages that changed, and of those that a checkpoint has still to write.
//!
//! A checkpoint holds the state of one instant. Pages that changed since the last one are frozen at
//! that instant. The first change to a frozen page that is not written yet saves the page's image.

use crate::PageWrites;
use crate::error::{MetadataError, Result};
use crate::slots::Slots;
use gemelo_format::{PAGE_BYTES, Page, PageRef, PoolSeed, Slot, VolumeId};
use std::collections::HashMap;

/// Names a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PageKey {
    Map(VolumeId, u32),
    Record(u32),
}

/// A page in memory that can be written as an image on disk.
pub(super) trait PageData: Sized {
    fn empty() -> Self;
    fn to_image(&self) -> Box<Page>;
    fn fill_from(&mut self, image: &Page);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Equal to its image on disk.
    Clean,
    /// Changed since the last checkpoint began.
    Dirty,
    /// Waits for the checkpoint under way, and did not change since that began.
    Frozen,
}

/// A page in memory and where it is on disk.
pub(super) struct Entry<P> {
    pub(super) page: Option<P>,
    slot: Option<Slot>,
    checksum: u64,
    state: State,
}

impl<P: PageData> Entry<P> {
    pub(super) const ABSENT: Self =
        Self { page: None, slot: None, checksum: 0, state: State::Clean };

    pub(super) fn freeze(&mut self) {
        self.state = State::Frozen;
    }

    /// The page, which is made if it does not exist.
    pub(super) fn page_mut(&mut self) -> &mut P {
        self.page.get_or_insert_with(P::empty)
    }

    pub(super) fn page_ref(&self, number: u32) -> Option<PageRef> {
        self.slot.map(|slot| PageRef { number, slot, checksum: self.checksum })
    }

    /// An entry of a page that another volume has too. It has no slot yet.
    pub(super) const fn new_dirty(page: P) -> Self {
        Self { page: Some(page), slot: None, checksum: 0, state: State::Dirty }
    }

    pub(super) const fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// The page as it was read from its slot.
    pub(super) fn load(&mut self, from: PageRef, page: P) {
        *self = Self {
            page: Some(page),
            slot: Some(from.slot),
            checksum: from.checksum,
            state: State::Clean,
        };
    }
}

/// The states of the pages of a backend.
pub(super) struct Pager {
    pub(super) seed: PoolSeed,
    pub(super) slots: Slots,
    dirty: Vec<PageKey>,
    frozen: Vec<PageKey>,
    gathered: Vec<PageKey>,
    images: HashMap<PageKey, Box<Page>>,
    /// Slots that the newest durable root needs, and the root after it does not.
    retired: Vec<Slot>,
    /// The slots of the table.
    table: Vec<Slot>,
}

impl Pager {
    pub(super) fn new(seed: PoolSeed) -> Self {
        Self {
            seed,
            slots: Slots::default(),
            dirty: Vec::new(),
            frozen: Vec::new(),
            gathered: Vec::new(),
            images: HashMap::new(),
            retired: Vec::new(),
            table: Vec::new(),
        }
    }

    /// Records a coming change of a page. The caller calls it before every change.
    #[inline]
    pub(super) fn touch<P: PageData>(&mut self, key: PageKey, entry: &mut Entry<P>) {
        if entry.state == State::Dirty {
            return;
        }
        if entry.state == State::Frozen
            && let Some(page) = &entry.page
        {
            self.images.insert(key, page.to_image());
        }
        entry.state = State::Dirty;
        self.dirty.push(key);
    }

    /// Notes that the entry of this page became dirty.
    pub(super) fn note_dirty(&mut self, key: PageKey) {
        self.dirty.push(key);
    }

    /// Marks a page as changed again. The caller does so for each key that [`Self::abandon`]
    /// returned.
    pub(super) fn touch_again<P>(&mut self, key: PageKey, entry: &mut Entry<P>) {
        if entry.state != State::Dirty {
            entry.state = State::Dirty;
            self.dirty.push(key);
        }
    }

    /// Begins a checkpoint. Returns the keys of the pages that have to be frozen.
    pub(super) fn freeze(&mut self) -> Vec<PageKey> {
        assert!(self.frozen.is_empty() && self.gathered.is_empty(), "one checkpoint at a time");
        self.slots.rewind();
        self.frozen = std::mem::take(&mut self.dirty);
        self.frozen.clone()
    }

    /// The number of changed pages that are not written. The next checkpoint writes each once.
    pub(super) fn changed_pages(&self) -> u64 {
        (self.dirty.len() + self.frozen.len()) as u64
    }

    pub(super) fn next_frozen(&mut self) -> Option<PageKey> {
        self.frozen.pop()
    }

    /// Gives a frozen page a fresh slot and adds it to the pages to be written.
    pub(super) fn gather<P: PageData>(
        &mut self,
        key: PageKey,
        entry: &mut Entry<P>,
        writes: &mut PageWrites,
    ) -> Result<()> {
        let image = match self.images.remove(&key) {
            Some(image) => image,
            None => {
                entry.state = State::Clean;
                match &entry.page {
                    Some(page) => page.to_image(),
                    None => Box::new([0; PAGE_BYTES]),
                }
            }
        };
        assert!(entry.state != State::Frozen, "page {key:?} is gathered once");
        self.gathered.push(key);
        self.retired.extend(entry.slot.take());
        if image.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let slot = self.slots.take().ok_or(MetadataError::NoSlot)?;
        entry.slot = Some(slot);
        entry.checksum = self.seed.checksum(&*image);
        writes.push((slot, image));
        Ok(())
    }

    /// Notes the slots of the new table. Those of the old one are retired.
    pub(super) fn replace_table(&mut self, slots: Vec<Slot>) {
        self.retired.append(&mut self.table);
        self.table = slots;
    }

    /// Notes the slot of a page that no longer exists.
    pub(super) fn retire(&mut self, slot: Slot) {
        self.retired.push(slot);
    }

    pub(super) fn finish(&mut self) {
        assert!(self.frozen.is_empty(), "a checkpoint that ends has gathered its pages");
        assert!(self.images.is_empty(), "every page that was saved was gathered");
        for slot in self.retired.drain(..) {
            self.slots.release(slot);
        }
        self.gathered.clear();
    }

    /// Ends a checkpoint that failed. Returns the keys of the pages that have to be written again.
    /// Their slots stay taken until a checkpoint succeeds, because the root on disk may be the old
    /// or the new one.
    pub(super) fn abandon(&mut self) -> Vec<PageKey> {
        self.images.clear();
        let mut keys = std::mem::take(&mut self.frozen);
        keys.append(&mut self.gathered);
        keys
    }
}
