//! The reserve: space on the metadata disk that is allocated before it is needed.
//!
//! A checkpoint writes changed pages to fresh slots. On a full file system those have to be there
//! already, or nothing could be removed any more. The log therefore allocates slots ahead: as many
//! as the next checkpoint may take, and a reserve. Writes are refused when the reserve cannot be
//! kept; removals, trims and the collector may use it up.

use crate::engine::health::Health;
use crate::engine::locks::{OrderedMutex, Rank};
use crate::error::{Result, VolumeError};
use gemelo_disk::Disk;
use gemelo_format::{DiskRole, Superblock};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reserve has as many slots as are in use, so that all could be written anew, within bounds.
/// The least is for the table and some pages of an empty pool: 2 MiB with both copies.
pub(crate) const MIN_RESERVE_SLOTS: u64 = 256;
/// The most is 32 MiB with both copies, enough for the changes of the removal of a piece of a
/// volume: a page of counts and one of the index for each of its blocks, and those above them.
pub(super) const MAX_RESERVE_SLOTS: u64 = 4096;
/// Slots are allocated ahead by this part of the need, so that few writers wait for it.
const AHEAD_PART: u64 = 4;

/// Slots of the metadata disk that have their space.
pub(super) struct SlotReserve {
    /// Grows with the allocator locked alone.
    slots: AtomicU64,
    allocator: OrderedMutex<()>,
    disk: Arc<dyn Disk>,
    superblock: Superblock,
}

impl SlotReserve {
    pub(super) fn new(disk: &Arc<dyn Disk>, superblock: &Superblock, health: &Arc<Health>) -> Self {
        let allocator = OrderedMutex::new(Rank::Allocation, health, ());
        let (disk, superblock) = (Arc::clone(disk), superblock.clone());
        Self { slots: AtomicU64::new(0), allocator, disk, superblock }
    }

    pub(super) fn has(&self, wanted: u64) -> bool {
        wanted <= self.slots.load(Ordering::Acquire)
    }

    /// Allocates slots up to this number, one thread at a time. Calls with the number that is then
    /// allocated.
    pub(super) fn allocate(&self, wanted: u64, allocated: &dyn Fn(u64)) -> Result<()> {
        let _alone = self.allocator.lock();
        let first = self.slots.load(Ordering::Acquire);
        if wanted <= first {
            return Ok(());
        }
        let mut result = Ok(());
        for end in [wanted + wanted / AHEAD_PART, wanted] {
            let mut ranges = self.superblock.regions().slot_ranges(first..end);
            result = ranges
                .try_for_each(|range| self.disk.allocate(range.start, range.end - range.start))
                .map_err(VolumeError::io(DiskRole::Metadata, "enlarge"));
            match result {
                Ok(()) => {
                    self.slots.store(end, Ordering::Release);
                    allocated(end);
                }
                Err(VolumeError::NoSpace { .. }) => continue,
                Err(_) => {}
            }
            break;
        }
        result
    }
}
