//! A queue for a block device in this process: the next reap executes all submitted requests as one
//! batch.
//!
//! The depth of the queue is therefore the length of a batch, and a batch is as an NBD server would
//! have received it. All requests of a batch complete together, so each has the latency of the
//! whole batch.

use gemelo_device::{self as device, BlockDevice, DeviceError, Durability};
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
    /// Requests that were submitted and not executed yet, in order.
    waiting: Vec<(usize, TargetRequest)>,
}

impl<D: BlockDevice> BatchQueue<D> {
    pub(super) fn new(device: D, name: String, first_byte: u64, options: &QueueOptions) -> Self {
        Self {
            device,
            name,
            first_byte,
            buffers: Buffers::new(options.depth, options.buffer_bytes),
            waiting: Vec::with_capacity(options.depth),
        }
    }

    fn carry_out(&mut self, done: &mut Vec<Completion>) {
        let Self { device, name, first_byte, buffers, waiting } = self;
        // Each batch costs two allocations: it borrows from the buffers, so it cannot be kept for
        // reuse.
        let mut free: Vec<Option<&mut [u8]>> = buffers.all_mut().map(Some).collect();
        let mut batch: Vec<device::Request<'_>> = Vec::with_capacity(waiting.len());
        for (slot, request) in waiting.iter() {
            let buffer = free.get_mut(*slot).and_then(Option::take).unwrap_or_default();
            let operation = to_device(*request, *first_byte, buffer);
            batch.push(device::Request { operation, outcome: Ok(()) });
        }
        device.execute(&mut batch);
        for ((slot, request), device::Request { outcome, .. }) in waiting.drain(..).zip(batch) {
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
        self.waiting.push((slot, request));
        Ok(())
    }

    fn reap(&mut self, _wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        if !self.waiting.is_empty() {
            self.carry_out(done);
        }
        Ok(())
    }
}
