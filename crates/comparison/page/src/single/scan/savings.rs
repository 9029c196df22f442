//! Savings by deduplication, by compression, and by both.

use gemelo_base::units::format_exact_size;
use gemelo_scan::BlockSizeResult;

/// Bytes before and after deduplication, with or without zero blocks.
#[derive(Clone, Copy)]
pub(super) struct Amounts {
    pub(super) data_bytes: f64,
    pub(super) distinct_bytes: f64,
}

/// Savings as shares of the data.
pub(super) struct Savings {
    pub(super) deduplication: f64,
    pub(super) compression: Option<f64>,
    pub(super) both: Option<f64>,
}

/// The savings of a block size.
pub(super) trait Saving {
    /// Returns the size of the blocks as text.
    fn name(&self) -> String;

    /// Returns the amounts with zero blocks; a store keeps one of each length.
    fn with_zeros(&self) -> Amounts;

    /// Returns the amounts without zero blocks, which a thin store does not keep.
    fn without_zeros(&self) -> Amounts;

    /// Returns the savings of these amounts.
    fn savings(&self, all: Amounts) -> Savings;
}

impl Saving for BlockSizeResult {
    fn name(&self) -> String {
        format_exact_size(self.block_bytes.into())
    }

    fn with_zeros(&self) -> Amounts {
        Amounts {
            data_bytes: self.data_bytes as f64,
            distinct_bytes: self.with_zeros.distinct_bytes as f64,
        }
    }

    fn without_zeros(&self) -> Amounts {
        Amounts {
            data_bytes: self.counted_bytes as f64,
            distinct_bytes: self.distinct_bytes as f64,
        }
    }

    fn savings(&self, all: Amounts) -> Savings {
        let thin = self.without_zeros();
        let data = all.data_bytes.max(1.0);
        let kept = |share: f64| thin.data_bytes * (1.0 - share);
        let distinct_kept = |share: f64| thin.distinct_bytes * (1.0 - share);
        let overall = self.nature.as_ref().map(|nature| nature.overall.zstd_saved_share);
        Savings {
            deduplication: if all.data_bytes > 0.0 { 1.0 - all.distinct_bytes / data } else { 0.0 },
            // A zero block compresses to almost nothing.
            compression: compressed_share(self).map(|share| 1.0 - kept(share) / data),
            both: overall.map(|share| 1.0 - distinct_kept(share) / data),
        }
    }
}

/// Returns the share that compression saves of the blocks that are not zero: the mean over
/// ranges of duplicates, weighted by their blocks.
fn compressed_share(size: &BlockSizeResult) -> Option<f64> {
    let nature = size.nature.as_ref()?;
    let (mut saved, mut blocks) = (0.0, 0.0);
    for range in &size.ranges {
        let sampled = nature.classes.iter().find(|one| one.duplicates == range.duplicates);
        let share =
            sampled.map_or(nature.overall.zstd_saved_share, |one| one.figures.zstd_saved_share);
        saved += share * range.blocks as f64;
        blocks += range.blocks as f64;
    }
    (blocks > 0.0).then(|| saved / blocks)
}
