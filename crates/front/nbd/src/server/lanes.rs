//! Batches of one connection that are in execution beside its thread, and the sending side of the
//! connection, which they share.
//!
//! A lane is a batch with memory of its own for its replies, and a thread that executes it and
//! sends them. Long writes take the buffer along in which they were received. The number of lanes,
//! their threads and their memory are bounded. Replies are sent whole, one batch at a time, in the
//! order in which the batches end.
//!
//! The first failure of a lane ends the connection: the stream of requests ends for the thread that
//! receives, which then takes the failure from here.

mod late;

use super::batch::{Batch, Waiting};
use super::connection_log::Traffic;
use super::counters::Counters;
use super::error::SessionError;

use crate::socket::Socket;
use gemelo_device::{BlockDevice, Buffer, Helper, Helpers, Memory};
use late::LateReads;
use std::io::{self, Write};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most lanes of a connection.
const MAX_LANES: usize = 16;

/// Most lanes of long writes of a connection. Its own thread executes what it has received
/// meanwhile. Long writes do not wait for anything, so more lanes need more cores; with two cores,
/// two lanes were no faster.
const MAX_LONG_WRITES: usize = 1;

/// Most batches of a connection in execution beside its thread: lanes, those of long writes, and
/// the reads that wait for the medium.
const MAX_IN_FLIGHT: usize = MAX_LANES + MAX_LONG_WRITES + 1;

/// Most requests of a lane. Requests that arrive together would be answered together in one batch,
/// and sent together again by their client, so that nothing would overlap.
const LANE_REQUESTS: usize = 4;

/// The memory of a lane that was not used while this number of lanes ended is released.
const UNUSED_LANES: u64 = 1024;

/// The requests that a lane may have. They do not mix, so that reads do not wait for a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    /// Reads.
    Reads,
    /// Flushes, and changes that must be durable when they are answered.
    Durable,
}

/// A batch that is not in execution yet.
pub(super) struct Lane {
    pub(super) batch: Batch,
    route: Route,
    helper: Helper,
}

/// The ranges and the data of a batch of long writes.
pub(super) struct LongWrites {
    pub(super) ranges: Vec<Range<u64>>,
    /// The buffer in which the data was received.
    pub(super) received: Buffer,
}

/// Memory and a thread for a batch of long writes.
pub(super) struct Spare {
    pub(super) batch: Batch,
    pub(super) received: Buffer,
    pub(super) helper: Helper,
}

/// A lane that has ended: its number, and its memory.
struct EndedLane {
    number: u64,
    batch: Batch,
    /// The receive buffer of long writes.
    received: Option<Buffer>,
}

impl Lane {
    /// Returns whether the lane takes a further request on this route.
    pub(super) fn takes(&self, route: Route) -> bool {
        self.route == route && self.batch.requests() < LANE_REQUESTS && !self.batch.is_full()
    }
}

/// The parts of a connection that its lanes use.
pub(super) struct Setting {
    pub(super) device: Arc<dyn BlockDevice>,
    /// `true` if the device waits for other machines.
    pub(super) is_remote: bool,
    pub(super) structured_replies: bool,
    pub(super) memory: Memory,
    pub(super) helpers: Arc<Helpers>,
    pub(super) counters: Arc<Counters>,
    pub(super) send_timeout: Option<Duration>,
}

/// The lanes of a connection.
pub(super) struct Lanes {
    setting: Setting,
    sending: Mutex<Socket>,
    /// The same socket, to end it while another thread sends.
    socket: Socket,
    state: Mutex<State>,
    one_ended: Condvar,
}

#[derive(Default)]
struct State {
    in_flight: usize,
    /// Lanes that have started so far.
    started: u64,
    /// Lanes that have ended so far.
    ended: u64,
    /// The lanes of long writes in execution, by number, and their ranges.
    writes: Vec<(u64, Vec<Range<u64>>)>,
    late: LateReads,
    /// Batches to be used again. The last one is used first.
    idle: Vec<Batch>,
    /// Receive buffers of long writes, to be used again.
    idle_received: Vec<Buffer>,
    /// Batches at the front of `idle` that were not used since they were last counted.
    unused: usize,
    traffic: Traffic,
    /// Number of the last change that a flush of a lane has covered.
    flushed: u64,
    failure: Option<SessionError>,
}

