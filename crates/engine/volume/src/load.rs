//! Figures of the load of a volume: numbers of requests, batch lengths and latencies. They are
//! counted once per batch, so a batch costs two readings of the clock and a few additions, whatever
//! its number of requests.

use gemelo_base::StatTable;
use gemelo_device::{Operation, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of operations that are counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OperationKind {
    /// Read requests.
    Read,
    /// Write requests.
    Write,
    /// Trim requests.
    Trim,
    /// Write-zeroes requests.
    WriteZeroes,
    /// Flush requests.
    Flush,
}

impl OperationKind {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; KINDS] =
        [Self::Read, Self::Write, Self::Trim, Self::WriteZeroes, Self::Flush];

    /// The name of the kind in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::WriteZeroes => "write-zeroes",
            Self::Flush => "flush",
        }
    }
}

const KINDS: usize = 5;
/// Number of latency classes. Each is twice as wide as the one before; the last has all latencies
/// from 8.6 s on.
const LATENCY_CLASSES: usize = 24;
/// The first class ends at 2^10 ns, because hardly any request takes less.
const FIRST_LATENCY_BITS: u32 = 10;
/// Classes of batch lengths by powers of two, up to 128 and above.
const DEPTH_CLASSES: usize = 9;

/// The counters of a volume.
#[derive(Debug, Default)]
pub(crate) struct Load {
    in_flight: AtomicU64,
    depths: [AtomicU64; DEPTH_CLASSES],
    kinds: [KindLoad; KINDS],
}

#[derive(Debug, Default)]
struct KindLoad {
    requests: AtomicU64,
    total_ns: AtomicU64,
    classes: [AtomicU64; LATENCY_CLASSES],
}

/// A batch under way.
pub(crate) struct Began {
    at_ns: u64,
    requests: u64,
    kinds: [u64; KINDS],
}

impl Began {
    /// Notes that this number of reads is left to a later batch, in which they are counted.
    pub(crate) fn leave_reads(&mut self, reads: usize) {
        let [read, ..] = &mut self.kinds;
        *read = read.saturating_sub(reads as u64);
    }
}

impl Load {
    /// Counts the beginning of a batch.
    pub(crate) fn begin(&self, batch: &[Request<'_>], at_ns: u64) -> Began {
        let mut kinds = [0; KINDS];
        for request in batch {
            let [read, write, trim, zeroes, flush] = &mut kinds;
            *match request.operation {
                Operation::Read { .. } => read,
                Operation::Write { .. } => write,
                Operation::Trim { .. } => trim,
                Operation::WriteZeroes { .. } => zeroes,
                Operation::Flush => flush,
            } += 1;
        }
        let requests = batch.len() as u64;
        self.in_flight.fetch_add(requests, Ordering::Relaxed);
        let class = (u64::BITS - requests.saturating_sub(1).leading_zeros()) as usize;
        if let Some(depth) = self.depths.get(class.min(DEPTH_CLASSES - 1)) {
            depth.fetch_add(1, Ordering::Relaxed);
        }
        Began { at_ns, requests, kinds }
    }

    /// Counts the end of a batch. The latency of each of its requests is that of the batch.
    pub(crate) fn end(&self, began: &Began, at_ns: u64) {
        self.in_flight.fetch_sub(began.requests, Ordering::Relaxed);
        let took_ns = at_ns.saturating_sub(began.at_ns);
        let class = (u64::BITS - (took_ns >> FIRST_LATENCY_BITS).leading_zeros()) as usize;
        for (kind, requests) in self.kinds.iter().zip(began.kinds) {
            if requests == 0 {
                continue;
            }
            kind.requests.fetch_add(requests, Ordering::Relaxed);
            kind.total_ns.fetch_add(took_ns.saturating_mul(requests), Ordering::Relaxed);
            if let Some(count) = kind.classes.get(class.min(LATENCY_CLASSES - 1)) {
                count.fetch_add(requests, Ordering::Relaxed);
            }
        }
    }

    /// The requests that are under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// The requests that have ended so far.
    pub(crate) fn requests(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.requests.load(Ordering::Relaxed)).sum()
    }

    /// The sum of the latencies of all requests that have ended.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.total_ns.load(Ordering::Relaxed)).sum()
    }

    /// The figures of the load so far.
    pub(crate) fn read(&self) -> LoadStat {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let operations = OperationKind::ALL.into_iter().zip(&self.kinds);
        LoadStat {
            requests_in_flight: load(&self.in_flight),
            batches_by_length: self.depths.iter().map(load).collect(),
            operations: operations
                .map(|(kind, counters)| OperationStat {
                    kind,
                    requests: load(&counters.requests),
                    total_ns: load(&counters.total_ns),
                    requests_by_latency: counters.classes.iter().map(load).collect(),
                })
                .collect(),
        }
    }
}

