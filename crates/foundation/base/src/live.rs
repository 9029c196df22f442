//! The figures that a terminal shows during a run: operations a second and their mean latency.
//!
//! Each thread collects its completed operations in [`Unreported`] and adds them to the
//! [`TotalProgress`] of the run from time to time. The thread that watches the run turns the totals
//! into [`LiveStats`].

use crate::units::{format_count, format_duration_ns};
use std::sync::atomic::{AtomicU64, Ordering};

/// Interval between two figures: long enough to be read.
const EVERY_NS: u64 = 1_000_000_000;
/// Most operations between two reports of a thread.
const REPORT_OPERATIONS: u64 = 1 << 10;
/// Longest time between two reports while operations complete: 0.1 s, so that live figures follow
/// slow storage as well.
const REPORT_NS: u64 = 100_000_000;

/// Operations that have completed since the last report, or since the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Number of operations that were measured, reads and writes together.
    pub operations: u64,
    /// Sum of their latencies, in nanoseconds.
    pub latency_ns: u64,
}

/// Completed operations of all threads. The two sums are not of one instant, which no reader needs.
#[derive(Debug, Default)]
pub struct TotalProgress {
    operations: AtomicU64,
    latency_ns: AtomicU64,
}

impl TotalProgress {
    /// Adds the operations of a thread.
    pub fn add(&self, completed: Progress) {
        self.operations.fetch_add(completed.operations, Ordering::Relaxed);
        self.latency_ns.fetch_add(completed.latency_ns, Ordering::Relaxed);
    }

    /// Returns the sums so far.
    #[must_use]
    pub fn so_far(&self) -> Progress {
        Progress {
            operations: self.operations.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
        }
    }
}

/// Operations that a thread has completed and not yet added to the total.
#[derive(Debug, Default)]
pub struct Unreported {
    completed: Progress,
    /// Time of the last report.
    reported_ns: u64,
}

impl Unreported {
    /// Counts the completion of an operation.
    #[inline]
    pub const fn complete(&mut self, latency_ns: u64) {
        self.completed.operations += 1;
        self.completed.latency_ns += latency_ns;
    }

    /// Returns the operations completed since the last report, if a report is due: after enough
    /// operations, or after enough time.
    #[inline]
    pub fn take_due(&mut self, now_ns: u64) -> Option<Progress> {
        let is_due = self.completed.operations >= REPORT_OPERATIONS
            || now_ns.saturating_sub(self.reported_ns) >= REPORT_NS;
        is_due.then(|| {
            self.reported_ns = now_ns;
            self.take()
        })
    }

    /// Returns the operations completed since the last report.
    pub fn take(&mut self) -> Progress {
        std::mem::take(&mut self.completed)
    }
}

/// Computes operations a second and the mean latency over the last second.
#[derive(Debug)]
pub struct LiveStats {
    at_ns: u64,
    before: Progress,
}

impl LiveStats {
    /// Begins at a time of the clock.
    #[must_use]
    pub fn new(now_ns: u64) -> Self {
        Self { at_ns: now_ns, before: Progress::default() }
    }

    /// Returns the figures since the last ones, if it is time for new ones. `so_far` is called only
    /// then.
    pub fn next(&mut self, now_ns: u64, so_far: impl FnOnce() -> Progress) -> Option<String> {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        if elapsed_ns < EVERY_NS {
            return None;
        }
        let so_far = so_far();
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
        let mut live = LiveStats::new(5);
        let first = Progress { operations: 3000, latency_ns: 3_000_000 };
        assert_eq!(live.next(1_000_000_004, || panic!("too early")), None);
        let text = live.next(1_500_000_005, || first).unwrap();
        assert_eq!(text, "2,000 operations/s, mean latency 1.00 µs");
        let second = Progress { operations: 3100, latency_ns: 203_000_000 };
        let text = live.next(2_500_000_005, || second).unwrap();
        assert_eq!(text, "100 operations/s, mean latency 2.00 ms");
        let text = live.next(3_500_000_005, || second).unwrap();
        assert_eq!(text, "0 operations/s, mean latency none");
    }

    #[test]
    fn threads_report_after_enough_operations_or_time() {
        let (mut own, total) = (Unreported::default(), TotalProgress::default());
        own.complete(7);
        assert_eq!(own.take_due(REPORT_NS - 1), None);
        total.add(own.take_due(REPORT_NS).unwrap());
        for _ in 0..REPORT_OPERATIONS {
            assert_eq!(own.take_due(REPORT_NS + 1), None);
            own.complete(1);
        }
        total.add(own.take_due(REPORT_NS + 1).unwrap());
        own.complete(5);
        total.add(own.take());
        assert_eq!(own.take(), Progress::default());
        let expected = Progress { operations: 1026, latency_ns: 7 + 1024 + 5 };
        assert_eq!(total.so_far(), expected);
    }
}
