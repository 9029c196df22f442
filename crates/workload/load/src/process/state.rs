//! The state of a process: shared with other processes, and its own.

use super::counts::{OperationCounts, SyncSchedule};
use super::faults::Faults;
use super::flights::Flights;
use super::times::Times;
use crate::contents::Contents;
use crate::job::{Job, Pace};
use crate::operations::ScheduledOperation;
use crate::result::OperationFailure;
use gemelo_base::live::TotalProgress;
use gemelo_base::{Clock, StopFlag};

/// State shared by all processes of a run.
pub(crate) struct Common<'a> {
    pub(crate) job: &'a Job,
    pub(crate) contents: &'a Contents,
    pub(crate) clock: &'a dyn Clock,
    /// The user raises this flag.
    pub(crate) stop: &'a StopFlag,
    /// The first process that fails raises this flag.
    pub(crate) halt: &'a StopFlag,
    /// Operations completed by all processes.
    pub(crate) progress: &'a TotalProgress,
}

/// The reason why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Time,
    Bytes,
    Stopped,
    Halted,
}

/// An operation that is prepared, with its content, and has not started.
#[derive(Debug, Clone, Copy)]
pub(super) struct PreparedOperation {
    pub(super) operation: ScheduledOperation,
    pub(super) slot: usize,
    /// Number of the content of the first block of a write.
    pub(super) sequence: u64,
}

/// The mutable state of a running process.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) flights: Flights,
    /// The next operation, if it cannot start yet. It has a slot of its own.
    pub(super) prepared: Option<PreparedOperation>,
    pub(super) times: Times,
    pub(super) counts: OperationCounts,
    pub(super) syncs: SyncSchedule,
    pub(super) faults: Faults,
}

/// The parts of the state that the result of the process needs.
pub(crate) struct FinalState {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Numbers of the writes whose outcome is unknown.
    pub(crate) uncertain: Vec<u64>,
    pub(crate) failure: Option<OperationFailure>,
}

impl State {
    pub(crate) fn new(job: &Job) -> Self {
        let spec = job.spec();
        Self {
            flights: Flights::new(spec.queue_depth),
            prepared: None,
            times: Times::new(spec.time_ns, spec.pace != Pace::Peak),
            counts: OperationCounts::new(job.process_operations()),
            syncs: SyncSchedule::new(if spec.sync.is_synced() { spec.fsync_every } else { 0 }),
            faults: Faults::default(),
        }
    }

    pub(crate) fn finish(self) -> FinalState {
        let (uncertain, failure) = self.faults.into_parts();
        let (reads, writes) = (self.counts.reads(), self.counts.writes());
        FinalState { reads, writes, uncertain, failure }
    }
}