/// The requests of a pool, as those see them that leave them time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Requests that are under way.
    pub in_flight: u64,
    /// Requests that have ended so far. Fewer if a volume was removed.
    pub ended: u64,
}

/// Figures of a volume's load since the pool was opened.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize, StatTable)]
#[stat(gauge)]
pub struct LoadStat {
    /// Requests that are under way.
    pub requests_in_flight: u64,
    /// Numbers of batches of up to 1, 2, 4, ... 128 requests, and of more.
    #[stat(skip)]
    pub batches_by_length: Vec<u64>,
    /// Stats by kind of operation.
    #[stat(skip)]
    pub operations: Vec<OperationStat>,
}

impl Default for LoadStat {
    /// The figures of a volume without requests.
    fn default() -> Self {
        Load::default().read()
    }
}

impl LoadStat {
    /// Adds the figures of another volume. All volumes have the same classes and kinds.
    pub(crate) fn add(&mut self, other: &Self) {
        self.requests_in_flight += other.requests_in_flight;
        add_each(&mut self.batches_by_length, &other.batches_by_length);
        for (sum, operation) in self.operations.iter_mut().zip(&other.operations) {
            assert_eq!(sum.kind, operation.kind, "kinds of operations have one order");
            sum.requests += operation.requests;
            sum.total_ns += operation.total_ns;
            add_each(&mut sum.requests_by_latency, &operation.requests_by_latency);
        }
    }
}

/// Adds each count of a list to that of the same class in another.
fn add_each(sums: &mut [u64], counts: &[u64]) {
    assert_eq!(sums.len(), counts.len(), "all volumes have the same classes");
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// Latencies of the requests of one kind. The latency of a request is that of its batch.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OperationStat {
    /// The kind of operation.
    pub kind: OperationKind,
    /// The number of requests.
    pub requests: u64,
    /// The sum of all latencies in nanoseconds.
    pub total_ns: u64,
    /// Numbers of requests that took less than 2^10, 2^11, ... ns; see [`Self::class_end_ns`].
    pub requests_by_latency: Vec<u64>,
}

impl OperationStat {
    /// The upper bound of a class of latencies in nanoseconds, or [`None`] for the last class,
    /// which has none.
    #[must_use]
    pub fn class_end_ns(class: usize) -> Option<u64> {
        (class + 1 < LATENCY_CLASSES).then(|| 1u64 << (FIRST_LATENCY_BITS as usize + class))
    }

    /// Returns the upper bound in nanoseconds of the class in which this share (0 to 1) of the
    /// requests has ended, or [`None`] without requests.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let wanted = ((self.requests as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let is_enough = |count: &u64| {
            sum += count;
            sum >= wanted
        };
        let class = self.requests_by_latency.iter().position(is_enough)?;
        Some(Self::class_end_ns(class).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_and_the_time_of_their_batch() {
        let load = Load::default();
        let flush = || Request { operation: Operation::Flush, outcome: Ok(()) };
        let mut buffer = [0; 8];
        let read = Request {
            operation: Operation::Read { offset: 0, buffer: &mut buffer },
            outcome: Ok(()),
        };
        let began = load.begin(&[read, flush(), flush()], 5_000);
        assert_eq!(load.read().requests_in_flight, 3);
        load.end(&began, 5_000 + 3_000);
        let stat = load.read();
        assert_eq!((stat.requests_in_flight, &stat.batches_by_length[..4]), (0, &[0, 0, 1, 0][..]));
        let flushes = stat.operations.iter().find(|one| one.kind == OperationKind::Flush).unwrap();
        assert_eq!((flushes.requests, flushes.total_ns), (2, 6_000));
        assert_eq!(flushes.quantile_ns(0.5), Some(4096), "3000 ns are below 2^12");
        assert_eq!(stat.operations[1].quantile_ns(0.5), None, "there were no writes");
    }

    #[test]
    fn classes_of_latencies_have_no_gaps() {
        for took_ns in [0, 1, 1023, 1024, 1025, 1 << 20, (1 << 20) - 1, u64::MAX] {
            let load = Load::default();
            let began = load.begin(&[Request { operation: Operation::Flush, outcome: Ok(()) }], 0);
            load.end(&began, took_ns);
            let stat = load.read();
            let class = stat.operations[4]
                .requests_by_latency
                .iter()
                .position(|count| *count == 1)
                .unwrap();
            assert!(
                OperationStat::class_end_ns(class).is_none_or(|end| took_ns < end),
                "{took_ns}"
            );
            assert!(
                class == 0 || OperationStat::class_end_ns(class - 1).unwrap() <= took_ns,
                "{took_ns}"
            );
        }
    }
}
