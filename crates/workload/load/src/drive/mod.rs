//! The loop of one process of any load: takes operations from a source in order, starts each when
//! it is due, and hands completions back to the source.
//!
//! The loop is the hot path. It reads the clock once for each time that it reaps completions; the
//! source reads it after making contents. It allocates nothing, takes no lock, and makes no system
//! call besides those of the queue.
//!
//! An operation that the source holds to overlap one in flight waits for it, so the content of a
//! block follows from the order of operations alone.

mod flights;
mod time;

pub use flights::Flight;
pub use time::DriveTime;

use flights::Flights;
use gemelo_base::live::{TotalProgress, Unreported};
use gemelo_base::{Clock, StopFlag};
use gemelo_target::{Completion, IoFailure, Queue, TargetRequest, Wait};
use std::time::Duration;

/// Delay of a start from which an operation counts as late; a timer needs less to wake a thread.
pub const LATE_NS: u64 = 100_000;
/// An operation due within this time is awaited by polling completions, because a sleeping thread
/// would wake too late.
const POLL_BELOW_NS: u64 = 60_000;
/// Longest wait after which a process checks whether it should stop.
const MAX_WAIT_NS: u64 = 50_000_000;

/// The operations of one process in order, and their measurements.
pub trait OperationSource {
    /// An operation: kind, place, and due time.
    type Operation: Copy;

    /// Returns whether no operation is left.
    fn is_done(&self) -> bool;

    /// Takes the next operation and makes its content in the slot's buffer, ahead of its due time.
    /// Returns [`None`] if there is none yet. The source may wait for one, but only a short time
    /// unless the process `is_idle`: nothing of it is in flight.
    fn next(
        &mut self,
        queue: &mut dyn Queue,
        slot: usize,
        is_idle: bool,
        time: &mut DriveTime<'_>,
    ) -> Option<Self::Operation>;

    /// Returns the due time of an operation; 0 stands for at once.
    fn due_ns(&self, operation: &Self::Operation) -> u64;

    /// Returns whether `next` has to wait until `other`, which is in flight, has ended.
    fn overlaps(&self, next: &Self::Operation, other: &Self::Operation) -> bool;

    /// Notes that an operation starts. Returns its request.
    fn start(&mut self, flight: &Flight<Self::Operation>) -> TargetRequest;

    /// Measures an operation that has ended without failure, and checks what was read.
    fn complete(
        &mut self,
        flight: &mut Flight<Self::Operation>,
        ended_ns: u64,
        queue: &mut dyn Queue,
        time: &mut DriveTime<'_>,
    ) -> Completed;

    /// Notes that the outcome of an operation is unknown, as it or the queue has failed.
    fn lose(&mut self, operation: &Self::Operation);

    /// Notes a failure, after which no operation starts.
    fn fail(&mut self, failure: &IoFailure);
}

/// The outcome of [`OperationSource::complete`].
#[derive(Debug, Clone, Copy)]
pub enum Completed {
    /// The operation has ended with this latency.
    Measured(u64),
    /// The operation ends after this further request.
    Continues(TargetRequest),
}

/// The reason why a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The time limit was reached.
    Time,
    /// The source had no further operations.
    Done,
    /// The user stopped the run.
    Stopped,
    /// This process, or another one, failed.
    Halted,
}

/// The parts of a run that all its processes share.
#[derive(Clone, Copy)]
pub struct DriveContext<'a> {
    /// Clock for all times.
    pub clock: &'a dyn Clock,
    /// The user raises this flag.
    pub stop: &'a StopFlag,
    /// The first process that fails raises this flag.
    pub halt: &'a StopFlag,
    /// Operations completed by all processes.
    pub progress: &'a TotalProgress,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Driven<O> {
    /// The reason of the end.
    pub cause: Cause,
    /// Time of the end, counted from the origin.
    pub ended_ns: u64,
    /// The operation that was prepared and did not start.
    pub held: Option<O>,
}

/// Executes the operations of a source until it is done, the time is over, or a flag is raised, and
/// waits for the operations in flight. Times, also the due times of operations and the limit, are
/// counted from `origin_ns` of the clock.
pub fn drive<S: OperationSource>(
    context: DriveContext<'_>,
    queue: Box<dyn Queue>,
    (origin_ns, limit_ns): (u64, Option<u64>),
    source: &mut S,
) -> Driven<S::Operation> {
    let depth = queue.depth();
    let driver = Driver {
        context,
        queue,
        time: DriveTime::new(context.clock, origin_ns, limit_ns.unwrap_or(u64::MAX)),
        flights: Flights::new(depth),
        held: None,
        done: Vec::with_capacity(depth),
        unreported: Unreported::default(),
        engine_failed: false,
        source,
    };
    driver.run()
}

/// The event for which a process waits.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// The end of the operations in flight: no operation will start any more.
    End(Cause),
    /// A free slot, or the end of an overlapping operation.
    Completion,
    /// This time.
    Due(u64),
    /// The next operation of the source.
    Source,
}

struct Driver<'a, S: OperationSource> {
    context: DriveContext<'a>,
    queue: Box<dyn Queue>,
    time: DriveTime<'a>,
    flights: Flights<S::Operation>,
    /// The next operation with its slot, if it cannot start yet.
    held: Option<(usize, S::Operation)>,
    done: Vec<Completion>,
    unreported: Unreported,
    engine_failed: bool,
    source: &'a mut S,
}

