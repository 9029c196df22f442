//! An export as a block device.

use super::{Client, ClientError, ReplyWait, Submission};
use crate::wire::{ErrorCode, ExportFlags, STATE_HOLE, STATE_ZERO};
use gemelo_device::{
    BlockDevice, ConnectError, DeviceError, Durability, Extent, Geometry, Operation, Request,
};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most requests in flight.
const DEPTH: usize = 64;

/// Longest time that the server may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest range, in bytes, that one request trims, zeroes or describes: a multiple of every block
/// size. A request's length has 32 bits.
const PIECE_BYTES: u64 = 1 << 30;

/// Preferred block size and longest request, in bytes, of a server that does not give them. They
/// are the protocol's defaults ("Block size constraints"), or below.
const USUAL_PREFERRED_BYTES: u32 = 4096;
const USUAL_MAXIMUM_BYTES: u32 = 1 << 20;

/// Opens an export over a connection on which the server begins a session. It is a
/// [`gemelo_device::Connect`].
///
/// # Errors
/// Fails if there is no such export, or if the connection fails.
pub fn connect_device(
    stream: UnixStream,
    export: &str,
) -> Result<Arc<dyn BlockDevice>, ConnectError> {
    let client = Client::over(stream, export, DEPTH, HANDSHAKE_TIMEOUT);
    let client = client.map_err(|error| match error {
        ClientError::NoSuchExport => ConnectError::NoSuchExport,
        error => ConnectError::Failed(error.into()),
    })?;
    Ok(Arc::new(RemoteDevice::new(client)))
}

/// A block device behind a connection.
struct RemoteDevice {
    client: Mutex<Client>,
    geometry: Geometry,
}

impl RemoteDevice {
    fn new(client: Client) -> Self {
        let export = client.export();
        let sizes = export.block_sizes;
        let geometry = Geometry {
            size_bytes: export.size_bytes,
            minimum_block_bytes: 1,
            preferred_block_bytes: sizes.map_or(USUAL_PREFERRED_BYTES, |sizes| sizes.preferred),
            maximum_request_bytes: sizes.map_or(USUAL_MAXIMUM_BYTES, |sizes| sizes.maximum),
            read_only: export.flags.has(ExportFlags::READ_ONLY),
        };
        Self { client: Mutex::new(client), geometry }
    }

    fn lock(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits a range into parts that one request can have.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..length.div_ceil(PIECE_BYTES)).map(move |number| {
        let start = number * PIECE_BYTES;
        // A part is not longer than PIECE_BYTES, which has 31 bits.
        (offset + start, (length - start).min(PIECE_BYTES) as u32)
    })
}

/// Translates an operation into the requests that perform it.
fn submissions<'a>(operation: &'a Operation<'_>) -> Vec<Submission<'a>> {
    match operation {
        Operation::Read { offset, buffer } => {
            vec![Submission::Read { offset: *offset, length: buffer.len() as u32 }]
        }
        Operation::Write { offset, data, durability } => {
            vec![Submission::Write {
                offset: *offset,
                data,
                durable: *durability == Durability::Immediate,
            }]
        }
        Operation::WriteZeroes { offset, length, may_free, durability } => {
            let durable = *durability == Durability::Immediate;
            let piece = |(offset, length)| Submission::WriteZeroes {
                offset,
                length,
                may_free: *may_free,
                fast: false,
                durable,
            };
            pieces(*offset, *length).map(piece).collect()
        }
        Operation::Trim { offset, length, durability } => {
            let durable = *durability == Durability::Immediate;
            pieces(*offset, *length)
                .map(|(offset, length)| Submission::Trim { offset, length, durable })
                .collect()
        }
        Operation::Flush => vec![Submission::Flush],
    }
}

/// Returns the error of a request whose connection failed. All later requests fail as well.
fn lost(error: ClientError) -> DeviceError {
    DeviceError::Io(io::Error::new(io::ErrorKind::NotConnected, error))
}

fn device_error(code: ErrorCode) -> Option<DeviceError> {
    match code {
        ErrorCode::NONE => None,
        ErrorCode::NO_SPACE => Some(DeviceError::NoSpace),
        ErrorCode::PERM => Some(DeviceError::ReadOnly),
        code => Some(DeviceError::Io(io::Error::other(format!("the server says {code}")))),
    }
}

/// Performs one request.
fn perform(client: &mut Client, request: &mut Request<'_>) -> Result<(), DeviceError> {
    let mut data = Vec::new();
    for submission in submissions(&request.operation) {
        let error = client.run(submission, |completion| {
            data.extend_from_slice(completion.data);
            completion.error
        });
        if let Some(error) = device_error(error.map_err(lost)?) {
            return Err(error);
        }
    }
    if let Operation::Read { buffer, .. } = &mut request.operation {
        let short = || DeviceError::Io(io::ErrorKind::UnexpectedEof.into());
        buffer.copy_from_slice(data.get(..buffer.len()).ok_or_else(short)?);
    }
    Ok(())
}

/// Returns whether all requests of a batch are writes, which can be in flight together.
fn are_writes(batch: &[Request<'_>]) -> bool {
    batch.iter().all(|request| matches!(request.operation, Operation::Write { .. }))
}

fn write_all(client: &mut Client, batch: &mut [Request<'_>]) -> Result<(), ClientError> {
    let mut failed: Vec<(usize, ErrorCode)> = Vec::new();
    let reap = |client: &mut Client, failed: &mut Vec<(usize, ErrorCode)>| {
        client.reap(ReplyWait::ForOne, |completion| {
            if !completion.error.is_none() {
                failed.push((completion.handle as usize, completion.error));
            }
        })
    };
    for (number, request) in batch.iter().enumerate() {
        while client.in_flight() >= DEPTH {
            reap(client, &mut failed)?;
        }
        for submission in submissions(&request.operation) {
            client.submit(number as u64, submission)?;
        }
    }
    while client.in_flight() > 0 {
        reap(client, &mut failed)?;
    }
    for (number, code) in failed {
        if let (Some(request), Some(error)) = (batch.get_mut(number), device_error(code)) {
            request.outcome = Err(error);
        }
    }
    Ok(())
}

impl BlockDevice for RemoteDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn execute(&self, batch: &mut [Request<'_>]) {
        let mut client = self.lock();
        if are_writes(batch) {
            if let Err(error) = write_all(&mut client, batch) {
                let text = error.to_string();
                for request in batch {
                    request.outcome = Err(DeviceError::Io(io::Error::other(text.clone())));
                }
            }
            return;
        }
        for request in batch {
            request.outcome = perform(&mut client, request);
        }
    }

    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        let mut client = self.lock();
        let mut extents = Vec::new();
        let Some((offset, length)) = pieces(offset, length).next() else { return Ok(extents) };
        let submission = Submission::BlockStatus { offset, length, one: max_extents == 1 };
        let error = client.run(submission, |completion| {
            extents.extend(completion.extents.iter().take(max_extents).map(|extent| Extent {
                length: u64::from(extent.length),
                allocated: extent.state & STATE_HOLE == 0,
                zero: extent.state & STATE_ZERO != 0,
            }));
            completion.error
        });
        match device_error(error.map_err(lost)?) {
            Some(error) => Err(error),
            None => Ok(extents),
        }
    }
}
