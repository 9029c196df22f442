//! Estimates what the finder would save, from a sample of the blocks without a fingerprint.
//!
//! The sample is uniform over the blocks, so the number of distinct contents has no good estimate
//! from it, but bounds (M. Charikar et al., *Towards estimation error guarantees for distinct
//! values*, PODS 2000). Of `n` sampled blocks of `N`, let `f` contents be sampled once and `g` more
//! often. Each content is sampled or not, so there are at least `f + g`, and about
//! `f * N / n + g` at most. The number of equal pairs in the sample gives another lower bound: with
//! `P` pairs among the `N` blocks there are at least `N² / (N + 2 P)` contents.

use crate::engine::SampledBlocks;
use serde::{Deserialize, Serialize};

/// The two-sided quantile of the normal distribution for 95 %.
const NORMAL_95: f64 = 1.96;
/// The mean of a Poisson distribution that gives no event in 5 % of all cases.
const POISSON_NONE_95: f64 = 3.0;

/// The saving that an examination of all blocks would give, with an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FindEstimate {
    /// Stored blocks of off-line volumes without a fingerprint.
    pub blocks: u64,
    /// Blocks of these that were read and fingerprinted.
    pub sampled_blocks: u64,
    /// A guess of the blocks that would be freed: the geometric mean of the bounds, so that neither
    /// bound is missed by a greater factor than the other.
    pub saved_blocks: u64,
    /// The lower bound of the blocks that would be freed, at 95 %.
    pub saved_low_blocks: u64,
    /// The upper bound of the blocks that would be freed, at 95 %.
    pub saved_high_blocks: u64,
    /// Bytes of a block.
    pub block_bytes: u32,
}

impl FindEstimate {
    pub(super) fn of(sample: &SampledBlocks, block_bytes: u32) -> Self {
        assert!(sample.sampled <= sample.blocks, "a sample is a part of the blocks");
        let distinct = Distinct::of(sample);
        let saved = |distinct: f64| (sample.blocks as f64 - distinct).round().max(0.0) as u64;
        let (low, high) = (saved(distinct.most), saved(distinct.least));
        Self {
            blocks: sample.blocks,
            sampled_blocks: sample.sampled,
            saved_blocks: (low as f64 * high as f64).sqrt().round() as u64,
            saved_low_blocks: low,
            saved_high_blocks: high,
            block_bytes,
        }
    }
}

/// The number of contents that would be new to the index.
struct Distinct {
    least: f64,
    most: f64,
}

