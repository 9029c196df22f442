//! Figures of a volume and its pool, taken before and after a run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The time at which a volume looks for duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DedupPolicy {
    /// The volume does not look for duplicates: each block written is stored.
    Off,
    /// The volume looks for duplicates before a write is acknowledged.
    Inline,
    /// The volume looks for duplicates in the background, after a write was acknowledged.
    Offline,
}

/// Figures of a volume and its pool. Counts of writes start at zero when the pool is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PoolStats {
    /// Bytes of a block of the pool.
    pub block_bytes: u64,
    /// The time at which the volume looks for duplicates.
    pub mode: DedupPolicy,
    /// Mapped blocks of all volumes of the pool. A block that several volumes share counts once for
    /// each.
    pub logical_blocks: u64,
    /// Blocks stored in the pool.
    pub physical_blocks: u64,
    /// Blocks of the data store that they take: fewer where compressed contents share blocks.
    pub data_blocks: u64,
    /// Blocks written to the volume that were stored as new blocks.
    pub unique_blocks: u64,
    /// Blocks written to the volume that were shared with a stored block.
    pub duplicate_blocks: u64,
    /// Blocks written to the volume whose content equalled the block's old content.
    pub unchanged_blocks: u64,
    /// Blocks written to the volume that held only zeros.
    pub zero_blocks: u64,
}

impl PoolStats {
    /// Returns logical blocks / physical blocks, and 1 for an empty pool.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.physical_blocks == 0 {
            1.0
        } else {
            self.logical_blocks as f64 / self.physical_blocks as f64
        }
    }
}
