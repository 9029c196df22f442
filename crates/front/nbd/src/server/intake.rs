//! Holds the bytes that a client has sent and that were not executed yet, and divides them into
//! requests. The data of a write stays in place until the device has it.
//!
//! The buffer grows with the bytes that arrive, never with the length that a header announces. It
//! shrinks when its connection is silent, or has not used the space for a while.

use crate::wire::{
    COMMAND_FLAG_FUA, Command, LONGEST_PAYLOAD_BYTES, REQUEST_BYTES, RequestHeader, Truncated,
    WireError,
};
use gemelo_device::{Buffer, Memory};
use std::io;
use std::ops::Range;

/// Length in bytes of the longest read or write that is executed whole. It is the longest request
/// of common clients (`qemu-img`). Longer requests are executed in pieces, so that the memory of a
/// connection does not depend on the length of its requests.
pub(super) const LONGEST_WHOLE_BYTES: u32 = 2 << 20;

/// Size in bytes up to which a buffer grows: the longest request that is executed whole, and space
/// behind it.
const MAX_BYTES: usize = LONGEST_WHOLE_BYTES as usize + (256 << 10);

/// Place of the first byte that is held. It is chosen as that of the replies: clients send the data
/// of a write apart from its header, so it begins at a page boundary of the socket's memory, and
/// here at 64 bytes after one.
const HELD_AT: usize = 64 - REQUEST_BYTES;

/// A rest of at most this length moves to the front of the buffer. The connection then reuses the
/// same few pages, which stay in the processor's caches. A longer rest moves if less than a quarter
/// of the buffer is free behind it.
const SHORT_REST_BYTES: usize = 64 << 10;

/// A buffer shrinks after this number of receipts in a row that used less than a quarter of it.
const ROOMY_RECEIPTS: u32 = 1024;

/// The next item in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole request, and the place of its data in the buffer.
    Request(RequestHeader, Range<usize>),
    /// An incomplete request: more bytes must be received.
    Incomplete,
    /// A read or write that is executed in pieces. Of a write, any part of the data may have
    /// arrived.
    Large(RequestHeader),
    /// The header of a write that exceeds the longest payload.
    TooLong(RequestHeader),
}

/// A buffer of received bytes.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    buffer: Buffer,
    /// Place of the bytes that were received and not taken out yet.
    held: Range<usize>,
    /// Least length in bytes of the incomplete request at the front.
    wanted_bytes: usize,
    /// `true` if the last receipt filled the buffer, so the socket may hold more.
    was_filled: bool,
    /// `true` if the buffer is full and cannot grow, so its request is executed in pieces.
    is_full: bool,
    roomy_receipts: u32,
    /// `true` if every change has to be durable before it is acknowledged.
    write_through: bool,
}

impl ReceiveBuffer {
    /// Makes an empty buffer. With `write_through`, all changes get the flag FUA.
    pub(super) fn new(memory: &Memory, write_through: bool) -> io::Result<Self> {
        let buffer = Buffer::reserved(memory)?;
        let (was_filled, is_full) = (false, false);
        Ok(Self {
            buffer,
            held: HELD_AT..HELD_AT,
            wanted_bytes: REQUEST_BYTES,
            was_filled,
            is_full,
            roomy_receipts: 0,
            write_through,
        })
    }

    /// Returns the item at the front. A request stays there until [`ReceiveBuffer::take`], and its
    /// data stays in [`ReceiveBuffer::all`] until [`ReceiveBuffer::room`].
    pub(super) fn peek(&mut self) -> Result<Next, WireError> {
        let rest = self.held();
        let header = match RequestHeader::decode(rest) {
            Ok(header) => self.with_durability(header),
            Err(WireError::Truncated(Truncated)) => {
                self.wanted_bytes = REQUEST_BYTES;
                return Ok(Next::Incomplete);
            }
            Err(error) => return Err(error),
        };
        let payload_bytes = header.payload_bytes();
        if payload_bytes > LONGEST_PAYLOAD_BYTES as usize {
            return Ok(Next::TooLong(header));
        }
        let has_data = matches!(header.command, Command::READ | Command::WRITE | Command::CACHE);
        if has_data && header.length > LONGEST_WHOLE_BYTES {
            return Ok(Next::Large(header));
        }
        let whole_bytes = REQUEST_BYTES + payload_bytes;
        if rest.len() < whole_bytes {
            if self.is_full {
                return Ok(Next::Large(header));
            }
            self.wanted_bytes = whole_bytes;
            return Ok(Next::Incomplete);
        }
        let payload = self.held.start + REQUEST_BYTES..self.held.start + whole_bytes;
        Ok(Next::Request(header, payload))
    }

