//! The operations of a process as numbers: started, left, completed, and since the last sync.

use crate::operations::Kind;
use gemelo_base::live::{Progress, Unreported};

/// Counts of operations.
#[derive(Debug)]
pub(super) struct OperationCounts {
    reads: u64,
    writes: u64,
    /// Operations that may still start.
    left: u64,
    unreported: Unreported,
}

impl OperationCounts {
    /// Without a limit, the run ends for another reason.
    pub(super) fn new(max_operations: Option<u64>) -> Self {
        Self {
            reads: 0,
            writes: 0,
            left: max_operations.unwrap_or(u64::MAX),
            unreported: Unreported::default(),
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
        self.unreported.complete(latency_ns);
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
        self.unreported.take_due(now_ns)
    }

    /// Returns the operations completed since the last report.
    pub(super) fn take(&mut self) -> Progress {
        self.unreported.take()
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
