//! Memory for contents, of a write buffer or of a cache: a bounded number of slots, each for one
//! content.
//!
//! Slots are made in steps when they are first needed, and are reused last in, first out, so that a
//! small load works in few pages, which the processor's cache holds. The system takes up to 10 µs
//! to give a page at its first use. A step is therefore touched when it is made, and the next one
//! is made by a thread that nobody waits for. A step is a huge page where the system has them:
//! direct I/O holds each page that it reads from, and one is held faster than 512. Addresses are
//! reserved for many steps at once, so that they lie side by side.

use bytes::BytesMut;
use gemelo_base::huge_pages::advise_huge_pages;
use std::ops::Deref;
use std::sync::Arc;

/// Alignment of the first slot in bytes: a huge page. It satisfies direct I/O on any device. A slot
/// begins at a multiple of its own length from there.
const ALIGNMENT_BYTES: usize = 2 << 20;
/// Bytes of the smallest page.
const PAGE_BYTES: usize = 4096;
/// Bytes of a step: a huge page.
const STEP_BYTES: usize = ALIGNMENT_BYTES;
/// Bytes of the steps whose addresses are reserved at once. They are a mapping of their own,
/// whose pages are there from their first use on.
const RESERVED_BYTES: usize = 64 << 20;
/// Another step is made ahead when the free slots are fewer than those of this number of steps.
const STEPS_AHEAD: usize = 2;

/// Memory for one content. Its bytes change only while it has one owner.
pub(crate) type Slot = Arc<BytesMut>;

/// A content in memory, for a reader.
#[derive(Debug)]
pub struct LentContent(Slot);

impl LentContent {
    pub(crate) const fn new(slot: Slot) -> Self {
        Self(slot)
    }
}

impl Deref for LentContent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Slots that may be made.
#[derive(Debug)]
pub(crate) struct Step {
    space: BytesMut,
    block_bytes: usize,
}

impl Step {
    /// Makes the slots, and has the system provide their pages.
    pub(crate) fn make(self) -> Vec<Slot> {
        let Self { mut space, block_bytes } = self;
        // The bytes may be pages that the system has promised and not given.
        space.chunks_mut(PAGE_BYTES).for_each(|page| page.fill(FRESH));
        let slots = space.len() / block_bytes;
        (0..slots).map(|_| Arc::new(space.split_to(block_bytes))).collect()
    }
}

/// The value of the bytes of a fresh slot, which are overwritten before they are used.
const FRESH: u8 = 0xa5;

/// The free slots, and the number of slots that may still be made. All copies of a slot are made
/// and dropped under the lock of the buffer, so that the number of owners is exact.
#[derive(Debug)]
pub(crate) struct Memory {
    free: Vec<Slot>,
    block_bytes: usize,
    /// Addresses for the next slots.
    space: BytesMut,
    /// Slots that exist or are being made.
    made: usize,
    /// Slots that are being made.
    in_making: usize,
    most: usize,
}

impl Memory {
    pub(crate) fn new(block_bytes: usize, slots: usize) -> Self {
        let (free, space) = (Vec::new(), BytesMut::new());
        Self { free, block_bytes, space, made: 0, in_making: 0, most: slots }
    }

    /// Returns the number of slots that there may be.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of slots that exist or are being made.
    pub(crate) const fn made(&self) -> usize {
        self.made
    }

    /// Returns the number of free slots.
    pub(crate) const fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns the number of slots in use.
    pub(crate) const fn used(&self) -> usize {
        self.made - self.in_making - self.free.len()
    }

    /// Returns whether slots are being made.
    pub(crate) const fn is_making(&self) -> bool {
        self.in_making > 0
    }

    /// Takes at most `wanted` slots. There are none if all are in use.
    pub(crate) fn take(&mut self, wanted: usize) -> Vec<Slot> {
        let left = self.free.len().saturating_sub(wanted);
        self.free.split_off(left)
    }

    /// Returns whether another step should be made ahead.
    pub(crate) fn wants_ahead(&self) -> bool {
        let step = self.step_slots();
        self.in_making == 0 && self.made < self.most && self.free.len() < step * STEPS_AHEAD
    }

    /// Begins to make a step. The caller makes it without the lock, and adds its slots. There is no
    /// step if all slots exist or are being made.
    pub(crate) fn begin_step(&mut self) -> Option<Step> {
        let left = self.most - self.made;
        if left == 0 {
            return None;
        }
        if self.space.is_empty() {
            let steps = (RESERVED_BYTES / (self.step_slots() * self.block_bytes)).max(1);
            self.space = reserve(left.min(steps * self.step_slots()) * self.block_bytes);
        }
        let slots = left.min(self.step_slots());
        self.made += slots;
        self.in_making += slots;
        let space = self.space.split_to(slots * self.block_bytes);
        Some(Step { space, block_bytes: self.block_bytes })
    }

    /// Adds the slots of a step.
    pub(crate) fn add_step(&mut self, slots: Vec<Slot>) {
        assert!(slots.len() <= self.in_making, "more slots were made than begun");
        self.in_making -= slots.len();
        self.free.extend(slots);
    }

    fn step_slots(&self) -> usize {
        (STEP_BYTES / self.block_bytes).max(1)
    }

    /// Gives up one ownership of a slot. The slot is free when its last owner gives it up.
    pub(crate) fn put_back(&mut self, slot: Slot) {
        if Arc::strong_count(&slot) == 1 {
            assert!(self.free.len() < self.made, "a slot is free twice");
            self.free.push(slot);
        }
    }
}

/// Reserves addresses for this number of bytes.
fn reserve(bytes: usize) -> BytesMut {
    let mut space = BytesMut::zeroed(bytes + ALIGNMENT_BYTES);
    let before = space.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
    drop(space.split_to(before));
    space.truncate(bytes);
    advise_huge_pages(&mut space);
    space
}

/// Copies a content into a slot that one owner has.
pub(crate) fn fill(slot: &mut Slot, content: &[u8]) {
    let memory = Arc::get_mut(slot);
    assert!(memory.is_some(), "a slot that was taken has one owner");
    if let Some(memory) = memory {
        memory.copy_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_bounded_and_used_again() {
        for (block_bytes, most) in [(512, 3), (4096, 300), (4096, 17_000), (1 << 20, 2)] {
            let mut memory = Memory::new(block_bytes, most);
            assert!(memory.take(1).is_empty() && memory.wants_ahead());
            while let Some(step) = memory.begin_step() {
                assert!(!memory.wants_ahead(), "one step is made at a time");
                let slots = step.make();
                memory.add_step(slots);
            }
            assert!(!memory.wants_ahead());
            let mut slots = memory.take(most + 5);
            assert_eq!((slots.len(), memory.used()), (most, most));
            assert!(memory.take(1).is_empty());
            let lowest = slots.iter().map(|slot| slot.as_ptr() as usize).min().unwrap();
            assert_eq!(lowest % ALIGNMENT_BYTES, 0, "a step can be a huge page");
            for slot in &slots {
                assert_eq!(slot.as_ptr() as usize % block_bytes.min(PAGE_BYTES), 0);
                assert_eq!(slot.len(), block_bytes);
            }
            fill(&mut slots[0], &vec![7; block_bytes]);
            let copy = Arc::clone(&slots[0]);
            memory.put_back(slots.remove(0));
            assert_eq!(memory.used(), most, "there is another owner");
            memory.put_back(copy);
            assert_eq!(memory.used(), most - 1);
        }
    }
}