    fn with_durability(&self, header: RequestHeader) -> RequestHeader {
        let changes =
            matches!(header.command, Command::WRITE | Command::WRITE_ZEROES | Command::TRIM);
        let added = if self.write_through && changes { COMMAND_FLAG_FUA } else { 0 };
        RequestHeader { flags: header.flags | added, ..header }
    }

    /// Takes out everything before `end`, where the data of a request ends.
    pub(super) fn take(&mut self, end: usize) {
        assert!(
            (self.held.start..=self.held.end).contains(&end),
            "only what was received is taken out"
        );
        self.held.start = end;
        self.is_full = false;
    }

    /// Returns the whole buffer, to which the ranges of requests refer.
    pub(super) fn all(&self) -> &[u8] {
        &self.buffer
    }

    /// Returns the bytes that were received and not taken out yet.
    pub(super) fn held(&self) -> &[u8] {
        assert!(
            self.held.start <= self.held.end && self.held.end <= self.buffer.len(),
            "the held bytes are in the buffer"
        );
        self.buffer.get(self.held.clone()).unwrap_or_default()
    }

    /// Returns the number of bytes that the buffer can hold at present.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len() - HELD_AT
    }

    /// Moves the held bytes to the front.
    fn move_to_front(&mut self) {
        let bytes = self.held.len();
        self.buffer.copy_within(self.held.clone(), HELD_AT);
        self.held = HELD_AT..HELD_AT + bytes;
    }

    /// Drops up to `most` bytes from the front. Returns the number of bytes dropped.
    pub(super) fn discard(&mut self, most: usize) -> usize {
        let dropped = self.held.len().min(most);
        self.held.start += dropped;
        self.is_full = false;
        dropped
    }

    /// Sets the number of bytes that are needed at the front: the next piece of a request.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.wanted_bytes = bytes;
    }

    /// Returns the free space for the next bytes. It is empty if the buffer is full and cannot
    /// grow. [`ReceiveBuffer::peek`] then returns the request at the front as [`Next::Large`].
    pub(super) fn room(&mut self) -> &mut [u8] {
        let is_short = self.held.len() <= SHORT_REST_BYTES;
        let lacks_room = self.buffer.len() - self.held.end < self.buffer.len() / 4;
        if self.held.start > HELD_AT
            && (is_short || lacks_room || self.held.start + self.wanted_bytes > self.buffer.len())
        {
            self.move_to_front();
        }
        if self.held.end == self.buffer.len() || self.was_filled {
            let bytes = (2 * self.buffer.len()).min(MAX_BYTES);
            // If the held bytes do not begin at the front, the bytes before them are kept as well.
            let is_grown = self.buffer.len() < bytes && self.buffer.grow(bytes, self.held.end);
            self.is_full = !is_grown && self.held.len() == self.capacity();
            self.was_filled = false;
        }
        self.buffer.get_mut(self.held.end..).unwrap_or_default()
    }

    /// Records that this number of bytes was received into [`ReceiveBuffer::room`].
    pub(super) fn received(&mut self, bytes: usize) {
        self.is_full = false;
        assert!(bytes <= self.buffer.len() - self.held.end, "bytes were received into the room");
        self.held.end += bytes;
        self.was_filled = self.held.end == self.buffer.len();
        let is_roomy = self.buffer.is_grown() && self.held.end < self.buffer.len() / 4;
        self.roomy_receipts = if is_roomy { self.roomy_receipts + 1 } else { 0 };
        if self.roomy_receipts >= ROOMY_RECEIPTS {
            self.shrink();
        }
    }

    /// Goes on with another buffer, to which the bytes move that were not taken out yet. Returns
    /// the buffer so far, which keeps the data of the requests that were taken out, or the other
    /// one if the bytes do not fit into it.
    pub(super) fn exchange(&mut self, mut other: Buffer) -> Result<Buffer, Buffer> {
        let bytes = self.held().len();
        let end = HELD_AT + bytes;
        if end > other.len() && !other.grow(self.buffer.len(), 0) {
            return Err(other);
        }
        assert!(end <= other.len(), "what was not taken out yet has room in the other buffer");
        if let Some(place) = other.get_mut(HELD_AT..end) {
            place.copy_from_slice(self.held());
        }
        self.held = HELD_AT..end;
        // The next receipt would need as much room as the last one.
        self.was_filled |= other.len() < self.buffer.len();
        Ok(std::mem::replace(&mut self.buffer, other))
    }

    /// Returns whether the buffer has memory to release.
    pub(super) fn is_grown(&self) -> bool {
        self.buffer.is_grown()
    }

    /// Releases memory, if the held bytes fit into less.
    pub(super) fn shrink(&mut self) {
        self.roomy_receipts = 0;
        self.move_to_front();
        self.buffer.shrink(self.held.end);
    }
}

#[cfg(test)]
mod tests;
