//! The choice between the test of means and the test of ranks.

use crate::{
    Confidence, Estimate, Sample, TestOutcome, cliffs_delta, hedges_g, rank_test, ratio_of_means,
    ratio_of_medians, welch_test,
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

/// A comparison of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The test. It is `None` if a side has a single value.
    pub test: Option<TestOutcome>,
    /// The ratio of the second sample to the first: of means for Welch's test, of medians for the
    /// rank test. It is `None` if the first is zero.
    pub ratio: Option<Estimate>,
    /// Hedges' g, if there is any spread.
    pub hedges_g: Option<f64>,
    /// Cliff's delta.
    pub cliffs_delta: f64,
}

/// Compares two samples by the test that fits them.
///
/// The rule: the rank test is used if both sides have [`FEWEST_FOR_RANKS`] values or more, and one
/// of them has an outlier. Welch's test is used in all other cases: it keeps its level for any
/// variances and loses little for the moderate skew of repeated measurements, but one outlier
/// inflates the deviation and hides a difference. The rule looks at each side alone and never at
/// the difference between the sides, so it does not favour either answer; a test of this crate
/// counts the false positives of the rule as a whole.
#[must_use]
pub fn compare(base: &Sample, changed: &Sample, confidence: Confidence) -> Comparison {
    let (test, ratio) = if fits_ranks(base, changed) {
        let ratio = ratio_of_medians(base, changed, confidence)
            .or_else(|| ratio_of_means(base, changed, confidence));
        (Some(rank_test(base, changed)), ratio)
    } else {
        (welch_test(base, changed), ratio_of_means(base, changed, confidence))
    };
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
    }

    #[test]
    fn one_value_a_side_has_a_ratio_and_no_test() {
        let [one, two] = [1.0, 2.0].map(|value| Sample::new([value]).unwrap());
        let comparison = compare(&one, &two, Confidence::USUAL);
        assert_eq!(comparison.test, None);
        assert_eq!(comparison.ratio, Some(Estimate { value: 2.0, interval: None }));
    }
}
