//! Distribution functions, by the library `statrs`, for arguments that are always valid here.

use crate::Confidence;
use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};
use statrs::function::beta::checked_beta_reg;

/// Returns the probability that a variable of Student's t with these degrees of freedom is farther
/// from zero than `t`. The regularized incomplete beta function keeps the precision of small
/// probabilities, which the difference of 1 and the distribution function loses.
pub(crate) fn student_two_sided(t: f64, freedom: f64) -> f64 {
    if t.is_nan() || freedom.is_nan() {
        return f64::NAN;
    }
    let share = freedom / (freedom + t * t);
    checked_beta_reg(freedom / 2.0, 0.5, share).map_or(f64::NAN, |p| p.clamp(0.0, 1.0))
}

/// Returns the quantile of Student's t for a probability between 0 and 1. One Newton step removes
/// the rounding of the library's inverse.
pub(crate) fn student_quantile(probability: f64, freedom: f64) -> f64 {
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
        return f64::NAN;
    };
    let first = student.inverse_cdf(probability);
    let tail = student_two_sided(first, freedom) / 2.0;
    let reached = if first < 0.0 { tail } else { 1.0 - tail };
    let step = (reached - probability) / student.pdf(first);
    if step.is_finite() { first - step } else { first }
}

/// Returns the factor of the standard error on each side of an interval with this level.
pub(crate) fn student_factor(confidence: Confidence, freedom: f64) -> f64 {
    student_quantile(f64::midpoint(1.0, confidence.level()), freedom)
}

/// Returns the probability that a standard normal variable is at most `z`.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    Normal::standard().cdf(z)
}

/// Returns the quantile of the standard normal distribution. Probabilities of 0 and 1 give
/// infinities.
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability.clamp(0.0, 1.0))
}
