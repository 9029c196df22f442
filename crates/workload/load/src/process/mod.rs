//! One process of a run: takes operations in order, starts them when they are due, and measures
//! them.
//!
//! The loop is the hot path. For each operation it draws a place, makes contents, submits the
//! request and records a latency. It reads the clock twice, after generating and after the
//! completion. It allocates nothing, takes no lock, and makes no system call besides those of the
//! queue.
//!
//! Operations on the same place never overlap if one of them writes, so the content of a block
//! follows from the order of operations alone.

mod counts;
mod faults;
mod flights;
mod outcome;
mod state;
mod times;

pub(crate) use outcome::ProcessOutcome;
pub(crate) use state::{Cause, Common, State};

use crate::check::Checker;
use crate::history::Expected;
use crate::log::LogSender;
use crate::measure::Recorder;
use crate::operations::{Kind, Operations};
use crate::populate::fill;
use crate::result::OperationFailure;
use flights::Flight;
use gemelo_target::{Completion, IoFailure, Queue, TargetOperation, TargetRequest, Wait};
use state::PreparedOperation;
use std::time::Duration;

/// Delay of a start from which an operation counts as late; a timer needs less to wake a thread.
pub(crate) const LATE_NS: u64 = 100_000;
/// An operation due within this time is awaited by polling completions, because a sleeping thread
/// would wake too late.
const POLL_BELOW_NS: u64 = 60_000;
/// Longest wait after which a process checks whether it should stop.
const MAX_WAIT_NS: u64 = 100_000_000;

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

/// One process of a run.
pub(crate) struct Process<'a> {
    pub(crate) common: &'a Common<'a>,
    pub(crate) number: u32,
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) operations: Operations,
    pub(crate) recorder: Recorder,
    pub(crate) online: Option<Online<'a>>,
    pub(crate) log: Option<LogSender>,
    /// Number of the first content that this run writes.
    pub(crate) first_sequence: u64,
    pub(crate) state: State,
}

