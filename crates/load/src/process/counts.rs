//! The operations of a process as numbers: started, left, completed, and since the last sync.

use crate::operations::Kind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most operations between two reports of progress.
const REPORT_OPERATIONS: u64 = 1 << 10;
/// Longest time between two reports of progress while operations complete: 0.1 s, so that live
/// figures follow slow storage as well.
const REPORT_NS: u64 = 100_000_000;

/// Counts of operations.
#[derive(Debug)]
pub(super) struct Counts {
    reads: u64,
    writes: u64,
    /// Operations that may still start.
    left: u64,
    /// Operations completed and not yet reported as progress, and their latencies together.
    unreported: Progress,
    /// Time of the last report of progress, since the start of the run.
    reported_ns: u64,
}

/// Completed operations of all processes, for progress and live figures. The two sums are not of
/// one instant, which no reader needs.
#[derive(Debug, Default)]
pub(crate) struct TotalProgress {
    operations: AtomicU64,
    latency_ns: AtomicU64,
}

impl TotalProgress {
    pub(super) fn add(&self, completed: Progress) {
        self.operations.fetch_add(completed.operations, Ordering::Relaxed);
        self.latency_ns.fetch_add(completed.latency_ns, Ordering::Relaxed);
    }

    /// Returns the sums so far.
    pub(crate) fn so_far(&self) -> Progress {
        Progress {
            operations: self.operations.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
        }
    }
}

/// Completed operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) operations: u64,
    /// Sum of their latencies.
    pub(crate) latency_ns: u64,
}

impl Counts {
    /// Without a limit, the run ends for another reason.
    pub(super) fn new(most_operations: Option<u64>) -> Self {
        Self {
            reads: 0,
            writes: 0,
            left: most_operations.unwrap_or(u64::MAX),
            unreported: Progress::default(),
            reported_ns: 0,
        }
    }

    /// Counts the start of an operation. Returns its number among those of its kind.
    #[inline]
    pub(super) const fn start(&mut self, kind: Kind) -> u64 {
        let counter = match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        };
        let number = *counter;
        *counter += 1;
        self.left -= 1;
        number
    }

    /// Counts the completion of an operation.
    #[inline]
    pub(super) const fn complete(&mut self, latency_ns: u64) {
        self.unreported.operations += 1;
        self.unreported.latency_ns += latency_ns;
    }

    pub(super) const fn reads(&self) -> u64 {
        self.reads
    }

    #[inline]
    pub(super) const fn writes(&self) -> u64 {
        self.writes
    }

    #[inline]
    pub(super) const fn left(&self) -> u64 {
        self.left
    }

    /// Returns the operations completed since the last report, if a report is due: after enough
    /// operations, or after enough time.
    #[inline]
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<Progress> {
        let is_due = self.unreported.operations >= REPORT_OPERATIONS
            || now_ns.saturating_sub(self.reported_ns) >= REPORT_NS;
        is_due.then(|| {
            self.reported_ns = now_ns;
            self.take()
        })
    }

    /// Returns the operations completed since the last report.
    pub(super) fn take(&mut self) -> Progress {
        std::mem::take(&mut self.unreported)
    }
}

/// Decides after which writes an `fdatasync` follows.
#[derive(Debug)]
pub(super) struct SyncSchedule {
    /// Number of writes after which a sync follows; 0 stands for no syncs.
    every: u64,
    since_sync: u64,
}

impl SyncSchedule {
    pub(super) const fn new(every: u64) -> Self {
        Self { every, since_sync: 0 }
    }

    /// Counts a completed write. Returns whether a sync has to follow it.
    #[inline]
    pub(super) const fn count_write(&mut self) -> bool {
        if self.every == 0 {
            return false;
        }
        self.since_sync += 1;
        self.since_sync >= self.every
    }

    /// Notes that a sync starts.
    pub(super) const fn start(&mut self) {
        self.since_sync = 0;
    }
}
