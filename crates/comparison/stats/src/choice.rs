//! The choice of the test and of the interval that fit two sides.

use crate::{
    Confidence, Estimate, Pairs, Sample, TestOutcome, cliffs_delta, hedges_g, log_test,
    paired_test, rank_test, ratio_of_geometric_means, ratio_of_means, ratio_of_medians,
    ratio_of_pairs,
};
use serde::Serialize;

/// The fewest values a side for which ranks are used. Below it a rank test has few distinct
/// p-values (the smallest of three against three is 0.1), so it could not show any difference
/// after the correction for many comparisons.
pub const FEWEST_FOR_RANKS: usize = 8;

/// The modified z-score above which a value is an outlier, and the factor that makes the median of
/// absolute deviations equal to the deviation of a normal distribution. Source: Iglewicz and
/// Hoaglin, "How to Detect and Handle Outliers" (1993).
const OUTLIER_SCORE: f64 = 3.5;
const NORMAL_SHARE: f64 = 0.6745;

/// A comparison of two sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The test. It is `None` if the noise is unknown (one value a side, or values without any
    /// spread), and if a value is not positive.
    pub test: Option<TestOutcome>,
    /// The ratio of the second side to the first. It is `None` if the first is zero. Its interval
    /// leaves out 1 where the test finds a difference at the same level.
    pub ratio: Option<Estimate>,
    /// Hedges' g, if there is any spread.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: f64,
}

/// Compares two samples by the test that fits them.
///
/// The rule: the rank test is used if both sides have [`FEWEST_FOR_RANKS`] values or more, and one
/// of them has an outlier. Welch's test of the logarithms is used in all other cases: it keeps its
/// level for any variances and loses little for the moderate skew of repeated measurements, but
/// one outlier inflates the deviation and hides a difference. The rule looks at each side alone
/// and never at the difference between the sides, so it does not favour either answer; a test of
/// this crate counts the false positives of the rule as a whole. Values that are not positive have
/// no logarithms, and get the interval of the ratio of means alone.
#[must_use]
pub fn compare(base: &Sample, changed: &Sample, confidence: Confidence) -> Comparison {
    let is_positive = base.lowest() > 0.0 && changed.lowest() > 0.0;
    let by_ranks = || ratio_of_medians(base, changed, confidence);
    let (test, ratio) = if !is_positive {
        (None, ratio_of_means(base, changed, confidence))
    } else if fits_ranks(base, changed)
        && let Some(ratio) = by_ranks()
    {
        (Some(rank_test(base, changed)), Some(ratio))
    } else {
        (log_test(base, changed), ratio_of_geometric_means(base, changed, confidence))
    };
    of_sides(base, changed, test, ratio)
}

/// Compares two sides that were measured in the same rounds, by Student's test of the logarithms
/// of the ratios of the rounds. Values that are not positive are compared as by [`compare`].
#[must_use]
pub fn compare_pairs(pairs: &Pairs, confidence: Confidence) -> Comparison {
    match ratio_of_pairs(pairs, confidence) {
        Some(ratio) => of_sides(pairs.base(), pairs.changed(), paired_test(pairs), Some(ratio)),
        None => compare(pairs.base(), pairs.changed(), confidence),
    }
}

fn of_sides(
    base: &Sample,
    changed: &Sample,
    test: Option<TestOutcome>,
    ratio: Option<Estimate>,
) -> Comparison {
    Comparison {
        test,
        ratio,
        hedges_g: hedges_g(base, changed),
        cliffs_delta: cliffs_delta(base, changed),
    }
}

/// Returns `true` if [`compare`] uses the rank test for these samples.
#[must_use]
pub fn fits_ranks(first: &Sample, second: &Sample) -> bool {
    let samples = [first, second];
    samples.iter().all(|sample| sample.count() >= FEWEST_FOR_RANKS)
        && samples.iter().any(|sample| has_outlier(sample))
}

/// Returns `true` if a value lies far from the median, compared with the median of the absolute
/// deviations from it. If more than half of the values are equal, each other value counts as far.
#[must_use]
pub fn has_outlier(sample: &Sample) -> bool {
    let median = sample.median();
    let distances = sample.values().iter().map(|value| (value - median).abs());
    let Ok(distances) = Sample::new(distances) else {
        return false;
    };
    NORMAL_SHARE * distances.highest() > OUTLIER_SCORE * distances.median()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestMethod;

    #[test]
    fn an_outlier_among_enough_values_asks_for_ranks() {
        let calm: Vec<f64> = (0..10).map(|i| 100.0 + f64::from(i)).collect();
        let mut wild = calm.clone();
        wild.pop();
        wild.push(1000.0);
        let [calm, wild] = [calm, wild].map(|values| Sample::new(values).unwrap());
        let method = |a: &Sample, b: &Sample| compare(a, b, Confidence::USUAL).test.unwrap().method;
        assert_eq!(method(&calm, &calm), TestMethod::Welch);
        assert_eq!(method(&calm, &wild), TestMethod::RankNormal);
        let few = Sample::new([1.0, 1.1, 1.2, 50.0]).unwrap();
        assert_eq!(method(&few, &wild), TestMethod::Welch);
        let rounds: Vec<(f64, f64)> = (0..10).map(|i| (1.0 + f64::from(i), 2.0)).collect();
        let pairs = compare_pairs(&Pairs::new(&rounds).unwrap(), Confidence::USUAL);
        assert_eq!(pairs.test.unwrap().method, TestMethod::Paired);
    }

    #[test]
    fn one_value_a_side_has_a_ratio_and_no_test() {
        let [one, two] = [1.0, 2.0].map(|value| Sample::new([value]).unwrap());
        let comparison = compare(&one, &two, Confidence::USUAL);
        assert_eq!(comparison.test, None);
        assert_eq!(comparison.ratio, Some(Estimate { value: 2.0, interval: None }));
    }

    /// A test and an interval that disagree would give two verdicts on one table.
    #[test]
    fn the_interval_leaves_out_one_exactly_where_the_test_finds_a_difference() {
        let mut random = gemelo_base::random::Random::new(3);
        let mut differ = 0;
        for count in [2, 3, 5, 9, 14] {
            for _ in 0..200 {
                let mut draw = |factor: f64| factor * (0.8 + 0.4 * random.unit());
                let rounds: Vec<(f64, f64)> = (0..count).map(|_| (draw(1.0), draw(1.2))).collect();
                let pairs = Pairs::new(&rounds).unwrap();
                let level = Confidence::USUAL.shared_by(3);
                for found in
                    [compare_pairs(&pairs, level), compare(pairs.base(), pairs.changed(), level)]
                {
                    let p_value = found.test.unwrap().p_value;
                    let leaves_out = found
                        .ratio
                        .and_then(|ratio| ratio.interval)
                        .is_some_and(|interval| !interval.contains(1.0));
                    assert_eq!(p_value < level.error_share(), leaves_out, "{rounds:?}");
                    differ += u32::from(leaves_out);
                }
            }
        }
        assert!((200..1800).contains(&differ), "{differ}");
    }
}
