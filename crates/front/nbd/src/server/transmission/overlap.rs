//! Requests that are executed in lanes, beside the thread of the connection, which receives the
//! next ones meanwhile: long writes, and on a remote device those that wait for other machines.
//!
//! Reads and flushes wait, and so do writes that must be durable at once. Other changes go to the
//! device's buffer, and are executed here. A lane starts after all changes that were received
//! before its requests have been executed, so a flush covers them. Requests of different lanes have
//! no order, which the protocol does not promise either.
//!
//! On a device of this machine only long writes have lanes. All other requests wait until these
//! have ended, and so do long writes to the same range. Reads that wait for the medium have a
//! thread as well, and changes of their ranges wait for them. Requests of one range thus keep their
//! order.

use super::Transmission;
use crate::server::batch::Waiting;
use crate::server::check::Rules;
use crate::server::error::SessionError;
use crate::server::lanes::{Lane, Lanes, LongWrites, Route, Spare};
use crate::wire::{COMMAND_FLAG_FUA, Command, RequestHeader};
use std::ops::Range;
use std::sync::Arc;

/// The number of batches in which a lone read that waits for the medium goes to another thread,
/// after a client was seen to have several requests in flight.
const DEEP_BATCHES: u32 = 64;

/// Returns the route of a request, or [`None`] if it does not wait.
fn route_of(header: &RequestHeader) -> Option<Route> {
    match header.command {
        Command::READ | Command::CACHE => Some(Route::Reads),
        Command::FLUSH => Some(Route::Durable),
        Command::WRITE | Command::WRITE_ZEROES | Command::TRIM if header.has(COMMAND_FLAG_FUA) => {
            Some(Route::Durable)
        }
        _ => None,
    }
}

