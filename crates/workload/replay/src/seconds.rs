//! The reads and writes of each second of a replay.

use crate::result::{ReplaySecond, SecondStats};
use gemelo_base::series::{MAX_PARTS, SECOND_NS, TimePart, TimeSeries};

/// The seconds of a process, of all processes, or of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Seconds(TimeSeries<ReplaySecond>);

impl TimePart for ReplaySecond {
    fn position(&self) -> u64 {
        self.start_ns
    }

    /// The length of the last second of a run is set when all runs have been added.
    fn add(&mut self, other: &Self) {
        self.reads.add(other.reads);
        self.writes.add(other.writes);
    }
}

impl Seconds {
    /// Returns the second in which an operation completed, by the time since the start; `None`
    /// after the last one that is kept.
    #[inline]
    pub(crate) fn at(&mut self, since_start_ns: u64) -> Option<&mut ReplaySecond> {
        let start_ns = since_start_ns / SECOND_NS * SECOND_NS;
        let new = || ReplaySecond { start_ns, length_ns: SECOND_NS, ..ReplaySecond::default() };
        (start_ns < MAX_PARTS as u64 * SECOND_NS).then(|| self.0.at(start_ns, new))
    }

    /// Adds what others did in the same seconds. Both count from the same moment.
    pub(crate) fn add(&mut self, others: &[ReplaySecond]) {
        self.0.extend(others);
    }

    pub(crate) fn all(&self) -> &[ReplaySecond] {
        self.0.as_slice()
    }

    /// Returns all seconds of a replay that took this time. The last one ends with the replay.
    pub(crate) fn finish(mut self, duration_ns: u64) -> Vec<ReplaySecond> {
        if duration_ns > 0 {
            self.at(duration_ns - 1);
        }
        let numbers = self.all().last().map_or(0, |last| last.start_ns / SECOND_NS + 1);
        for number in 0..numbers {
            if let Some(second) = self.at(number * SECOND_NS) {
                // The last second of another host can be shorter.
                second.length_ns = SECOND_NS;
            }
        }
        let mut all = self.0.into_parts();
        if let Some(last) = all.last_mut() {
            last.length_ns = duration_ns.saturating_sub(last.start_ns).min(SECOND_NS);
        }
        all
    }
}

impl SecondStats {
    /// Counts an operation.
    #[inline]
    pub(crate) fn record(&mut self, data_bytes: u64, response_ns: u64) {
        self.add(Self { operations: 1, data_bytes, response_sum_ns: response_ns });
    }

    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.data_bytes += other.data_bytes;
        self.response_sum_ns = self.response_sum_ns.saturating_add(other.response_sum_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_up_to_the_end_is_there_and_the_last_one_ends_with_the_replay() {
        let mut seconds = Seconds::default();
        for (at_ns, bytes) in [(0, 1), (999_999_999, 2), (1_000_000_000, 4), (u64::MAX, 8)] {
            if let Some(second) = seconds.at(at_ns) {
                second.writes.record(bytes, 10);
            }
        }
        let mut both = Seconds::default();
        both.add(seconds.all());
        both.add(seconds.all());
        let all = both.finish(2_500_000_000);
        let bytes = all.iter().map(|second| second.writes.data_bytes).collect::<Vec<_>>();
        assert_eq!(bytes, [6, 8, 0], "operations after a day are in the totals alone");
        let starts: Vec<u64> = all.iter().map(|second| second.start_ns / SECOND_NS).collect();
        assert_eq!(starts, [0, 1, 2]);
        assert_eq!((all[1].length_ns, all[2].length_ns), (SECOND_NS, SECOND_NS / 2));
        assert_eq!((all[0].writes.operations, all[0].writes.response_sum_ns), (4, 40));
        assert_eq!(Seconds::default().finish(0), []);
    }

    #[test]
    fn the_last_second_of_the_first_host_to_end_is_a_whole_one() {
        let of_host = |duration_ns| {
            let mut seconds = Seconds::default();
            if let Some(second) = seconds.at(0) {
                second.reads.record(1, 10);
            }
            seconds.finish(duration_ns)
        };
        let mut both = Seconds::default();
        both.add(&of_host(SECOND_NS / 4));
        both.add(&of_host(SECOND_NS * 2));
        let all = both.finish(SECOND_NS * 2);
        let lengths: Vec<u64> = all.iter().map(|second| second.length_ns).collect();
        assert_eq!((lengths, all[0].reads.operations), (vec![SECOND_NS; 2], 2));
    }
}
