//! Executes requests of a queue as one batch.
//!
//! The data of writes is copied out of guest memory before the device sees it, and that of reads
//! into guest memory after the device has checked it. Otherwise a guest could change the data of a
//! write between its fingerprint and its way to the disk, and others would share it.

use crate::chain::{copy_from, copy_to};
use crate::request::{Breach, Command, GuestRequest, Range, Status};
use gemelo_device::{BlockDevice, Buffer, DeviceError, Durability, Operation, Request, Waiting};
use std::borrow::Borrow;
use vm_memory::GuestMemoryMmap;

/// Most memory for the data of a batch in bytes. Longer requests, and those for which the server
/// has no memory, are executed in pieces.
pub(crate) const BATCH_BYTES: usize = 1 << 20;

/// Most requests of a batch, so that its first request does not wait long for its last.
pub(crate) const MAX_REQUESTS: usize = 128;

/// The data of each request begins at a multiple of this. The data in guest memory begins at a page
/// in most cases, and copies between places of equal alignment are the fastest.
const ALIGNMENT: usize = 4096;

/// Returns the room that data of this length takes in the buffer.
pub(crate) const fn room_bytes(data_bytes: usize) -> usize {
    data_bytes.next_multiple_of(ALIGNMENT)
}

/// A device as the batches of a guest use it.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) device: &'a dyn BlockDevice,
    /// The name of the export, by which the device identifies itself.
    pub(crate) name: &'a str,
    pub(crate) memory: &'a GuestMemoryMmap,
    pub(crate) durability: Durability,
}

impl Side<'_> {
    /// Executes requests, and writes data into guest memory. Returns the status of each, and
    /// [`None`] for those that the device leaves.
    pub(crate) fn execute<R: Borrow<GuestRequest>>(
        self,
        requests: &[R],
        buffer: &mut Buffer,
        waiting: Waiting,
    ) -> Result<Vec<Option<Status>>, Breach> {
        if let [one] = requests
            && one.borrow().data_bytes() > buffer.len()
        {
            return Ok(vec![Some(self.execute_in_pieces(one.borrow(), buffer)?)]);
        }
        let mut rest = &mut **buffer;
        let mut executed = Vec::with_capacity(requests.len());
        // The number of operations of each request.
        let mut counts = Vec::with_capacity(requests.len());
        for request in requests {
            let request = request.borrow();
            let room = room_bytes(request.data_bytes());
            assert!(room <= rest.len(), "a batch has room for its data");
            let (place, after) = rest.split_at_mut(room);
            rest = after;
            let before = executed.len();
            self.add_operations(request, place, &mut executed)?;
            counts.push(executed.len() - before);
        }
        let left = match executed.as_mut_slice() {
            [] => Vec::new(),
            operations => self.device.submit(operations, waiting),
        };
        let mut executed = (0..).zip(executed);
        let finished = requests.iter().zip(counts);
        let finish = |(request, count): (&R, usize)| {
            self.finish(request.borrow(), executed.by_ref().take(count), &left)
        };
        finished.map(finish).collect()
    }

    /// Adds the operations of a request. `place` is the memory for its data.
    fn add_operations<'b>(
        self,
        request: &GuestRequest,
        place: &'b mut [u8],
        executed: &mut Vec<Request<'b>>,
    ) -> Result<(), Breach> {
        let durability = self.durability;
        let (place, _) = place.split_at_mut(request.data_bytes());
        match &request.command {
            Command::Read(Range { offset, .. }, _) => {
                executed.push(request_of(Operation::Read { offset: *offset, buffer: place }));
            }
            Command::Write(Range { offset, .. }, from) => {
                copy_from(self.memory, from, 0, place)?;
                let write = Operation::Write { offset: *offset, data: place, durability };
                executed.push(request_of(write));
            }
            Command::Discard(ranges) => {
                let trim = |&Range { offset, length }| {
                    request_of(Operation::Trim { offset, length, durability })
                };
                executed.extend(ranges.iter().map(trim));
            }
            Command::WriteZeroes { ranges } => {
                executed.extend(ranges.iter().map(|&(Range { offset, length }, may_free)| {
                    request_of(Operation::WriteZeroes { offset, length, may_free, durability })
                }));
            }
            Command::Flush => executed.push(request_of(Operation::Flush)),
            Command::GetId(_) | Command::Refused(_) => {}
        }
        Ok(())
    }

    /// Returns the status of a request whose operations were executed, and gives the guest its
    /// data. A request is left if an operation of it is.
    fn finish<'b>(
        self,
        request: &GuestRequest,
        executed: impl Iterator<Item = (usize, Request<'b>)>,
        left: &[usize],
    ) -> Result<Option<Status>, Breach> {
        if let Command::Refused(status) = request.command {
            return Ok(Some(status));
        }
        if let Command::GetId(to) = &request.command {
            let mut id = [0; crate::config::ID_BYTES];
            id.iter_mut().zip(self.name.bytes()).for_each(|(to, from)| *to = from);
            copy_to(self.memory, to, 0, &id)?;
        }
        let (mut status, mut is_left) = (Status::Done, false);
        for (place, Request { operation, outcome }) in executed {
            if left.binary_search(&place).is_ok() {
                is_left = true;
                continue;
            }
            match (outcome, operation, &request.command) {
                (Err(_), ..) => status = Status::Failed,
                (Ok(()), Operation::Read { buffer, .. }, Command::Read(_, to)) => {
                    copy_to(self.memory, to, 0, buffer)?;
                }
                _ => {}
            }
        }
        Ok((!is_left).then_some(status))
    }

    /// Executes a read or a write that is longer than the buffer, up to its first failure.
    fn execute_in_pieces(
        self,
        request: &GuestRequest,
        buffer: &mut Buffer,
    ) -> Result<Status, Breach> {
        let (range, places) = match &request.command {
            Command::Read(range, places) | Command::Write(range, places) => (*range, places),
            _ => return Ok(Status::Unsupported),
        };
        let durability = self.durability;
        let mut done = 0;
        while done < range.length {
            let bytes = (range.length - done).min(buffer.len() as u64) as usize;
            let (piece, _) = buffer.split_at_mut(bytes);
            let offset = range.offset + done;
            let outcome = if request.changes() {
                copy_from(self.memory, places, done, piece)?;
                ask(self.device, Operation::Write { offset, data: piece, durability })
            } else {
                let read = ask(self.device, Operation::Read { offset, buffer: &mut *piece });
                if read.is_ok() {
                    copy_to(self.memory, places, done, piece)?;
                }
                read
            };
            if outcome.is_err() {
                return Ok(Status::Failed);
            }
            done += bytes as u64;
        }
        Ok(Status::Done)
    }
}

fn request_of(operation: Operation<'_>) -> Request<'_> {
    Request { operation, outcome: Ok(()) }
}

/// Executes one operation.
pub(crate) fn ask(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut one = [request_of(operation)];
    device.execute(&mut one);
    let [Request { outcome, .. }] = one;
    outcome
}
