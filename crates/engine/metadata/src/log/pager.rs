//! Keeps track of the pages that changed, and of those that a checkpoint has still to write.
//!
//! A checkpoint holds the state of one instant. Pages that changed since the last one are frozen at
//! that instant. The first change to a frozen page that is not written yet saves the page as it is.
//! Pages of maps name each other, so a checkpoint writes a node after the nodes below it.

use super::nodes::{NodeId, Version};
use crate::PageWrites;
use crate::error::{MetadataError, Result};
use crate::slots::Slots;
use gemelo_format::{NodeRef, Page, PoolSeed, Slot};
use std::collections::HashMap;

/// Names a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum PageKey {
    Node(NodeId),
    Record(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Equal to its image on disk.
    Clean,
    /// Changed since the last checkpoint began.
    Dirty,
    /// Waits for the checkpoint under way, and did not change since that began.
    Frozen,
}

/// A page as it was at the instant of the checkpoint.
pub(super) enum Saved {
    Record(Box<Page>),
    Node(Version),
}

impl Saved {
    pub(super) fn node(self) -> Option<Version> {
        match self {
            Self::Node(version) => Some(version),
            Self::Record(_) => None,
        }
    }

    pub(super) fn record(self) -> Option<Box<Page>> {
        match self {
            Self::Record(image) => Some(image),
            Self::Node(_) => None,
        }
    }
}

/// The states of the pages of a backend.
pub(super) struct Pager {
    pub(super) seed: PoolSeed,
    pub(super) slots: Slots,
    dirty: Vec<PageKey>,
    frozen: Vec<PageKey>,
    gathered: Vec<PageKey>,
    saved: HashMap<PageKey, Saved>,
    /// Slots that the newest durable root needs, and the root after it does not.
    retiring: Vec<Slot>,
    /// Slots that the state of the checkpoint under way needs, and the present state does not.
    retired: Vec<Slot>,
    /// A checkpoint is under way.
    is_frozen: bool,
    /// The slots of the table.
    table: Vec<Slot>,
}

impl Pager {
    pub(super) fn new(seed: PoolSeed, slots: Slots) -> Self {
        Self {
            seed,
            slots,
            dirty: Vec::new(),
            frozen: Vec::new(),
            gathered: Vec::new(),
            saved: HashMap::new(),
            retiring: Vec::new(),
            retired: Vec::new(),
            is_frozen: false,
            table: Vec::new(),
        }
    }

    /// Records a coming change of a page. The caller calls it before every change.
    #[inline]
    pub(super) fn touch(&mut self, key: PageKey, state: &mut State, save: impl FnOnce() -> Saved) {
        match state {
            State::Dirty => return,
            State::Frozen => drop(self.saved.insert(key, save())),
            State::Clean => {}
        }
        *state = State::Dirty;
        self.dirty.push(key);
    }

    /// Marks a page as changed of which nothing has to be saved.
    pub(super) fn touch_again(&mut self, key: PageKey, state: &mut State) {
        if *state != State::Dirty {
            *state = State::Dirty;
            self.dirty.push(key);
        }
    }

    /// Begins a checkpoint. Returns the keys of the changed pages, for [`Self::set_frozen`].
    pub(super) fn freeze(&mut self) -> Vec<PageKey> {
        assert!(!self.is_frozen && self.saved.is_empty(), "one checkpoint at a time");
        assert!(self.frozen.is_empty() && self.gathered.is_empty(), "one checkpoint at a time");
        self.slots.rewind();
        self.is_frozen = true;
        self.retiring.append(&mut self.retired);
        std::mem::take(&mut self.dirty)
    }

    /// Sets the pages that the checkpoint writes, in this order.
    pub(super) fn set_frozen(&mut self, mut keys: Vec<PageKey>) {
        assert!(self.is_frozen && self.frozen.is_empty(), "pages are frozen once");
        keys.reverse();
        self.frozen = keys;
    }

    /// Returns whether a checkpoint is under way.
    pub(super) const fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Upper bound of the changed pages that are not written. The next checkpoint writes each once.
    pub(super) fn changed_pages(&self) -> u64 {
        (self.dirty.len() + self.frozen.len()) as u64
    }

    /// The next page to be written, with what was saved of it.
    pub(super) fn next_frozen(&mut self) -> Option<(PageKey, Option<Saved>)> {
        let key = self.frozen.pop()?;
        self.gathered.push(key);
        Some((key, self.saved.remove(&key)))
    }

    /// Gives a page a fresh slot in place of that of its last version, and adds it to the pages to
    /// be written.
    pub(super) fn gather(&mut self, image: Box<Page>, writes: &mut PageWrites) -> Result<NodeRef> {
        let slot = self.slots.take().ok_or(MetadataError::NoSlot)?;
        let checksum = self.seed.checksum(&*image);
        writes.push((slot, image));
        Ok(NodeRef { slot, checksum })
    }

    /// Gives up the slot of a version that the checkpoint under way replaces.
    pub(super) fn replace(&mut self, slot: Option<Slot>) {
        self.retiring.extend(slot);
    }

    /// Notes the slots of the new table. Those of the old one are retired.
    pub(super) fn replace_table(&mut self, slots: Vec<Slot>) {
        self.retiring.append(&mut self.table);
        self.table = slots;
    }

    /// Gives up the slot of a page that no longer exists.
    pub(super) fn retire(&mut self, slot: Slot) {
        self.retired.push(slot);
    }

    pub(super) fn finish(&mut self) {
        assert!(self.frozen.is_empty(), "a checkpoint that ends has gathered its pages");
        assert!(self.saved.is_empty(), "every page that was saved was gathered");
        for slot in self.retiring.drain(..) {
            self.slots.release(slot);
        }
        self.gathered.clear();
        self.is_frozen = false;
    }

    /// Ends a checkpoint that failed. Returns the keys of the pages that have to be written again.
    /// Their slots stay taken until a checkpoint succeeds, because the root on disk may be the old
    /// or the new one.
    pub(super) fn abandon(&mut self) -> Vec<PageKey> {
        self.saved.clear();
        self.retired.append(&mut self.retiring);
        self.is_frozen = false;
        let mut keys = std::mem::take(&mut self.frozen);
        keys.append(&mut self.gathered);
        keys
    }
}
