//! The operations of a process as numbers: started, left, and since the last sync.

use crate::operations::Kind;

/// Counts of operations.
#[derive(Debug)]
pub(crate) struct OperationCounts {
    reads: u64,
    writes: u64,
    /// Operations that may still start.
    left: u64,
}

impl OperationCounts {
    /// Without a limit, the run ends for another reason.
    pub(super) fn new(max_operations: Option<u64>) -> Self {
        Self { reads: 0, writes: 0, left: max_operations.unwrap_or(u64::MAX) }
    }

    /// Counts the start of an operation.
    #[inline]
    pub(super) const fn start(&mut self, kind: Kind) {
        match kind {
            Kind::Read => self.reads += 1,
            Kind::Write => self.writes += 1,
        }
        self.left -= 1;
    }

    /// Returns the number of operations of a kind that have started.
    #[inline]
    pub(crate) const fn of(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Read => self.reads,
            Kind::Write => self.writes,
        }
    }

    #[inline]
    pub(super) const fn left(&self) -> u64 {
        self.left
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
