//! The reserve: space on the metadata disk that is allocated before it is needed.
//!
//! A checkpoint writes changed pages to fresh slots. On a full file system those have to be there
//! already, or nothing could be removed any more. The log therefore allocates slots ahead: as many
//! as the next checkpoint may take, and a reserve. Writes are refused when the reserve cannot be
//! kept; removals, trims and the collector may use it up.

mod allocate;

use crate::engine::health::Health;
use crate::engine::locks::{OrderedMutex, Rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The reserve has as many slots as are in use, so that all could be written anew, within bounds.
/// The least is for the table and some pages of an empty pool: 2 MiB with both copies.
pub(crate) const MIN_RESERVE_SLOTS: u64 = 256;
/// Slots of the metadata disk that have their space.
pub(super) struct SlotReserve {
    /// Grows with the allocator locked alone.
    slots: AtomicU64,
    allocator: OrderedMutex<()>,
}

impl SlotReserve {
    pub(super) fn new(health: &Arc<Health>) -> Self {
        let allocator = OrderedMutex::new(Rank::Allocation, health, ());
        Self { slots: AtomicU64::new(0), allocator }
    }

    fn has(&self, wanted: u64) -> bool {
        wanted <= self.slots.load(Ordering::Acquire)
    }
}
