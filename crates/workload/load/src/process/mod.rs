//! One process of a run: the operations of a job as a source for [`drive`](crate::drive::drive),
//! with their contents, measurements and checks.
//!
//! For each operation it draws a place, makes contents and records a latency. It reads the clock
//! after generating, and allocates nothing.

mod counts;
mod faults;
mod outcome;

pub(crate) use outcome::ProcessOutcome;

use crate::check::Checker;
use crate::contents::Contents;
use crate::drive::{Completed, DriveTime, Driven, Flight, LATE_NS, OperationSource};
use crate::history::Expected;
use crate::job::{Job, JobSpec, Pace};
use crate::log::LogSender;
use crate::measure::Recorder;
use crate::operations::{Kind, Operations, ScheduledOperation};
use crate::populate::fill;
use crate::result::OperationFailure;
use counts::{OperationCounts, SyncSchedule};
use faults::Faults;
use gemelo_target::{IoFailure, Queue, TargetOperation, TargetRequest};

/// State of a process that checks every read.
pub(crate) struct Online<'a> {
    pub(crate) checker: Checker<'a>,
    /// The expected content of each block.
    pub(crate) table: Vec<u64>,
}

impl Online<'_> {
    /// Returns the expected contents of the blocks of an operation.
    fn expected(&mut self, request: u64, request_blocks: u64) -> &mut [u64] {
        let first = (request * request_blocks) as usize;
        self.table.get_mut(first..first + request_blocks as usize).unwrap_or_default()
    }
}

/// The parts of a process that its run decides.
pub(crate) struct ProcessParts<'a> {
    pub(crate) job: &'a Job,
    pub(crate) contents: &'a Contents,
    pub(crate) number: u32,
    pub(crate) recorder: Recorder,
    pub(crate) online: Option<Online<'a>>,
    pub(crate) log: Option<LogSender>,
    /// Number of the first content that this run writes.
    pub(crate) first_sequence: u64,
}

/// One process of a run.
pub(crate) struct Process<'a> {
    pub(crate) parts: ProcessParts<'a>,
    operations: Operations,
    is_open_loop: bool,
    pub(crate) counts: OperationCounts,
    syncs: SyncSchedule,
    pub(crate) faults: Faults,
}

/// An operation of a job with its content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JobFlight {
    operation: ScheduledOperation,
    /// Number among the process's reads or writes, counted from 0.
    number: u64,
    /// Number of the content of the first block of a write.
    sequence: u64,
    /// Start of the `fdatasync` after the write.
    sync_started_ns: Option<u64>,
}

impl<'a> Process<'a> {
    pub(crate) fn new(parts: ProcessParts<'a>) -> Self {
        let (job, spec) = (parts.job, parts.job.spec());
        Self {
            operations: Operations::new(job, parts.number),
            is_open_loop: spec.pace != Pace::Peak,
            counts: OperationCounts::new(job.process_operations()),
            syncs: SyncSchedule::new(if spec.sync.is_synced() { spec.fsync_every } else { 0 }),
            faults: Faults::default(),
            parts,
        }
    }

    /// Returns the number of operations of an open loop that were due before the end and did not
    /// start. A closed loop has none, as its prepared operations have no due time.
    pub(crate) fn missed(&self, driven: &Driven<JobFlight>) -> u64 {
        if !self.is_open_loop {
            return 0;
        }
        let until_ns = driven.ended_ns.min(self.spec().time_ns.unwrap_or(u64::MAX));
        let held = driven.held.is_some_and(|held| held.operation.due_ns < until_ns);
        // A run with a byte limit never starts more operations than the limit permits.
        (self.operations.due_by(until_ns) + u64::from(held)).min(self.counts.left())
    }

