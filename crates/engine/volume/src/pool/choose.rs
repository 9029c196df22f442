//! Chooses the metadata backend of a new pool by the memory that it may take.

use super::{FullPool, PoolOptions};
use crate::error::{Result, VolumeError};
use gemelo_base::units::format_exact_size;
use gemelo_format::BackendKind;
use gemelo_metadata::IndexSampling;

/// The backends that are tried, the fastest first.
const TRIED: [BackendKind; 3] = [BackendKind::Log, BackendKind::Compact, BackendKind::Table];

/// The backend of a pool, chosen by the memory that its metadata take when the pool is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenBackend {
    /// The backend.
    pub backend: BackendKind,
    /// Bytes of memory that it takes.
    pub memory_bytes: u64,
    /// Faster backends, and the bytes of memory that each would take.
    pub too_large: Vec<(BackendKind, u64)>,
}

impl PoolOptions {
    /// Chooses the fastest backend whose metadata fit in this memory when the pool is full, with
    /// one LBN for each block, a cache of this size, and an index in memory of this sample.
    ///
    /// # Errors
    /// Fails if an option is out of range, or if no backend fits.
    pub fn choose_backend(
        &self,
        memory_bytes: u64,
        (cache_bytes, sampling): (u64, IndexSampling),
    ) -> Result<ChosenBackend> {
        let mut too_large = Vec::new();
        let possible = TRIED.into_iter().filter(|backend| backend.has_words(self.words()));
        for backend in possible {
            let options = Self { backend, ..self.clone() };
            let FullPool { needs, .. } = options.needs(1.0, (cache_bytes, sampling))?;
            if needs.memory_bytes <= memory_bytes {
                let memory_bytes = needs.memory_bytes;
                return Ok(ChosenBackend { backend, memory_bytes, too_large });
            }
            too_large.push((backend, needs.memory_bytes));
        }
        let least = too_large.iter().map(|(_, bytes)| *bytes).min().unwrap_or(0);
        Err(VolumeError::BadOption {
            what: format!("memory {}", format_exact_size(memory_bytes)),
            rule: format!(
                "the metadata of the full pool take {} or more with a cache of {} for them; give \
                 more memory or a smaller cache of metadata",
                format_exact_size(least),
                format_exact_size(cache_bytes)
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn choose(capacity_bytes: u64, memory_bytes: u64) -> Result<ChosenBackend> {
        let options = PoolOptions { capacity_bytes, ..PoolOptions::default() };
        options.choose_backend(memory_bytes, (256 * MIB, IndexSampling::ALL))
    }

    #[test]
    fn the_fastest_backend_that_fits_is_chosen() {
        let tebibyte = 1 << 40;
        for (memory_bytes, backend) in [
            (16 << 30, BackendKind::Log),
            (3 << 29, BackendKind::Compact),
            (400 * MIB, BackendKind::Table),
        ] {
            let chosen = choose(tebibyte, memory_bytes).unwrap();
            assert_eq!(chosen.backend, backend);
            assert!(chosen.memory_bytes <= memory_bytes);
            assert!(chosen.too_large.iter().all(|(_, bytes)| *bytes > memory_bytes));
        }
        assert_eq!(choose(1 << 30, 300 * MIB).unwrap().backend, BackendKind::Log);
        assert!(choose(tebibyte, 100 * MIB).is_err());
    }
}
