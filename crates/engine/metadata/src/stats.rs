//! The figures that a backend gives: the record of a block, sums over the pool, needs of a
//! checkpoint.

use gemelo_base::StatTable;
use gemelo_format::{Fingerprint, Identity, Pbn};
use std::any::Any;

/// The record of a PBN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The fingerprint of its content, if it may be shared.
    pub fingerprint: Fingerprint,
    /// References to the block: at least one if an LBN refers to it, and at most as many as LBNs
    /// do. A backend whose volumes share parts of their maps counts such a part once.
    pub references: u32,
    /// The block was found damaged: nothing may share it before its content is written anew.
    pub is_suspect: bool,
}

impl Record {
    /// The record of a PBN that nothing refers to.
    pub const NONE: Self =
        Self { fingerprint: Fingerprint::NONE, references: 0, is_suspect: false };

    /// The record of a PBN with this identity and this number of references.
    pub const fn new(identity: Identity, references: u32) -> Self {
        Self { fingerprint: identity.fingerprint(), references, is_suspect: identity.is_suspect() }
    }
}

/// A block that has a content which was looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBlock {
    /// The block.
    pub pbn: Pbn,
    /// Its record.
    pub record: Record,
}

/// Sums over the whole pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// LBNs that have a PBN: logical blocks.
    pub references: u64,
    /// PBNs that have a reference: physical blocks.
    pub physical: u64,
    /// Size of the data store in blocks, block 0 included.
    pub data_blocks: u64,
    /// The id that the next volume gets.
    pub next_volume: u32,
    /// Fingerprints in the index. With `compact`, some may be those of freed blocks.
    pub index_entries: u64,
    /// Memory of map, records and index in bytes.
    pub memory_bytes: u64,
    /// Pages on the metadata disk.
    pub pages: u64,
    /// The cache.
    pub cache: CacheStats,
}

/// The memory of the cache of the metadata, and look-ups of pages in it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    schemars::JsonSchema,
    serde::Serialize,
    serde::Deserialize,
    StatTable,
)]
#[stat(counter)]
pub struct CacheStats {
    /// Most bytes that it may hold now.
    #[stat(gauge)]
    pub capacity_bytes: u64,
    /// Most bytes that it may hold once the pool is full.
    #[stat(gauge)]
    pub max_capacity_bytes: u64,
    /// Bytes of the pages and the changes that it holds, and of what leads to them.
    #[stat(gauge)]
    pub held_bytes: u64,
    /// Pages that were in the cache.
    pub hits: u64,
    /// Pages that had to be read.
    pub misses: u64,
}

/// Damage that was found while a checkpoint was read.
#[derive(Debug, Default)]
pub struct Damage {
    /// Damage that does not keep the pool from being written: lost copies, lost fingerprints.
    pub harmless: Vec<String>,
    /// Damage that makes the pool read-only: lost maps, whose LBNs give an error, and lost counts,
    /// without which the free blocks are unknown.
    pub lost: Vec<String>,
}

/// The urgency of a checkpoint, without which a backend would exceed its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// No checkpoint is needed.
    Low,
    /// A checkpoint is needed soon.
    High,
    /// A checkpoint is needed before anything else is changed.
    Full,
}

/// Slots of the metadata disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotNeed {
    /// Slots in use.
    pub in_use: u64,
    /// Upper bound of the slots that the next checkpoint takes before it gives back others.
    pub next: u64,
}

/// Memory that its owner no longer needs. The receiver frees it without the state's lock, because
/// freeing a large delta takes long.
pub type Garbage = Option<Box<dyn Any + Send>>;
