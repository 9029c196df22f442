//! The operations of a process that are in flight, by slot of its queue.

use crate::operations::{Kind, ScheduledOperation};

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    pub(super) operation: ScheduledOperation,
    /// Number among the process's reads or writes, counted from 0.
    pub(super) number: u64,
    pub(super) started_ns: u64,
    /// Start of the `fdatasync` after the write.
    pub(super) sync_started_ns: Option<u64>,
}

/// The slots of a queue. A slot is free, taken for a prepared operation, or in flight.
#[derive(Debug)]
pub(super) struct Flights {
    flights: Vec<Option<Flight>>,
    in_flight: usize,
    free: Vec<usize>,
}

impl Flights {
    pub(super) fn new(depth: usize) -> Self {
        Self { flights: vec![None; depth], in_flight: 0, free: (0..depth).rev().collect() }
    }

    /// Returns the number of slots.
    pub(super) fn depth(&self) -> usize {
        self.flights.len()
    }

    /// Returns whether nothing is in flight.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.in_flight == 0
    }

    /// Takes a free slot for an operation that will start later.
    #[inline]
    pub(super) fn take_slot(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Starts an operation in a slot that was taken.
    #[inline]
    pub(super) fn start(&mut self, slot: usize, flight: Flight) {
        self.flights[slot] = Some(flight);
        self.in_flight += 1;
    }

    #[inline]
    pub(super) fn get(&self, slot: usize) -> Option<Flight> {
        self.flights.get(slot).copied().flatten()
    }

    /// Notes that the operation of a slot waits for its `fdatasync` from this time on.
    pub(super) fn start_sync(&mut self, slot: usize, now_ns: u64) {
        if let Some(flight) = self.flights.get_mut(slot).and_then(Option::as_mut) {
            flight.sync_started_ns = Some(now_ns);
        }
    }

    /// Ends the operation of a slot, which is free then.
    #[inline]
    pub(super) fn end(&mut self, slot: usize) {
        self.flights[slot] = None;
        self.in_flight -= 1;
        self.free.push(slot);
    }

    /// Returns whether an operation in flight is on the same place, and at least one of the two
    /// writes.
    #[inline]
    pub(super) fn overlaps(&self, operation: &ScheduledOperation) -> bool {
        self.in_flight > 0
            && self.flights.iter().flatten().any(|flight| {
                flight.operation.request == operation.request
                    && (flight.operation.kind == Kind::Write || operation.kind == Kind::Write)
            })
    }

    /// Returns the numbers of the writes in flight.
    pub(super) fn writes(&self) -> impl Iterator<Item = u64> {
        let flights = self.flights.iter().flatten();
        let writes = flights.filter(|flight| flight.operation.kind == Kind::Write);
        writes.map(|flight| flight.number)
    }
}