/// Returns whether a range has bytes in common with one of these.
fn touch_any(one: &Range<u64>, others: &[Range<u64>]) -> bool {
    others.iter().any(|other| one.start < other.end && other.start < one.end)
}

impl State {
    /// Returns whether a long write in execution touches one of these ranges.
    fn writes_to(&self, ranges: &[Range<u64>]) -> bool {
        let mut others = self.writes.iter().flat_map(|(_, ranges)| ranges);
        others.any(|other| touch_any(other, ranges))
    }

    fn reuse(&mut self) -> Option<Batch> {
        let batch = self.idle.pop();
        self.unused = self.unused.min(self.idle.len());
        batch
    }

    /// Keeps a batch for reuse. Now and then, drops those that were not used for long.
    fn keep(&mut self, batch: Batch) {
        self.idle.push(batch);
        if self.ended.is_multiple_of(UNUSED_LANES) {
            self.idle.drain(..self.unused);
            self.unused = self.idle.len();
        }
    }
}

impl Lanes {
    pub(super) fn new(setting: Setting, socket: Socket) -> Self {
        let (state, one_ended) = (Mutex::default(), Condvar::new());
        Self { setting, sending: Mutex::new(socket.clone()), socket, state, one_ended }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a lane, if its thread and its memory are granted.
    pub(super) fn open(&self, route: Route) -> Option<Lane> {
        let mut state = self.lock();
        if state.in_flight >= MAX_LANES {
            return None;
        }
        let helper = self.setting.helpers.grant(state.in_flight)?;
        let batch = self.batch(&mut state)?;
        Some(Lane { batch, route, helper })
    }

    /// Returns a batch to be used, if there is one or its memory is granted.
    fn batch(&self, state: &mut State) -> Option<Batch> {
        let Setting { structured_replies, memory, .. } = &self.setting;
        state.reuse().or_else(|| Batch::further(*structured_replies, memory))
    }

    /// Gives a lane without requests back.
    pub(super) fn give_back(&self, lane: Lane) {
        self.lock().keep(lane.batch);
    }

    /// Has the lane executed. `written` is the number of the last change that the device has
    /// executed.
    pub(super) fn start(self: &Arc<Self>, lane: Lane, written: u64) {
        self.start_batch(lane.batch, None, written, lane.helper);
    }

    /// Returns memory and a thread for a batch of long writes, if they are granted. Waits before
    /// until no long write and no read in execution touches the same ranges.
    pub(super) fn spare(&self, ranges: &[Range<u64>]) -> Option<Spare> {
        let Setting { memory, helpers, .. } = &self.setting;
        let touches = |state: &mut State| state.writes_to(ranges) || state.late.read_from(ranges);
        let waited = self.one_ended.wait_while(self.lock(), touches);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.writes.len() >= MAX_LONG_WRITES {
            return None;
        }
        let helper = helpers.grant(state.in_flight)?;
        let received = match state.idle_received.pop() {
            Some(received) => received,
            None => Buffer::granted(memory)?,
        };
        let batch = self.batch(&mut state)?;
        Some(Spare { batch, received, helper })
    }

    /// Has a batch of long writes executed.
    pub(super) fn start_writes(self: &Arc<Self>, batch: Batch, writes: LongWrites, helper: Helper) {
        // A flush of a lane covers no long write: devices with such flushes have no long writes.
        self.start_batch(batch, Some(writes), 0, helper);
    }

    fn start_batch(
        self: &Arc<Self>,
        mut batch: Batch,
        writes: Option<LongWrites>,
        written: u64,
        helper: Helper,
    ) {
        let mut state = self.lock();
        assert!(state.in_flight < MAX_IN_FLIGHT, "the lanes of a connection are bounded");
        state.in_flight += 1;
        state.started += 1;
        let number = state.started;
        let received = writes.map(|LongWrites { ranges, received }| {
            state.writes.push((number, ranges));
            received
        });
        drop(state);
        let lanes = Arc::clone(self);
        helper.run(move |helper| {
            let data = received.as_deref().unwrap_or_default();
            let executed = AssertUnwindSafe(|| {
                batch.execute(data, &*lanes.setting.device, Waiting::All);
                lanes.answer(&batch, written)
            });
            let outcome = catch_unwind(executed).unwrap_or(Err(SessionError::DevicePanic));
            // The thread is free before the connection learns of the end, and asks for another.
            drop(helper);
            lanes.end(EndedLane { number, batch, received }, outcome);
        });
    }

    /// Counts and answers the requests of a batch.
    fn answer(&self, batch: &Batch, written: u64) -> Result<(), SessionError> {
        self.setting.counters.count_overlapping(batch.answered());
        let mut state = self.lock();
        state.traffic += batch.traffic();
        if batch.has_flushed() {
            state.flushed = state.flushed.max(written);
        }
        drop(state);
        self.send(batch.replies())
    }

    /// Notes the end of a lane.
    fn end(&self, ended: EndedLane, outcome: Result<(), SessionError>) {
        let EndedLane { number, mut batch, received } = ended;
        let mut state = self.lock();
        state.writes.retain(|(other, _)| *other != number);
        state.idle_received.extend(received);
        match outcome {
            Ok(()) => {
                batch.clear();
                state.keep(batch);
            }
            Err(error) => {
                // The other lanes may still answer after a panic, and not after a failed send.
                match error {
                    SessionError::DevicePanic => self.socket.end_receiving(),
                    _ => self.socket.end(),
                }
                state.failure.get_or_insert(error);
            }
        }
        state.in_flight -= 1;
        state.ended += 1;
        drop(state);
        self.one_ended.notify_all();
    }

    /// Sends whole replies.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<(), SessionError> {
        assert!(!bytes.is_empty(), "an answered batch has replies");
        if !self.setting.device.may_answer() {
            return Err(SessionError::MayNotAnswer);
        }
        let mut socket = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = socket.write_all(bytes);
        sent.map_err(|error| SessionError::of_send(error, self.setting.send_timeout))
    }

