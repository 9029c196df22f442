//! Executes requests of a queue as one batch.
//!
//! The data of writes is copied out of guest memory before the device sees it, and that of reads
//! into guest memory after the device has checked it. Otherwise a guest could change the data of a
//! write between its fingerprint and its way to the disk, and others would share it.

use crate::request::{Breach, Command, GuestRequest, Range, Status};
use gemelo_device::{BlockDevice, Buffer, DeviceError, Durability, Operation, Request};
use std::io::{Read, Write};

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

/// Executes requests, and writes data into guest memory. Returns the status of each.
pub(crate) fn execute(
    requests: &mut [GuestRequest<'_>],
    device: &dyn BlockDevice,
    (buffer, durability): (&mut Buffer, Durability),
    name: &str,
) -> Result<Vec<Status>, Breach> {
    if let [one] = requests
        && one.data_bytes() > buffer.len()
    {
        return Ok(vec![execute_in_pieces(one, device, (buffer, durability))?]);
    }
    let mut rest = &mut **buffer;
    let mut operations = Vec::with_capacity(requests.len());
    // The number of operations of each request.
    let mut counts = Vec::with_capacity(requests.len());
    for request in requests.iter_mut() {
        let room = room_bytes(request.data_bytes());
        assert!(room <= rest.len(), "a batch has room for its data");
        let (place, after) = rest.split_at_mut(room);
        rest = after;
        let before = operations.len();
        add_operations(request, place, durability, &mut operations)?;
        counts.push(operations.len() - before);
    }
    let mut executed: Vec<_> = operations.into_iter().map(request_of).collect();
    if !executed.is_empty() {
        device.execute(&mut executed);
    }
    let mut executed = executed.into_iter();
    let finished = requests.iter_mut().zip(counts);
    finished.map(|(request, count)| finish(request, executed.by_ref().take(count), name)).collect()
}

fn request_of(operation: Operation<'_>) -> Request<'_> {
    Request { operation, outcome: Ok(()) }
}

/// Adds the operations of a request. `place` is the memory for its data.
fn add_operations<'b>(
    request: &mut GuestRequest<'_>,
    place: &'b mut [u8],
    durability: Durability,
    operations: &mut Vec<Operation<'b>>,
) -> Result<(), Breach> {
    let (place, _) = place.split_at_mut(request.data_bytes());
    match &mut request.command {
        Command::Read(Range { offset, .. }, _) => {
            operations.push(Operation::Read { offset: *offset, buffer: place });
        }
        Command::Write(Range { offset, .. }, from) => {
            from.read_exact(place)?;
            operations.push(Operation::Write { offset: *offset, data: place, durability });
        }
        Command::Discard(ranges) => {
            let trim = |&Range { offset, length }| Operation::Trim { offset, length, durability };
            operations.extend(ranges.iter().map(trim));
        }
        Command::WriteZeroes { ranges } => {
            operations.extend(ranges.iter().map(|&(Range { offset, length }, may_free)| {
                Operation::WriteZeroes { offset, length, may_free, durability }
            }));
        }
        Command::Flush => operations.push(Operation::Flush),
        Command::GetId(_) | Command::Refused(_) => {}
    }
    Ok(())
}

/// Returns the status of a request whose operations were executed, and gives the guest its data.
fn finish<'b>(
    request: &mut GuestRequest<'_>,
    executed: impl Iterator<Item = Request<'b>>,
    name: &str,
) -> Result<Status, Breach> {
    if let Command::Refused(status) = request.command {
        return Ok(status);
    }
    if let Command::GetId(to) = &mut request.command {
        let mut id = [0; crate::config::ID_BYTES];
        id.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        to.write_all(&id)?;
    }
    let mut status = Status::Done;
    for Request { operation, outcome } in executed {
        match (outcome, operation, &mut request.command) {
            (Err(_), ..) => status = Status::Failed,
            (Ok(()), Operation::Read { buffer, .. }, Command::Read(_, to)) => {
                to.write_all(buffer)?;
            }
            _ => {}
        }
    }
    Ok(status)
}

/// Executes a read or a write that is longer than the buffer, up to its first failure.
fn execute_in_pieces(
    request: &mut GuestRequest<'_>,
    device: &dyn BlockDevice,
    (buffer, durability): (&mut Buffer, Durability),
) -> Result<Status, Breach> {
    let (mut offset, mut left) = match &request.command {
        Command::Read(range, _) | Command::Write(range, _) => (range.offset, range.length),
        _ => return Ok(Status::Unsupported),
    };
    while left > 0 {
        let bytes = left.min(buffer.len() as u64) as usize;
        let (piece, _) = buffer.split_at_mut(bytes);
        let done = match &mut request.command {
            Command::Write(_, from) => {
                from.read_exact(piece)?;
                ask(device, Operation::Write { offset, data: piece, durability })
            }
            Command::Read(_, to) => {
                let done = ask(device, Operation::Read { offset, buffer: &mut *piece });
                if done.is_ok() {
                    to.write_all(piece)?;
                }
                done
            }
            _ => return Ok(Status::Unsupported),
        };
        if done.is_err() {
            return Ok(Status::Failed);
        }
        offset += bytes as u64;
        left -= bytes as u64;
    }
    Ok(Status::Done)
}

/// Executes one operation.
pub(crate) fn ask(device: &dyn BlockDevice, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut one = [request_of(operation)];
    device.execute(&mut one);
    let [Request { outcome, .. }] = one;
    outcome
}
