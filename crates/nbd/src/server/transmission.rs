//! The transmission phase of a connection. In a loop, it receives all that the client has sent,
//! executes it as one batch, and sends all replies. The device has one batch of the connection at a
//! time. Whatever the client sends meanwhile waits in the socket, which slows the client down.

mod large;

use super::batch::Batch;
use super::busy_wait::BusyWait;
use super::check::Rules;
use super::connection_log::Traffic;
use super::counters::Counters;
use super::handshake::Chosen;
use super::intake::{Next, ReceiveBuffer};
use super::silence::{Silence, Verdict};
use super::stream::Stream;
use super::{ServerConfig, SessionError};
use crate::wire::{Command, ErrorCode, REQUEST_BYTES, RequestHeader};
use gemelo_device::{BlockDevice, DeviceError, Operation, Request};
use std::io;
use std::time::Duration;

/// Longest data of a write, in bytes, that is received and dropped so that the write can be
/// answered with an error. A longer write ends the connection, because its client ignores the sizes
/// that it was told.
pub(super) const LONGEST_DROPPED_BYTES: u32 = 64 << 20;

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
    busy_wait: BusyWait,
    silence: Silence,
    send_timeout: Option<Duration>,
    counters: &'a Counters,
    traffic: Traffic,
    end: End,
    /// `true` if something was written since the last flush.
    unflushed: bool,
    /// `true` if a part of a request was taken out of the intake, and the rest has to arrive.
    is_in_request: bool,
}

impl<'a> Transmission<'a> {
    pub(crate) fn new(
        mut stream: Stream,
        chosen: Chosen,
        config: &ServerConfig,
        counters: &'a Counters,
    ) -> io::Result<Self> {
        stream.set_deadline_after(None);
        stream.set_send_timeout(config.send_timeout)?;
        Ok(Self {
            intake: ReceiveBuffer::new(&config.memory)?,
            batch: Batch::new(
                chosen.agreed.structured_replies,
                chosen.export.device.batch_bytes(),
                &config.memory,
            )?,
            busy_wait: BusyWait::new(config.busy_wait),
            silence: Silence::new(config.idle_timeout, config.receive_timeout),
            send_timeout: config.send_timeout,
            stream,
            chosen,
            counters,
            traffic: Traffic::default(),
            end: End::Closed,
            unflushed: false,
            is_in_request: false,
        })
    }

    /// Runs until the client disconnects or breaks the protocol. Then it flushes the writes that
    /// were not flushed. Returns the traffic in any case.
    pub(crate) fn run(mut self) -> (Traffic, Result<End, SessionError>) {
        let outcome = self.serve();
        let flushed = if self.unflushed { self.flush() } else { Ok(()) };
        if outcome.is_ok() {
            self.stream.close();
        }
        let outcome = outcome.and(flushed.map_err(SessionError::LastFlush));
        (self.traffic, outcome.map(|()| self.end))
    }

    fn serve(&mut self) -> Result<(), SessionError> {
        loop {
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
                return Ok(());
            }
        }
    }

    /// Receives available bytes, if there is room for them. Returns `false` at the end of the
    /// stream, or if the client has been idle for too long.
    fn receive(&mut self) -> Result<bool, SessionError> {
        loop {
            if let Some(tick) =
                self.silence.new_tick(self.intake.is_grown() || self.batch.is_grown())
            {
                self.stream.set_receive_timeout(tick)?;
            }
            let received_before = self.stream.received_bytes();
            let room = self.intake.room();
            if room.is_empty() {
                return Ok(true);
            }
            let at_once = self.busy_wait.wait_for(|| self.stream.read_now(room))?;
            let received = match at_once {
                Some(received) => received,
                None => match self.stream.read(room) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if !self.sit_out(received_before)? {
                            return Ok(false);
                        }
                        continue;
                    }
                    other => other?,
                },
            };
            self.silence.end();
            self.intake.received(received);
            return Ok(received > 0);
        }
    }

    /// Handles a wait in which nothing arrived: releases memory, or ends the connection.
    fn sit_out(&mut self, received_before: u64) -> Result<bool, SessionError> {
        if self.stream.received_bytes() > received_before {
            // A part of an encrypted record has arrived.
            self.silence.end();
            return Ok(true);
        }
        let is_idle = !self.is_in_request && self.intake.held().is_empty();
        match self.silence.grow(is_idle) {
            Verdict::Wait => {}
            Verdict::Shrink => {
                self.intake.shrink();
                self.batch.shrink();
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
        while !self.batch.is_full() {
            // An item that is not a whole request is handled after this batch.
            let Ok(Next::Request(header, payload)) = self.intake.peek() else { break };
            let end = payload.end;
            if header.command == Command::DISCONNECT || !self.batch.push(header, payload, &rules) {
                break;
            }
            self.intake.take(end);
        }
        if self.batch.requests() == 0 {
            return self.perform_large(first);
        }
        self.execute_batch()?;
        Ok(true)
    }

    /// Executes the batch and sends its replies.
    fn execute_batch(&mut self) -> Result<(), SessionError> {
        self.batch.execute(self.intake.all(), &*self.chosen.export.device);
        self.unflushed = self.batch.leaves_unflushed().unwrap_or(self.unflushed);
        self.counters.count_batch(self.batch.requests());
        self.traffic += self.batch.traffic();
        let sent = self.stream.write_all(self.batch.replies());
        self.batch.clear();
        sent.map_err(|error| self.not_sent(error))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), SessionError> {
        self.stream.write_all(bytes).map_err(|error| self.not_sent(error))
    }

    fn not_sent(&self, error: io::Error) -> SessionError {
        match self.send_timeout {
            Some(after) if error.kind() == io::ErrorKind::TimedOut => SessionError::NotTaken(after),
            _ => error.into(),
        }
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
            left -= self.intake.discard(left);
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
