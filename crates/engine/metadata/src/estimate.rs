//! The memory and the space on disk that each backend takes, computed before a pool is made.
//!
//! The figures follow from the forms of the metadata, and a test compares them with backends that
//! were filled.

use crate::{CacheSize, IndexSampling, cached};
use gemelo_format::{BUCKET_ENTRIES, COPIES, CountAt, PAGE_BYTES, Part, Policy};
use schemars::JsonSchema;
use serde::Serialize;

/// The size of a pool that is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPool {
    /// Blocks that the data store has room for.
    pub data_blocks: u64,
    /// Blocks of these that hold contents.
    pub used_blocks: u64,
    /// LBNs of all volumes that refer to them.
    pub mapped_blocks: u64,
    /// The size of the cache.
    pub cache: CacheSize,
    /// The contents that an index in memory has.
    pub sampling: IndexSampling,
}

/// The memory and the space on disk that the metadata of a pool need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Needs {
    /// Bytes that the cache may take.
    pub cache_bytes: u64,
    /// Bytes of memory under load, those of the cache among them that are then used.
    pub memory_bytes: u64,
    /// Bytes of a checkpoint on disk, both copies of every page. The next checkpoint needs room
    /// for the pages that it changes before it gives back the old ones.
    pub disk_bytes: u64,
    /// Pages that an overwrite of a block at a random place reads, if the counts are in the cache,
    /// and no other leaf.
    pub overwrite_page_reads: u32,
    /// Pages beside those of counts that it adds to a checkpoint, if no other change falls in them.
    pub overwrite_page_writes: u32,
}

/// Entries that a bucket page of `table` has on average.
const MEAN_BUCKET_ENTRIES: u64 = BUCKET_ENTRIES as u64 / 2 + 1;
/// The share of a B-tree's leaves that is in use after inserts in order, which fill them, and at
/// random, which leave them between half and full, in hundredths.
const LEAF_USE_PERCENT: u64 = 70;

/// Pages of arrays of the map, the counts and the fingerprints, with their directories. Few blocks
/// have so many references that their counts take more.
fn array_pages(pool: &PlannedPool) -> u64 {
    let leaves = |keys: u64, part: Part| keys.div_ceil(part.array_entries() as u64);
    let leaves = leaves(pool.mapped_blocks, Part::Map)
        + leaves(groups(pool.used_blocks), Part::Counts)
        + leaves(pool.used_blocks, Part::Fingerprints);
    with_directories(leaves)
}

/// Groups of blocks, of which each has a value with their counts.
const fn groups(blocks: u64) -> u64 {
    blocks.div_ceil(CountAt::GROUP_PBNS)
}

const fn with_directories(leaves: u64) -> u64 {
    leaves + leaves / 300 + 3
}

/// Pages of a B-tree of index entries.
fn tree_pages(entries: u64) -> u64 {
    let bytes = entries * Part::Index.key_bytes() as u64;
    let leaves = (bytes * 100 / LEAF_USE_PERCENT).div_ceil(PAGE_BYTES as u64);
    leaves + leaves / 100 + 4
}

/// Pages of the metadata of a pool with this policy.
pub(crate) fn pages_of(policy: Policy, pool: &PlannedPool) -> u64 {
    let index = match policy {
        Policy::Compact | Policy::InRam => 0,
        Policy::Cbt => tree_pages(pool.used_blocks),
        Policy::Dtb => with_directories(pool.used_blocks / MEAN_BUCKET_ENTRIES + 1),
    };
    array_pages(pool) + index
}

/// Pages of the metadata of a pool that is full, and whose blocks have one LBN each.
pub(crate) fn full_pages(policy: Policy, data_blocks: u64) -> u64 {
    let pool = PlannedPool {
        data_blocks,
        used_blocks: data_blocks,
        mapped_blocks: data_blocks,
        cache: CacheSize::Given(0),
        sampling: IndexSampling::ALL,
    };
    pages_of(policy, &pool)
}

/// Computes what the metadata of a pool need.
#[must_use]
pub fn estimate(policy: Policy, pool: &PlannedPool) -> Needs {
    let pages = pages_of(policy, pool);
    let cache_bytes = pool.cache.bytes(pages, pages);
    let index = || cached::compact_index_bytes(pool.used_blocks, pool.data_blocks, pool.sampling);
    let cached = cached::used_cache_bytes(policy, cache_bytes, pages);
    let (beside_cache, overwrite_page_reads, overwrite_page_writes) = match policy {
        // The page of the map, and the buckets of the new and the old fingerprint. The old
        // fingerprint is read as well. The counts of a TiB are in 64 MiB, which are cached.
        Policy::Dtb | Policy::Cbt => (0, 4, 3),
        Policy::Compact => (index(), 1, 1),
        Policy::InRam => (index(), 0, 1),
    };
    Needs {
        cache_bytes,
        memory_bytes: cached + beside_cache,
        disk_bytes: pages * (PAGE_BYTES * COPIES) as u64,
        overwrite_page_reads,
        overwrite_page_writes,
    }
}
