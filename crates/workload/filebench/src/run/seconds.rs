//! The operations of each second of a run. The thread that waits for the run reads the counters at
//! the ends of the seconds, so the threads of the run do nothing more.

use gemelo_base::series::{MAX_PARTS, SECOND_NS, TimePart, TimeSeries};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operations on files of one second of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct RunSecond {
    /// Start of the second, since the start of the run.
    pub start_ns: u64,
    /// Length of the second, which is a little more or less than a second. The last one ends with
    /// the run.
    pub length_ns: u64,
    /// Operations that ended.
    pub operations: u64,
    /// Bytes that these operations read and wrote.
    pub data_bytes: u64,
    /// Sum of their latencies.
    pub latency_sum_ns: u64,
}

/// Operations on files since the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SoFar {
    pub(super) operations: u64,
    pub(super) data_bytes: u64,
    pub(super) latency_ns: u64,
}

/// The seconds of a run that goes on.
#[derive(Debug, Default)]
pub(super) struct Seconds {
    all: Vec<RunSecond>,
    began_ns: u64,
    before: SoFar,
}

impl Seconds {
    /// Returns the time of the run at which the present second ends.
    pub(super) const fn next_ns(&self) -> u64 {
        // A second that began a little late ends on time.
        ((self.began_ns + SECOND_NS / 2) / SECOND_NS + 1) * SECOND_NS
    }

    /// Ends the present second.
    pub(super) fn end(&mut self, now_ns: u64, so_far: SoFar) {
        let length_ns = now_ns.saturating_sub(self.began_ns);
        if length_ns > 0 && self.all.len() < MAX_PARTS {
            self.all.push(RunSecond {
                start_ns: self.began_ns,
                length_ns,
                operations: so_far.operations.saturating_sub(self.before.operations),
                data_bytes: so_far.data_bytes.saturating_sub(self.before.data_bytes),
                latency_sum_ns: so_far.latency_ns.saturating_sub(self.before.latency_ns),
            });
        }
        (self.began_ns, self.before) = (now_ns, so_far);
    }

    /// Returns the seconds so far.
    pub(super) fn take(&mut self) -> Vec<RunSecond> {
        std::mem::take(&mut self.all)
    }
}

impl TimePart for RunSecond {
    /// A second that begins a little early or late is the same one.
    fn position(&self) -> u64 {
        (self.start_ns + SECOND_NS / 2) / SECOND_NS
    }

    fn add(&mut self, other: &Self) {
        let end_ns = (self.start_ns + self.length_ns).max(other.start_ns + other.length_ns);
        self.start_ns = self.start_ns.min(other.start_ns);
        self.length_ns = end_ns - self.start_ns;
        self.operations += other.operations;
        self.data_bytes += other.data_bytes;
        self.latency_sum_ns += other.latency_sum_ns;
    }
}

/// Adds the seconds of runs that began at the same moment.
pub(super) fn together<'a>(runs: impl Iterator<Item = &'a [RunSecond]>) -> Vec<RunSecond> {
    TimeSeries::together(runs.flatten()).into_parts()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn so_far(operations: u64) -> SoFar {
        SoFar { operations, data_bytes: 10 * operations, latency_ns: 100 * operations }
    }

    #[test]
    fn seconds_have_what_came_since_the_one_before_and_keep_their_beat() {
        let mut seconds = Seconds::default();
        assert_eq!(seconds.next_ns(), SECOND_NS);
        seconds.end(SECOND_NS + 7, so_far(3));
        assert_eq!(seconds.next_ns(), 2 * SECOND_NS);
        // The thread woke up three seconds late.
        seconds.end(5 * SECOND_NS + 2, so_far(10));
        assert_eq!(seconds.next_ns(), 6 * SECOND_NS);
        seconds.end(5 * SECOND_NS + SECOND_NS / 2, so_far(11));
        seconds.end(5 * SECOND_NS + SECOND_NS / 2, so_far(11));
        let all = seconds.take();
        let operations: Vec<u64> = all.iter().map(|second| second.operations).collect();
        assert_eq!(operations, [3, 7, 1]);
        assert_eq!((all[1].start_ns, all[1].length_ns), (SECOND_NS + 7, 4 * SECOND_NS - 5));
        assert_eq!((all[1].data_bytes, all[1].latency_sum_ns), (70, 700));
    }

    #[test]
    fn seconds_of_hosts_are_added_by_their_starts() {
        let second = |start_ns, length_ns, operations| RunSecond {
            start_ns,
            length_ns,
            operations,
            data_bytes: operations,
            latency_sum_ns: operations,
        };
        let one = [second(0, SECOND_NS + 3, 1), second(SECOND_NS + 3, SECOND_NS, 2)];
        let other = [second(0, SECOND_NS - 2, 4), second(SECOND_NS - 2, SECOND_NS / 2, 8)];
        let both = together([&one[..], &other[..]].into_iter());
        let expected = [second(0, SECOND_NS + 3, 5), second(SECOND_NS - 2, SECOND_NS + 5, 10)];
        assert_eq!(both, expected);
    }
}
