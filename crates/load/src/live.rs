//! The figures that a terminal shows during a run.

use crate::process::Progress;
use gemelo_base::units::{format_count, format_duration_ns};

/// Interval between two figures: long enough to be read.
const EVERY_NS: u64 = 1_000_000_000;

/// Computes operations a second and the mean latency over the last second.
#[derive(Debug)]
pub(crate) struct LiveFigures {
    at_ns: u64,
    before: Progress,
}

impl LiveFigures {
    /// Begins at a time of the clock.
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { at_ns: now_ns, before: Progress::default() }
    }

    /// Returns the figures since the last ones, if it is time for new ones.
    pub(crate) fn next(&mut self, now_ns: u64, so_far: Progress) -> Option<String> {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        if elapsed_ns < EVERY_NS {
            return None;
        }
        let operations = so_far.operations.saturating_sub(self.before.operations);
        let latency_ns = so_far.latency_ns.saturating_sub(self.before.latency_ns);
        *self = Self { at_ns: now_ns, before: so_far };
        let rate = operations as f64 * 1e9 / elapsed_ns as f64;
        let mean = latency_ns.checked_div(operations);
        let mean = mean.map_or_else(|| "none".to_owned(), format_duration_ns);
        Some(format!("{} operations/s, mean latency {mean}", format_count(rate.round() as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_last_second() {
        let mut live = LiveFigures::new(5);
        let first = Progress { operations: 3000, latency_ns: 3_000_000 };
        assert_eq!(live.next(1_000_000_004, first), None);
        let text = live.next(1_500_000_005, first).unwrap();
        assert_eq!(text, "2,000 operations/s, mean latency 1.00 µs");
        let second = Progress { operations: 3100, latency_ns: 203_000_000 };
        let text = live.next(2_500_000_005, second).unwrap();
        assert_eq!(text, "100 operations/s, mean latency 2.00 ms");
        let text = live.next(3_500_000_005, second).unwrap();
        assert_eq!(text, "0 operations/s, mean latency none");
    }
}
