//! The transmission phase of one connection: receives all that the client has sent, does it as one batch, sends all
//! replies, and so on. One request is in flight for the device at a time, and it is a batch: what the client sends
//! meanwhile waits in the socket, which is the back-pressure.

use super::SessionError;
use super::batch::Batch;
use super::check::Rules;
use super::counters::Counters;
use super::handshake::Chosen;
use super::intake::{Intake, Next};
use super::patience::Patience;
use super::stream::Stream;
use crate::wire::{Command, ErrorCode, RequestHeader};
use gemelo_device::{DeviceError, Operation, Request};
use std::time::Duration;

/// The longest data that is received and dropped to answer a write with an error. After a longer one the connection
/// ends: who sends such a thing does not keep to the sizes that it was told.
const LONGEST_DROPPED_BYTES: u32 = 64 << 20;

/// A connection whose client has chosen an export.
pub(crate) struct Transmission<'a> {
    stream: Stream,
    chosen: Chosen,
    intake: Intake,
    batch: Batch,
    patience: Patience,
    counters: &'a Counters,
    /// Something was written since the last flush.
    unflushed: bool,
}

impl<'a> Transmission<'a> {
    pub(crate) fn new(stream: Stream, chosen: Chosen, busy_wait: Duration, counters: &'a Counters) -> Self {
        let batch = Batch::new(chosen.agreed.structured_replies);
        let patience = Patience::new(busy_wait);
        Self { stream, chosen, intake: Intake::new(), batch, patience, counters, unflushed: false }
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
            match self.intake.peek()? {
                Next::Incomplete => {
                    if !self.receive()? {
                        return Ok(());
                    }
                }
                Next::TooLong(header) => self.refuse(header)?,
                Next::Request(header, _) if header.command == Command::DISCONNECT => return Ok(()),
                Next::Request(..) => self.perform()?,
            }
        }
    }

    /// Receives what is there; `false` at the end of the stream.
    fn receive(&mut self) -> Result<bool, SessionError> {
        let room = self.intake.room();
        let at_once = self.patience.wait_for(|| self.stream.read_now(room))?;
        let received = match at_once {
            Some(received) => received,
            None => self.stream.read(room)?,
        };
        self.intake.received(received);
        Ok(received > 0)
    }

    fn rules(&self) -> Rules {
        Rules::new(self.chosen.agreed, &self.chosen.export.geometry())
    }

    /// Does as many of the received requests as fit into a batch.
    fn perform(&mut self) -> Result<(), SessionError> {
        let rules = self.rules();
        self.batch.clear();
        while !self.batch.is_full() {
            // What is no whole request is looked at when these are done.
            let Ok(Next::Request(header, payload)) = self.intake.peek() else { break };
            if header.command == Command::DISCONNECT {
                break;
            }
            self.intake.take(payload.end);
            self.batch.push(header, payload, &rules);
        }
        self.batch.execute(self.intake.all(), &*self.chosen.export.device);
        self.unflushed = self.batch.leaves_unflushed().unwrap_or(self.unflushed);
        self.counters.count_batch(self.batch.requests());
        self.stream.write_all(self.batch.replies())?;
        Ok(())
    }

    /// Receives and drops the data of a write that is too long, then says so.
    fn refuse(&mut self, header: RequestHeader) -> Result<(), SessionError> {
        if header.length > LONGEST_DROPPED_BYTES {
            return Err(SessionError::WriteTooLong(header.length));
        }
        let mut left = crate::wire::REQUEST_BYTES + header.payload_bytes();
        loop {
            left -= self.intake.discard(left);
            if left == 0 {
                break;
            }
            if !self.receive()? {
                return Ok(());
            }
        }
        let rules = self.rules();
        self.batch.clear();
        self.batch.push_refused(header, ErrorCode::INVALID, &rules);
        self.batch.execute(&[], &*self.chosen.export.device);
        self.stream.write_all(self.batch.replies())?;
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut flush = [Request { operation: Operation::Flush, outcome: Ok(()) }];
        self.chosen.export.device.execute(&mut flush);
        let [Request { outcome, .. }] = flush;
        outcome
    }
}
