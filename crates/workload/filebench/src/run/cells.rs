//! The counters of each thread, without locks. Only the thread itself writes its cells; any thread
//! may read them.
//!
//! Counts only grow. A reader that needs the counts since some moment subtracts the counts at that
//! moment.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Buckets of a histogram: powers of two of nanoseconds. The last bucket holds 9 minutes and more.
pub const HISTOGRAM_BUCKETS: usize = 40;

/// The figures of one flowop in one thread.
struct Cell {
    count: AtomicU64,
    bytes: AtomicU64,
    total_ns: AtomicU64,
    generate_ns: AtomicU64,
    /// Extremes since the period began.
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    histogram: [AtomicU64; HISTOGRAM_BUCKETS],
}

impl Cell {
    fn new() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            count: zero(),
            bytes: zero(),
            total_ns: zero(),
            generate_ns: zero(),
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: zero(),
            histogram: std::array::from_fn(|_| zero()),
        }
    }
}

/// The figures of one thread.
pub(super) struct Cells {
    cells: Box<[Cell]>,
    /// Operations on files, their bytes, and the reads and writes among them.
    io_count: AtomicU64,
    io_bytes: AtomicU64,
    transfers: AtomicU64,
    /// Period to which the least and largest latencies belong.
    period: AtomicU32,
}

/// Adds to a counter. The owner is the only writer, so no atomic addition is needed.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Operations, bytes, and transfers of a process or a flowop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) transfers: u64,
}

/// The figures of one operation that has ended.
pub(super) struct Ended {
    pub(super) cell: usize,
    pub(super) elapsed_ns: u64,
    pub(super) generate_ns: u64,
    pub(super) bytes: u64,
    pub(super) is_io: bool,
    pub(super) is_transfer: bool,
}

impl Cells {
    pub(super) fn new(count: usize) -> Self {
        Self {
            cells: (0..count).map(|_| Cell::new()).collect(),
            io_count: AtomicU64::new(0),
            io_bytes: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
            period: AtomicU32::new(0),
        }
    }

    /// Counts an operation. Only the owner may call it. A new period resets the extremes.
    #[inline]
    pub(super) fn record(&self, ended: &Ended, period: u32) {
        if self.period.load(Ordering::Relaxed) != period {
            self.start_period(period);
        }
        let Some(cell) = self.cells.get(ended.cell) else { return };
        let elapsed_ns = ended.elapsed_ns;
        add(&cell.count, 1);
        add(&cell.bytes, ended.bytes);
        add(&cell.total_ns, elapsed_ns);
        if ended.generate_ns > 0 {
            add(&cell.generate_ns, ended.generate_ns);
        }
        if elapsed_ns < cell.min_ns.load(Ordering::Relaxed) {
            cell.min_ns.store(elapsed_ns, Ordering::Relaxed);
        }
        if elapsed_ns > cell.max_ns.load(Ordering::Relaxed) {
            cell.max_ns.store(elapsed_ns, Ordering::Relaxed);
        }
        let bucket = (u64::BITS - elapsed_ns.leading_zeros()) as usize;
        add(&cell.histogram[bucket.min(HISTOGRAM_BUCKETS - 1)], 1);
        if ended.is_io {
            add(&self.io_count, 1);
            add(&self.io_bytes, ended.bytes);
            if ended.is_transfer {
                add(&self.transfers, 1);
            }
        }
    }

    #[cold]
    fn start_period(&self, period: u32) {
        for cell in &self.cells {
            cell.min_ns.store(u64::MAX, Ordering::Relaxed);
            cell.max_ns.store(0, Ordering::Relaxed);
        }
        self.period.store(period, Ordering::Relaxed);
    }

    /// Returns the totals of all operations on files so far.
    pub(super) fn io_totals(&self) -> Totals {
        Totals {
            count: self.io_count.load(Ordering::Relaxed),
            bytes: self.io_bytes.load(Ordering::Relaxed),
            transfers: self.transfers.load(Ordering::Relaxed),
        }
    }

    /// Returns the totals of one flowop so far.
    pub(super) fn totals_of(&self, cell: usize) -> Totals {
        let Some(cell) = self.cells.get(cell) else { return Totals::default() };
        let count = cell.count.load(Ordering::Relaxed);
        Totals { count, bytes: cell.bytes.load(Ordering::Relaxed), transfers: count }
    }

    /// Adds the figures of one flowop to `figures`. The extremes are added only if they belong to
    /// this period.
    pub(super) fn add_to(&self, cell: usize, period: u32, figures: &mut Stats) {
        let Some(cell) = self.cells.get(cell) else { return };
        figures.bytes += cell.bytes.load(Ordering::Relaxed);
        figures.total_ns += cell.total_ns.load(Ordering::Relaxed);
        figures.generate_ns += cell.generate_ns.load(Ordering::Relaxed);
        if self.period.load(Ordering::Relaxed) == period {
            figures.min_ns = figures.min_ns.min(cell.min_ns.load(Ordering::Relaxed));
            figures.max_ns = figures.max_ns.max(cell.max_ns.load(Ordering::Relaxed));
        }
        for (sum, bucket) in figures.histogram.iter_mut().zip(&cell.histogram) {
            let operations = bucket.load(Ordering::Relaxed);
            *sum += operations;
            // The histogram gives the count, because the owner may have changed `count` since the
            // buckets were read.
            figures.count += operations;
        }
    }
}

/// The figures of one flowop over all threads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stats {
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) total_ns: u64,
    pub(super) generate_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
    pub(super) histogram: [u64; HISTOGRAM_BUCKETS],
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            count: 0,
            bytes: 0,
            total_ns: 0,
            generate_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            histogram: [0; HISTOGRAM_BUCKETS],
        }
    }
}

impl Stats {
    /// Returns the figures since `before`. The extremes are kept as they are.
    pub(super) fn since(&self, before: &Self) -> Self {
        let mut rest = self.clone();
        rest.count = rest.count.saturating_sub(before.count);
        rest.bytes = rest.bytes.saturating_sub(before.bytes);
        rest.total_ns = rest.total_ns.saturating_sub(before.total_ns);
        rest.generate_ns = rest.generate_ns.saturating_sub(before.generate_ns);
        for (bucket, before) in rest.histogram.iter_mut().zip(before.histogram) {
            *bucket = bucket.saturating_sub(before);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_since_a_moment_leave_out_what_was_before() {
        let cells = Cells::new(2);
        let ended = |elapsed_ns, bytes| Ended {
            cell: 1,
            elapsed_ns,
            generate_ns: 1,
            bytes,
            is_io: true,
            is_transfer: true,
        };
        cells.record(&ended(1000, 10), 0);
        let mut before = Stats::default();
        cells.add_to(1, 0, &mut before);
        cells.record(&ended(100, 5), 1);
        cells.record(&ended(300, 5), 1);
        let mut now = Stats::default();
        cells.add_to(1, 1, &mut now);
        let since = now.since(&before);
        assert_eq!((since.count, since.bytes, since.total_ns, since.generate_ns), (2, 10, 400, 2));
        assert_eq!((since.min_ns, since.max_ns), (100, 300));
        assert_eq!(since.histogram.iter().sum::<u64>(), 2);
        assert_eq!(cells.io_totals(), Totals { count: 3, bytes: 20, transfers: 3 });
    }
}
