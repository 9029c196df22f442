//! The bytes that a client has sent and that were not done yet, cut into requests. A write's data stays where it was
//! received until the device has it.
//!
//! The buffer grows with what arrives, never with what a header announces, and shrinks when its connection is quiet or
//! does without the room for a while.

use super::memory::{Buffer, Memory};
use crate::wire::{
    Command, LONGEST_PAYLOAD_BYTES, REQUEST_BYTES, RequestHeader, Truncated, WireError,
};
use std::io;
use std::ops::Range;

/// The longest read or write that is done whole: the longest of usual clients (`qemu-img`). Longer ones are done in
/// pieces, so that the memory of a connection does not depend on the length of its requests.
pub(super) const LONGEST_WHOLE_BYTES: u32 = 2 << 20;

/// The size up to which a buffer grows: the longest request that is done whole, and room behind it.
const MOST_BYTES: usize = LONGEST_WHOLE_BYTES as usize + (256 << 10);

/// A rest of this length or less moves to the front of the buffer, so that the same few pages, which the processor's
/// caches hold, are used over and over. So does any rest that has less than a quarter of the buffer as room behind it.
const SHORT_REST_BYTES: usize = 64 << 10;

/// A buffer of which so many receipts in a row have used less than a quarter becomes small again.
const ROOMY_RECEIPTS: u32 = 1024;

/// What comes next in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole request, and where in the buffer its data is.
    Request(RequestHeader, Range<usize>),
    /// More has to be received first.
    Incomplete,
    /// A read or write that is done in pieces; of a write, any part of the data may be there.
    Large(RequestHeader),
    /// A write of more data than may be sent; its header only.
    TooLong(RequestHeader),
}

/// A buffer of received bytes.
#[derive(Debug)]
pub(super) struct Intake {
    buffer: Buffer,
    /// The bytes received and not taken out.
    held: Range<usize>,
    /// How many bytes the incomplete request at the front of them has, at least.
    wanted_bytes: usize,
    /// The last receipt filled the buffer, so there may be more.
    was_filled: bool,
    /// The buffer cannot grow, so what does not fit has to be done in pieces.
    is_full: bool,
    roomy_receipts: u32,
}

impl Intake {
    pub(super) fn new(memory: &Memory) -> io::Result<Self> {
        let buffer = Buffer::reserved(memory)?;
        let (was_filled, is_full) = (false, false);
        Ok(Self {
            buffer,
            held: 0..0,
            wanted_bytes: REQUEST_BYTES,
            was_filled,
            is_full,
            roomy_receipts: 0,
        })
    }

    /// What is at the front. A request stays there until [`Intake::take`], and its data is in [`Intake::all`] until
    /// [`Intake::room`].
    pub(super) fn peek(&mut self) -> Result<Next, WireError> {
        let rest = self.held();
        let header = match RequestHeader::decode(rest) {
            Ok(header) => header,
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

    /// Takes everything before `end` out: a request whose data ends there.
    pub(super) fn take(&mut self, end: usize) {
        self.held.start = end.clamp(self.held.start, self.held.end);
        self.is_full = false;
    }

    /// All bytes of the buffer, for the ranges of many requests.
    pub(super) fn all(&self) -> &[u8] {
        &self.buffer
    }

    /// The bytes received and not taken out.
    pub(super) fn held(&self) -> &[u8] {
        self.buffer.get(self.held.clone()).unwrap_or_default()
    }

    /// The most bytes that can be held at once at the moment.
    pub(super) fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Drops up to so many bytes from the front of those held; tells how many.
    pub(super) fn discard(&mut self, most: usize) -> usize {
        let dropped = self.held.len().min(most);
        self.held.start += dropped;
        self.is_full = false;
        dropped
    }

    /// Expects this many bytes at the front: the next piece of a request.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.wanted_bytes = bytes;
    }

    /// Where to receive the next bytes. Empty if all of the buffer is held and it cannot grow; then [`Intake::peek`]
    /// gives the request at the front as a large one.
    pub(super) fn room(&mut self) -> &mut [u8] {
        let is_short = self.held.len() <= SHORT_REST_BYTES;
        let lacks_room = self.buffer.len() - self.held.end < self.buffer.len() / 4;
        if self.held.start > 0
            && (is_short || lacks_room || self.held.start + self.wanted_bytes > self.buffer.len())
        {
            self.buffer.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        if self.held.end == self.buffer.len() || self.was_filled {
            let bytes = (2 * self.buffer.len()).min(MOST_BYTES);
            // Held bytes that do not begin at the front are kept with what is before them.
            let is_grown = self.buffer.len() < bytes && self.buffer.grow(bytes, self.held.end);
            self.is_full = !is_grown && self.held.len() == self.buffer.len();
            self.was_filled = false;
        }
        self.buffer.get_mut(self.held.end..).unwrap_or_default()
    }

    /// So many bytes were received into [`Intake::room`].
    pub(super) fn received(&mut self, bytes: usize) {
        self.is_full = false;
        self.held.end = (self.held.end + bytes).min(self.buffer.len());
        self.was_filled = self.held.end == self.buffer.len();
        let is_roomy = self.buffer.is_grown() && self.held.end < self.buffer.len() / 4;
        self.roomy_receipts = if is_roomy { self.roomy_receipts + 1 } else { 0 };
        if self.roomy_receipts >= ROOMY_RECEIPTS {
            self.shrink();
        }
    }

    /// Whether there is memory to give back.
    pub(super) fn is_grown(&self) -> bool {
        self.buffer.is_grown()
    }

    /// Gives memory back, if what is held fits into less.
    pub(super) fn shrink(&mut self) {
        self.roomy_receipts = 0;
        self.buffer.copy_within(self.held.clone(), 0);
        self.held = 0..self.held.len();
        self.buffer.shrink(self.held.end);
    }
}

#[cfg(test)]
mod tests;
