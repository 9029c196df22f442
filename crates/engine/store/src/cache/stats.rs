//! Figures of a cache of contents.

use gemelo_base::StatTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contents that a cache holds, and its work since the pool was opened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct ContentCacheStats {
    /// Most bytes of contents that it may hold.
    #[stat(gauge)]
    pub capacity_bytes: u64,
    /// Bytes of contents that it holds.
    #[stat(gauge)]
    pub held_bytes: u64,
    /// Contents that readers found there.
    pub hits: u64,
    /// Contents that readers found nowhere in memory.
    pub misses: u64,
    /// Contents of the hits whose reader waited while another one read them from the disk.
    pub awaited: u64,
}

impl Add for ContentCacheStats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            capacity_bytes: self.capacity_bytes + other.capacity_bytes,
            held_bytes: self.held_bytes + other.held_bytes,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            awaited: self.awaited + other.awaited,
        }
    }
}

/// The counts behind [`ContentCacheStats`].
#[derive(Debug, Default)]
pub(super) struct CacheCounts {
    hits: AtomicU64,
    misses: AtomicU64,
    awaited: AtomicU64,
}

impl CacheCounts {
    pub(super) fn add(&self, hits: usize, misses: usize) {
        if hits > 0 {
            self.hits.fetch_add(hits as u64, Ordering::Relaxed);
        }
        if misses > 0 {
            self.misses.fetch_add(misses as u64, Ordering::Relaxed);
        }
    }

    /// Notes contents that were found after a wait.
    pub(super) fn add_awaited(&self, found: usize) {
        self.awaited.fetch_add(found as u64, Ordering::Relaxed);
    }

    pub(super) fn figures(&self, capacity_bytes: u64, held_bytes: u64) -> ContentCacheStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (hits, misses) = (read(&self.hits), read(&self.misses));
        ContentCacheStats { capacity_bytes, held_bytes, hits, misses, awaited: read(&self.awaited) }
    }
}
