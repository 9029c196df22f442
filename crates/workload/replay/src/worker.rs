//! One process of a replay: starts operations in order when they are due, measures them and checks
//! reads.

use crate::batch::{Batch, Planned, Verb};
use crate::options::Speed;
use crate::result::ReplayMismatch;
use crate::seconds::Seconds;
use crate::shared::Shared;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use gemelo_base::live::Unreported;
use gemelo_content::{BlockContent, Examination};
use gemelo_load::Latencies;
use gemelo_target::{Completion, Queue, TargetOperation, TargetRequest, Wait};
use std::time::Duration;

/// Delay of a start from which an operation counts as late; a timer needs less to wake a thread.
pub(crate) const LATE_NS: u64 = 100_000;
/// An operation due within this time is awaited by polling.
const POLL_BELOW_NS: u64 = 60_000;
/// Longest wait after which a process checks whether it should stop.
const MAX_WAIT_NS: u64 = 50_000_000;
/// With operations in flight, a process waits this long for a batch before it checks for
/// completions.
const BATCH_WAIT: Duration = Duration::from_micros(200);
/// Mismatches that are kept. Further ones are only counted.
pub(crate) const MAX_MISMATCHES: usize = 100;

/// The reads or the writes of a process.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) data_bytes: u64,
    pub(crate) service: Latencies,
    pub(crate) response: Latencies,
}

impl Default for Side {
    fn default() -> Self {
        Self { data_bytes: 0, service: Latencies::new(), response: Latencies::new() }
    }
}

impl Side {
    #[inline]
    fn record(&mut self, data_bytes: u64, service_ns: u64, response_ns: u64) {
        self.data_bytes += data_bytes;
        self.service.record(service_ns);
        self.response.record(response_ns);
    }
}

/// The measurements of a process.
#[derive(Debug)]
pub(crate) struct WorkerOutcome {
    pub(crate) reads: Side,
    pub(crate) writes: Side,
    pub(crate) seconds: Seconds,
    pub(crate) flushes: u64,
    pub(crate) trims: u64,
    pub(crate) late: Latencies,
    pub(crate) generating_ns: u64,
    pub(crate) checked: u64,
    pub(crate) wrong: u64,
    pub(crate) mismatches: Vec<ReplayMismatch>,
    pub(crate) ended_ns: u64,
    pub(crate) failure: Option<String>,
}

impl Default for WorkerOutcome {
    fn default() -> Self {
        Self {
            reads: Side::default(),
            writes: Side::default(),
            seconds: Seconds::default(),
            flushes: 0,
            trims: 0,
            late: Latencies::new(),
            generating_ns: 0,
            checked: 0,
            wrong: 0,
            mismatches: Vec::new(),
            ended_ns: 0,
            failure: None,
        }
    }
}

impl WorkerOutcome {
    pub(crate) fn of_failure(failure: String) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        for (side, more) in [(&mut self.reads, other.reads), (&mut self.writes, other.writes)] {
            side.data_bytes += more.data_bytes;
            side.service.add(&more.service);
            side.response.add(&more.response);
        }
        self.seconds.add(other.seconds.all());
        // Each process flushes its own part, so a flush of the trace counts once.
        self.flushes = self.flushes.max(other.flushes);
        self.trims += other.trims;
        self.late.add(&other.late);
        self.generating_ns += other.generating_ns;
        self.checked += other.checked;
        self.wrong += other.wrong;
        self.mismatches.extend(other.mismatches);
        self.mismatches.truncate(MAX_MISMATCHES);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
        self.failure = self.failure.take().or(other.failure);
    }
}