impl Transmission<'_> {
    /// Executes the received requests, or starts lanes for them. `first` is the request at the
    /// front. If too many lanes are in execution, requests stay in the intake and in the socket.
    pub(super) fn perform_overlapping(
        &mut self,
        lanes: &Arc<Lanes>,
        first: RequestHeader,
    ) -> Result<bool, SessionError> {
        let rules = self.rules();
        let mut open = None;
        let mut taken = 0;
        while !self.batch.is_full() {
            let Some((header, payload)) = self.next_request() else { break };
            let end = payload.end;
            if !self.place((lanes, &mut open), (header, payload), &rules)? {
                break;
            }
            self.intake.take(end);
            taken += 1;
        }
        self.start(lanes, open)?;
        if taken > 0 {
            return Ok(true);
        }
        if lanes.are_in_flight() {
            lanes.wait_for_one();
            return Ok(true);
        }
        self.perform_large(first)
    }

    /// Puts a request into the batch or into a lane. Returns `false` if neither has room.
    fn place(
        &mut self,
        (lanes, open): (&Arc<Lanes>, &mut Option<Lane>),
        (header, payload): (RequestHeader, Range<usize>),
        rules: &Rules,
    ) -> Result<bool, SessionError> {
        let Some(route) = route_of(&header) else {
            return Ok(self.batch.push(header, payload, rules));
        };
        if open.as_ref().is_some_and(|lane| !lane.takes(route)) {
            self.start(lanes, open.take())?;
        }
        if open.is_none() {
            *open = lanes.open(route);
        }
        let received = self.intake.all();
        assert!(payload.end <= received.len(), "the data of a request was received");
        let data = received.get(payload.clone()).unwrap_or_default();
        if let Some(lane) = open
            && lane.batch.push_copied(header, data, rules)
        {
            return Ok(true);
        }
        // The lane, if there is one, has no memory for the request.
        self.start(lanes, open.take())?;
        Ok(!lanes.are_in_flight() && self.batch.push(header, payload, rules))
    }

    /// Executes the changes that were received before the lane, and starts it.
    fn start(&mut self, lanes: &Arc<Lanes>, lane: Option<Lane>) -> Result<(), SessionError> {
        if self.batch.requests() > 0 {
            self.execute_batch()?;
        }
        match lane {
            Some(lane) if lane.batch.requests() > 0 => lanes.start(lane, self.written),
            Some(lane) => lanes.give_back(lane),
            None => {}
        }
        Ok(())
    }

    /// Has the batch executed in a lane if it consists of long writes. Returns `false` if it has to
    /// be executed here: then it conflicts with nothing that is in execution.
    pub(super) fn start_long_writes(&mut self) -> bool {
        let Some(lanes) = &self.lanes else { return false };
        let Some(ranges) = self.batch.long_writes() else {
            if std::mem::take(&mut self.has_long_writes) {
                lanes.wait_for_writes();
            }
            return false;
        };
        let Some(Spare { batch, received, helper }) = lanes.spare(&ranges) else { return false };
        let Ok(received) = self.intake.exchange(received) else { return false };
        let batch = std::mem::replace(&mut self.batch, batch);
        self.has_long_writes = true;
        self.written += 1;
        lanes.start_writes(batch, LongWrites { ranges, received }, helper);
        true
    }

    /// Executes a batch of a device of this machine, and answers the requests that do not wait for
    /// the medium. The others are answered by a thread of their own. The only read of a client
    /// that waits for each reply is executed here, because nothing else has to be done meanwhile.
    pub(super) fn execute_ready(&mut self) -> Result<(), SessionError> {
        let Some(lanes) = self.lanes.clone() else { return self.execute_batch() };
        let is_alone = !lanes.wait_for_late_reads(&self.batch) && self.batch.requests() == 1;
        let device = Arc::clone(&self.chosen.export.device);
        self.batch.execute(self.intake.all(), &*device, Waiting::None);
        self.answer_batch()?;
        let left: Vec<_> = self.batch.left().collect();
        if left.is_empty() {
            self.batch.clear();
            return Ok(());
        }
        // The rest of the batch, if it is executed here, fits into the memory of the whole.
        self.batch.empty();
        if !is_alone {
            self.deep_batches = DEEP_BATCHES;
        }
        let rules = self.rules();
        let mut rest = left;
        if self.deep_batches > 0 {
            self.deep_batches -= 1;
            rest = lanes.read_late(rest, rules);
        }
        if rest.is_empty() {
            return Ok(());
        }
        for header in rest {
            self.batch.push(header, 0..0, &rules);
        }
        self.batch.execute(&[], &*device, Waiting::All);
        if self.has_received_more()? {
            self.deep_batches = DEEP_BATCHES;
        }
        let sent = self.answer_batch();
        self.batch.clear();
        sent
    }

    /// Receives what has arrived. Returns whether there was anything.
    fn has_received_more(&mut self) -> Result<bool, SessionError> {
        let room = self.intake.room();
        if room.is_empty() {
            return Ok(true);
        }
        let received = self.stream.read_now(room)?.unwrap_or(0);
        if received > 0 {
            self.intake.received(received);
        }
        Ok(received > 0)
    }

    /// Returns whether the client was silent because it waits for lanes.
    pub(super) fn have_lanes_moved(&mut self) -> bool {
        let Some(lanes) = &self.lanes else { return false };
        let (ended, are_in_flight) = lanes.progress();
        let has_one_ended = std::mem::replace(&mut self.lanes_ended, ended) != ended;
        has_one_ended || are_in_flight
    }

    /// Waits for all lanes. The first failure of a lane is the reason why the connection ends.
    pub(super) fn finish_lanes(&mut self, outcome: &mut Result<(), SessionError>) {
        let Some(lanes) = &self.lanes else { return };
        lanes.wait_for_all();
        self.traffic += lanes.traffic();
        self.flushed = self.flushed.max(lanes.flushed());
        if let Some(failure) = lanes.take_failure() {
            *outcome = Err(failure);
        }
    }
}

impl Drop for Transmission<'_> {
    /// A connection that ends by a panic waits for its lanes as well, because the device may be
    /// closed once no connection is left.
    fn drop(&mut self) {
        self.lanes.iter().for_each(|lanes| lanes.wait_for_all());
    }
}
