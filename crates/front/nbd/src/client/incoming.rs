//! Divides the bytes that a server has sent into replies, and completes their requests.

use super::{ClientError, CompletedRequest};
use crate::wire::{
    BlockDescriptor, CHUNK_FLAG_DONE, CHUNK_HEADER_BYTES, ChunkHeader, ChunkKind, ErrorCode,
    ReplyHead, SIMPLE_REPLY_BYTES, decode_block_descriptors, decode_block_status_context,
    decode_error_chunk, decode_reply_head,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// Usual size of the buffer, and least free space for receiving, in bytes.
const USUAL_BYTES: usize = 1 << 20;
const MIN_ROOM_BYTES: usize = 64 << 10;

/// Length in bytes of the longest chunk that holds no data of a read.
const LONGEST_CHUNK_BYTES: usize = 1 << 20;

/// Length in bytes of the parts, on average, in which the data of a read may come.
const LEAST_PART_BYTES: usize = 512;

/// A request that waits for its reply.
#[derive(Debug)]
pub(super) struct Pending {
    /// The caller's handle for the request.
    pub(super) handle: u64,
    /// First byte of the range that is read.
    pub(super) offset: u64,
    /// Length of the data in a successful reply; 0 unless the request is a read.
    pub(super) data_bytes: usize,
    /// The received chunks of a reply in several chunks.
    pub(super) assembled: Option<Box<Assembled>>,
}

/// The content of a reply in several chunks, as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    data: Vec<u8>,
    /// The parts of the data that have come: their ends by their starts.
    parts: BTreeMap<usize, usize>,
    extents: Vec<BlockDescriptor>,
    error: ErrorCode,
}

/// A buffer of received bytes.
#[derive(Debug)]
pub(super) struct Incoming {
    buffer: Vec<u8>,
    held: Range<usize>,
    wanted_bytes: usize,
}

impl Incoming {
    pub(super) fn new() -> Self {
        Self { buffer: vec![0; USUAL_BYTES], held: 0..0, wanted_bytes: SIMPLE_REPLY_BYTES }
    }

    /// Returns the free space for the next bytes.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.buffer.len() - self.held.end < MIN_ROOM_BYTES.max(self.wanted_bytes)
            || self.held.is_empty()
        {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        if self.buffer.len() < self.wanted_bytes + MIN_ROOM_BYTES {
            self.buffer.resize(self.wanted_bytes + MIN_ROOM_BYTES, 0);
        }
        self.buffer.get_mut(self.held.end..).unwrap_or_default()
    }

    pub(super) fn received(&mut self, bytes: usize) {
        assert!(bytes <= self.buffer.len() - self.held.end, "bytes were received into the room");
        self.held.end += bytes;
    }

