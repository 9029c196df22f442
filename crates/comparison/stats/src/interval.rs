//! Confidence levels, intervals, and values with an interval.

use gemelo_base::Classified;
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

/// The error for a number that is not a confidence level.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
#[error("{level} is not a confidence level: give a number from 0.5 to 0.9999, such as 0.95")]
pub struct ConfidenceError {
    /// The number that was given.
    pub level: f64,
}

/// A confidence level from 0.5 to 0.9999: the share of all intervals of this level that contain the
/// true value.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Confidence(f64);

impl Confidence {
    /// 95 %, the usual level.
    pub const USUAL: Self = Self(0.95);

    /// Creates a level.
    ///
    /// # Errors
    /// Fails if the number is not from 0.5 to 0.9999.
    pub fn new(level: f64) -> Result<Self, ConfidenceError> {
        if (0.5..=0.9999).contains(&level) {
            Ok(Self(level))
        } else {
            Err(ConfidenceError { level })
        }
    }

    /// Returns the level, such as 0.95.
    #[must_use]
    pub fn level(self) -> f64 {
        self.0
    }

    /// Returns the level that each of `intervals` must have for all of them to contain their
    /// true values together with this level, whatever their dependence: each gets an equal part of
    /// the share of errors. Source: Dunn, "Multiple comparisons among means", Journal of the
    /// American Statistical Association 56 (1961).
    #[must_use]
    pub fn shared_by(self, intervals: usize) -> Self {
        Self(1.0 - self.error_share() / intervals.max(1) as f64)
    }

    /// Returns the accepted share of errors, such as 0.05.
    #[must_use]
    pub fn error_share(self) -> f64 {
        1.0 - self.0
    }
}

/// A closed interval with finite ends.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Interval {
    /// The lower end.
    low: f64,
    /// The upper end.
    high: f64,
}

impl Interval {
    /// Creates an interval, or returns `None` if an end is not finite or the ends are exchanged.
    #[must_use]
    pub fn new(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low <= high).then_some(Self { low, high })
    }

    /// Creates the interval with this centre, or returns `None` if an end is not finite or the half
    /// width is negative.
    #[must_use]
    pub fn around(centre: f64, half_width: f64) -> Option<Self> {
        Self::new(centre - half_width, centre + half_width)
    }

    /// Returns the lower end.
    #[must_use]
    pub fn low(self) -> f64 {
        self.low
    }

    /// Returns the upper end.
    #[must_use]
    pub fn high(self) -> f64 {
        self.high
    }

    /// Returns the part of the interval that is not below zero, for figures that cannot be
    /// negative, or `None` if there is no such part.
    #[must_use]
    pub fn not_below_zero(self) -> Option<Self> {
        Self::new(self.low.max(0.0), self.high)
    }

    /// Returns half of the distance between the ends.
    #[must_use]
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Returns `true` if the value lies between the ends or is one of them.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// A value computed from a sample, with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize)]
pub struct Estimate {
    /// The value computed from the sample.
    pub value: f64,
    /// The interval, or `None` if the sample is too small for one.
    pub interval: Option<Interval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_intervals_share_the_errors_of_one() {
        let each = Confidence::USUAL.shared_by(5);
        assert!((each.error_share() - 0.01).abs() < 1e-12, "{each:?}");
        assert_eq!(Confidence::USUAL.shared_by(1), Confidence::USUAL);
        assert_eq!(Confidence::USUAL.shared_by(0), Confidence::USUAL);
    }

    #[test]
    fn ends_are_finite_and_in_order() {
        assert_eq!(Interval::new(2.0, 1.0), None);
        assert_eq!(Interval::new(f64::NAN, 1.0), None);
        assert_eq!(Interval::around(0.0, f64::INFINITY), None);
        assert!(Interval::around(3.0, 1.0).unwrap().contains(4.0));
    }

    #[test]
    fn levels_are_shares_and_not_percentages() {
        for level in [95.0, 0.05, 1.0, f64::NAN] {
            assert!(Confidence::new(level).is_err(), "{level}");
        }
        assert_eq!(Confidence::new(0.95), Ok(Confidence::USUAL));
    }
}