    #[inline]
    const fn spec(&self) -> &'a JobSpec {
        self.parts.job.spec()
    }

    #[inline]
    fn needs_sync(&mut self, operation: &JobFlight, ended_ns: u64) -> bool {
        if let Some(started_ns) = operation.sync_started_ns {
            self.parts.recorder.record_sync(ended_ns - started_ns);
            return false;
        }
        operation.operation.kind == Kind::Write && self.syncs.count_write()
    }

    /// Returns the latency.
    #[inline]
    fn measure(&mut self, flight: &Flight<JobFlight>, ended_ns: u64) -> u64 {
        let (operation, started_ns) = (flight.operation.operation, flight.started_ns);
        let service_ns = ended_ns - started_ns;
        let due_ns = if self.is_open_loop { operation.due_ns } else { started_ns };
        let waited_ns = started_ns - due_ns;
        let latency_ns = waited_ns + service_ns;
        let is_late = waited_ns > LATE_NS;
        self.parts.recorder.record(operation.kind, latency_ns, service_ns, is_late);
        if let Some(log) = &mut self.parts.log {
            log.record(operation.kind, operation.request, started_ns, service_ns, waited_ns);
        }
        latency_ns
    }

    fn check(&mut self, slot: usize, request: u64, queue: &mut dyn Queue) {
        let spec = self.spec();
        if let Some(Online { checker, table }) = &mut self.parts.online {
            let bytes = &queue.buffer(slot)[..spec.request_bytes()];
            let first = request * spec.request_blocks;
            for (block, bytes) in (first..).zip(bytes.chunks(spec.block_bytes)) {
                let expected = table
                    .get(block as usize)
                    .map_or(Expected::Unknown, |bits| Expected::from_bits(*bits));
                checker.check(block, expected, bytes);
            }
        }
    }
}

impl OperationSource for Process<'_> {
    type Operation = JobFlight;

    #[inline]
    fn is_done(&self) -> bool {
        self.counts.left() == 0
    }

    #[inline]
    fn next(
        &mut self,
        queue: &mut dyn Queue,
        slot: usize,
        _is_idle: bool,
        time: &mut DriveTime<'_>,
    ) -> Option<JobFlight> {
        let operation = self.operations.next_operation();
        let number = self.counts.of(operation.kind);
        let mut sequence = 0;
        if operation.kind == Kind::Write {
            sequence = self.parts.first_sequence + number * self.spec().request_blocks;
            fill(self.parts.contents, self.parts.number, sequence, queue.buffer(slot));
            self.parts.recorder.add_generating(time.look());
        }
        Some(JobFlight { operation, number, sequence, sync_started_ns: None })
    }

    #[inline]
    fn due_ns(&self, operation: &JobFlight) -> u64 {
        operation.operation.due_ns
    }

    #[inline]
    fn overlaps(&self, next: &JobFlight, other: &JobFlight) -> bool {
        let (next, other) = (&next.operation, &other.operation);
        other.request == next.request && (other.kind == Kind::Write || next.kind == Kind::Write)
    }

    #[inline]
    fn start(&mut self, flight: &Flight<JobFlight>) -> TargetRequest {
        let JobFlight { operation, sequence, .. } = flight.operation;
        let spec = self.spec();
        self.counts.start(operation.kind);
        let verb = match operation.kind {
            Kind::Read => TargetOperation::Read,
            Kind::Write => TargetOperation::Write,
        };
        if operation.kind == Kind::Write
            && let Some(online) = &mut self.parts.online
        {
            let assignment = &self.parts.contents.assignment;
            let expected = online.expected(operation.request, spec.request_blocks);
            for (sequence, entry) in (sequence..).zip(expected) {
                *entry = assignment.content(self.parts.number, sequence).to_bits();
            }
        }
        let bytes = spec.request_bytes();
        TargetRequest { operation: verb, offset: operation.request * bytes as u64, bytes }
    }

    #[inline]
    fn complete(
        &mut self,
        flight: &mut Flight<JobFlight>,
        ended_ns: u64,
        queue: &mut dyn Queue,
        time: &mut DriveTime<'_>,
    ) -> Completed {
        self.parts.recorder.advance(ended_ns);
        if self.needs_sync(&flight.operation, ended_ns) {
            self.syncs.start();
            flight.operation.sync_started_ns = Some(ended_ns);
            let operation = TargetOperation::Sync;
            return Completed::Continues(TargetRequest { operation, offset: 0, bytes: 0 });
        }
        let latency_ns = self.measure(flight, ended_ns);
        let operation = &flight.operation.operation;
        if operation.kind == Kind::Read && self.parts.online.is_some() {
            time.look();
            self.check(flight.slot, operation.request, queue);
            self.parts.recorder.add_checking(time.look());
        }
        Completed::Measured(latency_ns)
    }

    #[cold]
    fn lose(&mut self, lost: &JobFlight) {
        if lost.operation.kind == Kind::Write {
            self.faults.add_uncertain(lost.number);
        }
    }

    #[cold]
    fn fail(&mut self, failure: &IoFailure) {
        self.faults.add(|| OperationFailure::of_io(self.parts.number, failure));
    }
}
