//! The number of repetitions that a comparison needs, and what a number of them can find.

use crate::Confidence;
use crate::distribution::{normal_cdf, student_factor};
use statrs::function::gamma::ln_gamma;

/// Steps of the numerical integral over the deviation of a sample. They give six digits, also for
/// two repetitions, whose factor is large.
const STEPS: u32 = 20_000;

/// The noise of a comparison of two sides, repetition by repetition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioNoise {
    /// Standard deviation of the logarithm of the ratio of one repetition: about the deviation of
    /// the ratio as a share.
    pub deviation: f64,
    /// `true` if the sides are measured in the same rounds, so that n repetitions have n - 1
    /// degrees of freedom; `false` if they are independent, and have 2n - 2 at most.
    pub is_paired: bool,
}

impl RatioNoise {
    fn freedom(self, count: u32) -> f64 {
        let of_one = f64::from(count) - 1.0;
        if self.is_paired { of_one } else { 2.0 * of_one }
    }

    /// Returns the half width that the interval of the logarithm of the ratio is expected to have
    /// after this number of repetitions, at least 2.
    fn half_width(self, count: u32, confidence: Confidence) -> f64 {
        student_factor(confidence, self.freedom(count)) * self.deviation / f64::from(count).sqrt()
    }

    /// Returns the smallest number of repetitions a side, at most `most`, after which the interval
    /// of the ratio is expected to reach at most from 1 / `reach` to `reach` times the ratio: the
    /// smallest n with t · s / √n ≤ ln(`reach`). Source: Jain, "The Art of Computer Systems
    /// Performance Analysis", section 13.9.
    ///
    /// It is `None` if more than `most` are needed.
    #[must_use]
    pub fn repetitions_needed(self, reach: f64, confidence: Confidence, most: u32) -> Option<u32> {
        let is_enough = |count: u32| self.half_width(count, confidence) <= reach.ln();
        if most < 2 || !is_enough(most) {
            return None;
        }
        // The half width falls with every repetition, so the number is found by halving.
        let (mut too_few, mut enough) = (1, most);
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            if is_enough(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }

    /// Returns the power of a comparison: the probability that `count` repetitions find a
    /// difference, if the true ratio is `ratio`. It is the probability that a variable of the
    /// noncentral t distribution with the noncentrality √n · |ln(`ratio`)| / s lies outside of
    /// Student's factor. Source: Cohen, "Statistical Power Analysis for the Behavioral Sciences",
    /// 2nd edition, section 2.3. One repetition finds nothing.
    #[must_use]
    pub fn power(self, ratio: f64, count: u32, confidence: Confidence) -> f64 {
        if count < 2 {
            return 0.0;
        }
        let freedom = self.freedom(count);
        let shift = f64::from(count).sqrt() * ratio.ln().abs() / self.deviation;
        let factor = student_factor(confidence, freedom);
        // The deviation of a sample in units of the true one is `u`, and has the density of a chi
        // variable with these degrees of freedom, divided by their root.
        let half = freedom / 2.0;
        let constant = std::f64::consts::LN_2 + half * half.ln() - ln_gamma(half);
        let density = |u: f64| (constant + (freedom - 1.0) * u.ln() - half * u * u).exp();
        let step = (1.0 + 12.0 / (2.0 * freedom).sqrt()) / f64::from(STEPS);
        let found = (0..STEPS).map(|place| {
            let u = (f64::from(place) + 0.5) * step;
            let outside = normal_cdf(shift - factor * u) + normal_cdf(-shift - factor * u);
            density(u) * outside * step
        });
        found.sum::<f64>().clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_spread_needs_more_repetitions() {
        let needed = |deviation, most| {
            let noise = RatioNoise { deviation, is_paired: true };
            noise.repetitions_needed(1.1, Confidence::USUAL, most)
        };
        assert_eq!(needed(0.0, 10), Some(2));
        // t(5) · 0.09 / √6 = 0.0944 and t(4) · 0.09 / √5 = 0.112, for ln(1.1) = 0.0953.
        assert_eq!(needed(0.09, 1000), Some(6));
        assert_eq!(needed(1.0, 100), None);
        assert!((400..450).contains(&needed(1.0, 1000).unwrap()));
    }

    #[test]
    fn more_repetitions_find_more_and_one_finds_nothing() {
        let noise = RatioNoise { deviation: 0.05, is_paired: true };
        let power = |count| noise.power(0.9, count, Confidence::USUAL);
        assert_eq!(power(1), 0.0);
        assert!(power(3) < power(5) && power(5) < power(10), "{} {}", power(3), power(10));
        assert!(power(30) > 0.999);
        let none = noise.power(1.0, 5, Confidence::USUAL);
        assert!((none - 0.05).abs() < 1e-6, "without a difference, the error remains: {none}");
    }
}
