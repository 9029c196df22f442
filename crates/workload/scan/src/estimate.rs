//! Confidence intervals of figures that come from a sample of distinct contents.
//!
//! Let h be the k-th smallest fingerprint as a share of all fingerprints. The k-1 contents below h
//! are a uniform sample, and (k-1)/h is an unbiased estimate of the distinct contents (Beyer and
//! others, SIGMOD 2007). Every sampled content has its exact number of copies (Gibbons, VLDB 2001).
//! The number of blocks is counted, not estimated, so the relative error of the dedup ratio and of
//! the duplicates follows from that of the distinct contents alone. A count in the sample is nearly
//! Poisson, reduced by the share that was sampled. The blocks of a range are a weighted sum of such
//! counts, for which the gamma interval of Fay and Feuer (Statistics in Medicine 16, 1997) holds
//! even if counts are small.

use crate::copies::CopyCounts;
use crate::result::{ConfidenceInterval, EstimateResult, RangeInterval};
use gemelo_content::{range_index, range_start};

/// The normal quantile of a two-sided 95 % interval.
const QUANTILE: f64 = 1.96;

/// The size of a sample relative to the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SampleScale {
    /// The share of distinct contents that is in the sample: above 0, and 1 if all are.
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

    /// Returns the 95 % interval of the sum in the whole. `weight` is the highest weight of one
    /// content.
    fn interval(self, weight: f64, share: f64) -> ConfidenceInterval {
        if share >= 1.0 {
            return ConfidenceInterval { low: self.sum, high: self.sum };
        }
        // A share of the population is known exactly, and only the rest is uncertain (the finite
        // population correction).
        let quantile = QUANTILE * (1.0 - share).sqrt();
        let low = if self.sum > 0.0 { gamma_bound(self.sum, self.squares, -quantile) } else { 0.0 };
        let high = gamma_bound(self.sum + weight, self.squares + weight * weight, quantile);
        ConfidenceInterval { low: low / share, high: high.max(self.sum) / share }
    }
}

/// Returns a bound of a weighted sum of Poisson counts. The chi-square quantile is that of Wilson
/// and Hilferty (PNAS 17, 1931).
fn gamma_bound(sum: f64, squares: f64, quantile: f64) -> f64 {
    let events = sum * sum / squares;
    let root = 1.0 - 1.0 / (9.0 * events) + quantile / (3.0 * events.sqrt());
    sum * root.max(0.0).powi(3)
}

/// The counts of the whole scan, which are exact, and the estimate of the distinct bytes. `blocks`,
/// `bytes` and `distinct_bytes` are without zeros.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Whole {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) distinct_bytes: u64,
    pub(crate) zero_blocks: u64,
    pub(crate) zero_bytes: u64,
    pub(crate) zero_contents: u64,
    pub(crate) zero_distinct_bytes: u64,
}

/// Returns the intervals of all figures.
pub(crate) fn intervals(counts: &CopyCounts, sample: SampleScale, whole: Whole) -> EstimateResult {
    let total_blocks = whole.blocks as f64;
    let sampled: u64 = counts.classes().map(|(_, contents)| contents).sum();
    let count_where = |wanted: &dyn Fn(u64) -> bool| {
        let mut sum = WeightedSum::default();
        for (_, contents) in counts.classes().filter(|(copies, _)| wanted(*copies)) {
            sum.add(1.0, contents as f64);
        }
        limited(sum.interval(1.0, sample.share), total_blocks)
    };
    let distinct = count_where(&|_| true);
    let estimate = (sampled as f64 / sample.share).max(1.0);
    // Saved bytes follow from the distinct contents: their mean length is far more certain than
    // their number.
    let saved = |distinct: f64, zero_bytes: u64, zero_distinct_bytes: u64| {
        let kept = whole.distinct_bytes as f64 * distinct / estimate + zero_distinct_bytes as f64;
        let bytes = whole.bytes as f64 + zero_bytes as f64;
        (1.0 - kept / bytes.max(1.0)).clamp(0.0, 1.0)
    };
    let thin = |distinct: f64| saved(distinct, 0, 0);
    let with_zeros = |distinct| saved(distinct, whole.zero_bytes, whole.zero_distinct_bytes);
    let all_blocks = total_blocks + whole.zero_blocks as f64;
    let ratio_with_zeros = |distinct: f64| ratio(all_blocks, distinct + whole.zero_contents as f64);
    let falling = |of: &dyn Fn(f64) -> f64| ConfidenceInterval {
        low: of(distinct.high),
        high: of(distinct.low),
    };
    EstimateResult {
        sampled_contents: sampled,
        sampled_share: sample.share,
        distinct,
        unique: count_where(&|copies| copies == 1),
        distinct_with_duplicates: count_where(&|copies| copies > 1),
        duplicates: falling(&|distinct| total_blocks - distinct),
        dedup_ratio: falling(&|distinct| ratio(total_blocks, distinct)),
        saved_share: falling(&thin),
        dedup_ratio_with_zeros: falling(&ratio_with_zeros),
        saved_share_with_zeros: falling(&with_zeros),
        ranges: range_intervals(counts, sample, total_blocks),
    }
}

