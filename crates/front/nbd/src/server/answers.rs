//! The sending side of a connection, which its thread and its lanes share, and the lanes' way to
//! execute and answer requests. Replies are sent whole, one batch at a time, in the order in which
//! the batches end.

use super::batch::Batch;
use super::check::Rules;
use super::connection_log::Traffic;
use super::counters::Counters;
use super::error::SessionError;
use super::stream::Stream;
use crate::socket::Socket;
use crate::wire::RequestHeader;
use gemelo_device::{BlockDevice, Buffer, LaneClient, Memory, Waiting};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The parts of a connection that its lanes use.
pub(super) struct Answers {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) structured_replies: bool,
    pub(super) memory: Memory,
    pub(super) counters: Arc<Counters>,
    pub(super) send_timeout: Option<Duration>,
    stream: Mutex<Stream>,
    /// The socket of the stream, to end it while another thread sends.
    socket: Socket,
    state: Mutex<State>,
}

/// The work of the lanes that have ended.
#[derive(Default)]
struct State {
    traffic: Traffic,
    /// Number of the last change that a flush of a lane has covered.
    flushed: u64,
    /// Receive buffers of long writes, to be used again.
    idle_received: Vec<Buffer>,
}

/// The batch of a lane.
pub(super) struct LaneBatch {
    pub(super) batch: Batch,
    /// The buffer in which the data of long writes was received.
    pub(super) received: Option<Buffer>,
    /// Number of the last change that a flush in the batch covers.
    pub(super) covers: u64,
}

/// A kept read: its header, and the rules that it was checked by.
pub(super) type LateRead = (RequestHeader, Rules);

impl Answers {
    pub(super) fn new(
        device: Arc<dyn BlockDevice>,
        structured_replies: bool,
        (memory, counters): (Memory, Arc<Counters>),
        stream: Stream,
        send_timeout: Option<Duration>,
    ) -> Self {
        let socket = stream.socket().clone();
        let (stream, state) = (Mutex::new(stream), Mutex::default());
        Self { device, structured_replies, memory, counters, send_timeout, stream, socket, state }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends whole replies.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<(), SessionError> {
        assert!(!bytes.is_empty(), "an answered batch has replies");
        // Right before anything is sent.
        if !self.device.may_answer() {
            return Err(SessionError::MayNotAnswer);
        }
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = stream.write_all(bytes);
        sent.map_err(|error| SessionError::of_send(error, self.send_timeout))
    }

    /// Returns a receive buffer in exchange for that of long writes, if its memory is granted.
    pub(super) fn spare_buffer(&self) -> Option<Buffer> {
        self.lock().idle_received.pop().or_else(|| Buffer::granted(&self.memory))
    }

    /// Keeps a receive buffer to be used again.
    pub(super) fn keep_buffer(&self, buffer: Buffer) {
        self.lock().idle_received.push(buffer);
    }

    /// Releases memory that is not in use.
    pub(super) fn shrink(&self) {
        self.lock().idle_received.clear();
    }

    /// Returns the traffic of lanes, and the number of the last change that a flush has covered.
    pub(super) fn totals(&self) -> (Traffic, u64) {
        let state = self.lock();
        (state.traffic, state.flushed)
    }
}

impl LaneClient for Answers {
    type Batch = LaneBatch;
    type Read = LateRead;
    type Failure = SessionError;

    fn new_batch(&self) -> Option<LaneBatch> {
        let batch = Batch::further(self.structured_replies, &self.memory)?;
        Some(LaneBatch { batch, received: None, covers: 0 })
    }

    fn make_room(&self, lane: &mut LaneBatch, bytes: u64) -> u64 {
        // The length of a request has 32 bits.
        lane.batch.make_room_for_read(bytes as u32);
        u64::from(lane.batch.longest_read())
    }

    fn add(&self, lane: &mut LaneBatch, (header, rules): &LateRead) -> bool {
        lane.batch.push(*header, 0..0, rules)
    }

    fn carry_out(
        &self,
        lane: &mut LaneBatch,
        waiting: Waiting,
    ) -> Result<Vec<usize>, SessionError> {
        let LaneBatch { batch, received, covers } = lane;
        let data = received.as_deref().unwrap_or_default();
        batch.execute(data, &*self.device, waiting);
        self.counters.count_overlapping(batch.answered());
        let mut state = self.lock();
        state.traffic += batch.traffic();
        if batch.has_flushed() {
            state.flushed = state.flushed.max(*covers);
        }
        drop(state);
        self.send(batch.replies())?;
        Ok(batch.left().map(|(place, ..)| place).collect())
    }

    fn empty(&self, lane: &mut LaneBatch) {
        lane.batch.empty();
    }

    fn clear(&self, lane: &mut LaneBatch) {
        lane.batch.clear();
        lane.covers = 0;
        if let Some(received) = lane.received.take() {
            self.keep_buffer(received);
        }
    }

    fn panicked(&self) -> SessionError {
        SessionError::DevicePanic
    }

    fn end(&self, failure: &SessionError) {
        match failure {
            // The other lanes may still answer after a panic, and not after a failed send.
            SessionError::DevicePanic => self.socket.end_receiving(),
            _ => self.socket.end(),
        }
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