impl<S: OperationSource> Driver<'_, S> {
    fn run(mut self) -> Driven<S::Operation> {
        let cause = loop {
            let awaited = self.start_operations();
            if self.flights.is_empty() {
                match awaited {
                    Awaited::End(cause) => break cause,
                    Awaited::Due(due_ns) => self.time.sleep_until(due_ns, MAX_WAIT_NS),
                    Awaited::Completion | Awaited::Source => {}
                }
                continue;
            }
            if !self.engine_failed {
                self.reap(awaited);
            }
            if self.engine_failed {
                self.flights.operations().for_each(|operation| self.source.lose(operation));
                break Cause::Halted;
            }
        };
        self.context.progress.add(self.unreported.take());
        let held = self.held.map(|(_, operation)| operation);
        Driven { cause, ended_ns: self.time.now_ns(), held }
    }

    #[inline]
    fn ended(&self) -> Option<Cause> {
        if self.source.is_done() {
            Some(Cause::Done)
        } else if self.time.is_over() {
            Some(Cause::Time)
        } else if self.context.stop.is_raised() {
            Some(Cause::Stopped)
        } else if self.context.halt.is_raised() {
            Some(Cause::Halted)
        } else {
            None
        }
    }

    /// Starts every operation that can start now. Returns the event for which the next one waits.
    #[inline]
    fn start_operations(&mut self) -> Awaited {
        loop {
            if let Some(cause) = self.ended() {
                return Awaited::End(cause);
            }
            let (slot, operation) = match self.take_next() {
                Ok(next) => next,
                Err(awaited) => return awaited,
            };
            // An operation due after the end never starts, so the process waits for the end.
            let (due_ns, end_ns) = (self.source.due_ns(&operation), self.time.end_ns());
            if due_ns > self.time.now_ns() || due_ns >= end_ns {
                self.held = Some((slot, operation));
                return Awaited::Due(due_ns.min(end_ns));
            }
            if self.flights.operations().any(|other| self.source.overlaps(&operation, other)) {
                self.held = Some((slot, operation));
                return Awaited::Completion;
            }
            self.start(slot, operation);
        }
    }

    /// Returns the next operation with its slot.
    #[inline]
    fn take_next(&mut self) -> Result<(usize, S::Operation), Awaited> {
        if let Some(held) = self.held.take() {
            return Ok(held);
        }
        let slot = self.flights.take_slot().ok_or(Awaited::Completion)?;
        let is_idle = self.flights.is_empty();
        let next = self.source.next(self.queue.as_mut(), slot, is_idle, &mut self.time);
        next.map(|operation| (slot, operation)).ok_or_else(|| {
            self.flights.give_back(slot);
            Awaited::Source
        })
    }

    #[inline]
    fn start(&mut self, slot: usize, operation: S::Operation) {
        let flight = Flight { slot, operation, started_ns: self.time.now_ns() };
        let request = self.source.start(&flight);
        self.flights.start(flight);
        self.submit(slot, request);
    }

    #[inline]
    fn submit(&mut self, slot: usize, request: TargetRequest) {
        // The outcome of what is left of the operation is unknown then, as for others in flight.
        if self.engine_failed {
            return;
        }
        if let Err(failure) = self.queue.submit(slot, request) {
            self.fail_engine(&failure);
        }
    }

    fn wait(&self, awaited: Awaited) -> Wait {
        match awaited {
            Awaited::End(_) | Awaited::Completion => Wait::ForOne,
            Awaited::Source => Wait::Not,
            Awaited::Due(due_ns) => match due_ns.saturating_sub(self.time.now_ns()) {
                0..POLL_BELOW_NS => Wait::Not,
                left_ns => {
                    let wait_ns = (left_ns - POLL_BELOW_NS / 2).min(MAX_WAIT_NS);
                    Wait::AtMost(Duration::from_nanos(wait_ns))
                }
            },
        }
    }

    #[inline]
    fn reap(&mut self, awaited: Awaited) {
        let wait = self.wait(awaited);
        let mut done = std::mem::take(&mut self.done);
        if let Err(failure) = self.queue.reap(wait, &mut done) {
            self.fail_engine(&failure);
        }
        self.time.look();
        let ended_ns = self.time.now_ns();
        for completion in done.drain(..) {
            self.complete(completion, ended_ns);
        }
        self.done = done;
        if let Some(completed) = self.unreported.take_due(self.time.now_ns()) {
            self.context.progress.add(completed);
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion, ended_ns: u64) {
        let slot = completion.slot;
        let Some(flight) = self.flights.get_mut(slot) else { return };
        if let Err(failure) = completion.outcome {
            self.source.lose(&flight.operation);
            self.fail(&failure);
        } else {
            // The queue has released the buffer, although the slot still counts as in flight.
            let queue = self.queue.as_mut();
            match self.source.complete(flight, ended_ns, queue, &mut self.time) {
                Completed::Measured(latency_ns) => self.unreported.complete(latency_ns),
                Completed::Continues(request) => return self.submit(slot, request),
            }
        }
        self.flights.end(slot);
    }

    #[cold]
    fn fail(&mut self, failure: &IoFailure) {
        self.context.halt.raise();
        self.source.fail(failure);
    }

    #[cold]
    fn fail_engine(&mut self, failure: &IoFailure) {
        self.engine_failed = true;
        self.fail(failure);
    }
}
