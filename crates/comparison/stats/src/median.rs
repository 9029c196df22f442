//! Intervals of a median by order statistics.

use crate::distribution::fair_coins;
use crate::{Confidence, Estimate, Interval, Sample};

/// Returns the interval of the median between two order statistics. It assumes nothing of the
/// distribution, and its level is at least the wanted one. The number of values below the true
/// median has the distribution of heads among fair coins; the interval leaves out as many values
/// at each end as the level permits. Source: Thompson, Annals of Mathematical Statistics 7 (1936);
/// David and Nagaraja, "Order Statistics", 3rd edition, section 7.1.
///
/// A level of 95 % needs at least six values; fewer give `None`.
#[must_use]
pub fn median_interval(sample: &Sample, confidence: Confidence) -> Option<Interval> {
    let values = sample.values();
    let max_in_tail = confidence.error_share() / 2.0;
    let fits = |left_out: &usize| fair_coins(*left_out as u64, values.len() as u64) <= max_in_tail;
    let left_out = (0..values.len() / 2).take_while(fits).last()?;
    Interval::new(*values.get(left_out)?, *values.iter().rev().nth(left_out)?)
}

/// Returns the median with the interval of [`median_interval`].
#[must_use]
pub fn median_with_interval(sample: &Sample, confidence: Confidence) -> Estimate {
    Estimate { value: sample.median(), interval: median_interval(sample, confidence) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_values_are_needed_for_95_percent() {
        let values = |count: u32| Sample::new((1..=count).map(f64::from)).unwrap();
        assert_eq!(median_interval(&values(5), Confidence::USUAL), None);
        assert_eq!(median_interval(&values(6), Confidence::USUAL), Interval::new(1.0, 6.0));
        // The table of David and Nagaraja: the 2nd and the 9th of 10, at 97.9 %.
        assert_eq!(median_interval(&values(10), Confidence::USUAL), Interval::new(2.0, 9.0));
    }
}
