//! A queue for an export of an NBD server. All requests in flight share one connection.

use gemelo_nbd::client::{self, Client, ClientError, Submission};
use gemelo_nbd::wire::{ErrorCode, ExportFlags};
use gemelo_target::{
    Buffers, Completion, IoFailure, Queue, QueueOptions, TargetOperation, TargetRequest, Wait,
};
use std::io;

/// A place in an export.
#[derive(Debug, Clone)]
pub(super) struct NbdPlace {
    /// Name of the place for messages.
    pub(super) name: String,
    /// First byte of the place in the export.
    pub(super) first_byte: u64,
    /// Length in bytes of the longest read or write.
    pub(super) max_bytes: usize,
    /// `true` if other connections see this connection's writes only after it has flushed.
    pub(super) flushes_at_end: bool,
}

/// A request in flight. The server may have answered some of its parts.
#[derive(Debug)]
struct Flight {
    request: TargetRequest,
    /// Number of parts that the server has not answered.
    parts_left: u64,
    error: ErrorCode,
}

/// A connection with its requests.
pub(super) struct NbdQueue {
    client: Client,
    place: NbdPlace,
    buffers: Buffers,
    flights: Vec<Option<Flight>>,
    /// Completions of requests that needed no answer of the server.
    finished: Vec<Completion>,
    has_written: bool,
}

/// A part of a slot's request. A request that exceeds the server's limit is sent in several parts.
#[derive(Debug, Clone, Copy)]
struct Part {
    slot: usize,
    number: u64,
}

impl Part {
    const SLOT_BITS: u32 = 16;

    const fn handle(self) -> u64 {
        self.number << Self::SLOT_BITS | self.slot as u64
    }

    const fn of_handle(handle: u64) -> Self {
        Self {
            slot: (handle & ((1 << Self::SLOT_BITS) - 1)) as usize,
            number: handle >> Self::SLOT_BITS,
        }
    }
}

impl NbdQueue {
    pub(super) fn new(client: Client, place: NbdPlace, options: &QueueOptions) -> Self {
        Self {
            client,
            place,
            buffers: Buffers::new(options.depth, options.buffer_bytes),
            flights: (0..options.depth).map(|_| None).collect(),
            finished: Vec::with_capacity(options.depth),
            has_written: false,
        }
    }

    #[cold]
    fn failure(&self, request: TargetRequest, error: ClientError) -> Box<IoFailure> {
        let source = match error {
            ClientError::Io(error) => error,
            other => io::Error::other(other),
        };
        self.place.failure(request, source)
    }

    /// Returns whether the server supports the operation. A server without flush writes through,
    /// and a trim may be ignored, so an unsupported operation completes without the server.
    fn is_known(&self, operation: TargetOperation) -> bool {
        let flags = self.client.export().flags;
        match operation {
            TargetOperation::Read | TargetOperation::Write => true,
            TargetOperation::Trim => flags.has(ExportFlags::SEND_TRIM),
            TargetOperation::Sync => flags.has(ExportFlags::SEND_FLUSH),
        }
    }

    fn parts_of(&self, request: TargetRequest) -> u64 {
        let bytes = request.bytes as u64;
        match request.operation {
            TargetOperation::Read | TargetOperation::Write => {
                bytes.div_ceil(self.place.max_bytes as u64)
            }
            TargetOperation::Trim | TargetOperation::Sync => 1,
        }
    }

    fn submit_part(&mut self, part: Part, request: TargetRequest) -> Result<(), ClientError> {
        let handle = part.handle();
        let offset = self.place.first_byte + request.offset;
        match request.operation {
            TargetOperation::Sync => self.client.submit(handle, Submission::Flush),
            TargetOperation::Trim => {
                let length = request.bytes.min(TargetRequest::MAX_TRIM_BYTES) as u32;
                self.client.submit(handle, Submission::Trim { offset, length, durable: false })
            }
            TargetOperation::Read | TargetOperation::Write => {
                let start = part.number as usize * self.place.max_bytes;
                let end = request.bytes.min(start + self.place.max_bytes);
                let offset = offset + start as u64;
                let submission = if request.operation == TargetOperation::Read {
                    Submission::Read { offset, length: (end - start) as u32 }
                } else {
                    let data = &self.buffers.get(part.slot)[start..end];
                    Submission::Write { offset, data, durable: false }
                };
                self.client.submit(handle, submission)
            }
        }
    }

