//! The state of a process: shared with other processes, in flight, and its progress.

use crate::contents::Contents;
use crate::job::{Job, Pace};
use crate::operations::ScheduledOperation;
use crate::result::OperationFailure;
use gemelo_base::{Clock, StopFlag};
use std::sync::atomic::AtomicU64;

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
    pub(crate) progress: &'a AtomicU64,
}

/// The reason why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Time,
    Bytes,
    Stopped,
    Halted,
}

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) operation: ScheduledOperation,
    /// Number among the process's reads or writes, counted from 0.
    pub(super) number: u64,
    pub(super) started_ns: u64,
    /// Start of the `fdatasync` after the write.
    pub(super) sync_started_ns: Option<u64>,
}

/// An operation that is prepared, with its content, and has not started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) operation: ScheduledOperation,
    pub(super) slot: usize,
    pub(super) content: u64,
}

/// The mutable state of a running process.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) flights: Vec<Option<Flight>>,
    pub(super) in_flight: usize,
    /// Slots that are neither in flight nor held.
    pub(super) free: Vec<usize>,
    pub(super) held: Option<Held>,
    pub(super) origin_ns: u64,
    pub(super) now_ns: u64,
    pub(super) end_ns: u64,
    pub(super) is_open_loop: bool,
    pub(super) left: u64,
    pub(super) fsync_every: u64,
    pub(super) since_sync: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Operations completed and not yet reported as progress.
    pub(super) unreported: u64,
    pub(crate) uncertain: Vec<u64>,
    pub(crate) failure: Option<OperationFailure>,
    pub(super) engine_failed: bool,
}

impl State {
    pub(crate) fn new(job: &Job) -> Self {
        let spec = job.spec();
        Self {
            flights: vec![None; spec.queue_depth],
            in_flight: 0,
            free: (0..spec.queue_depth).rev().collect(),
            held: None,
            origin_ns: 0,
            now_ns: 0,
            end_ns: spec.time_ns.unwrap_or(u64::MAX),
            is_open_loop: spec.pace != Pace::Peak,
            left: job.process_operations().unwrap_or(u64::MAX),
            fsync_every: if spec.sync.is_synced() { spec.fsync_every } else { 0 },
            since_sync: 0,
            reads: 0,
            writes: 0,
            unreported: 0,
            uncertain: Vec::new(),
            failure: None,
            engine_failed: false,
        }
    }
}
