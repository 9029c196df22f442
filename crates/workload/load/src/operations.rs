//! The operations of a process in order, each a kind and a place. Reads and writes are separate
//! streams, so the n-th write goes to the same place however many reads came before it.

use crate::job::{Job, JobOperation, Pace};
use gemelo_base::random::{Random, mix_pair};
use gemelo_pattern::{Pattern, Positions};

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

const READ_KEY: u64 = 0x7265_6164;
const WRITE_KEY: u64 = 0x7772_6974;
const CHOICE_KEY: u64 = 0x6368_6f69;

const HOST_KEY: u64 = 0x686f_7374;

/// The places that one process reads and writes, in units of an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places {
    pub(crate) pattern: Pattern,
    /// Places of an operation in the place of the process.
    pub(crate) requests: u64,
    pub(crate) seed: u64,
    /// Number of the process among those of all hosts.
    pub(crate) process: u32,
    /// Number of processes on each host.
    pub(crate) of_host: u32,
}

impl Places {
    /// Returns the places that the process reads, in order.
    pub(crate) fn reads(self) -> Positions {
        self.positions(READ_KEY)
    }

    /// Returns the places that the process writes, in order.
    pub(crate) fn writes(self) -> Positions {
        self.positions(WRITE_KEY)
    }

    /// Each host has hot spots of its own.
    fn positions(self, key: u64) -> Positions {
        let seed = match self.process.checked_div(self.of_host) {
            None | Some(0) => self.seed,
            Some(host) => mix_pair(self.seed, mix_pair(HOST_KEY, u64::from(host))),
        };
        Positions::new(self.pattern, self.requests, seed, mix_pair(key, u64::from(self.process)))
    }
}

/// An operation that has not started yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduledOperation {
    pub(crate) kind: Kind,
    /// Number of the place, in units of an operation.
    pub(crate) request: u64,
    /// Due time in nanoseconds since the run began; 0 in a closed loop.
    pub(crate) due_ns: u64,
}

/// The endless sequence of operations of one process.
#[derive(Debug)]
pub(crate) struct Operations {
    reads: Positions,
    writes: Positions,
    choice: Choice,
}

#[derive(Debug)]
enum Choice {
    /// Draws reads and writes by the share of writes; one schedule decides when they start.
    Drawn { random: Random, write_share: f64, schedule: Schedule },
    /// Reads and writes have separate schedules; the one that is due earlier comes first.
    Due { reads: Schedule, writes: Schedule },
}

/// The due times of an open loop, at equal distances. Processes are offset against each other, so
/// that they do not all start operations at the same moment.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    period_ns: f64,
    next: u64,
    offset_ns: f64,
}

impl Schedule {
    const CLOSED_LOOP: Self = Self { period_ns: 0.0, next: 0, offset_ns: 0.0 };

    fn new(per_s: f64, process: u32, processes: u32) -> Self {
        let period_ns = 1e9 / per_s;
        let turn = f64::from(process) / f64::from(processes);
        Self { period_ns, next: 0, offset_ns: period_ns * turn }
    }

    #[inline]
    fn due_ns(&self) -> u64 {
        // An f64 is exact to a nanosecond up to 2^53 ns, which is 104 days.
        (self.next as f64).mul_add(self.period_ns, self.offset_ns) as u64
    }

    #[inline]
    fn take(&mut self) -> u64 {
        let due_ns = self.due_ns();
        self.next += 1;
        due_ns
    }
}

impl Operations {
    pub(crate) fn new(job: &Job, process: u32) -> Self {
        let spec = job.spec();
        let numbers = spec.numbers();
        let process = numbers.first + process;
        let schedule = |per_s| Schedule::new(per_s, process, numbers.all);
        let drawn = |schedule| Choice::Drawn {
            random: Random::new(mix_pair(spec.seed, mix_pair(CHOICE_KEY, u64::from(process)))),
            write_share: match spec.operation {
                JobOperation::Read => 0.0,
                JobOperation::Write => 1.0,
                JobOperation::Mixed => spec.write_share,
            },
            schedule,
        };
        let choice = match spec.pace {
            Pace::Peak => drawn(Schedule::CLOSED_LOOP),
            Pace::Rate { ops_per_s } => drawn(schedule(ops_per_s)),
            Pace::Rates { reads_per_s, writes_per_s } => {
                Choice::Due { reads: schedule(reads_per_s), writes: schedule(writes_per_s) }
            }
        };
        let places = Places {
            pattern: spec.pattern,
            requests: job.place_requests(),
            seed: spec.seed,
            process,
            of_host: numbers.of_host,
        };
        Self { reads: places.reads(), writes: places.writes(), choice }
    }

