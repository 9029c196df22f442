//! The requests of a batch that complete later, and the long writes that are executed while the
//! next ones are received.
//!
//! The thread of the connection submits each batch to the device and answers what the device does
//! not leave. Reads that it leaves are kept, and executed by lanes. A flush or a durable change
//! that it leaves gets a lane at once, which keeps the data of the change.
//!
//! A client that waits for each reply has one request in flight. If one thread is enough to wait
//! for the device, this request is waited for here: nothing else has to be done meanwhile.

use super::Transmission;
use crate::server::answers::LaneBatch;
use crate::server::batch::Left;
use crate::server::error::SessionError;
use crate::wire::Command;
use gemelo_device::{KeptRead, OpenLane, Waiting};
use std::sync::Arc;

/// The number of batches in which a lone read that the device leaves goes to a lane, after a client
/// was seen to have several requests in flight.
const DEEP_BATCHES: u32 = 64;

/// Most flushes and durable changes of a lane. Requests that are answered together are sent
/// together again by their client, so that less would overlap.
const LANE_REQUESTS: usize = 4;

impl Transmission<'_> {
    /// Has the batch executed in a lane if it consists of long writes. Returns `false` if it has to
    /// be executed here: then it conflicts with nothing that is in execution.
    pub(super) fn start_long_writes(&mut self) -> bool {
        // Long writes do not wait for anything, so more lanes need more cores; with two cores, two
        // lanes were no faster.
        if !self.has_cores || !self.batch.has_long_writes() {
            return false;
        }
        let batch = &self.batch;
        self.lanes.make_way(|| batch.claims());
        if self.lanes.have_changes() {
            return false;
        }
        let Some(mut lane) = self.lanes.open() else { return false };
        let client = self.lanes.client();
        let exchanged = match client.spare_buffer() {
            Some(spare) => self.intake.exchange(spare).map_err(|spare| client.keep_buffer(spare)),
            None => Err(()),
        };
        let Ok(received) = exchanged else {
            self.lanes.give_back(lane);
            return false;
        };
        lane.batch.received = Some(received);
        std::mem::swap(&mut self.batch, &mut lane.batch.batch);
        self.written += 1;
        let claims = lane.batch.batch.claims().collect();
        self.lanes.start(lane, claims);
        true
    }

    /// Has the batch executed in a lane if it consists of long reads and the next request is here,
    /// which is executed meanwhile. Returns `false` if the batch has to be executed here.
    pub(super) fn start_long_reads(&mut self) -> bool {
        // A device that leaves all reads has lanes for each of them.
        let are_left = self.chosen.export.device.waiters() > 1;
        let is_long = self.has_cores && !are_left && self.batch.has_long_reads();
        if !is_long || self.next_request().is_none() {
            return false;
        }
        let batch = &self.batch;
        // One lane beside this thread is enough for two cores.
        if self.lanes.make_way(|| batch.claims()) {
            return false;
        }
        let Some(mut lane) = self.lanes.open() else { return false };
        std::mem::swap(&mut self.batch, &mut lane.batch.batch);
        let claims = lane.batch.batch.claims().collect();
        self.lanes.start(lane, claims);
        true
    }

    /// Submits the batch, and answers the requests that the device does not leave.
    pub(super) fn submit_batch(&mut self) -> Result<(), SessionError> {
        let batch = &self.batch;
        let is_alone = !self.lanes.make_way(|| batch.claims()) && self.batch.requests() == 1;
        let device = Arc::clone(&self.chosen.export.device);
        self.batch.execute(self.intake.all(), &*device, Waiting::None);
        if self.answer_batch()? == self.batch.requests() {
            self.batch.clear();
            return Ok(());
        }
        let left: Vec<Left> = self.batch.left().map(|(_, left)| left).collect();
        // What is executed here fits into the memory of the whole batch.
        self.batch.empty();
        if !is_alone || device.waiters() > 1 {
            self.deep_batches = DEEP_BATCHES;
        }
        let rest = if self.deep_batches > 0 {
            self.deep_batches -= 1;
            self.complete_later(left)
        } else {
            left
        };
        if rest.is_empty() { Ok(()) } else { self.complete_here(rest) }
    }

    /// Has requests that the device has left executed by lanes. Returns those for which there is no
    /// thread or no memory.
    fn complete_later(&mut self, left: Vec<Left>) -> Vec<Left> {
        let rules = self.rules();
        let mut rest = Vec::new();
        let mut reads = Vec::new();
        let mut open: Option<OpenLane<LaneBatch>> = None;
        for (header, payload) in left {
            if matches!(header.command, Command::READ | Command::CACHE) {
                reads.push(KeptRead { range: header.range(), read: (header, rules) });
                continue;
            }
            if open.as_ref().is_some_and(|lane| lane.batch.batch.requests() >= LANE_REQUESTS) {
                open.take().into_iter().for_each(|lane| self.start(lane));
            }
            open = open.or_else(|| self.lanes.open());
            let data = self.intake.all().get(payload.clone());
            assert!(data.is_some(), "the data of a request that was left is still here");
            let data = data.unwrap_or_default();
            let is_in_lane = open
                .as_mut()
                .is_some_and(|lane| lane.batch.batch.push_copied(header, data, &rules));
            if !is_in_lane {
                rest.push((header, payload));
            }
        }
        open.into_iter().for_each(|lane| self.start(lane));
        if !reads.is_empty() {
            let refused = self.lanes.read_later(reads);
            rest.extend(refused.into_iter().map(|kept| (kept.read.0, 0..0)));
        }
        rest
    }

    /// Starts a lane of flushes and durable changes.
    fn start(&self, mut lane: OpenLane<LaneBatch>) {
        if lane.batch.batch.requests() == 0 {
            return self.lanes.give_back(lane);
        }
        lane.batch.covers = self.written;
        let claims = lane.batch.batch.claims().collect();
        self.lanes.start(lane, claims);
    }

    /// Executes requests that the device has left, and answers them.
    fn complete_here(&mut self, rest: Vec<Left>) -> Result<(), SessionError> {
        let rules = self.rules();
        for (header, payload) in rest {
            let is_added = self.batch.push(header, payload, &rules);
            assert!(is_added, "a part of a batch has room in its memory");
        }
        let device = Arc::clone(&self.chosen.export.device);
        self.batch.execute(self.intake.all(), &*device, Waiting::All);
        if self.has_received_more()? {
            self.deep_batches = DEEP_BATCHES;
        }
        let sent = self.answer_batch();
        self.batch.clear();
        sent.map(|_| ())
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
        let (ended, are_in_flight) = self.lanes.progress();
        let has_one_ended = std::mem::replace(&mut self.lanes_ended, ended) != ended;
        has_one_ended || are_in_flight
    }

    /// Waits for all lanes. The first failure of a lane is the reason why the connection ends.
    pub(super) fn finish_lanes(&mut self, outcome: &mut Result<(), SessionError>) {
        self.lanes.wait_for_all();
        let (traffic, flushed) = self.lanes.client().totals();
        self.traffic += traffic;
        self.flushed = self.flushed.max(flushed);
        if let Some(failure) = self.lanes.take_failure() {
            *outcome = Err(failure);
        }
    }
}

impl Drop for Transmission<'_> {
    /// A connection that ends by a panic waits for its lanes as well, because the device may be
    /// closed once no connection is left.
    fn drop(&mut self) {
        self.lanes.wait_for_all();
    }
}
