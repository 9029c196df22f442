//! Fits the cache of the metadata of a new pool to the memory that they may take.

use super::PoolOptions;
use crate::error::{Result, VolumeError};
use gemelo_base::units::format_exact_size;
use gemelo_metadata::{CacheSize, IndexSampling};

/// The least cache that is worth having: a few hundred pages.
const MIN_CACHE_BYTES: u64 = 1 << 20;

impl PoolOptions {
    /// Returns the bytes of a cache with which the metadata fit in this memory when the pool is
    /// full, with one LBN for each block, and an index in memory of this sample. They are no more
    /// than all metadata need.
    ///
    /// # Errors
    /// Fails if an option is out of range, or if too little is left for a cache.
    pub fn cache_within(&self, memory_bytes: u64, sampling: IndexSampling) -> Result<u64> {
        let needs = |cache| Ok::<_, VolumeError>(self.needs(1.0, (cache, sampling))?.needs);
        let beside_bytes = needs(CacheSize::Given(0))?.memory_bytes;
        let most_bytes = needs(CacheSize::Within(u64::MAX))?.cache_bytes;
        let left_bytes = memory_bytes.saturating_sub(beside_bytes);
        if left_bytes >= MIN_CACHE_BYTES.min(most_bytes) {
            return Ok(left_bytes.min(most_bytes));
        }
        Err(VolumeError::BadOption {
            what: format!("memory {}", format_exact_size(memory_bytes)),
            rule: format!(
                "the metadata of the full pool take {} beside a cache of {} or more; give more \
                 memory, or an index of a sample",
                format_exact_size(beside_bytes),
                format_exact_size(MIN_CACHE_BYTES)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_cache_gets_what_the_index_leaves() {
        let options = PoolOptions { capacity_bytes: 1 << 40, ..PoolOptions::default() };
        let within = |memory_bytes, sampling| {
            options.cache_within(memory_bytes, sampling).map(|cache| {
                let given = CacheSize::Given(cache);
                let needs = options.needs(1.0, (given, sampling)).unwrap().needs;
                (cache, needs.memory_bytes)
            })
        };
        let (cache, memory) = within(16 << 30, IndexSampling::ALL).unwrap();
        assert!(cache > 14 << 30 && memory <= 16 << 30, "{cache} {memory}");
        let (cache, memory) = within(1400 * MIB, IndexSampling::ALL).unwrap();
        assert!((MIB..256 * MIB).contains(&cache) && memory <= 1400 * MIB, "{cache} {memory}");
        assert!(within(400 * MIB, IndexSampling::ALL).is_err());
        let sampled = IndexSampling::one_in(32).unwrap();
        let (cache, memory) = within(400 * MIB, sampled).unwrap();
        assert!(cache > 256 * MIB && memory <= 400 * MIB, "{cache} {memory}");
        // A small pool needs less than it may have.
        let options = PoolOptions { capacity_bytes: 64 * MIB, ..options };
        let cache = options.cache_within(1 << 30, IndexSampling::ALL).unwrap();
        assert!((3 * MIB..4 * MIB).contains(&cache), "{cache}");
    }
}
