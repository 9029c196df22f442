//! What storage that deduplicates tells of itself, before and after a run.

use gemelo_volume::DedupMode;
use serde::{Deserialize, Serialize};

/// A volume and its pool in numbers. Counts of writes go up from when the pool was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolFigures {
    /// Bytes of a block of the pool.
    pub block_bytes: u64,
    /// Whether, and when, the volume looks for duplicates.
    pub mode: DedupMode,
    /// Blocks of all volumes that hold something, each counted as often as volumes refer to it.
    pub logical_blocks: u64,
    /// Blocks stored.
    pub physical_blocks: u64,
    /// Blocks written to the volume that got a block of their own.
    pub unique_blocks: u64,
    /// Blocks written to the volume that were shared.
    pub duplicate_blocks: u64,
    /// Blocks written to the volume with the content they had.
    pub unchanged_blocks: u64,
    /// Blocks written to the volume with zeros only.
    pub zero_blocks: u64,
}

impl PoolFigures {
    /// Logical blocks / physical blocks; 1 for an empty pool.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.physical_blocks == 0 {
            1.0
        } else {
            self.logical_blocks as f64 / self.physical_blocks as f64
        }
    }
}