    /// Passes every completed request to `done`, frees its place in `pending`, and returns the
    /// number of completed requests. `allocation_id` is the server's id for `base:allocation`.
    pub(super) fn complete(
        &mut self,
        pending: &mut [Option<Pending>],
        free: &mut Vec<usize>,
        allocation_id: Option<u32>,
        mut done: impl FnMut(CompletedRequest<'_>),
    ) -> Result<usize, ClientError> {
        let mut completed = 0;
        loop {
            let rest = self.buffer.get(self.held.clone()).unwrap_or_default();
            let Some(head) = decode_reply_head(rest)? else {
                self.wanted_bytes = CHUNK_HEADER_BYTES;
                return Ok(completed);
            };
            let Measured { head_bytes, body_bytes, index } = measure(&head, pending)?;
            let Some(body) = rest.get(head_bytes..head_bytes + body_bytes) else {
                self.wanted_bytes = head_bytes + body_bytes;
                return Ok(completed);
            };
            self.held.start += head_bytes + body_bytes;
            assert!(self.held.start <= self.held.end, "a reply that is taken out was received");
            let place = pending.get_mut(index).ok_or(ClientError::Unexpected(NOBODY))?;
            let request = place.as_mut().ok_or(ClientError::Unexpected(NOBODY))?;
            let is_done = match head {
                ReplyHead::Simple(reply) => {
                    done(CompletedRequest {
                        handle: request.handle,
                        error: reply.error,
                        data: body,
                        extents: &[],
                    });
                    true
                }
                ReplyHead::Chunk(chunk) => {
                    take_chunk(chunk, body, request, allocation_id, &mut done)?
                }
            };
            if is_done {
                *place = None;
                free.push(index);
                completed += 1;
                assert!(free.len() <= pending.len(), "a place is freed once");
            }
        }
    }
}

const NOBODY: &str = "a reply to no request";

/// The lengths of a reply's head and body, and the index of its request.
struct Measured {
    head_bytes: usize,
    body_bytes: usize,
    index: usize,
}

fn measure(head: &ReplyHead, pending: &[Option<Pending>]) -> Result<Measured, ClientError> {
    let cookie = match head {
        ReplyHead::Simple(reply) => reply.cookie,
        ReplyHead::Chunk(chunk) => chunk.cookie,
    };
    let index = usize::try_from(cookie).map_err(|_| ClientError::Unexpected(NOBODY))?;
    let request =
        pending.get(index).and_then(Option::as_ref).ok_or(ClientError::Unexpected(NOBODY))?;
    match head {
        ReplyHead::Simple(reply) => {
            let body_bytes = if reply.error.is_none() { request.data_bytes } else { 0 };
            Ok(Measured { head_bytes: SIMPLE_REPLY_BYTES, body_bytes, index })
        }
        ReplyHead::Chunk(chunk) => {
            let body_bytes = chunk.length as usize;
            if body_bytes > LONGEST_CHUNK_BYTES.max(request.data_bytes + 8) {
                return Err(ClientError::Unexpected("a chunk that is too long"));
            }
            Ok(Measured { head_bytes: CHUNK_HEADER_BYTES, body_bytes, index })
        }
    }
}

/// Processes a chunk. Returns whether its request is complete.
fn take_chunk(
    chunk: ChunkHeader,
    body: &[u8],
    request: &mut Pending,
    allocation_id: Option<u32>,
    done: &mut impl FnMut(CompletedRequest<'_>),
) -> Result<bool, ClientError> {
    let is_last = chunk.flags & CHUNK_FLAG_DONE != 0;
    let handle = request.handle;
    // The usual case is one chunk with all data. The data is passed on from the receive buffer.
    if is_last
        && chunk.kind == ChunkKind::OFFSET_DATA
        && request.assembled.is_none()
        && let Some((offset, data)) = body.split_first_chunk::<8>()
        && u64::from_be_bytes(*offset) == request.offset
        && data.len() == request.data_bytes
    {
        done(CompletedRequest { handle, error: ErrorCode::NONE, data, extents: &[] });
        return Ok(true);
    }
    let assembled = request.assembled.get_or_insert_default();
    match chunk.kind {
        ChunkKind::NONE => {}
        ChunkKind::OFFSET_DATA | ChunkKind::OFFSET_HOLE => {
            assembled.put(chunk.kind, body, request.offset, request.data_bytes)?;
        }
        ChunkKind::BLOCK_STATUS => {
            if Some(decode_block_status_context(body)?) == allocation_id {
                if !assembled.extents.is_empty() {
                    return Err(ClientError::Unexpected("extents twice"));
                }
                assembled.extents.extend(decode_block_descriptors(body)?);
            }
        }
        kind if kind.is_error() => assembled.error = decode_error_chunk(body)?.0,
        _ => return Err(ClientError::Unexpected("a chunk of unknown kind")),
    }
    if !is_last {
        return Ok(false);
    }
    let filled_bytes: usize = assembled.parts.iter().map(|(start, end)| end - start).sum();
    if assembled.error.is_none() && filled_bytes != request.data_bytes {
        return Err(ClientError::Unexpected("a read's data with gaps"));
    }
    let Assembled { data, extents, error, .. } = &**assembled;
    done(CompletedRequest { handle, error: *error, data, extents });
    Ok(true)
}

impl Assembled {
    /// Copies a part of a read's data, or zeros, to its place.
    fn put(
        &mut self,
        kind: ChunkKind,
        body: &[u8],
        offset: u64,
        data_bytes: usize,
    ) -> Result<(), ClientError> {
        const SHORT: ClientError = ClientError::Unexpected("a chunk that is too short");
        const OUTSIDE: ClientError = ClientError::Unexpected("data that was not requested");
        let (at, rest) = body.split_first_chunk::<8>().ok_or(SHORT)?;
        let start = u64::from_be_bytes(*at).checked_sub(offset).ok_or(OUTSIDE)?;
        let length = match kind {
            ChunkKind::OFFSET_DATA => rest.len(),
            _ => rest
                .first_chunk::<4>()
                .map(|length| u32::from_be_bytes(*length) as usize)
                .ok_or(SHORT)?,
        };
        self.data.resize(data_bytes, 0);
        let start = usize::try_from(start).map_err(|_| OUTSIDE)?;
        let end = start.checked_add(length).ok_or(OUTSIDE)?;
        let place = self.data.get_mut(start..end).ok_or(OUTSIDE)?;
        match kind {
            ChunkKind::OFFSET_DATA => place.copy_from_slice(rest),
            _ => place.fill(0),
        }
        self.note_part(start..end, data_bytes)
    }

    /// Notes a part. A part that comes twice would hide that another one has not come.
    fn note_part(&mut self, part: Range<usize>, data_bytes: usize) -> Result<(), ClientError> {
        let before = self.parts.range(..part.end).next_back();
        if part.is_empty() || before.is_some_and(|(_, end)| *end > part.start) {
            return Err(ClientError::Unexpected("a part of a read's data twice"));
        }
        if self.parts.len() > data_bytes / LEAST_PART_BYTES {
            return Err(ClientError::Unexpected("a read's data in too small parts"));
        }
        self.parts.insert(part.start, part.end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::encode_offset_data_part;

    /// Returns the outcome of a read of 8 KiB whose data comes in parts of 2 KiB at these places.
    fn read(places: [u64; 4]) -> Result<usize, ClientError> {
        let (data, mut incoming) = ([7; 2048], Incoming::new());
        let pending = Pending { handle: 5, offset: 4096, data_bytes: 8192, assembled: None };
        let (mut pending, mut free) = ([Some(pending)], Vec::new());
        for (number, place) in places.into_iter().enumerate() {
            let flags = if number == 3 { CHUNK_FLAG_DONE } else { 0 };
            let head = encode_offset_data_part(0, 4096 + place, 2048, flags);
            let chunk = [&head[..], &data].concat();
            incoming.room()[..chunk.len()].copy_from_slice(&chunk);
            incoming.received(chunk.len());
        }
        incoming.complete(&mut pending, &mut free, None, |done| assert_eq!(done.data, [7; 8192]))
    }

    #[test]
    fn a_part_that_comes_twice_does_not_hide_one_that_has_not_come() {
        assert_eq!(read([2048, 0, 6144, 4096]).unwrap(), 1);
        for twice in [[0, 2048, 2048, 6144], [0, 2048, 4096, 4097], [0, 4096, 2047, 6144]] {
            let refused = read(twice).unwrap_err().to_string();
            assert!(refused.contains("twice"), "{refused}");
        }
    }
}
