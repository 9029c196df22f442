//! Means and differences of means, with confidence intervals.

use crate::distribution::student_factor;
use crate::welch::{StandardError, standard_error};
use crate::{Confidence, Estimate, Interval, Sample};

/// Returns the mean with its interval by Student's t: mean ± t(n - 1) · s / √n. Source: Student,
/// "The probable error of a mean", Biometrika 6 (1908). A single value has no interval.
#[must_use]
pub fn mean_with_interval(sample: &Sample, confidence: Confidence) -> Estimate {
    let interval = sample.deviation().and_then(|deviation| {
        let count = sample.count() as f64;
        let factor = student_factor(confidence.level(), count - 1.0);
        Interval::around(sample.mean(), factor * deviation / count.sqrt())
    });
    Estimate { value: sample.mean(), interval }
}

/// Returns the difference `changed` - `base` of the means with Welch's interval: difference ± t(ν)
/// · √(s₁²/n₁ + s₂²/n₂), with the degrees of freedom ν of Welch and Satterthwaite. Source: Welch,
/// "The generalization of 'Student's' problem", Biometrika 34 (1947). Single values have no
/// interval.
#[must_use]
pub fn difference_of_means(base: &Sample, changed: &Sample, confidence: Confidence) -> Estimate {
    let value = changed.mean() - base.mean();
    let interval = standard_error(base, changed).and_then(|error| match error {
        StandardError::None => Interval::new(value, value),
        StandardError::Some { error, freedom } => {
            Interval::around(value, student_factor(confidence.level(), freedom) * error)
        }
    });
    Estimate { value, interval }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_value_has_no_interval() {
        let one = Sample::new([7.0]).unwrap();
        let two = Sample::new([7.0, 8.0]).unwrap();
        assert_eq!(mean_with_interval(&one, Confidence::USUAL).interval, None);
        assert_eq!(difference_of_means(&one, &two, Confidence::USUAL).interval, None);
    }

    #[test]
    fn equal_values_have_an_interval_of_no_width() {
        let same = Sample::new([7.0; 3]).unwrap();
        let estimate = mean_with_interval(&same, Confidence::USUAL);
        assert_eq!(estimate.interval, Interval::new(7.0, 7.0));
    }
}