fn ratio(blocks: f64, distinct: f64) -> f64 {
    if distinct > 0.0 { blocks / distinct } else { 1.0 }
}

/// Returns the interval with an upper end of at most `most`.
fn limited(interval: ConfidenceInterval, most: f64) -> ConfidenceInterval {
    ConfidenceInterval { high: interval.high.min(most), ..interval }
}

fn range_intervals(
    counts: &CopyCounts,
    sample: SampleScale,
    total_blocks: f64,
) -> Vec<RangeInterval> {
    let index = |copies: u64| range_index(copies.saturating_sub(1));
    let rows = counts.classes().map(|(copies, _)| index(copies) + 1).max().unwrap_or(0);
    let row = |row: usize| {
        let (mut contents, mut blocks) = (WeightedSum::default(), WeightedSum::default());
        for (copies, count) in counts.classes().filter(|(copies, _)| index(*copies) == row) {
            contents.add(1.0, count as f64);
            blocks.add(copies as f64, count as f64);
        }
        let max_copies = (range_start(row + 1) as f64).min(total_blocks);
        RangeInterval {
            contents: limited(contents.interval(1.0, sample.share), total_blocks),
            blocks: limited(blocks.interval(max_copies, sample.share), total_blocks),
        }
    };
    (0..rows).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::ScanFingerprint;
    use crate::result::BlockSizeResult;
    use crate::scan::sample_scale;
    use crate::set::{CountingSet, MIN_SAMPLE_BYTES, Record, SetLimit, shard_of};
    use crate::tally::{BlockTotals, Row, Tally};
    use gemelo_base::random::mix_pair;

    /// A skewed population, like real data: many unique contents and a long tail.
    fn copies_of(content: u64) -> u64 {
        match content % 100 {
            0 => 1000 / (content / 100 % 400 + 2),
            1..20 => 1 + content % 7,
            _ => 1,
        }
    }

    fn figures(contents: u64, seed: u64, limit: SetLimit) -> BlockSizeResult {
        let set = CountingSet::new(limit);
        let mut totals = BlockTotals::default();
        for content in 0..contents {
            let bits = mix_pair(seed, content);
            let fingerprint = ScanFingerprint { high: mix_pair(bits, 1), low: mix_pair(bits, 2) };
            let batch = vec![Record::new(fingerprint, 4096, 0); copies_of(content) as usize];
            set.insert(shard_of(fingerprint), &batch, &mut Vec::new()).unwrap();
            totals.blocks += batch.len() as u64;
            totals.data_bytes += 4096 * batch.len() as u64;
        }
        let (below, scale) = sample_scale(&set);
        let mut tally = Tally::new(4096, 1);
        set.for_each(|counted| -> std::io::Result<()> {
            if scale.is_none_or(|scale| scale.share >= 1.0) || counted.fingerprint.low < below {
                tally.add(&Row {
                    fingerprint: counted.fingerprint,
                    length_bytes: counted.length_bytes,
                    copies: counted.copies,
                    zero: false,
                    place: None,
                    nature: None,
                    positions: Vec::new(),
                });
            }
            Ok(())
        })
        .unwrap();
        tally.finish(&totals, scale)
    }

    /// Returns the number of samples in which a figure was in its interval.
    #[derive(Default)]
    struct Coverage {
        inside: u32,
        seeds: u32,
    }

    impl Coverage {
        fn add(&mut self, interval: ConfidenceInterval, truth: f64) {
            self.seeds += 1;
            self.inside += u32::from((interval.low..=interval.high).contains(&truth));
        }

        fn check(&self, what: &str) {
            // The interval promises 95 in 100. Fewer than 180 of 200 seeds has a probability below
            // 1 in 500.
            assert!(
                self.inside * 10 >= self.seeds * 9,
                "{what}: {} of {}",
                self.inside,
                self.seeds
            );
        }
    }

    #[test]
    fn the_truth_lies_in_the_intervals_of_nine_in_ten_seeds() {
        const SEEDS: u64 = 200;
        let contents = 12_000;
        let truth = figures(contents, 0, SetLimit::None);
        assert_eq!(truth.distinct, contents);
        let mut coverages: Vec<(String, Coverage)> = Vec::new();
        let mut means = (0.0, 0.0);
        for seed in 0..SEEDS {
            let limit = SetLimit::Sample { memory_bytes: MIN_SAMPLE_BYTES + 20_000 };
            let found = figures(contents, seed, limit);
            let estimate = found.estimate.as_ref().unwrap();
            assert!((0.05..0.5).contains(&estimate.sampled_share), "{}", estimate.sampled_share);
            means.0 += found.distinct as f64 / SEEDS as f64;
            means.1 += (estimate.distinct.high - estimate.distinct.low) / SEEDS as f64;
            let mut checked = vec![
                ("distinct".to_owned(), estimate.distinct, truth.distinct as f64),
                ("unique".to_owned(), estimate.unique, truth.unique as f64),
                (
                    "distinct with duplicates".to_owned(),
                    estimate.distinct_with_duplicates,
                    truth.distinct_with_duplicates as f64,
                ),
                ("duplicates".to_owned(), estimate.duplicates, truth.duplicates as f64),
                ("ratio".to_owned(), estimate.dedup_ratio, truth.dedup_ratio),
                ("saved".to_owned(), estimate.saved_share, truth.saved_share),
            ];
            for ((row, true_row), range) in estimate.ranges.iter().zip(&truth.ranges).zip(0..) {
                checked.push((
                    format!("contents of range {range}"),
                    row.contents,
                    true_row.contents as f64,
                ));
                checked.push((
                    format!("blocks of range {range}"),
                    row.blocks,
                    true_row.blocks as f64,
                ));
            }
            for (what, interval, true_figure) in checked {
                let known = coverages.iter().position(|(name, _)| *name == what);
                let at = known.unwrap_or_else(|| {
                    coverages.push((what, Coverage::default()));
                    coverages.len() - 1
                });
                coverages[at].1.add(interval, true_figure);
            }
        }
        for (what, coverage) in &coverages {
            coverage.check(what);
        }
        assert!(coverages.len() >= 6 + 2 * 6);
        // The estimate must be unbiased: wide intervals alone could contain the truth too.
        assert!((means.0 / contents as f64 - 1.0).abs() < 0.01, "{}", means.0);
        assert!(means.1 / (contents as f64) < 0.15, "{}", means.1);
    }

    #[test]
    fn a_sample_that_holds_everything_is_exact() {
        let found = figures(500, 1, SetLimit::Sample { memory_bytes: MIN_SAMPLE_BYTES });
        let truth = figures(500, 1, SetLimit::None);
        let estimate = found.estimate.clone().unwrap();
        assert_eq!(estimate.sampled_share, 1.0);
        assert_eq!(estimate.distinct, ConfidenceInterval { low: 500.0, high: 500.0 });
        assert_eq!(found.ranges, truth.ranges);
        assert_eq!(found.distribution, truth.distribution);
        let unique = truth.unique as f64;
        assert_eq!(estimate.unique, ConfidenceInterval { low: unique, high: unique });
    }

    /// For one count, the interval of Fay and Feuer is the exact one of Garwood (1936): 4.80 to
    /// 18.39 for 10 events.
    #[test]
    fn the_interval_of_a_single_count_is_the_exact_one() {
        let mut sum = WeightedSum::default();
        sum.add(1.0, 10.0);
        let interval = sum.interval(1.0, 1e-9);
        assert!((interval.low * 1e-9 - 4.795).abs() < 0.02, "{}", interval.low);
        assert!((interval.high * 1e-9 - 18.39).abs() < 0.05, "{}", interval.high);
    }
}