    #[inline]
    pub(crate) fn next_operation(&mut self) -> ScheduledOperation {
        let (kind, due_ns) = match &mut self.choice {
            Choice::Drawn { random, write_share, schedule } => {
                let is_write =
                    *write_share >= 1.0 || (*write_share > 0.0 && random.unit() < *write_share);
                (if is_write { Kind::Write } else { Kind::Read }, schedule.take())
            }
            Choice::Due { reads, writes } => {
                if reads.due_ns() <= writes.due_ns() {
                    (Kind::Read, reads.take())
                } else {
                    (Kind::Write, writes.take())
                }
            }
        };
        let request = match kind {
            Kind::Read => self.reads.next_block(),
            Kind::Write => self.writes.next_block(),
        };
        ScheduledOperation { kind, request, due_ns }
    }

    /// Returns the number of operations that were due by `until_ns` and have not been taken; 0 in a
    /// closed loop.
    pub(crate) fn due_by(&self, until_ns: u64) -> u64 {
        let of = |schedule: &Schedule| {
            if schedule.period_ns == 0.0 || schedule.due_ns() >= until_ns {
                return 0;
            }
            ((until_ns as f64 - schedule.offset_ns) / schedule.period_ns).ceil() as u64
                - schedule.next
        };
        match &self.choice {
            Choice::Drawn { schedule, .. } => of(schedule),
            Choice::Due { reads, writes } => of(reads) + of(writes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;

    fn operations(spec: JobSpec, process: u32, count: usize) -> Vec<ScheduledOperation> {
        let mut operations = Operations::new(&Job::new(spec).unwrap(), process);
        (0..count).map(|_| operations.next_operation()).collect()
    }

    fn mixed() -> JobSpec {
        JobSpec { operation: JobOperation::Mixed, pattern: Pattern::Uniform, ..JobSpec::default() }
    }

    #[test]
    fn the_nth_write_is_the_same_whatever_is_read_between() {
        let blocks_written = |spec: JobSpec| -> Vec<u64> {
            let all = operations(spec, 3, 3000).into_iter();
            all.filter(|next| next.kind == Kind::Write).map(|next| next.request).take(100).collect()
        };
        let seldom = blocks_written(JobSpec { write_share: 0.1, processes: 4, ..mixed() });
        let often = blocks_written(JobSpec { write_share: 0.9, processes: 4, ..mixed() });
        let rates = Pace::Rates { reads_per_s: 10.0, writes_per_s: 3.0 };
        let paced = blocks_written(JobSpec { pace: rates, processes: 4, ..mixed() });
        assert_eq!(seldom, often);
        assert_eq!(seldom, paced);
    }

    #[test]
    fn each_host_has_hot_spots_of_its_own() {
        let blocks = |process, of_host| -> Vec<u64> {
            let pattern = Pattern::Zipf { theta: 1.5 };
            let places = Places { pattern, requests: 1000, seed: 5, process, of_host };
            let mut writes = places.writes();
            let mut counts = vec![0; 1000];
            (0..100_000).for_each(|_| counts[writes.next_block() as usize] += 1);
            counts
        };
        let hottest = |counts: &[u64]| {
            let most = counts.iter().enumerate().max_by_key(|(_, count)| **count);
            most.map(|(block, _)| block)
        };
        let of_host = |process, of_host| hottest(&blocks(process, of_host));
        assert_eq!(of_host(0, 2), of_host(1, 2), "processes of one host");
        assert_ne!(of_host(0, 2), of_host(2, 2), "processes of two hosts");
        assert_eq!(of_host(0, 0), of_host(2, 0), "a run on one host");
    }

    #[test]
    fn the_share_of_writes_is_kept() {
        for share in [0.0, 0.25, 1.0] {
            let all = operations(JobSpec { write_share: share, seed: 11, ..mixed() }, 0, 40_000);
            let writes =
                all.iter().filter(|next| next.kind == Kind::Write).count() as f64 / 40_000.0;
            assert!((writes - share).abs() < 0.01, "seed 11, share {share}: {writes}");
        }
    }

    #[test]
    fn an_open_loop_is_even_and_processes_take_turns() {
        let spec =
            JobSpec { pace: Pace::Rate { ops_per_s: 1000.0 }, processes: 4, ..JobSpec::default() };
        let due: Vec<u64> = operations(spec, 1, 3).iter().map(|next| next.due_ns).collect();
        assert_eq!(due, [250_000, 1_250_000, 2_250_000]);
        let rates = Pace::Rates { reads_per_s: 1000.0, writes_per_s: 500.0 };
        let kinds: Vec<Kind> = operations(JobSpec { pace: rates, ..mixed() }, 0, 6)
            .iter()
            .map(|next| next.kind)
            .collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == Kind::Write).count(), 2);
    }

    #[test]
    fn what_was_due_and_not_taken_is_counted() {
        let spec = JobSpec { pace: Pace::Rate { ops_per_s: 1000.0 }, ..JobSpec::default() };
        let mut operations = Operations::new(&Job::new(spec).unwrap(), 0);
        assert_eq!(operations.due_by(10_000_000), 10);
        operations.next_operation();
        assert_eq!(operations.due_by(10_000_000), 9);
        assert_eq!(operations.due_by(1_000_000), 0);
        assert_eq!(Operations::new(&Job::new(JobSpec::default()).unwrap(), 0).due_by(1 << 60), 0);
    }
}
