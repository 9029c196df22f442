//! The transmission phase of a connection. In a loop, it receives all that the client has sent,
//! executes it as one batch, and sends all replies. Whatever the client sends meanwhile waits in
//! the socket, which slows the client down. Requests that would keep it waiting complete later
//! (`later`).

mod large;
mod later;

use super::answers::Answers;
use super::batch::Batch;
use super::check::Rules;
use super::config::ServerConfig;
use super::connection_log::Traffic;
use super::counters::Counters;
use super::error::{LONGEST_DROPPED_BYTES, SessionError};
use super::handshake::Chosen;
use super::intake::{Next, ReceiveBuffer};
use super::silence::{Silence, Verdict};
use super::stream::Stream;
use crate::wire::{Command, ErrorCode, REQUEST_BYTES, RequestHeader};
use gemelo_device::{BlockDevice, DeviceError, Lanes, Operation, Request, Spin, Waiting};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The way in which a client ended its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The client asked for it.
    Asked,
    /// The stream ended.
    Closed,
    /// The client sent no request for too long.
    Idle,
}

/// A connection whose client has selected an export.
pub(crate) struct Transmission<'a> {
    stream: Stream,
    chosen: Chosen,
    intake: ReceiveBuffer,
    batch: Batch,
    spin: Spin,
    /// `true` if the last batch was one request. A client with more in flight has sent the next
    /// ones by the time these are executed, so that looking for them gains nothing.
    is_shallow: bool,
    silence: Silence,
    send_timeout: Option<Duration>,
    counters: &'a Counters,
    lanes: Arc<Lanes<Answers>>,
    /// `true` if this machine has several cores.
    has_cores: bool,
    /// Number of batches to come in which a lone request that the device leaves goes to a lane.
    deep_batches: u32,
    /// Number of lanes that had ended when the client was last found silent.
    lanes_ended: u64,
    traffic: Traffic,
    end: End,
    /// Number of batches so far that have left something to be flushed.
    written: u64,
    /// The value of `written` that the last flush here has covered.
    flushed: u64,
    /// `true` if a part of a request was taken out of the intake, and the rest has to arrive.
    is_in_request: bool,
}

impl<'a> Transmission<'a> {
    pub(crate) fn new(
        mut stream: Stream,
        chosen: Chosen,
        config: &ServerConfig,
        (counters, lanes): (&'a Counters, Lanes<Answers>),
    ) -> io::Result<Self> {
        stream.set_deadline_after(None);
        stream.set_send_timeout(config.send_timeout)?;
        Ok(Self {
            intake: ReceiveBuffer::new(&config.memory, config.write_through)?,
            batch: Batch::new(chosen.agreed.structured_replies, &config.memory)?,
            spin: Spin::new(config.busy_wait),
            is_shallow: true,
            silence: Silence::new(config.idle_timeout, config.receive_timeout),
            send_timeout: config.send_timeout,
            stream,
            chosen,
            counters,
            lanes: Arc::new(lanes),
            has_cores: std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1),
            deep_batches: 0,
            lanes_ended: 0,
            traffic: Traffic::default(),
            end: End::Closed,
            written: 0,
            flushed: 0,
            is_in_request: false,
        })
    }

    /// Runs until the client disconnects or breaks the protocol. Then it waits for the requests in
    /// execution, and flushes the writes that were not flushed. Returns the traffic in any case.
    pub(crate) fn run(mut self) -> (Traffic, Result<End, SessionError>) {
        let mut outcome = self.serve();
        self.finish_lanes(&mut outcome);
        let flushed = if self.written > self.flushed { self.flush() } else { Ok(()) };
        if outcome.is_ok() {
            self.stream.close();
        }
        let outcome = match flushed {
            // A loss of data matters more than the reason of the end, unless another process has
            // the device by now.
            Err(error) if !matches!(outcome, Err(SessionError::MayNotAnswer)) => {
                Err(SessionError::LastFlush(error))
            }
            _ => outcome,
        };
        (self.traffic, outcome.map(|()| self.end))
    }

