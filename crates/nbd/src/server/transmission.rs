//! The transmission phase of one connection: receives all that the client has sent, does it as one batch, sends all
//! replies, and so on. One request is in flight for the device at a time, and it is a batch: what the client sends
//! meanwhile waits in the socket, which is the back-pressure.

mod large;

use super::batch::Batch;
use super::check::Rules;
use super::counters::Counters;
use super::handshake::Chosen;
use super::intake::{Intake, Next};
use super::patience::Patience;
use super::silence::{Silence, Verdict};
use super::stream::Stream;
use super::{ServerConfig, SessionError};
use crate::wire::{Command, ErrorCode, REQUEST_BYTES, RequestHeader};
use gemelo_device::{BlockDevice, DeviceError, Operation, Request};
use std::io;
use std::time::Duration;

/// The longest data that is received and dropped to answer a write with an error. After a longer one the connection
/// ends: its client does not keep to the sizes that it was told.
const LONGEST_DROPPED_BYTES: u32 = 64 << 20;

/// A connection whose client has chosen an export.
pub(crate) struct Transmission<'a> {
    stream: Stream,
    chosen: Chosen,
    intake: Intake,
    batch: Batch,
    patience: Patience,
    silence: Silence,
    send_timeout: Option<Duration>,
    counters: &'a Counters,
    /// Something was written since the last flush.
    unflushed: bool,
    /// Some of a request was taken out of the intake, and the rest has to arrive.
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
            intake: Intake::new(&config.memory)?,
            batch: Batch::new(chosen.agreed.structured_replies, &config.memory)?,
            patience: Patience::new(config.busy_wait),
            silence: Silence::new(config.idle_timeout, config.receive_timeout),
            send_timeout: config.send_timeout,
            stream,
            chosen,
            counters,
            unflushed: false,
            is_in_request: false,
        })
    }

    /// Runs until the client goes or breaks the rules, then makes durable what it has not flushed.
    pub(crate) fn run(mut self) -> Result<(), SessionError> {
        let outcome = self.serve();
        let flushed = if self.unflushed { self.flush() } else { Ok(()) };
        if outcome.is_ok() {
            self.stream.close();
        }
        outcome.and(flushed.map_err(SessionError::LastFlush))
    }

    fn serve(&mut self) -> Result<(), SessionError> {
        loop {
            let goes_on = match self.intake.peek()? {
                Next::Incomplete => self.receive()?,
                Next::TooLong(header) => self.refuse(header)?,
                Next::Large(header) => self.perform_large(header)?,
                Next::Request(header, _) if header.command == Command::DISCONNECT => false,
                Next::Request(header, _) => self.perform(header)?,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Receives what is there, if there is room for it; `false` at the end of the stream, or when the client has been
    /// idle for too long.
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
            let at_once = self.patience.wait_for(|| self.stream.read_now(room))?;
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

    /// Nothing whole arrived for a while: gives memory back, or ends the connection.
    fn sit_out(&mut self, received_before: u64) -> Result<bool, SessionError> {
        if self.stream.received_bytes() > received_before {
            // A part of an encrypted record.
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
            Verdict::Idle => return Ok(false),
            Verdict::HalfSent(after) => return Err(SessionError::HalfSent(after)),
        }
        Ok(true)
    }

    fn rules(&self) -> Rules {
        Rules::new(self.chosen.agreed, &self.chosen.export.geometry())
    }

    /// Does as many of the received requests as fit into a batch; `first` is at the front.
    fn perform(&mut self, first: RequestHeader) -> Result<bool, SessionError> {
        let rules = self.rules();
        while !self.batch.is_full() {
            // What is no whole request is looked at when these are done.
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

    /// Has the batch done, and sends the replies.
    fn execute_batch(&mut self) -> Result<(), SessionError> {
        self.batch.execute(self.intake.all(), &*self.chosen.export.device);
        self.unflushed = self.batch.leaves_unflushed().unwrap_or(self.unflushed);
        self.counters.count_batch(self.batch.requests());
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

    /// Receives and drops the data of a write that is too long, then says so.
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

    /// Receives and drops this many bytes of the request that was taken out; `false` at the end of the stream.
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

    /// Replies to a request that has no data to send.
    fn reply(&mut self, header: RequestHeader, error: ErrorCode) -> Result<(), SessionError> {
        self.batch.push_done(header, error);
        self.execute_batch()
    }

    fn flush(&self) -> Result<(), DeviceError> {
        ask(&*self.chosen.export.device, Operation::Flush)
    }
}

/// Has one operation done.
fn ask(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut one = [Request { operation, outcome: Ok(()) }];
    device.execute(&mut one);
    let [Request { outcome, .. }] = one;
    outcome
}
