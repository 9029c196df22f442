//! Measurements of two sides in rounds, and the test of their differences.
//!
//! The two values of a round were measured one after the other, so a drift of the machine is in
//! both, and drops out of their ratio.

use crate::distribution::{student_factor, student_two_sided};
use crate::{Confidence, Estimate, Interval, Sample, SampleError, TestMethod, TestOutcome};
use schemars::JsonSchema;
use serde::Serialize;

/// The values of two sides in the same rounds: at least one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Pairs {
    base: Sample,
    changed: Sample,
    differences: Sample,
    /// Logarithms of the ratios, if all values are positive.
    logarithms: Option<Sample>,
}

/// The numbers of rounds in which a side is higher and lower than the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Directions {
    /// Number of rounds.
    pub rounds: usize,
    /// Rounds in which the changed side is higher.
    pub higher: usize,
    /// Rounds in which the changed side is lower.
    pub lower: usize,
}

impl Pairs {
    /// Creates pairs of the values of the base and of the changed side in each round.
    ///
    /// # Errors
    /// Fails if there is no pair, or if a value is out of range.
    pub fn new(rounds: &[(f64, f64)]) -> Result<Self, SampleError> {
        let base = Sample::new(rounds.iter().map(|(base, _)| *base))?;
        let changed = Sample::new(rounds.iter().map(|(_, changed)| *changed))?;
        let differences = Sample::new(rounds.iter().map(|(base, changed)| changed - base))?;
        let is_positive = base.lowest() > 0.0 && changed.lowest() > 0.0;
        let logarithm = |(base, changed): &(f64, f64)| changed.ln() - base.ln();
        let logarithms = match is_positive {
            true => Some(Sample::new(rounds.iter().map(logarithm))?),
            false => None,
        };
        Ok(Self { base, changed, differences, logarithms })
    }

    /// Returns the number of rounds, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.base.count()
    }

    /// Returns the number of rounds in which the changed side is higher, and that in which it is
    /// lower.
    #[must_use]
    pub fn directions(&self) -> Directions {
        let count = |is: fn(f64) -> bool| {
            self.differences.values().iter().filter(|difference| is(**difference)).count()
        };
        Directions {
            rounds: self.count(),
            higher: count(|difference| difference > 0.0),
            lower: count(|difference| difference < 0.0),
        }
    }

    /// Returns the values of the base.
    #[must_use]
    pub fn base(&self) -> &Sample {
        &self.base
    }

    /// Returns the values of the changed side.
    #[must_use]
    pub fn changed(&self) -> &Sample {
        &self.changed
    }

    /// Returns the logarithms of the ratios, or `None` if a value is not positive.
    #[must_use]
    pub fn logarithms(&self) -> Option<&Sample> {
        self.logarithms.as_ref()
    }
}

/// Returns the difference of the sides with Student's interval of the mean difference of a round:
/// d ± t(n - 1) · s / √n. One round has no interval, and neither have differences without any
/// spread: their noise is unknown.
#[must_use]
pub fn difference_of_pairs(pairs: &Pairs, confidence: Confidence) -> Estimate {
    crate::mean_with_interval(&pairs.differences, confidence)
}

/// Returns the ratio of the sides: the geometric mean of the ratios of the rounds, with Student's
/// interval of the mean of their logarithms. Source: Bland and Altman, "The use of transformation
/// when comparing two means", BMJ 312 (1996).
///
/// It is `None` if a value is not positive.
#[must_use]
pub fn ratio_of_pairs(pairs: &Pairs, confidence: Confidence) -> Option<Estimate> {
    let logarithm = crate::mean_with_interval(pairs.logarithms()?, confidence);
    Some(logarithm.exponential())
}

/// Tests the logarithms of the ratios of the rounds for a mean of zero by Student's t. Source:
/// Student, "The probable error of a mean", Biometrika 6 (1908). It is `None` for one round, for
/// values that are not positive, and for ratios without any spread.
#[must_use]
pub fn paired_test(pairs: &Pairs) -> Option<TestOutcome> {
    let logarithms = pairs.logarithms()?;
    let deviation = logarithms.deviation().filter(|deviation| *deviation > 0.0)?;
    let count = logarithms.count() as f64;
    let statistic = logarithms.mean() / (deviation / count.sqrt());
    let p_value = student_two_sided(statistic, count - 1.0);
    Some(TestOutcome { method: TestMethod::Paired, statistic, p_value })
}

/// Returns the half width of Student's interval of a mean.
pub(crate) fn half_width(deviation: f64, count: f64, confidence: Confidence) -> f64 {
    student_factor(confidence, count - 1.0) * deviation / count.sqrt()
}

impl Estimate {
    /// Returns the estimate of a value from that of its logarithm.
    pub(crate) fn exponential(self) -> Self {
        let interval = self
            .interval
            .and_then(|interval| Interval::new(interval.low().exp(), interval.high().exp()));
        Self { value: self.value.exp(), interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds that become slower and slower, on both sides alike.
    #[test]
    fn a_drift_of_both_sides_drops_out() {
        let rounds = [(100.0, 150.0), (60.0, 91.0), (30.0, 44.5), (20.0, 30.1)];
        let pairs = Pairs::new(&rounds).unwrap();
        let paired = ratio_of_pairs(&pairs, Confidence::USUAL).unwrap().interval.unwrap();
        assert!(paired.contains(1.5) && paired.half_width() < 0.05, "{paired:?}");
        let alone =
            crate::ratio_of_geometric_means(pairs.base(), pairs.changed(), Confidence::USUAL);
        let Directions { rounds, higher, lower } = pairs.directions();
        assert_eq!((rounds, higher, lower), (4, 4, 0));
        assert!(alone.unwrap().interval.unwrap().half_width() > 1.0, "{alone:?}");
    }

    #[test]
    fn what_has_no_spread_has_neither_interval_nor_test() {
        let pairs = Pairs::new(&[(1.0, 2.0), (1.0, 2.0)]).unwrap();
        let ratio = ratio_of_pairs(&pairs, Confidence::USUAL).unwrap();
        assert_eq!((ratio.value, ratio.interval), (2.0, None));
        assert_eq!(paired_test(&pairs), None);
        let one = Pairs::new(&[(1.0, 2.0)]).unwrap();
        assert_eq!(paired_test(&one), None);
        assert_eq!(ratio_of_pairs(&Pairs::new(&[(0.0, 1.0)]).unwrap(), Confidence::USUAL), None);
    }
}