impl Process<'_> {
    /// Runs to the end. Times are counted from `origin_ns` of the clock.
    pub(crate) fn run(&mut self, origin_ns: u64) -> Cause {
        self.state.times.begin(origin_ns);
        self.look_at_clock();
        let mut done = Vec::with_capacity(self.state.flights.depth());
        let cause = loop {
            let ended = self.start_operations();
            if self.state.flights.is_empty() {
                if let Some(cause) = ended {
                    break cause;
                }
                self.sleep();
                continue;
            }
            self.reap(ended.is_some(), &mut done);
            if self.state.faults.has_engine_failed() {
                self.give_up_flights();
                break Cause::Halted;
            }
        };
        let last = self.state.counts.take();
        self.common.progress.add(last);
        cause
    }

    /// Returns the time at which the run ended for this process.
    pub(crate) const fn ended_ns(&self) -> u64 {
        self.state.times.now_ns()
    }

    /// Returns the number of operations of an open loop that were due before the end and did not
    /// start. A closed loop has none, as its prepared operations have no due time.
    pub(crate) fn missed(&self) -> u64 {
        let times = &self.state.times;
        if !times.is_open_loop() {
            return 0;
        }
        let until_ns = times.now_ns().min(times.end_ns());
        let is_due = |prepared: PreparedOperation| prepared.operation.due_ns < until_ns;
        let prepared = self.state.prepared.is_some_and(is_due);
        // A run with a byte limit never starts more operations than the limit permits.
        (self.operations.due_by(until_ns) + u64::from(prepared)).min(self.state.counts.left())
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.state.times.since_start(self.common.clock.now_ns())
    }

    /// Reads the clock. Returns the time passed since the last look at it.
    #[inline]
    fn look_at_clock(&mut self) -> u64 {
        let now_ns = self.now_ns();
        self.state.times.set_now(now_ns)
    }

    /// Reports completed operations as progress, if it is time.
    #[inline]
    fn report_progress(&mut self) {
        if let Some(completed) = self.state.counts.take_due(self.state.times.now_ns()) {
            self.common.progress.add(completed);
        }
    }

    #[inline]
    fn ended(&self) -> Option<Cause> {
        let state = &self.state;
        if state.counts.left() == 0 {
            Some(Cause::Bytes)
        } else if state.times.is_over() {
            Some(Cause::Time)
        } else if self.common.stop.is_raised() {
            Some(Cause::Stopped)
        } else if self.common.halt.is_raised() {
            Some(Cause::Halted)
        } else {
            None
        }
    }

    /// Starts every operation that can start now. Returns a cause if no operation will start any
    /// more.
    #[inline]
    fn start_operations(&mut self) -> Option<Cause> {
        loop {
            if let Some(cause) = self.ended() {
                return Some(cause);
            }
            let prepared = self.take_prepared()?;
            let due_ns = prepared.operation.due_ns;
            let times = &self.state.times;
            if times.is_open_loop() && due_ns >= times.end_ns() {
                self.state.prepared = Some(prepared);
                // No further operation is due before the end, so the process waits for the end.
                return self.state.times.is_over().then_some(Cause::Time);
            }
            if due_ns > times.now_ns() || self.state.flights.overlaps(&prepared.operation) {
                self.state.prepared = Some(prepared);
                return None;
            }
            self.start(prepared);
        }
    }

    /// Returns the next operation, or `None` if there is no free slot for it.
    #[inline]
    fn take_prepared(&mut self) -> Option<PreparedOperation> {
        if let Some(prepared) = self.state.prepared.take() {
            return Some(prepared);
        }
        let slot = self.state.flights.take_slot()?;
        Some(self.prepare(slot))
    }

    /// Draws the next operation and makes its content ahead of its due time, so that generating
    /// does not count as latency.
    #[inline]
    fn prepare(&mut self, slot: usize) -> PreparedOperation {
        let operation = self.operations.next_operation();
        let mut sequence = 0;
        if operation.kind == Kind::Write {
            let request_blocks = self.common.job.spec().request_blocks;
            sequence = self.first_sequence + self.state.counts.writes() * request_blocks;
            fill(self.common.contents, self.number, sequence, self.queue.buffer(slot));
            let generating_ns = self.look_at_clock();
            self.recorder.add_generating(generating_ns);
        }
        PreparedOperation { operation, slot, sequence }
    }

    #[inline]
    fn start(&mut self, prepared: PreparedOperation) {
        let PreparedOperation { operation, slot, sequence } = prepared;
        let spec = self.common.job.spec();
        let verb = match operation.kind {
            Kind::Read => TargetOperation::Read,
            Kind::Write => TargetOperation::Write,
        };
        let number = self.state.counts.start(operation.kind);
        if operation.kind == Kind::Write
            && let Some(online) = &mut self.online
        {
            let expected = online.expected(operation.request, spec.request_blocks);
            for (sequence, entry) in (sequence..).zip(expected) {
                *entry = self.common.contents.assignment.content(self.number, sequence).to_bits();
            }
        }
        let started_ns = self.state.times.now_ns();
        let flight = Flight { operation, number, started_ns, sync_started_ns: None };
        self.state.flights.start(slot, flight);
        let bytes = spec.request_bytes();
        let offset = operation.request * bytes as u64;
        if let Err(failure) =
            self.queue.submit(slot, TargetRequest { operation: verb, offset, bytes })
        {
            self.fail_engine(&failure);
        }
    }

    /// Sleeps until the next operation is due. Nothing is in flight.
    fn sleep(&mut self) {
        let times = &self.state.times;
        let due_ns = self.state.prepared.map_or(0, |prepared| prepared.operation.due_ns);
        let wake_ns = due_ns.min(times.end_ns()).min(times.now_ns() + MAX_WAIT_NS);
        self.common.clock.sleep_until_ns(times.on_clock(wake_ns));
        self.look_at_clock();
    }

    fn wait(&self, is_ending: bool) -> Wait {
        let times = &self.state.times;
        let waits_for_time = times.is_open_loop() && !is_ending;
        let Some(prepared) = self.state.prepared.filter(|_| waits_for_time) else {
            return Wait::ForOne;
        };
        let due_ns = prepared.operation.due_ns.min(times.end_ns());
        let left_ns = due_ns.saturating_sub(times.now_ns());
        match left_ns {
            // The operation is due; it waits for an overlapping one to end.
            0 => Wait::ForOne,
            1..POLL_BELOW_NS => Wait::Not,
            _ => Wait::AtMost(Duration::from_nanos((left_ns - POLL_BELOW_NS / 2).min(MAX_WAIT_NS))),
        }
    }

    #[inline]
    fn reap(&mut self, is_ending: bool, done: &mut Vec<Completion>) {
        if let Err(failure) = self.queue.reap(self.wait(is_ending), done) {
            self.fail_engine(&failure);
        }
        self.look_at_clock();
        let ended_ns = self.state.times.now_ns();
        self.recorder.advance(ended_ns);
        for completion in done.drain(..) {
            self.complete(completion, ended_ns);
        }
        self.report_progress();
    }

    #[inline]
    fn complete(&mut self, completion: Completion, ended_ns: u64) {
        let slot = completion.slot;
        let Some(flight) = self.state.flights.get(slot) else { return };
        if let Err(failure) = completion.outcome {
            self.fail(&flight, &failure);
        } else if self.needs_sync(&flight, ended_ns) {
            self.start_sync(slot, ended_ns);
            return;
        } else {
            self.measure(&flight, ended_ns);
            if flight.operation.kind == Kind::Read && self.online.is_some() {
                self.check(slot, flight.operation.request);
            }
        }
        self.state.flights.end(slot);
    }

    #[inline]
    fn needs_sync(&mut self, flight: &Flight, ended_ns: u64) -> bool {
        if let Some(started_ns) = flight.sync_started_ns {
            self.recorder.record_sync(ended_ns - started_ns);
            return false;
        }
        flight.operation.kind == Kind::Write && self.state.syncs.count_write()
    }

    fn start_sync(&mut self, slot: usize, now_ns: u64) {
        self.state.syncs.start();
        self.state.flights.start_sync(slot, now_ns);
        if let Err(failure) = self
            .queue
            .submit(slot, TargetRequest { operation: TargetOperation::Sync, offset: 0, bytes: 0 })
        {
            self.fail_engine(&failure);
        }
    }

    #[inline]
    fn measure(&mut self, flight: &Flight, ended_ns: u64) {
        let Flight { operation, started_ns, .. } = *flight;
        let service_ns = ended_ns - started_ns;
        let due_ns = if self.state.times.is_open_loop() { operation.due_ns } else { started_ns };
        let waited_ns = started_ns - due_ns;
        self.recorder.record(
            operation.kind,
            waited_ns + service_ns,
            service_ns,
            waited_ns > LATE_NS,
        );
        self.state.counts.complete(waited_ns + service_ns);
        if let Some(log) = &mut self.log {
            log.record(operation.kind, operation.request, started_ns, service_ns, waited_ns);
        }
    }

    fn check(&mut self, slot: usize, request: u64) {
        let began_ns = self.now_ns();
        let spec = self.common.job.spec();
        if let Some(Online { checker, table }) = &mut self.online {
            // The queue has released the buffer, although the slot still counts as in flight.
            let bytes = &self.queue.buffer(slot)[..spec.request_bytes()];
            let first = request * spec.request_blocks;
            for (block, bytes) in (first..).zip(bytes.chunks(spec.block_bytes)) {
                let expected = table
                    .get(block as usize)
                    .map_or(Expected::Unknown, |bits| Expected::from_bits(*bits));
                checker.check(block, expected, bytes);
            }
        }
        self.look_at_clock();
        self.recorder.add_checking(self.state.times.now_ns().saturating_sub(began_ns));
    }

    #[cold]
    fn fail(&mut self, flight: &Flight, failure: &IoFailure) {
        self.common.halt.raise();
        if flight.operation.kind == Kind::Write {
            self.state.faults.add_uncertain([flight.number]);
        }
        self.state.faults.add(|| OperationFailure::of_io(self.number, failure));
    }

    #[cold]
    fn fail_engine(&mut self, failure: &IoFailure) {
        self.common.halt.raise();
        self.state.faults.add_of_engine(|| OperationFailure::of_io(self.number, failure));
    }

    /// Marks the writes in flight as uncertain: the engine failed, so their outcome is unknown.
    fn give_up_flights(&mut self) {
        self.state.faults.add_uncertain(self.state.flights.writes());
    }
}
