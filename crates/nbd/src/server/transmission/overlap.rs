//! Requests of a remote device: those that wait for other machines are executed in lanes, beside
//! the thread of the connection, which receives the next ones meanwhile.
//!
//! Reads and flushes wait, and so do writes that must be durable at once. Other changes go to the
//! device's buffer, and are executed here. A lane starts after all changes that were received
//! before its requests have been executed, so a flush covers them. Requests of different lanes have
//! no order, which the protocol does not promise either.

use super::Transmission;
use crate::server::SessionError;
use crate::server::check::Rules;
use crate::server::lanes::{Lane, Lanes, Route};
use crate::wire::{COMMAND_FLAG_FUA, Command, RequestHeader};
use std::ops::Range;
use std::sync::Arc;

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
        let data = self.intake.all().get(payload.clone()).unwrap_or_default();
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
