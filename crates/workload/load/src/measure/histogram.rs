//! Histograms of latencies. Recording allocates nothing. The form kept in results can be merged and
//! read again later.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest latency that is recorded exactly: one hour. Longer ones are recorded as this one.
const MAX_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a latency.
const DIGITS: u8 = 3;

/// Percentiles that are printed and kept beside the histogram.
const PERCENTILES: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 99.99];

/// A histogram in memory. Recording allocates nothing.
#[derive(Debug, Clone)]
pub struct Latencies {
    histogram: Histogram<u64>,
    /// Exact sum of the latencies; the histogram would give it to three digits only.
    sum_ns: u64,
}

impl Latencies {
    /// Creates an empty histogram.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "a histogram takes about 100 KiB, so creating one should be visible in the code"
    )]
    pub fn new() -> Self {
        Self { histogram: empty(), sum_ns: 0 }
    }

    /// Records a latency in nanoseconds.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(latency_ns);
        self.histogram.saturating_record(latency_ns);
    }

    /// Adds another histogram's latencies.
    pub fn add(&mut self, other: &Self) {
        if other.count() > 0 {
            self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
            // Adding fails only between different bounds; these are the same.
            let _ = self.histogram.add(&other.histogram);
        }
    }

    pub(crate) fn clear(&mut self) {
        if self.count() > 0 {
            self.histogram.clear();
            self.sum_ns = 0;
        }
    }

    /// Returns the number of latencies recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Returns the histogram in the form that results keep.
    #[must_use]
    pub fn to_histogram(&self) -> LatencyHistogram {
        let buckets = self.histogram.iter_recorded();
        LatencyHistogram {
            sum_ns: self.sum_ns,
            counts: buckets
                .map(|bucket| [bucket.value_iterated_to(), bucket.count_at_value()])
                .collect(),
        }
    }
}

#[expect(
    clippy::expect_used,
    reason = "the constructor accepts these constant bounds; every test would fail otherwise"
)]
fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("constant bounds")
}

/// A histogram in the form that results keep: pairs of `[latency_ns, count]`, to three digits, in
/// ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct LatencyHistogram {
    /// Exact sum of all latencies.
    pub sum_ns: u64,
    /// Highest latency and number of operations of each bucket that is not empty.
    pub counts: Vec<[u64; 2]>,
}

impl LatencyHistogram {
    /// Returns the number of latencies recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|[_, count]| count).sum()
    }

    /// Returns the latency that this percentage of operations did not exceed, or `None` for an
    /// empty histogram.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        let rank = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().find(|[_, count]| {
            seen += count;
            seen >= rank
        });
        bucket.or(self.counts.last()).map(|[latency_ns, _]| *latency_ns)
    }

    /// Adds another histogram's counts.
    pub fn merge(&mut self, other: &Self) {
        let mut pairs = std::mem::take(&mut self.counts);
        pairs.extend_from_slice(&other.counts);
        pairs.sort_unstable();
        for [latency_ns, count] in pairs {
            match self.counts.last_mut() {
                Some(last) if last[0] == latency_ns => last[1] += count,
                _ => self.counts.push([latency_ns, count]),
            }
        }
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// Returns a histogram with a precision of one in 128, which keeps the many histograms of
    /// intervals small.
    pub(crate) fn coarser(&self) -> Self {
        const KEPT_BITS: u32 = 8;
        let mut coarser =
            Self { sum_ns: self.sum_ns, counts: Vec::with_capacity(self.counts.len()) };
        for [latency_ns, count] in &self.counts {
            let dropped = (u64::BITS - latency_ns.leading_zeros()).saturating_sub(KEPT_BITS);
            let rounded = latency_ns | ((1u64 << dropped) - 1);
            match coarser.counts.last_mut() {
                Some(last) if last[0] == rounded => last[1] += count,
                _ => coarser.counts.push([rounded, *count]),
            }
        }
        coarser
    }

    /// Returns the figures that people read, or `None` for an empty histogram.
    #[must_use]
    pub fn summary(&self) -> Option<LatencySummary> {
        let count = self.count();
        let (min, max) = (self.counts.first()?[0], self.counts.last()?[0]);
        Some(LatencySummary {
            mean_ns: self.sum_ns as f64 / count as f64,
            min_ns: min,
            max_ns: max,
            percentiles_ns: PERCENTILES
                .iter()
                .map(|percent| (*percent, self.percentile_ns(*percent).unwrap_or(0)))
                .collect(),
        })
    }
}

/// The figures of a histogram that people read. All but the mean have three significant digits.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Mean latency in nanoseconds, from the exact sum.
    pub mean_ns: f64,
    /// Shortest latency in nanoseconds.
    pub min_ns: u64,
    /// Longest latency in nanoseconds.
    pub max_ns: u64,
    /// Pairs of a percentage, from 1 to 99.99, and the latency that this percentage of operations
    /// did not exceed.
    pub percentiles_ns: Vec<(f64, u64)>,
}

impl LatencySummary {
    /// Returns one of the percentiles that are kept, or `None` for any other.
    #[must_use]
    pub fn percentile_ns(&self, percent: f64) -> Option<u64> {
        self.percentiles_ns
            .iter()
            .find(|(kept, _)| *kept == percent)
            .map(|(_, latency_ns)| *latency_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram(values: &[u64]) -> LatencyHistogram {
        let mut latencies = Latencies::new();
        for value in values {
            latencies.record(*value);
        }
        latencies.to_histogram()
    }

    #[test]
    fn figures_are_those_of_the_values() {
        let values: Vec<u64> = (1..=1000).collect();
        let summary = histogram(&values).summary().unwrap();
        assert!((summary.mean_ns - 500.5).abs() < 1e-9);
        assert_eq!((summary.min_ns, summary.max_ns), (1, 1000));
        assert_eq!(summary.percentile_ns(50.0), Some(500));
        assert_eq!(summary.percentile_ns(99.9), Some(999));
        assert_eq!(histogram(&[]).summary(), None);
        assert_eq!(histogram(&[u64::MAX]).count(), 1);
    }

    proptest! {
        #[test]
        fn merging_is_recording_together(
            first in proptest::collection::vec(1u64..10_000_000, 0..200),
            second in proptest::collection::vec(1u64..10_000_000, 0..200),
        ) {
            let mut merged = histogram(&first);
            merged.merge(&histogram(&second));
            let together: Vec<u64> = first.iter().chain(&second).copied().collect();
            prop_assert_eq!(&merged, &histogram(&together));
            let coarser = merged.coarser();
            prop_assert_eq!(coarser.count(), merged.count());
            for percent in [50.0, 99.0] {
                let (fine, coarse) = (merged.percentile_ns(percent), coarser.percentile_ns(percent));
                if let (Some(fine), Some(coarse)) = (fine, coarse) {
                    prop_assert!(coarse >= fine && coarse as f64 <= fine as f64 * 1.01 + 1.0);
                }
            }
        }
    }
}
