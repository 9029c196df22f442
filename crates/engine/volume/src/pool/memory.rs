//! Fits the cache of the metadata of a new pool to the memory that they may take.

use super::{FullPool, PoolOptions};
use crate::error::{Result, VolumeError};
use gemelo_base::units::format_exact_size;
use gemelo_metadata::IndexSampling;

/// The least cache that is worth having: a few hundred pages.
const MIN_CACHE_BYTES: u64 = 1 << 20;

impl PoolOptions {
    /// Returns the bytes of a cache, at most `most_bytes`, with which the metadata fit in this
    /// memory when the pool is full, with one LBN for each block, and an index in memory of this
    /// sample.
    ///
    /// # Errors
    /// Fails if an option is out of range, or if too little is left for a cache.
    pub fn cache_within(
        &self,
        memory_bytes: u64,
        (most_bytes, sampling): (u64, IndexSampling),
    ) -> Result<u64> {
        let FullPool { needs, .. } = self.needs(1.0, (0, sampling))?;
        let left = memory_bytes.saturating_sub(needs.memory_bytes);
        if left >= MIN_CACHE_BYTES {
            return Ok(left.min(most_bytes));
        }
        Err(VolumeError::BadOption {
            what: format!("memory {}", format_exact_size(memory_bytes)),
            rule: format!(
                "the metadata of the full pool take {} beside a cache of {} or more; give more \
                 memory, or an index of a sample",
                format_exact_size(needs.memory_bytes),
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
            options.cache_within(memory_bytes, (256 * MIB, sampling)).map(|cache| {
                let FullPool { needs, .. } = options.needs(1.0, (cache, sampling)).unwrap();
                (cache, needs.memory_bytes)
            })
        };
        let (cache, memory) = within(16 << 30, IndexSampling::ALL).unwrap();
        assert!(cache == 256 * MIB && memory < 2 << 30, "{memory}");
        let (cache, memory) = within(1400 * MIB, IndexSampling::ALL).unwrap();
        assert!((MIB..256 * MIB).contains(&cache) && memory == 1400 * MIB, "{cache} {memory}");
        assert!(within(400 * MIB, IndexSampling::ALL).is_err());
        let sampled = IndexSampling::one_in(32).unwrap();
        let (cache, memory) = within(400 * MIB, sampled).unwrap();
        assert!(cache == 256 * MIB && memory < 400 * MIB, "{memory}");
    }
}
