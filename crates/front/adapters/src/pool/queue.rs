//! A queue for a block device in this process: the next reap submits all new requests as one batch,
//! as an NBD server would have received it.
//!
//! Requests that the device does not leave complete together, so each has the latency of the whole
//! batch. Those that it leaves complete in later reaps, and are waited for if nothing else has
//! completed.

use gemelo_device::{self as device, BlockDevice, DeviceError, Durability, Waiting};
use gemelo_target::{
    Buffers, Completion, IoFailure, Queue, QueueOptions, TargetOperation, TargetRequest, Wait,
};
use std::io;

/// A queue whose requests go to the device in batches.
pub(super) struct BatchQueue<D> {
    device: D,
    name: String,
    first_byte: u64,
    buffers: Buffers,
    /// Requests that the device has not got yet, in order.
    new: Vec<(usize, TargetRequest)>,
    /// Requests that it has left, in order.
    left: Vec<(usize, TargetRequest)>,
}

impl<D: BlockDevice> BatchQueue<D> {
    pub(super) fn new(device: D, name: String, first_byte: u64, options: &QueueOptions) -> Self {
        Self {
            device,
            name,
            first_byte,
            buffers: Buffers::new(options.depth, options.buffer_bytes),
            new: Vec::with_capacity(options.depth),
            left: Vec::new(),
        }
    }

    /// Submits requests. Those that the device leaves are kept.
    fn submit_all(
        &mut self,
        requests: &mut Vec<(usize, TargetRequest)>,
        waiting: Waiting,
        done: &mut Vec<Completion>,
    ) {
        let Self { device, name, first_byte, buffers, left, .. } = self;
        // Each batch costs two allocations: it borrows from the buffers, so it cannot be kept for
        // reuse.
        let mut free: Vec<Option<&mut [u8]>> = buffers.all_mut().map(Some).collect();
        let mut batch: Vec<device::Request<'_>> = Vec::with_capacity(requests.len());
        for (slot, request) in requests.iter() {
            let buffer = free.get_mut(*slot).and_then(Option::take).unwrap_or_default();
            let operation = to_device(*request, *first_byte, buffer);
            batch.push(device::Request { operation, outcome: Ok(()) });
        }
        let places = device.submit(&mut batch, waiting);
        let outcomes = batch.into_iter().map(|request| request.outcome);
        for (place, ((slot, request), outcome)) in requests.drain(..).zip(outcomes).enumerate() {
            if places.binary_search(&place).is_ok() {
                left.push((slot, request));
                continue;
            }
            let outcome = outcome.map_err(|error| {
                Box::new(IoFailure {
                    operation: request.operation,
                    place: name.clone(),
                    offset: *first_byte + request.offset,
                    bytes: request.bytes,
                    source: to_io(error),
                })
            });
            done.push(Completion { slot, outcome });
        }
    }
}

fn to_device(request: TargetRequest, first_byte: u64, buffer: &mut [u8]) -> device::Operation<'_> {
    let offset = first_byte + request.offset;
    let durability = Durability::Flushed;
    match request.operation {
        TargetOperation::Read => {
            device::Operation::Read { offset, buffer: &mut buffer[..request.bytes] }
        }
        TargetOperation::Write => {
            device::Operation::Write { offset, data: &buffer[..request.bytes], durability }
        }
        TargetOperation::Trim => {
            device::Operation::Trim { offset, length: request.bytes as u64, durability }
        }
        TargetOperation::Sync => device::Operation::Flush,
    }
}

fn to_io(error: DeviceError) -> io::Error {
    match error {
        DeviceError::Io(error) => error,
        DeviceError::NoSpace => io::Error::new(io::ErrorKind::StorageFull, error),
        other => io::Error::other(other),
    }
}

impl<D: BlockDevice> Queue for BatchQueue<D> {
    fn depth(&self) -> usize {
        self.buffers.count()
    }

    #[inline]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    #[inline]
    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        self.new.push((slot, request));
        Ok(())
    }

    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        let before = done.len();
        let mut left = std::mem::take(&mut self.left);
        if !self.new.is_empty() {
            let mut new = std::mem::take(&mut self.new);
            self.submit_all(&mut new, Waiting::None, done);
            // It is empty, and keeps its memory.
            self.new = new;
        }
        left.append(&mut self.left);
        if done.len() == before && !left.is_empty() {
            let waiting = if wait == Wait::Not { Waiting::None } else { Waiting::First };
            self.submit_all(&mut left, waiting, done);
        } else {
            self.left = left;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{Extent, Geometry};
    use gemelo_target::Engine;
    use std::cell::RefCell;
    use std::sync::Mutex;

    /// A device that leaves requests at odd places of the device unless it waits for them.
    #[derive(Default)]
    struct Odd {
        batches: Mutex<Vec<usize>>,
    }

    impl BlockDevice for Odd {
        fn geometry(&self) -> Geometry {
            Geometry {
                size_bytes: 64,
                minimum_block_bytes: 1,
                preferred_block_bytes: 1,
                maximum_request_bytes: 64,
                read_only: false,
            }
        }

        fn execute(&self, batch: &mut [device::Request<'_>]) {
            for request in batch {
                if let device::Operation::Read { offset, buffer } = &mut request.operation {
                    buffer.fill(*offset as u8);
                }
            }
        }

        fn submit(&self, batch: &mut [device::Request<'_>], waiting: Waiting) -> Vec<usize> {
            self.batches.lock().unwrap().push(batch.len());
            let is_odd = |request: &device::Request<'_>| matches!(request.operation, device::Operation::Read { offset, .. } if offset % 2 == 1);
            let mut left = Vec::new();
            for (place, request) in batch.iter_mut().enumerate() {
                let is_waited_for = waiting == Waiting::First && place == 0;
                if is_odd(request) && !is_waited_for {
                    left.push(place);
                } else {
                    self.execute(std::slice::from_mut(request));
                }
            }
            left
        }

        fn extents(&self, _: u64, _: u64, _: usize) -> Result<Vec<Extent>, DeviceError> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn requests_that_the_device_leaves_complete_later() {
        let options = QueueOptions { engine: Engine::Native, depth: 4, buffer_bytes: 1 };
        let mut queue = BatchQueue::new(Odd::default(), "x".to_owned(), 0, &options);
        let done = RefCell::new(Vec::new());
        let slots = |queue: &mut BatchQueue<Odd>, wait| {
            let mut completions = done.borrow_mut();
            completions.clear();
            queue.reap(wait, &mut completions).unwrap();
            completions.iter().map(|done: &Completion| done.slot).collect::<Vec<_>>()
        };
        let read = |offset| TargetRequest { operation: TargetOperation::Read, offset, bytes: 1 };
        for slot in 0..4 {
            queue.submit(slot, read(slot as u64)).unwrap();
        }
        assert_eq!(slots(&mut queue, Wait::ForOne), [0, 2]);
        assert_eq!(slots(&mut queue, Wait::Not), [0; 0]);
        queue.submit(0, read(5)).unwrap();
        assert_eq!(slots(&mut queue, Wait::ForOne), [1], "the oldest one is waited for");
        assert_eq!(slots(&mut queue, Wait::ForOne), [3]);
        assert_eq!(slots(&mut queue, Wait::ForOne), [0]);
        assert_eq!([0, 1, 2, 3].map(|slot| queue.buffer(slot)[0]), [5, 1, 2, 3]);
        assert_eq!(slots(&mut queue, Wait::ForOne), [0; 0], "nothing is in flight");
    }
}
