//! The memory of a write buffer: a bounded number of slots, each for one content.
//!
//! Memory is allocated when it is first needed, in steps, and is reused last in, first out. A small
//! load hence works in few pages, which the processor's cache holds, and the first pages of a step
//! are the only ones that a writer waits for.

use bytes::BytesMut;
use std::sync::Arc;

/// Alignment of a step in bytes: a page, which satisfies direct I/O on any device. A slot is a
/// whole number of its own length away from the beginning of its step.
const ALIGNMENT_BYTES: usize = 4096;
/// Bytes that are allocated at once. A smaller step would mean more calls of the system.
const STEP_BYTES: usize = 1 << 20;

/// Memory for one content. Its bytes change only while one owner has it.
pub(super) type Slot = Arc<BytesMut>;

/// The slots that hold nothing, and how many more may be made. All copies of a slot are made and
/// dropped under the lock of the buffer, so that the number of owners is exact.
#[derive(Debug)]
pub(super) struct Memory {
    free: Vec<Slot>,
    block_bytes: usize,
    /// Slots that exist.
    made: usize,
    most: usize,
}

impl Memory {
    pub(super) const fn new(block_bytes: usize, slots: usize) -> Self {
        Self { free: Vec::new(), block_bytes, made: 0, most: slots }
    }

    /// The number of slots that there may be.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// The number of slots in use.
    pub(super) const fn used(&self) -> usize {
        self.made - self.free.len()
    }

    /// Takes slots, at most `wanted`; none if all are in use.
    pub(super) fn take(&mut self, wanted: usize) -> Vec<Slot> {
        while self.free.len() < wanted && self.made < self.most {
            self.add_step();
        }
        let left = self.free.len().saturating_sub(wanted);
        self.free.split_off(left)
    }

    fn add_step(&mut self) {
        let count = (STEP_BYTES / self.block_bytes).clamp(1, self.most - self.made);
        let mut step = BytesMut::zeroed(count * self.block_bytes + ALIGNMENT_BYTES);
        let before = step.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        drop(step.split_to(before));
        self.free.extend((0..count).map(|_| Arc::new(step.split_to(self.block_bytes))));
        self.made += count;
    }

    /// Gives up one ownership of a slot. The last owner's frees it.
    pub(super) fn put_back(&mut self, slot: Slot) {
        if Arc::strong_count(&slot) == 1 {
            self.free.push(slot);
        }
    }
}

/// Copies a content into a slot that one owner has.
pub(super) fn fill(slot: &mut Slot, content: &[u8]) {
    let memory = Arc::get_mut(slot);
    debug_assert!(memory.is_some(), "a slot that was taken has one owner");
    if let Some(memory) = memory {
        memory.copy_from_slice(content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_bounded_and_used_again() {
        for (block_bytes, most) in [(512, 3), (4096, 300), (1 << 20, 2)] {
            let mut memory = Memory::new(block_bytes, most);
            let mut slots = memory.take(most + 5);
            assert_eq!((slots.len(), memory.used()), (most, most));
            assert!(memory.take(1).is_empty());
            for slot in &slots {
                assert_eq!(slot.as_ptr() as usize % block_bytes.min(ALIGNMENT_BYTES), 0);
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
