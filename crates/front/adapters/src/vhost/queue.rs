//! A queue of a vhost-user-blk device as a queue of load.

use gemelo_target::{
    Buffers, Completion, IoFailure, Queue, QueueOptions, TargetOperation, TargetRequest, Wait,
};
use gemelo_vhost::{Driver, DriverQueue, DriverRequest, Finished};
use std::io;
use std::sync::Arc;

/// A place on a device.
#[derive(Debug, Clone)]
pub(super) struct VhostPlace {
    /// Name of the place for messages.
    pub(super) name: String,
    /// First byte of the place on the device.
    pub(super) first_byte: u64,
}

impl VhostPlace {
    #[cold]
    fn failure(&self, request: TargetRequest, source: io::Error) -> Box<IoFailure> {
        IoFailure::of(&self.name, self.first_byte, request, source)
    }
}

/// A queue with its requests.
pub(super) struct VhostQueue {
    queue: DriverQueue,
    /// The connection ends with its last queue.
    _driver: Arc<Driver>,
    place: VhostPlace,
    buffers: Buffers,
    flights: Vec<Option<TargetRequest>>,
}

impl VhostQueue {
    pub(super) fn new(
        (queue, driver): (DriverQueue, Arc<Driver>),
        place: VhostPlace,
        options: &QueueOptions,
    ) -> Self {
        let buffers = Buffers::new(options.depth, options.buffer_bytes);
        Self { queue, _driver: driver, place, buffers, flights: vec![None; options.depth] }
    }

    /// Sends the requests that were submitted, and takes answers.
    fn exchange(&mut self, wait: Wait, done: &mut Vec<Completion>) -> io::Result<()> {
        self.queue.notify()?;
        let is_idle = self.flights.iter().all(Option::is_none);
        let wait = match wait {
            _ if is_idle => None,
            Wait::Not => None,
            Wait::ForOne => Some(None),
            Wait::AtMost(longest) => Some(Some(longest)),
        };
        let mut finished: Vec<Finished> = Vec::new();
        self.queue.reap(wait, |one| finished.push(one))?;
        for Finished { slot, is_done } in finished {
            let Some(request) = self.flights.get_mut(slot).and_then(Option::take) else {
                return Err(io::Error::other("the device has answered a request twice"));
            };
            if is_done && request.operation == TargetOperation::Read {
                let (data, _) = self.buffers.get_mut(slot).split_at_mut(request.bytes);
                self.queue.copy_data(slot, data)?;
            }
            let failed = || self.place.failure(request, io::Error::other("the device failed it"));
            let outcome = if is_done { Ok(()) } else { Err(failed()) };
            done.push(Completion { slot, outcome });
        }
        Ok(())
    }
}

impl Queue for VhostQueue {
    fn depth(&self) -> usize {
        self.buffers.count()
    }

    #[inline]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        let offset = self.place.first_byte + request.offset;
        let bytes = request.bytes;
        let submission = match request.operation {
            TargetOperation::Read => DriverRequest::Read { offset, bytes },
            TargetOperation::Write => {
                DriverRequest::Write { offset, data: &self.buffers.get(slot)[..bytes] }
            }
            TargetOperation::Trim => DriverRequest::Discard { offset, bytes: bytes as u64 },
            TargetOperation::Sync => DriverRequest::Flush,
        };
        self.flights[slot] = Some(request);
        let submitted = self.queue.submit(slot, submission);
        submitted.map_err(|error| self.place.failure(request, error))
    }

    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        self.exchange(wait, done).map_err(|error| {
            // The failure of a connection belongs to no single request. It is reported with any
            // request in flight.
            let any = self.flights.iter().flatten().next().copied();
            let nothing = TargetRequest { operation: TargetOperation::Sync, offset: 0, bytes: 0 };
            self.place.failure(any.unwrap_or(nothing), error)
        })
    }
}
