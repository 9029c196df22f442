//! Means and differences of means, with confidence intervals.

use crate::distribution::student_factor;
use crate::pairs::half_width;
use crate::welch::{StandardError, standard_error};
use crate::{Confidence, Estimate, Interval, Sample};

/// Returns the mean with its interval by Student's t: mean ± t(n - 1) · s / √n. Source: Student,
/// "The probable error of a mean", Biometrika 6 (1908). A single value has no interval, and neither
/// have values without any spread: their noise is unknown.
#[must_use]
pub fn mean_with_interval(sample: &Sample, confidence: Confidence) -> Estimate {
    let spread = sample.deviation().filter(|deviation| *deviation > 0.0);
    let interval = spread.and_then(|deviation| {
        Interval::around(sample.mean(), half_width(deviation, sample.count() as f64, confidence))
    });
    Estimate { value: sample.mean(), interval }
}

/// Returns the centre of values of one figure with its interval: the geometric mean if all values
/// are positive, with Student's interval of the mean of the logarithms, so that it neither reaches
/// zero nor depends on whether a rate or the time of an operation is measured. Source: Bland and
/// Altman, "The use of transformation when comparing two means", BMJ 312 (1996).
///
/// If a value is zero or negative, it is the arithmetic mean. The interval of values that are not
/// negative ends at zero.
#[must_use]
pub fn centre_with_interval(sample: &Sample, confidence: Confidence) -> Estimate {
    if let Some(logarithms) = sample.logarithms() {
        return mean_with_interval(&logarithms, confidence).exponential();
    }
    let mean = mean_with_interval(sample, confidence);
    if sample.lowest() < 0.0 {
        return mean;
    }
    Estimate { interval: mean.interval.and_then(Interval::not_below_zero), ..mean }
}

/// Returns the difference `changed` - `base` of the means with Welch's interval: difference ± t(ν)
/// · √(s₁²/n₁ + s₂²/n₂), with the degrees of freedom ν of Welch and Satterthwaite. Source: Welch,
/// "The generalization of 'Student's' problem", Biometrika 34 (1947). Single values have no
/// interval, and neither have samples without any spread.
#[must_use]
pub fn difference_of_means(base: &Sample, changed: &Sample, confidence: Confidence) -> Estimate {
    let value = changed.mean() - base.mean();
    let interval = standard_error(base, changed).and_then(|error| match error {
        StandardError::None => None,
        StandardError::Some { error, freedom } => {
            Interval::around(value, student_factor(confidence, freedom) * error)
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
    fn values_without_spread_have_no_interval_because_their_noise_is_unknown() {
        let same = Sample::new([7.0; 3]).unwrap();
        let more = Sample::new([8.0; 3]).unwrap();
        assert_eq!(mean_with_interval(&same, Confidence::USUAL).interval, None);
        assert_eq!(centre_with_interval(&same, Confidence::USUAL).interval, None);
        assert_eq!(difference_of_means(&same, &more, Confidence::USUAL).interval, None);
    }

    #[test]
    fn the_interval_of_a_figure_that_cannot_be_negative_does_not_go_below_zero() {
        for values in [[1.0, 100.0], [0.0, 100.0]] {
            let sample = Sample::new(values).unwrap();
            let interval = |estimate: Estimate| estimate.interval.unwrap();
            assert!(interval(mean_with_interval(&sample, Confidence::USUAL)).low() < 0.0);
            let centre = centre_with_interval(&sample, Confidence::USUAL);
            assert!(interval(centre).low() >= 0.0, "{centre:?}");
            assert!(interval(centre).contains(centre.value), "{centre:?}");
        }
        let loss = Sample::new([-1.0, -3.0]).unwrap();
        let centre = centre_with_interval(&loss, Confidence::USUAL);
        assert_eq!(centre, mean_with_interval(&loss, Confidence::USUAL));
    }
}