impl Distinct {
    fn of(sample: &SampledBlocks) -> Self {
        let (blocks, sampled) = (sample.blocks as f64, sample.sampled as f64);
        let counts = sample.copies_of_new.iter().map(|copies| f64::from(*copies));
        let once = counts.clone().filter(|copies| *copies == 1.0).count() as f64;
        let more = sample.copies_of_new.len() as f64 - once;
        if sample.sampled == sample.blocks || sample.sampled == 0 {
            let exact = once + more;
            let most = if sample.sampled == 0 { blocks } else { exact };
            return Self { least: exact, most };
        }
        let factor = blocks / sampled;
        let new: f64 = counts.clone().sum();
        let deviation = (new * (sampled - new).max(0.0) / sampled).sqrt();
        let min_new = (new - NORMAL_95 * deviation).max(0.0) * factor;
        let pairs = |copies: f64| copies * (copies - 1.0) / 2.0;
        let seen_pairs: f64 = counts.clone().map(pairs).sum();
        let variance: f64 = counts.map(|copies| pairs(copies).powi(2)).sum();
        let max_pairs = seen_pairs + NORMAL_95 * variance.sqrt() + POISSON_NONE_95;
        let all_pairs = max_pairs * factor * factor;
        let by_pairs = match min_new {
            0.0 => 0.0,
            min_new => min_new * min_new / (min_new + 2.0 * all_pairs),
        };
        let least = by_pairs.max(once + more);
        let max_once = once + NORMAL_95 * once.sqrt() + POISSON_NONE_95;
        let most = (max_once * factor + more).min(blocks).max(least);
        Self { least, most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::collections::HashMap;

    /// A sample of blocks whose content is `content_of` their number. Content 0 is in the index.
    fn sampled(
        blocks: u64,
        sampled: u64,
        seed: u64,
        content_of: &dyn Fn(u64) -> u64,
    ) -> SampledBlocks {
        let mut random = Random::new(seed);
        let mut copies: HashMap<u64, u32> = HashMap::new();
        for at in 0..blocks {
            // Selection sampling: each set of blocks is as likely as any other.
            let left = sampled - copies.values().map(|one| u64::from(*one)).sum::<u64>();
            if random.below(blocks - at) < left {
                *copies.entry(content_of(at)).or_default() += 1;
            }
        }
        copies.remove(&0);
        SampledBlocks { blocks, sampled, copies_of_new: copies.into_values().collect() }
    }

    fn truth(blocks: u64, content_of: &dyn Fn(u64) -> u64) -> u64 {
        let contents: std::collections::HashSet<u64> = (0..blocks).map(content_of).collect();
        blocks - contents.iter().filter(|content| **content != 0).count() as u64
    }

    #[test]
    fn the_truth_lies_between_the_bounds_of_nineteen_in_twenty_samples() {
        const BLOCKS: u64 = 4000;
        let kinds: [(&str, &dyn Fn(u64) -> u64); 6] = [
            ("all different", &|at| at + 1),
            ("pairs", &|at| at / 2 + 1),
            ("tens", &|at| at / 10 + 1),
            ("half known", &|at| if at % 2 == 0 { 0 } else { at }),
            ("a large one and others", &|at| if at % 4 == 0 { 1 } else { at + 2 }),
            ("skewed", &|at| (at as f64).sqrt() as u64 + 1),
        ];
        for (kind, content_of) in kinds {
            let truth = truth(BLOCKS, content_of);
            let mut within = 0;
            for seed in 0..100 {
                let sample = sampled(BLOCKS, 400, seed, content_of);
                let estimate = FindEstimate::of(&sample, 4096);
                let FindEstimate { saved_low_blocks, saved_high_blocks, saved_blocks, .. } =
                    estimate;
                assert!((saved_low_blocks..=saved_high_blocks).contains(&saved_blocks));
                within += u32::from((saved_low_blocks..=saved_high_blocks).contains(&truth));
            }
            assert!(within >= 95, "{kind}: {within} of 100");
        }
    }

    #[test]
    fn different_contents_promise_little_and_equal_ones_much() {
        let bounds = |content_of: &dyn Fn(u64) -> u64| {
            let estimate = FindEstimate::of(&sampled(4000, 1000, 1, content_of), 4096);
            (estimate.saved_low_blocks, estimate.saved_high_blocks)
        };
        let (low, high) = bounds(&|at| at + 1);
        assert!(low == 0 && high < 150, "{low} to {high}");
        let (low, high) = bounds(&|_| 1);
        assert!(low >= 3900 && high == 3999, "{low} to {high}");
        let (low, high) = bounds(&|_| 0);
        assert!(low >= 3950 && high == 4000, "{low} to {high}");
    }

    #[test]
    fn a_sample_of_everything_is_exact_and_none_says_nothing() {
        let estimate = FindEstimate::of(&sampled(100, 100, 1, &|at| at / 4), 4096);
        let bounds = |one: &FindEstimate| (one.saved_low_blocks, one.saved_high_blocks);
        assert_eq!((estimate.saved_blocks, bounds(&estimate)), (76, (76, 76)));
        let none = SampledBlocks { blocks: 9, sampled: 0, copies_of_new: Vec::new() };
        assert_eq!(bounds(&FindEstimate::of(&none, 4096)), (0, 9));
    }
}