    /// Returns whether reads and flushes have lanes.
    pub(super) fn are_for_waits(&self) -> bool {
        self.setting.is_remote
    }

    /// Returns whether lanes are in execution.
    pub(super) fn are_in_flight(&self) -> bool {
        self.lock().in_flight > 0
    }

    /// Returns the number of lanes that have ended, and whether others are in execution.
    pub(super) fn progress(&self) -> (u64, bool) {
        let state = self.lock();
        (state.ended, state.in_flight > 0)
    }

    /// Waits until one of the lanes in execution has ended.
    pub(super) fn wait_for_one(&self) {
        let state = self.lock();
        let ended = state.ended;
        self.wait_while(state, |state| state.in_flight > 0 && state.ended == ended);
    }

    /// Waits until no long write is in execution.
    pub(super) fn wait_for_writes(&self) {
        self.wait_while(self.lock(), |state| !state.writes.is_empty());
    }

    /// Waits until no lane is in execution.
    pub(super) fn wait_for_all(&self) {
        self.wait_while(self.lock(), |state| state.in_flight > 0);
    }

    fn wait_while(&self, state: MutexGuard<'_, State>, waits: impl Fn(&State) -> bool) {
        // A lock that a panic has poisoned is as good as before.
        drop(self.one_ended.wait_while(state, |state| waits(state)));
    }

    /// Returns whether a lane has failed, so that the connection must end.
    pub(super) fn have_failed(&self) -> bool {
        self.lock().failure.is_some()
    }

    /// Takes the first failure.
    pub(super) fn take_failure(&self) -> Option<SessionError> {
        self.lock().failure.take()
    }

    /// Returns the traffic of the lanes that have ended.
    pub(super) fn traffic(&self) -> Traffic {
        self.lock().traffic
    }

    /// Returns the number of the last change that a flush has covered.
    pub(super) fn flushed(&self) -> u64 {
        self.lock().flushed
    }

    /// Returns whether there is memory that [`Self::shrink`] may release, now or later.
    pub(super) fn hold_memory(&self) -> bool {
        let state = self.lock();
        state.in_flight > 0 || !state.idle.is_empty()
    }

    /// Releases the memory of lanes that are not in use.
    pub(super) fn shrink(&self) {
        let mut state = self.lock();
        state.unused = 0;
        state.idle.clear();
        state.idle_received.clear();
    }
}

impl SessionError {
    /// Returns the error of replies that could not be sent.
    pub(super) fn of_send(error: io::Error, send_timeout: Option<Duration>) -> Self {
        match send_timeout {
            Some(after) if error.kind() == io::ErrorKind::TimedOut => Self::NotTaken(after),
            _ => error.into(),
        }
    }
}
