//! A volume of a pool that another process serves, as a block device: through a control connection that was attached.

use crate::control;
use crate::failure::Failure;
use gemelo_device::{BlockDevice, DeviceError, Durability, Extent, Geometry, Operation, Request};
use gemelo_nbd::client::{Client, ClientError, Submission, Wait};
use gemelo_nbd::wire::{ErrorCode, ExportFlags, STATE_HOLE, STATE_ZERO};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Requests in flight.
const DEPTH: usize = 64;
/// How long the server may take to answer the first words.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a trim or zeroing at once, and of a question for extents: a multiple of every block size.
const PIECE_BYTES: u64 = 1 << 30;

/// A block device behind a connection.
pub(crate) struct RemoteDevice {
    client: Mutex<Client>,
    geometry: Geometry,
}

impl RemoteDevice {
    /// A connection of its own to a volume of a pool that another process serves.
    pub(crate) fn attach(directory: &Path, name: &str) -> Result<Self, Failure> {
        let stream = control::attach(directory)?;
        let client =
            Client::over(stream, name, DEPTH, HANDSHAKE_TIMEOUT).map_err(|error| match error {
                ClientError::NoSuchExport => {
                    Failure::refused(format!("there is no volume '{name}'"))
                }
                error => Failure::of("the process that serves the pool refuses the volume", &error),
            })?;
        let export = client.export();
        let preferred = export.block_sizes.map_or(4096, |sizes| sizes.preferred);
        let geometry = Geometry {
            size_bytes: export.size_bytes,
            minimum_block_bytes: 1,
            preferred_block_bytes: preferred,
            maximum_request_bytes: export.block_sizes.map_or(1 << 20, |sizes| sizes.maximum),
            read_only: export.flags.has(ExportFlags::READ_ONLY),
        };
        Ok(Self { client: Mutex::new(client), geometry })
    }
}

/// The parts of a range that one request can have.
fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, u32)> {
    (0..length.div_ceil(PIECE_BYTES)).map(move |number| {
        let start = number * PIECE_BYTES;
        // Not above PIECE_BYTES.
        (offset + start, (length - start).min(PIECE_BYTES) as u32)
    })
}

/// What an operation is on the wire.
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

/// The connection failed, and so will everything after it.
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

/// Sends a request and gives the numbers of replies that came meanwhile to `done`.
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

/// Whether all requests of a batch are writes, which can be in flight together.
fn are_writes(batch: &[Request<'_>]) -> bool {
    batch.iter().all(|request| matches!(request.operation, Operation::Write { .. }))
}

fn write_all(client: &mut Client, batch: &mut [Request<'_>]) -> Result<(), ClientError> {
    let mut failed: Vec<(usize, ErrorCode)> = Vec::new();
    let reap = |client: &mut Client, failed: &mut Vec<(usize, ErrorCode)>| {
        client.reap(Wait::ForOne, |completion| {
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
        let mut client = self.client.lock();
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
        most_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError> {
        let mut client = self.client.lock();
        let mut extents = Vec::new();
        let Some((offset, length)) = pieces(offset, length).next() else { return Ok(extents) };
        let submission = Submission::BlockStatus { offset, length, one: most_extents == 1 };
        let error = client.run(submission, |completion| {
            extents.extend(completion.extents.iter().take(most_extents).map(|extent| Extent {
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
