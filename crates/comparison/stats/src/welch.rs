//! Welch's t-test, and the outcome that all tests share.

use crate::Sample;
use crate::distribution::student_two_sided;
use schemars::JsonSchema;
use serde::Serialize;

/// The method of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestMethod {
    /// Welch's t-test of the logarithms.
    Welch,
    /// Student's t-test of the logarithms of the ratios of rounds.
    Paired,
    /// The exact rank test of Mann and Whitney, for values without ties.
    RankExact,
    /// The rank test of Mann and Whitney by the normal approximation, with corrections for ties and
    /// for continuity.
    RankNormal,
}

/// The outcome of a test of two samples.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct TestOutcome {
    /// The test that gave the probability.
    pub method: TestMethod,
    /// Student's or Welch's t, or Mann and Whitney's U of the second sample.
    pub statistic: f64,
    /// The probability of a difference at least as large between samples of one source.
    pub p_value: f64,
}

/// The standard error of a difference of two means.
pub(crate) enum StandardError {
    /// Neither sample has any spread.
    None,
    /// The error and its degrees of freedom.
    Some { error: f64, freedom: f64 },
}

/// Returns the standard error of the difference of the means, with the degrees of freedom of Welch
/// and Satterthwaite, or `None` if a sample has a single value.
pub(crate) fn standard_error(first: &Sample, second: &Sample) -> Option<StandardError> {
    let (counts, variances) =
        ([first.count() as f64, second.count() as f64], [first.variance()?, second.variance()?]);
    Some(combined_error(variances, counts, counts.map(|count| count - 1.0)))
}

/// Returns the error of a sum of two means with these variances of single values, numbers of
/// independent values, and degrees of freedom.
pub(crate) fn combined_error(
    [first_variance, second_variance]: [f64; 2],
    [first_count, second_count]: [f64; 2],
    [first_freedom, second_freedom]: [f64; 2],
) -> StandardError {
    let (first, second) = (first_variance / first_count, second_variance / second_count);
    let total = first + second;
    if total <= 0.0 {
        return StandardError::None;
    }
    // Shares of the total keep the squares in the range of numbers.
    let (first, second) = (first / total, second / total);
    let freedom = 1.0 / (first * first / first_freedom + second * second / second_freedom);
    StandardError::Some { error: total.sqrt(), freedom }
}

/// Tests two samples for equal means, without the assumption of equal variances. Source: Welch,
/// Biometrika 34 (1947), with the degrees of freedom of Satterthwaite, Biometrics Bulletin 2
/// (1946).
///
/// A single value on a side gives `None`, and so do samples without any spread: two equal values
/// come by chance if a figure has few possible values, so they say nothing of the noise.
#[must_use]
pub fn welch_test(first: &Sample, second: &Sample) -> Option<TestOutcome> {
    let StandardError::Some { error, freedom } = standard_error(first, second)? else {
        return None;
    };
    let statistic = (second.mean() - first.mean()) / error;
    let p_value = student_two_sided(statistic, freedom);
    Some(TestOutcome { method: TestMethod::Welch, statistic, p_value })
}

/// Tests two samples of positive values for equal geometric means: [`welch_test`] of their
/// logarithms. It is `None` if a value is not positive.
#[must_use]
pub fn log_test(first: &Sample, second: &Sample) -> Option<TestOutcome> {
    welch_test(&first.logarithms()?, &second.logarithms()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_without_spread_have_no_test() {
        let [three, four] = [[3.0; 3], [4.0; 3]].map(|values| Sample::new(values).unwrap());
        assert_eq!(welch_test(&three, &three), None);
        assert_eq!(welch_test(&three, &four), None);
        assert_eq!(welch_test(&three, &Sample::new([1.0]).unwrap()), None);
        let noisy = Sample::new([4.0, 4.1, 3.9]).unwrap();
        assert!(log_test(&three, &noisy).unwrap().p_value < 0.05);
    }

    #[test]
    fn values_at_the_limit_give_a_finite_answer() {
        let wide = Sample::new([-1e150, 1e150, 0.0]).unwrap();
        let outcome = welch_test(&wide, &Sample::new([1.0, 2.0]).unwrap()).unwrap();
        assert!((0.9..=1.0).contains(&outcome.p_value), "{outcome:?}");
    }
}
