//! Allocates slots before they are needed.

use super::MIN_RESERVE_SLOTS;
use crate::engine::log::Log;
use crate::error::{Result, VolumeError};
use gemelo_format::DiskRole;
use std::sync::atomic::Ordering;

/// The most is 32 MiB with both copies, enough for the changes of the removal of a piece of a
/// volume: a page of counts and one of the index for each of its blocks, and those above them.
const MAX_RESERVE_SLOTS: u64 = 4096;
/// Slots are allocated ahead by this part of the need, so that few writers wait for it.
const AHEAD_PART: u64 = 4;
/// A checkpoint that would make the need smaller by fewer slots is not worth it.
const MIN_FREED_SLOTS: u64 = 256;

impl Log {
    /// Slots that the next checkpoint may take, and those that have to be there.
    fn slots(&self) -> (u64, u64) {
        let state = self.read();
        let need = state.backend().slots();
        drop(state);
        let reserve = need.in_use.clamp(MIN_RESERVE_SLOTS, MAX_RESERVE_SLOTS);
        (need.next, need.in_use + need.next + reserve)
    }

    /// Allocates the slots of the next checkpoint and the reserve. Called by threads that hold no
    /// lock after a gate.
    ///
    /// Without room for more it writes a checkpoint now, while there are slots for it, and fails if
    /// that is not enough.
    pub(crate) fn reserve_slots(&self) -> Result<()> {
        let (_, wanted) = self.slots();
        if self.reserve.has(wanted) {
            return Ok(());
        }
        let full = match self.allocate_slots(wanted) {
            Err(error @ VolumeError::NoSpace { .. }) => error,
            other => return other,
        };
        let _alone = self.checkpointer.lock();
        // Another thread may have written a checkpoint meanwhile.
        let (next, wanted) = self.slots();
        if self.reserve.has(wanted) {
            return Ok(());
        }
        if next < MIN_FREED_SLOTS {
            return Err(full);
        }
        self.checkpoint_alone()?;
        let (_, wanted) = self.slots();
        self.allocate_slots(wanted)
    }

    /// Has the next checkpoint keep the index for the next opening, if there is room for it.
    pub(crate) fn keep_index(&self) -> Result<()> {
        self.write().backend_mut().keep_index(true)?;
        let (_, wanted) = self.slots();
        match self.allocate_slots(wanted) {
            Err(VolumeError::NoSpace { .. }) => Ok(self.write().backend_mut().keep_index(false)?),
            allocated => allocated,
        }
    }

    /// Notes that the first slots are allocated, for checkpoints as well.
    fn note_allocated(&self, slots: u64) {
        self.reserve.slots.store(slots, Ordering::Release);
        self.read().backend().note_allocated(slots);
    }

    /// Allocates slots up to this number; one thread at a time.
    fn allocate_slots(&self, wanted: u64) -> Result<()> {
        let _alone = self.reserve.allocator.lock();
        let first = self.reserve.slots.load(Ordering::Acquire);
        if wanted <= first {
            return Ok(());
        }
        let mut result = Ok(());
        for end in [wanted + wanted / AHEAD_PART, wanted] {
            let mut ranges = self.superblock.regions().slot_ranges(first..end);
            let allocated = ranges
                .try_for_each(|range| self.disk.allocate(range.start, range.end - range.start));
            result = allocated.map_err(VolumeError::io(DiskRole::Metadata, "enlarge"));
            match result {
                Ok(()) => self.note_allocated(end),
                Err(VolumeError::NoSpace { .. }) => continue,
                Err(_) => {}
            }
            break;
        }
        result
    }
}