    /// Sends the waiting requests and processes the replies that have come.
    fn exchange(
        &mut self,
        wait: client::ReplyWait,
        done: &mut Vec<Completion>,
    ) -> Result<(), ClientError> {
        let Self { client, place, buffers, flights, .. } = self;
        client.reap(wait, |completion| {
            let Part { slot, number } = Part::of_handle(completion.handle);
            let Some(entry) = flights.get_mut(slot) else { return };
            let Some(flight) = entry else { return };
            if !completion.data.is_empty() {
                let start = number as usize * place.max_bytes;
                buffers.get_mut(slot)[start..start + completion.data.len()]
                    .copy_from_slice(completion.data);
            }
            if !completion.error.is_none() {
                flight.error = completion.error;
            }
            flight.parts_left -= 1;
            if flight.parts_left == 0 {
                let (request, error) = (flight.request, flight.error);
                *entry = None;
                let outcome = if error.is_none() {
                    Ok(())
                } else {
                    // The protocol's error numbers are those of Linux.
                    Err(place.failure(request, io::Error::from_raw_os_error(error.0 as i32)))
                };
                done.push(Completion { slot, outcome });
            }
        })?;
        Ok(())
    }

    fn flush_at_end(&mut self) -> Result<(), ClientError> {
        let is_idle = self.flights.iter().all(Option::is_none);
        if self.place.flushes_at_end
            && self.has_written
            && is_idle
            && self.is_known(TargetOperation::Sync)
        {
            self.client.run(Submission::Flush, |_| ())?;
        }
        Ok(())
    }
}

impl NbdPlace {
    #[cold]
    fn failure(&self, request: TargetRequest, source: io::Error) -> Box<IoFailure> {
        IoFailure::of(&self.name, self.first_byte, request, source)
    }
}

impl Queue for NbdQueue {
    fn depth(&self) -> usize {
        self.buffers.count()
    }

    #[inline]
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get_mut(slot)
    }

    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        let parts = self.parts_of(request);
        if parts == 0 || !self.is_known(request.operation) {
            self.finished.push(Completion { slot, outcome: Ok(()) });
            return Ok(());
        }
        match request.operation {
            TargetOperation::Write | TargetOperation::Trim => self.has_written = true,
            TargetOperation::Sync => self.has_written = false,
            TargetOperation::Read => {}
        }
        self.flights[slot] = Some(Flight { request, parts_left: parts, error: ErrorCode::NONE });
        for number in 0..parts {
            let part = Part { slot, number };
            self.submit_part(part, request).map_err(|error| self.failure(request, error))?;
        }
        Ok(())
    }

    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        let before = done.len();
        done.append(&mut self.finished);
        let in_client = match wait {
            _ if done.len() > before => client::ReplyWait::Not,
            Wait::Not => client::ReplyWait::Not,
            Wait::ForOne => client::ReplyWait::ForOne,
            Wait::AtMost(longest) => client::ReplyWait::AtMost(longest),
        };
        loop {
            if let Err(error) = self.exchange(in_client, done) {
                // The failure of a connection belongs to no single request. It is reported with any
                // request in flight.
                let any = self.flights.iter().flatten().next().map(|flight| flight.request);
                let nothing =
                    TargetRequest { operation: TargetOperation::Sync, offset: 0, bytes: 0 };
                return Err(self.failure(any.unwrap_or(nothing), error));
            }
            // The replies may all have been to parts of a request that is not complete yet.
            if done.len() > before
                || in_client != client::ReplyWait::ForOne
                || self.client.in_flight() == 0
            {
                return Ok(());
            }
        }
    }
}

impl Drop for NbdQueue {
    fn drop(&mut self) {
        // A drop cannot report an error. A lost write shows when the data is read back.
        let _ = self.flush_at_end();
    }
}