/// An operation in flight.
#[derive(Debug, Clone)]
struct Flight {
    operation: Option<Planned>,
    started_ns: u64,
    /// Expected contents of a read.
    expected: Vec<Option<u64>>,
}

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    queue: Box<dyn Queue>,
    flights: Vec<Flight>,
    free: Vec<usize>,
    done: Vec<Completion>,
    scratch: Vec<u8>,
    block_bytes: usize,
    /// Start of the replay on the clock, by the batch that came last.
    origin_ns: u64,
    /// `true` after the engine failed: operations in flight will never complete.
    engine_failed: bool,
    unreported: Unreported,
    outcome: WorkerOutcome,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, queue: Box<dyn Queue>) -> Self {
        let depth = queue.depth();
        let block_bytes = shared.plan.block_bytes() as usize;
        let max_blocks = shared.queue.buffer_bytes / block_bytes;
        let idle =
            Flight { operation: None, started_ns: 0, expected: Vec::with_capacity(max_blocks) };
        Self {
            shared,
            queue,
            flights: vec![idle; depth],
            free: (0..depth).collect(),
            done: Vec::with_capacity(depth),
            scratch: vec![0; block_bytes],
            block_bytes,
            origin_ns: 0,
            engine_failed: false,
            unreported: Unreported::default(),
            outcome: WorkerOutcome::default(),
        }
    }

    /// Executes batches until the channel ends.
    pub(crate) fn run(
        mut self,
        batches: &Receiver<Batch>,
        emptied: &Sender<Batch>,
    ) -> WorkerOutcome {
        while let Some(batch) = self.next_batch(batches) {
            self.origin_ns = batch.origin_ns;
            for operation in &batch.operations {
                if self.is_over() {
                    break;
                }
                let ids = batch.ids.get(operation.ids..).unwrap_or_default();
                self.carry_out(operation, ids.get(..operation.blocks as usize).unwrap_or_default());
            }
            // The batch is dropped if the reader has enough empty ones.
            let _ = emptied.try_send(batch);
        }
        while self.in_flight() > 0 && !self.engine_failed {
            self.reap(Wait::ForOne);
        }
        self.outcome.ended_ns = self.shared.environment.clock.now_ns();
        self.outcome
    }

    fn is_over(&self) -> bool {
        self.shared.halt.is_raised() || self.shared.environment.stop.is_raised()
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    fn next_batch(&mut self, batches: &Receiver<Batch>) -> Option<Batch> {
        loop {
            if self.in_flight() == 0 {
                return batches.recv().ok();
            }
            match batches.recv_timeout(BATCH_WAIT) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.reap(Wait::Not),
            }
        }
    }

    fn carry_out(&mut self, operation: &Planned, ids: &[Option<u64>]) {
        if operation.verb == Verb::Sync {
            while self.in_flight() > 0 && !self.is_over() {
                self.reap(Wait::ForOne);
            }
        }
        let Some(slot) = self.take_slot() else { return };
        if operation.verb == Verb::Write {
            let began_ns = self.now_ns();
            let buffer = self.queue.buffer(slot).chunks_exact_mut(self.block_bytes);
            let known = ids.iter().flatten();
            assert!(known.clone().count() as u64 == operation.blocks, "a write has all contents");
            for (id, block) in known.zip(buffer) {
                self.shared.contents.generator.fill(BlockContent::from_bits(*id), block);
            }
            self.outcome.generating_ns += self.now_ns() - began_ns;
        }
        self.wait_until_due(operation.due_ns);
        while self.overlaps(operation) && !self.is_over() {
            self.reap(Wait::ForOne);
        }
        if self.is_over() {
            self.free.push(slot);
            return;
        }
        self.start(slot, operation, ids);
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        self.shared.environment.clock.now_ns()
    }

    fn take_slot(&mut self) -> Option<usize> {
        loop {
            if self.is_over() {
                return None;
            }
            if let Some(slot) = self.free.pop() {
                return Some(slot);
            }
            self.reap(Wait::ForOne);
        }
    }

    fn wait_until_due(&mut self, due_ns: u64) {
        loop {
            let now_ns = self.now_ns();
            if now_ns >= due_ns || self.is_over() {
                return;
            }
            let left_ns = due_ns - now_ns;
            // The slot of the waiting operation is neither free nor in flight.
            if self.flights.iter().all(|flight| flight.operation.is_none()) {
                self.shared.environment.clock.sleep_until_ns(due_ns.min(now_ns + MAX_WAIT_NS));
            } else if left_ns < POLL_BELOW_NS {
                self.reap(Wait::Not);
            } else {
                let wait_ns = (left_ns - POLL_BELOW_NS / 2).min(MAX_WAIT_NS);
                self.reap(Wait::AtMost(Duration::from_nanos(wait_ns)));
            }
        }
    }

    /// Returns whether an operation in flight touches the same blocks, and at least one of the two
    /// changes them.
    fn overlaps(&self, operation: &Planned) -> bool {
        self.flights.iter().filter_map(|flight| flight.operation.as_ref()).any(|other| {
            other.first < operation.first + operation.blocks
                && operation.first < other.first + other.blocks
                && (other.verb != Verb::Read || operation.verb != Verb::Read)
        })
    }

    fn start(&mut self, slot: usize, operation: &Planned, ids: &[Option<u64>]) {
        let started_ns = self.now_ns();
        if self.shared.options.speed != Speed::Unlimited {
            let late_ns = started_ns.saturating_sub(operation.due_ns);
            if late_ns > LATE_NS {
                self.outcome.late.record(late_ns);
            }
        }
        let flight = &mut self.flights[slot];
        flight.operation = Some(*operation);
        flight.started_ns = started_ns;
        flight.expected.clear();
        if operation.verb == Verb::Read && self.shared.options.verify {
            flight.expected.extend_from_slice(ids);
        }
        let verb = match operation.verb {
            Verb::Read => TargetOperation::Read,
            Verb::Write => TargetOperation::Write,
            Verb::Trim => TargetOperation::Trim,
            Verb::Sync => TargetOperation::Sync,
        };
        let request = TargetRequest {
            operation: verb,
            offset: operation.first * self.block_bytes as u64,
            bytes: operation.blocks as usize * self.block_bytes,
        };
        if let Err(failure) = self.queue.submit(slot, request) {
            self.engine_failed = true;
            self.fail(&*failure);
        }
    }

    fn reap(&mut self, wait: Wait) {
        let mut done = std::mem::take(&mut self.done);
        if let Err(failure) = self.queue.reap(wait, &mut done) {
            self.engine_failed = true;
            self.fail(&*failure);
        }
        let now_ns = self.now_ns();
        for completion in done.drain(..) {
            self.complete(completion, now_ns);
        }
        if let Some(completed) = self.unreported.take_due(now_ns) {
            self.shared.progress.add(completed);
        }
        self.done = done;
    }

    fn complete(&mut self, completion: Completion, now_ns: u64) {
        let slot = completion.slot;
        let flight = &mut self.flights[slot];
        let Some(operation) = flight.operation.take() else { return };
        let service_ns = now_ns - flight.started_ns;
        let due_ns = if operation.due_ns == 0 { flight.started_ns } else { operation.due_ns };
        match completion.outcome {
            Err(failure) => self.fail(&*failure),
            Ok(()) => {
                let bytes = operation.blocks * self.block_bytes as u64;
                let response_ns = now_ns.saturating_sub(due_ns);
                let second = self.outcome.seconds.at(now_ns.saturating_sub(self.origin_ns));
                let side = match operation.verb {
                    Verb::Sync => {
                        self.outcome.flushes += 1;
                        None
                    }
                    Verb::Trim => {
                        self.outcome.trims += 1;
                        None
                    }
                    Verb::Read => {
                        Some((&mut self.outcome.reads, second.map(|second| &mut second.reads)))
                    }
                    Verb::Write => {
                        Some((&mut self.outcome.writes, second.map(|second| &mut second.writes)))
                    }
                };
                self.unreported.complete(service_ns);
                if let Some((side, second)) = side {
                    side.record(bytes, service_ns, response_ns);
                    if let Some(second) = second {
                        second.record(bytes, response_ns);
                    }
                }
                if operation.verb == Verb::Read && self.shared.options.verify {
                    self.check(slot, operation.first);
                }
            }
        }
        self.free.push(slot);
    }

    fn check(&mut self, slot: usize, first: u64) {
        let Self { queue, flights, scratch, outcome, shared, block_bytes, .. } = self;
        let generator = &shared.contents.generator;
        let blocks = queue.buffer(slot).chunks_exact(*block_bytes);
        for ((expected, bytes), block) in flights[slot].expected.iter().zip(blocks).zip(first..) {
            let Some(expected) = expected.map(BlockContent::from_bits) else { continue };
            outcome.checked += 1;
            let found = generator.examine(expected, bytes, scratch);
            if found != Examination::Match {
                outcome.wrong += 1;
                if outcome.mismatches.len() < MAX_MISMATCHES {
                    outcome.mismatches.push(ReplayMismatch {
                        block,
                        expected: expected.to_string(),
                        found: describe(found),
                    });
                }
            }
        }
    }

    #[cold]
    fn fail(&mut self, failure: &dyn std::error::Error) {
        self.shared.halt.raise();
        let cause = failure.source().map(|source| format!(": {source}")).unwrap_or_default();
        self.outcome.failure.get_or_insert(format!("{failure}{cause}"));
    }
}

fn describe(found: Examination) -> String {
    match found {
        Examination::Match => "the expected content".to_owned(),
        Examination::Zeros => "zeros".to_owned(),
        Examination::Other(id) => format!("another content, {id}"),
        Examination::Torn { intact_sectors, sectors, .. } => {
            format!("{intact_sectors} of {sectors} sectors of the expected content")
        }
        Examination::Garbage { first_difference, different_bytes } => {
            format!("{different_bytes} wrong bytes, the first at byte {first_difference}")
        }
    }
}