    fn serve(&mut self) -> Result<(), SessionError> {
        while !self.lanes.have_failed() {
            let goes_on = match self.intake.peek()? {
                Next::Incomplete => self.receive()?,
                Next::TooLong(header) => self.refuse(header)?,
                Next::Large(header) => self.perform_large(header)?,
                Next::Request(header, _) if header.command == Command::DISCONNECT => {
                    self.end = End::Asked;
                    false
                }
                Next::Request(header, _) => self.perform(header)?,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// Receives available bytes, if there is room for them. Returns `false` at the end of the
    /// stream, or if the client has been idle for too long.
    fn receive(&mut self) -> Result<bool, SessionError> {
        loop {
            let holds_memory =
                self.lanes.hold_memory() || self.intake.is_grown() || self.batch.is_grown();
            if let Some(tick) = self.silence.new_tick(holds_memory) {
                self.stream.set_receive_timeout(tick)?;
            }
            let received_before = self.stream.received_bytes();
            let room = self.intake.room();
            if room.is_empty() {
                return Ok(true);
            }
            let attempt = || self.stream.read_now(room).transpose();
            let at_once = self.spin.look_if(self.is_shallow, attempt);
            if at_once.is_some() {
                self.counters.count_found();
            }
            let received = at_once.unwrap_or_else(|| {
                let received = self.stream.read(room);
                self.spin.woken();
                received
            });
            let received = match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.sit_out(received_before)? {
                        return Ok(false);
                    }
                    continue;
                }
                other => other?,
            };
            self.silence.end();
            self.intake.received(received);
            return Ok(received > 0);
        }
    }

    /// Handles a wait in which nothing arrived: releases memory, or ends the connection.
    fn sit_out(&mut self, received_before: u64) -> Result<bool, SessionError> {
        if self.stream.received_bytes() > received_before || self.have_lanes_moved() {
            // The client waits for a reply, or a part of an encrypted record has arrived.
            self.silence.end();
            return Ok(true);
        }
        let is_idle = !self.is_in_request && self.intake.held().is_empty();
        match self.silence.grow(is_idle) {
            Verdict::Wait => {}
            Verdict::Shrink => {
                self.intake.shrink();
                self.batch.shrink();
                self.lanes.shrink();
                self.lanes.client().shrink();
            }
            Verdict::Idle => {
                self.end = End::Idle;
                return Ok(false);
            }
            Verdict::HalfSent(after) => return Err(SessionError::HalfSent(after)),
        }
        Ok(true)
    }

    fn rules(&self) -> Rules {
        Rules::new(self.chosen.agreed, &self.chosen.export.geometry())
    }

    /// Executes the received requests, as many as fit into a batch. `first` is the request at the
    /// front.
    fn perform(&mut self, first: RequestHeader) -> Result<bool, SessionError> {
        let rules = self.rules();
        let most = self.chosen.export.device.batch_requests().max(1);
        while !self.batch.is_full() && self.batch.requests() < most {
            let Some((header, payload)) = self.next_request() else { break };
            let end = payload.end;
            if !self.batch.push(header, payload, &rules) {
                break;
            }
            self.intake.take(end);
        }
        self.is_shallow = self.batch.requests() <= 1;
        if self.batch.requests() == 0 {
            return self.perform_large(first);
        }
        if !self.start_long_writes() && !self.start_long_reads() {
            self.submit_batch()?;
        }
        Ok(true)
    }

    /// Returns the request at the front and the place of its data. Any other item is handled after
    /// the requests before it.
    fn next_request(&mut self) -> Option<(RequestHeader, Range<usize>)> {
        match self.intake.peek() {
            Ok(Next::Request(header, payload)) if header.command != Command::DISCONNECT => {
                Some((header, payload))
            }
            _ => None,
        }
    }

    /// Executes the batch and sends its replies.
    fn execute_batch(&mut self) -> Result<(), SessionError> {
        self.batch.execute(self.intake.all(), &*self.chosen.export.device, Waiting::All);
        let sent = self.answer_batch();
        self.batch.clear();
        sent.map(|_| ())
    }

    /// Counts the requests of the batch that was executed, and sends their replies. Returns their
    /// number.
    fn answer_batch(&mut self) -> Result<usize, SessionError> {
        match self.batch.leaves_unflushed() {
            Some(true) => self.written += 1,
            Some(false) => self.flushed = self.written,
            None => {}
        }
        let answered = self.batch.answered();
        assert!(
            answered <= self.batch.requests() && self.flushed <= self.written,
            "no more is answered than was asked, nor flushed than written"
        );
        self.traffic += self.batch.traffic();
        if answered > 0 {
            self.counters.count_batch(answered);
            self.lanes.client().send(self.batch.replies())?;
        }
        Ok(answered)
    }

    /// Checks, right before anything is sent, that it may be.
    fn check_may_answer(&self) -> Result<(), SessionError> {
        if self.chosen.export.device.may_answer() {
            Ok(())
        } else {
            Err(SessionError::MayNotAnswer)
        }
    }

    /// Sends bytes while no lane is in execution.
    fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        self.check_may_answer()?;
        let sent = self.stream.write_all(bytes);
        sent.map_err(|error| SessionError::of_send(error, self.send_timeout))
    }

    /// Receives and drops the data of a write that is too long, and replies with an error.
    fn refuse(&mut self, header: RequestHeader) -> Result<bool, SessionError> {
        if header.length > LONGEST_DROPPED_BYTES {
            return Err(SessionError::WriteTooLong(header.length));
        }
        self.intake.discard(REQUEST_BYTES);
        if !self.drop_data(header.payload_bytes())? {
            return Ok(false);
        }
        self.reply(header, ErrorCode::INVALID)?;
        Ok(true)
    }

    /// Receives and drops this number of bytes of the request that was taken out. Returns `false`
    /// at the end of the stream.
    fn drop_data(&mut self, mut left: usize) -> Result<bool, SessionError> {
        self.is_in_request = true;
        loop {
            let dropped = self.intake.discard(left);
            assert!(dropped <= left, "no more is dropped than the request has");
            left -= dropped;
            if left == 0 {
                self.is_in_request = false;
                return Ok(true);
            }
            if !self.receive()? {
                return Ok(false);
            }
        }
    }

    /// Replies to a request whose reply has no data.
    fn reply(&mut self, header: RequestHeader, error: ErrorCode) -> Result<(), SessionError> {
        assert!(self.batch.requests() == 0, "a reply of its own has no others before it");
        self.batch.push_done(header, error);
        self.execute_batch()
    }

    fn flush(&self) -> Result<(), DeviceError> {
        ask(&*self.chosen.export.device, Operation::Flush)
    }
}

/// Executes one operation.
fn ask(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut one = [Request { operation, outcome: Ok(()) }];
    device.execute(&mut one);
    let [Request { outcome, .. }] = one;
    outcome
}
