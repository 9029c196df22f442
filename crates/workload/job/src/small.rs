//! Data sets that are too small for their distribution.
//!
//! A content with many copies does not fit into a small data set, so the data set has another dedup
//! ratio than the distribution.

use gemelo_base::units::format_size;
use gemelo_content::{AssignmentMode, ContentSpec, Distribution, ScaledDistribution};

/// Relative difference of the dedup ratios above which the user is told. Smaller differences change
/// no conclusion: the runs of a benchmark differ by as much.
const TOLERANCE: f64 = 0.05;

/// Returns the dedup ratio of a data set with this number of blocks.
fn scaled_ratio(distribution: &Distribution, blocks: u64) -> Option<f64> {
    let scaled = ScaledDistribution::new(distribution, blocks).ok()?;
    Some(scaled.to_distribution().ok()?.summary().dedup_ratio())
}

/// Returns a warning if a data set of `blocks` blocks with exact contents is so small that its
/// dedup ratio differs by more than 5 % from that of its distribution, which has this name. A
/// distribution of one content is complete at any size: all blocks are copies of it.
#[must_use]
pub fn warning(name: &str, content: &ContentSpec, blocks: u64) -> Option<String> {
    if content.mode == AssignmentMode::Sampled {
        return None;
    }
    let (distribution, block_bytes) = (&content.distribution, content.block_bytes as u64);
    let summary = distribution.summary();
    if summary.distinct == 1 {
        return None;
    }
    let wanted = summary.dedup_ratio();
    let is_near = |ratio: f64| (ratio / wanted - 1.0).abs() <= TOLERANCE;
    let ratio = scaled_ratio(distribution, blocks).filter(|ratio| !is_near(*ratio))?;
    // The data set of the distribution itself has its ratio.
    let doubled = std::iter::successors(Some(blocks), |blocks| blocks.checked_mul(2));
    let enough = doubled
        .take_while(|blocks| *blocks < distribution.blocks())
        .find(|blocks| scaled_ratio(distribution, *blocks).is_some_and(is_near))
        .unwrap_or(distribution.blocks());
    Some(format!(
        "{} are too little data for the distribution '{name}': the dedup ratio of the load is \
         {ratio:.2} instead of {wanted:.2}; {} are enough",
        format_size(blocks.saturating_mul(block_bytes)),
        format_size(enough.saturating_mul(block_bytes))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_content::built_in;

    fn told_of(name: &str, distribution: &Distribution, blocks: u64) -> Option<String> {
        warning(name, &ContentSpec::new(distribution.clone(), 4096, 1), blocks)
    }

    #[test]
    fn the_user_is_told_of_another_ratio_and_of_the_size_that_is_enough() {
        let personal = built_in("personal").unwrap().unwrap().to_distribution().unwrap();
        let told = told_of("personal", &personal, 16).unwrap();
        let sampled = ContentSpec {
            mode: AssignmentMode::Sampled,
            ..ContentSpec::new(personal.clone(), 4096, 1)
        };
        assert_eq!(warning("personal", &sampled, 16), None);
        assert!(told.starts_with("64.00 KiB are too little data for the distribution"), "{told}");
        assert_eq!(told_of("personal", &personal, 1 << 18), None);
        // The size that is named is enough.
        let wanted = personal.summary().dedup_ratio();
        let enough = (4..40).map(|power| 1u64 << power);
        let first = enough.clone().find(|blocks| {
            (scaled_ratio(&personal, *blocks).unwrap() / wanted - 1.0).abs() <= TOLERANCE
        });
        let first = format_size(first.unwrap() * 4096);
        assert!(told.contains(&format!("{first} are enough")), "{told}");
    }

    #[test]
    fn one_content_everywhere_fits_into_any_data_set() {
        let all = built_in("all-duplicates").unwrap().unwrap().to_distribution().unwrap();
        assert_eq!(told_of("all-duplicates", &all, 16), None);
    }

    #[test]
    fn contents_that_are_cut_short_alone_are_no_reason() {
        // Of 1,000 blocks, 3 make a content of 4 copies: the ratio is the same within 0.1 %.
        let distribution = Distribution::parse("0 9970\n3 10\n").unwrap();
        assert_eq!(told_of("x", &distribution, 250), None);
    }
}
