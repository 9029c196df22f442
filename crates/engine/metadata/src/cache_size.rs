//! The size of the cache of the metadata, which is computed here alone.
//!
//! A cache whose size is not given has room for all metadata of the pool decoded: the old and the
//! new version of each page while a checkpoint is written, and a change of each block before and
//! during it. Changes of a block take three times the memory of its part of the pages. The cache
//! grows with the pages while the pool is open.
//!
//! It takes at most a sixty-fourth of the memory: what else the pool and its clients need (the
//! index, the buffers of contents, the guests of the same machine) is more, and a larger cache
//! saves less with each byte. A sixty-fourth of 16 GiB has the metadata of 5 GiB of contents
//! decoded, or the pages of 20 GiB; beyond that, the system's cache has the pages. With less than
//! 64 MiB, checkpoints are so many that writes cost a tenth more, so a machine gives as much, but
//! never more than a sixteenth of its memory.

use gemelo_format::PAGE_BYTES;

/// Bytes of a cache for each page of the metadata.
const DECODED_PAGE_BYTES: u64 = 8 * PAGE_BYTES as u64;
/// The part of the memory of a process that a cache takes at most.
const MEMORY_PART: u64 = 64;
/// The part of a small memory.
const SMALL_MEMORY_PART: u64 = 16;
/// The size while there are few pages, in pools that need as much when they are full: changes come
/// before the pages that they make.
const FIRST_BYTES: u64 = 64 << 20;
/// The least size.
const MIN_BYTES: u64 = 64 << 10;

/// The size of the cache of the metadata of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSize {
    /// These bytes, but at least 64 KiB.
    Given(u64),
    /// What the metadata need, up to a part of these bytes of memory.
    Within(u64),
}

impl Default for CacheSize {
    fn default() -> Self {
        Self::Within(gemelo_base::memory::of_process())
    }
}

impl CacheSize {
    /// Returns the bytes of the cache of metadata of so many pages, which are to be `full_pages`
    /// when the pool is full.
    pub(crate) fn bytes(self, pages: u64, full_pages: u64) -> u64 {
        let decoded = |pages: u64| pages.saturating_mul(DECODED_PAGE_BYTES);
        let bytes = match self {
            Self::Given(bytes) => bytes,
            Self::Within(memory_bytes) => {
                let first = FIRST_BYTES.min(decoded(full_pages));
                let part = (memory_bytes / MEMORY_PART).max(FIRST_BYTES);
                decoded(pages).max(first).min(part.min(memory_bytes / SMALL_MEMORY_PART))
            }
        };
        bytes.max(MIN_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::full_pages;
    use gemelo_format::Policy;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    /// The MiB of the cache of a pool of this capacity, empty and full, on a machine with this
    /// memory.
    fn empty_and_full(capacity_bytes: u64, memory_bytes: u64) -> [u64; 2] {
        let full = full_pages(Policy::Compact, capacity_bytes / 4096);
        let cache = CacheSize::Within(memory_bytes);
        [0, full].map(|pages| cache.bytes(pages, full) / MIB)
    }

    #[test]
    fn the_cache_is_what_the_metadata_need_and_at_most_a_sixty_fourth_of_the_memory() {
        let memory_bytes = 24 * GIB;
        assert_eq!(empty_and_full(64 * MIB, memory_bytes), [3, 3]);
        assert_eq!(empty_and_full(GIB, memory_bytes), [48, 48]);
        assert_eq!(empty_and_full(100_000_000_000, memory_bytes), [64, 384]);
        assert_eq!(empty_and_full(1 << 40, memory_bytes), [64, 384]);
        let memory_bytes = 1_000_000_000;
        assert_eq!(empty_and_full(64 * MIB, memory_bytes), [3, 3]);
        assert_eq!(empty_and_full(GIB, memory_bytes), [48, 48]);
        assert_eq!(empty_and_full(100_000_000_000, memory_bytes), [59, 59]);
        assert_eq!(empty_and_full(1 << 40, memory_bytes), [59, 59]);
        // A control group may allow less than a sixty-fourth of it would be worth.
        assert_eq!(empty_and_full(1 << 40, 64 * MIB), [4, 4]);
        assert_eq!(CacheSize::Within(0).bytes(0, 1 << 20), MIN_BYTES);
    }

    #[test]
    fn it_grows_with_the_pages_beyond_those_of_a_full_pool() {
        let full = full_pages(Policy::Compact, 1 << 20);
        let cache = CacheSize::Within(u64::MAX);
        let sizes = [0, full / 8, full / 2, full, 10 * full].map(|pages| cache.bytes(pages, full));
        assert!(sizes.is_sorted() && sizes[1] == FIRST_BYTES, "{sizes:?}");
        assert_eq!(sizes[4], 10 * full * DECODED_PAGE_BYTES, "many LBNs have each block");
    }

    #[test]
    fn a_size_that_is_given_is_taken() {
        for (given, bytes) in [(0, MIN_BYTES), (MIB, MIB), (1 << 50, 1 << 50)] {
            assert_eq!(CacheSize::Given(given).bytes(7, 1000), bytes);
        }
    }
}
