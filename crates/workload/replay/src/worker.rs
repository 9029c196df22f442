//! One process of a replay: starts operations in order when they are due, measures them and checks
//! reads.

use crate::batch::{Batch, Planned, Verb};
use crate::options::Speed;
use crate::result::ReplayMismatch;
use crate::seconds::Seconds;
use crate::shared::Shared;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use gemelo_content::{BlockContent, Examination};
use gemelo_load::{
    Completed, DriveContext, DriveTime, Flight, LATE_NS, Latencies, OperationSource, drive,
};
use gemelo_target::{IoFailure, Queue, TargetOperation, TargetRequest};
use std::time::Duration;

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

/// The operations of a process, which arrive in batches, and their measurements.
pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    batches: &'a Receiver<Batch>,
    emptied: &'a Sender<Batch>,
    batch: Batch,
    /// Number of the next operation of the batch.
    next: usize,
    /// `true` after the last batch.
    is_done: bool,
    /// Expected contents of the read in each slot.
    expected: Vec<Vec<Option<u64>>>,
    scratch: Vec<u8>,
    block_bytes: usize,
    outcome: WorkerOutcome,
}

impl<'a> Worker<'a> {
    /// Executes batches until the channel ends.
    pub(crate) fn run(
        shared: &'a Shared<'a>,
        queue: Box<dyn Queue>,
        (batches, emptied): (&'a Receiver<Batch>, &'a Sender<Batch>),
    ) -> WorkerOutcome {
        let block_bytes = shared.plan.block_bytes() as usize;
        let max_blocks = shared.queue.buffer_bytes / block_bytes;
        let context = DriveContext {
            clock: shared.environment.clock,
            stop: shared.environment.stop,
            halt: shared.halt,
            progress: &shared.progress,
        };
        let slots = 0..queue.depth();
        let mut worker = Self {
            shared,
            batches,
            emptied,
            batch: Batch::default(),
            next: 0,
            is_done: false,
            expected: slots.map(|_| Vec::with_capacity(max_blocks)).collect(),
            scratch: vec![0; block_bytes],
            block_bytes,
            outcome: WorkerOutcome::default(),
        };
        // The due times of operations are those of the clock.
        let origin_ns = 0;
        worker.outcome.ended_ns = drive(context, queue, (origin_ns, None), &mut worker).ended_ns;
        worker.outcome
    }

    /// Waits for a batch in place of the one that was executed.
    fn take_batch(&mut self, is_idle: bool) -> Result<(), RecvTimeoutError> {
        let batch = if is_idle {
            self.batches.recv().map_err(|_| RecvTimeoutError::Disconnected)?
        } else {
            self.batches.recv_timeout(BATCH_WAIT)?
        };
        self.next = 0;
        // The batch is dropped if the reader has enough empty ones.
        let _ = self.emptied.try_send(std::mem::replace(&mut self.batch, batch));
        Ok(())
    }

    /// Returns the content ids of an operation of the present batch.
    fn ids(&self, operation: &Planned) -> &[Option<u64>] {
        let ids = self.batch.ids.get(operation.ids..).unwrap_or_default();
        ids.get(..operation.blocks as usize).unwrap_or_default()
    }

    fn fill(&self, operation: &Planned, buffer: &mut [u8]) {
        let known = self.ids(operation).iter().flatten();
        assert!(known.clone().count() as u64 == operation.blocks, "a write has all contents");
        for (id, block) in known.zip(buffer.chunks_exact_mut(self.block_bytes)) {
            self.shared.contents.generator.fill(BlockContent::from_bits(*id), block);
        }
    }

