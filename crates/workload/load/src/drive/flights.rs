//! The operations of a process that are in flight, by slot of its queue.

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub struct Flight<O> {
    /// Slot of the queue.
    pub slot: usize,
    /// The operation.
    pub operation: O,
    /// Start of the operation, in the time of the [`DriveTime`](super::DriveTime).
    pub started_ns: u64,
}

/// The slots of a queue. A slot is free, taken for a prepared operation, or in flight.
#[derive(Debug)]
pub(super) struct Flights<O> {
    flights: Vec<Option<Flight<O>>>,
    in_flight: usize,
    free: Vec<usize>,
}

impl<O: Copy> Flights<O> {
    pub(super) fn new(depth: usize) -> Self {
        Self { flights: vec![None; depth], in_flight: 0, free: (0..depth).rev().collect() }
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

    /// Gives back a slot that was taken.
    #[inline]
    pub(super) fn give_back(&mut self, slot: usize) {
        self.free.push(slot);
    }

    /// Starts an operation in a slot that was taken.
    #[inline]
    pub(super) fn start(&mut self, flight: Flight<O>) {
        self.flights[flight.slot] = Some(flight);
        self.in_flight += 1;
    }

    #[inline]
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Flight<O>> {
        self.flights.get_mut(slot)?.as_mut()
    }

    /// Ends the operation of a slot, which is free then.
    #[inline]
    pub(super) fn end(&mut self, slot: usize) {
        self.flights[slot] = None;
        self.in_flight -= 1;
        self.free.push(slot);
    }

    /// Returns the operations in flight.
    #[inline]
    pub(super) fn operations(&self) -> impl Iterator<Item = &O> {
        let shown = if self.in_flight == 0 { &[][..] } else { &self.flights[..] };
        shown.iter().flatten().map(|flight| &flight.operation)
    }
}
