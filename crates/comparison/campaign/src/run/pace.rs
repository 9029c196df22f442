//! The pace of a campaign: the time of its runs so far, and a forecast of the rest.

use gemelo_base::units::format_duration_ns;
use gemelo_record::{Outcome, RunRecord};

/// The runs that this process has executed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    runs: u64,
    total_ns: u64,
}

impl Pace {
    /// Adds a run that took this time.
    pub(super) const fn add(&mut self, took_ns: u64) {
        self.runs += 1;
        self.total_ns += took_ns;
    }

    /// Returns a line about the run with this number, which has just ended, and the time that the
    /// others will take at the mean pace.
    pub(super) fn line(&self, number: usize, planned: usize, record: &RunRecord) -> String {
        let left = planned.saturating_sub(number) as u64;
        let left_ns = (self.total_ns / self.runs.max(1)).saturating_mul(left);
        let outcome = match record.outcome {
            Outcome::Done => "done",
            Outcome::Failed { .. } => "failed",
            Outcome::Interrupted => "interrupted",
        };
        let text = format!(
            "run {number} of {planned}: {} on {}: {outcome}",
            record.workload, record.target
        );
        match left {
            0 => text,
            _ => format!("{text}, about {} left", format_duration_ns(left_ns)),
        }
    }
}
