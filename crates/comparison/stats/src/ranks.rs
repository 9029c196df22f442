//! The rank test of Mann and Whitney, and the bounds of a shift that go with it.

use crate::distribution::{normal_cdf, normal_quantile};
use crate::{Confidence, Sample, TestMethod, TestOutcome};

/// The largest product of the sizes of two samples for which the distribution is computed exactly.
/// The work grows with its square: 160,000 steps here. Beyond it the normal approximation is good
/// to three digits.
const MAX_EXACT_PAIRS: usize = 400;

/// Returns Mann and Whitney's U of `second`: the number of pairs in which its value is the higher
/// one. Ties count one half.
pub(crate) fn pairs_above(first: &Sample, second: &Sample) -> f64 {
    let values = first.values();
    let pairs = second.values().iter().map(|value| {
        let below = values.partition_point(|other| other < value);
        let not_above = values.partition_point(|other| other <= value);
        (below + not_above) as f64 / 2.0
    });
    pairs.sum()
}

/// Tests two samples for the same distribution by the ranks of their values. Source: Mann and
/// Whitney, Annals of Mathematical Statistics 18 (1947). Small samples without ties get the exact
/// distribution. All others get the normal approximation with the corrections for ties and for
/// continuity, after Hollander and Wolfe, "Nonparametric Statistical Methods", section 4.1.
#[must_use]
pub fn rank_test(first: &Sample, second: &Sample) -> TestOutcome {
    let statistic = pairs_above(first, second);
    let (m, n) = (first.count(), second.count());
    let pairs = m as f64 * n as f64;
    let extreme = statistic.max(pairs - statistic);
    let ties = tie_term(first, second);
    if ties == 0.0 && m.saturating_mul(n) <= MAX_EXACT_PAIRS {
        let tail: f64 = exact_distribution(m, n).iter().skip(extreme as usize).sum();
        let p_value = (2.0 * tail).min(1.0);
        return TestOutcome { method: TestMethod::RankExact, statistic, p_value };
    }
    let deviation = normal_deviation(m as f64, n as f64, ties);
    let z = (extreme - pairs / 2.0 - 0.5) / deviation;
    // Values that are all equal have no deviation, and do not differ.
    let p_value = if deviation > 0.0 { (2.0 * normal_cdf(-z)).min(1.0) } else { 1.0 };
    TestOutcome { method: TestMethod::RankNormal, statistic, p_value }
}

/// Returns the deviation of U for samples of one source.
fn normal_deviation(m: f64, n: f64, ties: f64) -> f64 {
    let all = m + n;
    let spread = all + 1.0 - ties / (all * (all - 1.0));
    (m * n / 12.0 * spread.max(0.0)).sqrt()
}

/// Returns the sum of t³ - t over the groups of t equal values.
fn tie_term(first: &Sample, second: &Sample) -> f64 {
    let mut all: Vec<f64> = first.values().iter().chain(second.values()).copied().collect();
    all.sort_by(f64::total_cmp);
    let groups = all.chunk_by(|one, other| one == other).map(|group| group.len() as f64);
    groups.map(|size| size * size * size - size).sum()
}

/// Returns the probabilities of U = 0, 1, ... m·n for samples of m and n values of one source. The
/// highest of all values belongs to the first sample with probability m / (m + n); it then adds
/// nothing to U, and otherwise it adds m.
fn exact_distribution(m: usize, n: usize) -> Vec<f64> {
    // `row[j]` has the distribution for i and j values.
    let mut row = vec![vec![1.0]; n + 1];
    for i in 1..=m {
        let mut next: Vec<Vec<f64>> = Vec::with_capacity(n + 1);
        for (j, without_first) in row.iter().enumerate() {
            let all = (i + j) as f64;
            let mut both = vec![0.0; i * j + 1];
            for (entry, p) in both.iter_mut().zip(without_first) {
                *entry += p * i as f64 / all;
            }
            if let Some(without_second) = next.last() {
                for (entry, p) in both.iter_mut().skip(i).zip(without_second) {
                    *entry += p * j as f64 / all;
                }
            }
            next.push(both);
        }
        row = next;
    }
    row.pop().unwrap_or_default()
}

/// The order statistics of all pairs that bound a shift between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShiftBounds {
    /// The number of pairs that the interval leaves out at each end.
    pub left_out: usize,
}

impl ShiftBounds {
    /// Returns the bounds for samples of these sizes, or `None` if the samples are too small for
    /// the level. The interval contains the shifts that the rank test does not reject. Source:
    /// Hollander and Wolfe, "Nonparametric Statistical Methods", section 4.3 (Moses' interval).
    #[must_use]
    pub fn of(m: usize, n: usize, confidence: Confidence) -> Option<Self> {
        let max_in_tail = confidence.error_share() / 2.0;
        if m.saturating_mul(n) <= MAX_EXACT_PAIRS {
            let mut tail = 0.0;
            let within = exact_distribution(m, n).into_iter().take_while(|p| {
                tail += p;
                tail <= max_in_tail
            });
            let left_out = within.count().checked_sub(1)?;
            return Some(Self { left_out });
        }
        let (m, n) = (m as f64, n as f64);
        let reach = normal_quantile(1.0 - max_in_tail) * normal_deviation(m, n, 0.0);
        let left_out = (m * n / 2.0 - 0.5 - reach).floor();
        (left_out >= 0.0).then_some(Self { left_out: left_out as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn three_against_three_cannot_reach_five_percent() {
        let outcome = rank_test(&sample(&[1.0, 2.0, 3.0]), &sample(&[4.0, 5.0, 6.0]));
        assert_eq!(outcome.method, TestMethod::RankExact);
        assert!((outcome.p_value - 0.1).abs() < 1e-15);
        assert_eq!(ShiftBounds::of(3, 3, Confidence::USUAL), None);
        assert_eq!(ShiftBounds::of(4, 4, Confidence::USUAL), Some(ShiftBounds { left_out: 0 }));
    }

    #[test]
    fn equal_values_do_not_differ() {
        let outcome = rank_test(&sample(&[1.0; 5]), &sample(&[1.0; 9]));
        assert_eq!((outcome.method, outcome.p_value), (TestMethod::RankNormal, 1.0));
    }

    #[test]
    fn the_exact_distribution_is_symmetric_and_sums_to_one() {
        for (m, n) in [(1, 1), (3, 5), (20, 20), (1, 400)] {
            let p = exact_distribution(m, n);
            assert_eq!(p.len(), m * n + 1);
            assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            assert!(p.iter().zip(p.iter().rev()).all(|(one, other)| (one - other).abs() < 1e-12));
        }
    }
}
