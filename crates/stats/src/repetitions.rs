//! The number of repetitions that a wanted precision needs.

use crate::distribution::student_factor;
use crate::{Confidence, Sample};

/// Returns the smallest number of repetitions, at most `most`, after which the interval of the mean
/// is expected to reach at most `precision_share` of the mean to each side, if the deviation stays
/// that of `sample`: the smallest n with t(n - 1) · s / √n ≤ share · mean. Source: Jain, "The Art
/// of Computer Systems Performance Analysis", section 13.9.
///
/// It is `None` if the sample has a single value, if its mean is zero, or if more than `most` are
/// needed.
#[must_use]
pub fn repetitions_needed(
    sample: &Sample,
    precision_share: f64,
    confidence: Confidence,
    most: u32,
) -> Option<u32> {
    let variation = sample.variation_share()?;
    let is_enough = |count: u32| {
        let freedom = f64::from(count) - 1.0;
        let factor = student_factor(confidence.level(), freedom);
        factor * variation / f64::from(count).sqrt() <= precision_share
    };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_spread_needs_more_repetitions() {
        let needed = |values: [f64; 3], most| {
            repetitions_needed(&Sample::new(values).unwrap(), 0.05, Confidence::USUAL, most)
        };
        assert_eq!(needed([100.0; 3], 10), Some(2));
        // t(5) · 4.58 / √6 = 4.81 and t(4) · 4.58 / √5 = 5.69, for a share of 5 %.
        assert_eq!(needed([95.0, 101.0, 104.0], 1000), Some(6));
        assert_eq!(needed([50.0, 100.0, 150.0], 100), None);
        assert_eq!(needed([50.0, 100.0, 150.0], 1000), Some(387));
    }
}