    fn measure(&mut self, flight: &Flight<Planned>, ended_ns: u64) {
        let operation = &flight.operation;
        let second = self.outcome.seconds.at(ended_ns.saturating_sub(self.batch.origin_ns));
        let (side, second) = match operation.verb {
            Verb::Sync => return self.outcome.flushes += 1,
            Verb::Trim => return self.outcome.trims += 1,
            Verb::Read => (&mut self.outcome.reads, second.map(|second| &mut second.reads)),
            Verb::Write => (&mut self.outcome.writes, second.map(|second| &mut second.writes)),
        };
        let due_ns = if operation.due_ns == 0 { flight.started_ns } else { operation.due_ns };
        let response_ns = ended_ns.saturating_sub(due_ns);
        let bytes = operation.blocks * self.block_bytes as u64;
        side.record(bytes, ended_ns - flight.started_ns, response_ns);
        if let Some(second) = second {
            second.record(bytes, response_ns);
        }
    }

    fn check(&mut self, flight: &Flight<Planned>, queue: &mut dyn Queue) {
        let Self { expected, scratch, outcome, shared, block_bytes, .. } = self;
        let generator = &shared.contents.generator;
        let blocks = queue.buffer(flight.slot).chunks_exact(*block_bytes);
        let numbers = flight.operation.first..;
        for ((expected, bytes), block) in expected[flight.slot].iter().zip(blocks).zip(numbers) {
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
}

impl OperationSource for Worker<'_> {
    type Operation = Planned;

    #[inline]
    fn is_done(&self) -> bool {
        self.is_done
    }

    fn next(
        &mut self,
        queue: &mut dyn Queue,
        slot: usize,
        is_idle: bool,
        time: &mut DriveTime<'_>,
    ) -> Option<Planned> {
        while self.next == self.batch.operations.len() {
            let taken = self.take_batch(is_idle);
            time.look();
            self.is_done = taken == Err(RecvTimeoutError::Disconnected);
            taken.ok()?;
        }
        let operation = self.batch.operations[self.next];
        self.next += 1;
        if operation.verb == Verb::Write {
            time.look();
            self.fill(&operation, queue.buffer(slot));
            self.outcome.generating_ns += time.look();
        }
        Some(operation)
    }

    #[inline]
    fn due_ns(&self, operation: &Planned) -> u64 {
        operation.due_ns
    }

    /// A sync makes durable what was completed before it, so it waits for all operations.
    #[inline]
    fn overlaps(&self, next: &Planned, other: &Planned) -> bool {
        next.verb == Verb::Sync
            || (other.first < next.first + next.blocks
                && next.first < other.first + other.blocks
                && (other.verb != Verb::Read || next.verb != Verb::Read))
    }

    fn start(&mut self, flight: &Flight<Planned>) -> TargetRequest {
        let Flight { slot, operation, started_ns } = flight;
        if self.shared.options.speed != Speed::Unlimited {
            let late_ns = started_ns.saturating_sub(operation.due_ns);
            if late_ns > LATE_NS {
                self.outcome.late.record(late_ns);
            }
        }
        let mut expected = std::mem::take(&mut self.expected[*slot]);
        expected.clear();
        if operation.verb == Verb::Read && self.shared.options.verify {
            expected.extend_from_slice(self.ids(operation));
        }
        self.expected[*slot] = expected;
        let verb = match operation.verb {
            Verb::Read => TargetOperation::Read,
            Verb::Write => TargetOperation::Write,
            Verb::Trim => TargetOperation::Trim,
            Verb::Sync => TargetOperation::Sync,
        };
        TargetRequest {
            operation: verb,
            offset: operation.first * self.block_bytes as u64,
            bytes: operation.blocks as usize * self.block_bytes,
        }
    }

    fn complete(
        &mut self,
        flight: &mut Flight<Planned>,
        ended_ns: u64,
        queue: &mut dyn Queue,
        time: &mut DriveTime<'_>,
    ) -> Completed {
        self.measure(flight, ended_ns);
        if flight.operation.verb == Verb::Read && self.shared.options.verify {
            self.check(flight, queue);
            time.look();
        }
        Completed::Measured(ended_ns - flight.started_ns)
    }

    /// The contents of the target are not of interest after a failure.
    fn lose(&mut self, _: &Planned) {}

    #[cold]
    fn fail(&mut self, failure: &IoFailure) {
        let failure: &dyn std::error::Error = failure;
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
