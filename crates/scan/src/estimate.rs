//! How sure figures are that come from a sample of distinct contents.
//!
//! With h the k-th smallest fingerprint as a share of all fingerprints, the k-1 contents below h are a uniform sample,
//! (k-1)/h is an unbiased estimate of the distinct contents (Beyer and others, SIGMOD 2007), and every sampled content
//! has its exact number of copies (Gibbons, VLDB 2001). The number of blocks is counted, not estimated, so ratio and
//! duplicates are as sure as the distinct contents. A count in the sample is nearly Poisson, thinned by the share
//! that was not sampled; the blocks of a range are a weighted sum of such counts, for which the gamma interval of Fay
//! and Feuer (Statistics in Medicine 16, 1997) holds even where counts are small.

use crate::result::{EstimateResult, Interval, RangeInterval};
use crate::tally::CopyCounts;
use gemelo_content::{range_index, range_start};

/// The normal quantile of a two-sided 95 % interval.
const QUANTILE: f64 = 1.96;

/// What a sample is of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleScale {
    /// The share of distinct contents that is in the sample, above 0; 1 if all are.
    pub(crate) share: f64,
}

/// A sum of counts, each with a weight.
#[derive(Debug, Clone, Copy, Default)]
struct WeightedSum {
    sum: f64,
    squares: f64,
}

impl WeightedSum {
    fn add(&mut self, weight: f64, count: f64) {
        self.sum += weight * count;
        self.squares += weight * weight * count;
    }

    /// The 95 % interval of the sum in the whole; `weight` is the most that one content can weigh.
    fn interval(self, weight: f64, share: f64) -> Interval {
        if share >= 1.0 {
            return Interval { low: self.sum, high: self.sum };
        }
        // Of a population of which a share is known, only the rest is uncertain.
        let quantile = QUANTILE * (1.0 - share).sqrt();
        let low = if self.sum > 0.0 { gamma_bound(self.sum, self.squares, -quantile) } else { 0.0 };
        let high = gamma_bound(self.sum + weight, self.squares + weight * weight, quantile);
        Interval { low: low / share, high: high.max(self.sum) / share }
    }
}

/// A bound of a weighted sum of Poisson counts, its chi-square quantile by Wilson and Hilferty (PNAS 17, 1931).
fn gamma_bound(sum: f64, squares: f64, quantile: f64) -> f64 {
    let events = sum * sum / squares;
    let root = 1.0 - 1.0 / (9.0 * events) + quantile / (3.0 * events.sqrt());
    sum * root.max(0.0).powi(3)
}

/// The intervals of all figures. `zero` are the zero contents, known exactly, as (copies, contents).
pub(crate) fn intervals(
    counts: &CopyCounts,
    zero: &[(u64, u64)],
    sample: SampleScale,
    blocks: u64,
    distinct_byte_share: f64,
) -> EstimateResult {
    let total_blocks = blocks as f64;
    let sampled: u64 = counts.classes().map(|(_, contents)| contents).sum();
    let zero_contents = zero.iter().map(|(_, contents)| *contents as f64).sum::<f64>();
    let zero_unique = zero.iter().filter(|(copies, _)| *copies == 1).map(|(_, n)| *n as f64).sum::<f64>();
    let count_where = |wanted: &dyn Fn(u64) -> bool| {
        let mut sum = WeightedSum::default();
        for (_, contents) in counts.classes().filter(|(copies, _)| wanted(*copies)) {
            sum.add(1.0, contents as f64);
        }
        sum.interval(1.0, sample.share)
    };
    let plus = |interval: Interval, exact: f64| Interval {
        low: interval.low + exact,
        high: (interval.high + exact).min(total_blocks),
    };
    let distinct = plus(count_where(&|_| true), zero_contents);
    let estimate = sampled as f64 / sample.share + zero_contents;
    // Saved bytes follow distinct contents, whose mean length is far surer than their number.
    let saved = |distinct: f64| (1.0 - distinct_byte_share * distinct / estimate.max(1.0)).clamp(0.0, 1.0);
    EstimateResult {
        sampled_contents: sampled,
        sampled_share: sample.share,
        distinct,
        unique: plus(count_where(&|copies| copies == 1), zero_unique),
        distinct_with_duplicates: plus(count_where(&|copies| copies > 1), zero_contents - zero_unique),
        duplicates: Interval { low: total_blocks - distinct.high, high: total_blocks - distinct.low },
        dedup_ratio: Interval {
            low: ratio(total_blocks, distinct.high),
            high: ratio(total_blocks, distinct.low),
        },
        saved_share: Interval { low: saved(distinct.high), high: saved(distinct.low) },
        ranges: range_intervals(counts, zero, sample, total_blocks),
    }
}

fn ratio(blocks: f64, distinct: f64) -> f64 {
    if distinct > 0.0 { blocks / distinct } else { 1.0 }
}

fn range_intervals(
    counts: &CopyCounts,
    zero: &[(u64, u64)],
    sample: SampleScale,
    total_blocks: f64,
) -> Vec<RangeInterval> {
    let index = |copies: u64| range_index(copies.saturating_sub(1));
    let classes = || counts.classes().chain(zero.iter().copied());
    let rows = classes().map(|(copies, _)| index(copies) + 1).max().unwrap_or(0);
    let row = |row: usize| {
        let (mut contents, mut blocks) = (WeightedSum::default(), WeightedSum::default());
        for (copies, count) in counts.classes().filter(|(copies, _)| index(*copies) == row) {
            contents.add(1.0, count as f64);
            blocks.add(copies as f64, count as f64);
        }
        let exact = zero.iter().filter(|(copies, _)| index(*copies) == row);
        let (exact_contents, exact_blocks) = exact
            .fold((0.0, 0.0), |(n, b), (copies, count)| (n + *count as f64, b + (copies * count) as f64));
        let most_copies = (range_start(row + 1) as f64).min(total_blocks);
        let plus = |interval: Interval, exact: f64| Interval {
            low: interval.low + exact,
            high: (interval.high + exact).min(total_blocks),
        };
        RangeInterval {
            contents: plus(contents.interval(1.0, sample.share), exact_contents),
            blocks: plus(blocks.interval(most_copies, sample.share), exact_blocks),
        }
    };
    (0..rows).map(row).collect()
}
