//! Many requests done as one: checked, given to the device together, and answered in one run of bytes.
//!
//! The replies are laid out before the device is asked, so that it reads into its place in them. A reply that turns out
//! shorter, because a read failed, leaves a gap; the replies after it then move forward.

use super::check::{Rules, check};
use super::intake::LONGEST_WHOLE_BYTES;
use super::memory::{Buffer, Memory};
use super::status::{MOST_STATUS_BYTES, put_block_status};
use crate::wire::{
    COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE, Command, ERROR_CHUNK_BYTES, ErrorCode,
    OFFSET_DATA_HEADER_BYTES, RequestHeader, SIMPLE_REPLY_BYTES, SimpleReply, encode_error_chunk,
    encode_offset_data_header,
};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use std::io;
use std::ops::Range;

/// The most requests in a batch. The gain of a larger batch is small from here, and the first request waits for the last.
const MOST_REQUESTS: usize = 128;

/// The most bytes of data in a batch of more than one request, so that small requests do not wait long for large ones.
const MOST_DATA_BYTES: usize = 1 << 20;

/// The size that the buffer of replies may keep between batches: enough for any batch of usual requests.
const KEPT_REPLY_BYTES: usize = 4 << 20;

/// After so many batches in a row whose replies took less than a quarter of the buffer, it becomes small again.
const ROOMY_BATCHES: u32 = 1024;

/// Which kind of reply a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A simple reply, followed by the data of a read that went well.
    Simple,
    /// One chunk with the data of a read, or an error.
    Chunk,
    /// One chunk with extents, or an error, after all other replies.
    Status,
}

/// A request and its reply.
#[derive(Debug)]
struct Entry {
    request: RequestHeader,
    /// Where its data is among the received bytes.
    payload: Range<usize>,
    /// How it went, so far.
    error: ErrorCode,
    shape: Shape,
    /// Bytes of reply before the data that the device reads; all of the reply if it reads none.
    head_bytes: usize,
    /// Bytes that the device reads.
    data_bytes: usize,
    /// The device has nothing left to do.
    is_done: bool,
}

impl Entry {
    /// How long a head this entry's reply has, as far as is known.
    fn head_bytes(shape: Shape, error: ErrorCode) -> usize {
        match shape {
            Shape::Simple => SIMPLE_REPLY_BYTES,
            Shape::Chunk if error.is_none() => OFFSET_DATA_HEADER_BYTES,
            Shape::Chunk => ERROR_CHUNK_BYTES,
            Shape::Status => 0,
        }
    }

    /// How long the reply is, now that the device was asked.
    fn reply_bytes(&self) -> usize {
        let sends_data = self.request.command == Command::READ && self.error.is_none();
        Self::head_bytes(self.shape, self.error) + if sends_data { self.data_bytes } else { 0 }
    }

    fn durability(&self) -> Durability {
        if self.request.has(COMMAND_FLAG_FUA) { Durability::Immediate } else { Durability::Flushed }
    }

    /// What the device has to do, if anything.
    fn operation<'a>(&self, received: &'a [u8], buffer: &'a mut [u8]) -> Option<Operation<'a>> {
        if self.is_done || !self.error.is_none() {
            return None;
        }
        let (offset, length) = (self.request.offset, u64::from(self.request.length));
        let durability = self.durability();
        Some(match self.request.command {
            Command::READ | Command::CACHE if self.data_bytes > 0 => {
                Operation::Read { offset, buffer }
            }
            Command::WRITE => {
                let data = received.get(self.payload.clone()).unwrap_or_default();
                Operation::Write { offset, data, durability }
            }
            Command::WRITE_ZEROES => {
                let may_free = !self.request.has(COMMAND_FLAG_NO_HOLE);
                Operation::WriteZeroes { offset, length, may_free, durability }
            }
            Command::TRIM => Operation::Trim { offset, length, durability },
            Command::FLUSH => Operation::Flush,
            _ => return None,
        })
    }
}

/// A batch under construction, and its replies. Used again and again, so that its buffers are allocated once.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Vec<Entry>,
    /// Bytes of data in all requests.
    data_bytes: usize,
    /// Bytes of replies before the device was asked.
    slot_bytes: usize,
    /// The most bytes of replies that come after these: extents.
    status_bytes: usize,
    /// Has room for all of both.
    replies: Buffer,
    /// How many bytes of them are to be sent.
    reply_bytes: usize,
    structured_replies: bool,
    roomy_batches: u32,
}

impl Batch {
    pub(crate) fn new(structured_replies: bool, memory: &Memory) -> io::Result<Self> {
        Ok(Self {
            entries: Vec::with_capacity(MOST_REQUESTS),
            data_bytes: 0,
            slot_bytes: 0,
            status_bytes: 0,
            replies: Buffer::reserved(memory)?,
            reply_bytes: 0,
            structured_replies,
            roomy_batches: 0,
        })
    }

    pub(crate) fn requests(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MOST_REQUESTS
            || self.data_bytes + self.status_bytes >= MOST_DATA_BYTES
    }

    /// Adds a request whose data is at `payload` among the received bytes; `false` if there is no memory for its reply,
    /// which happens to no request without data in an empty batch.
    pub(crate) fn push(
        &mut self,
        request: RequestHeader,
        payload: Range<usize>,
        rules: &Rules,
    ) -> bool {
        let error = check(&request, rules).err().unwrap_or(ErrorCode::NONE);
        self.push_checked(request, payload, error, rules)
    }

    /// Adds a request whose outcome is known: a refused one, or one that has been done.
    pub(crate) fn push_done(&mut self, request: RequestHeader, error: ErrorCode) {
        let (shape, payload) = (self.shape(&request), 0..0);
        let head_bytes = Entry::head_bytes(shape, error);
        let is_status = shape == Shape::Status;
        self.slot_bytes += head_bytes;
        self.status_bytes += if is_status { MOST_STATUS_BYTES } else { 0 };
        // There is room: a batch has one request of this kind.
        self.entries.push(Entry {
            request,
            payload,
            error,
            shape,
            head_bytes,
            data_bytes: 0,
            is_done: true,
        });
    }

    fn shape(&self, request: &RequestHeader) -> Shape {
        match request.command {
            Command::READ if self.structured_replies => Shape::Chunk,
            Command::BLOCK_STATUS if self.structured_replies => Shape::Status,
            _ => Shape::Simple,
        }
    }

    fn push_checked(
        &mut self,
        request: RequestHeader,
        payload: Range<usize>,
        error: ErrorCode,
        rules: &Rules,
    ) -> bool {
        let is_read = request.command == Command::READ && error.is_none();
        // CACHE is a read whose data is not sent. What is longer than a read may be is advice not taken.
        let is_cache = request.command == Command::CACHE
            && error.is_none()
            && request.length <= rules.sizes.maximum;
        let shape = self.shape(&request);
        let head_bytes = Entry::head_bytes(shape, error);
        let data_bytes = if is_read || is_cache { request.length as usize } else { 0 };
        let status_bytes = if shape == Shape::Status { MOST_STATUS_BYTES } else { 0 };
        let room_bytes =
            self.slot_bytes + self.status_bytes + head_bytes + data_bytes + status_bytes;
        if !self.make_room(room_bytes) {
            return false;
        }
        self.data_bytes += data_bytes + payload.len();
        self.slot_bytes += head_bytes + data_bytes;
        self.status_bytes += status_bytes;
        self.entries.push(Entry {
            request,
            payload,
            error,
            shape,
            head_bytes,
            data_bytes,
            is_done: false,
        });
        true
    }

    /// Makes the buffer of replies at least this large.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes <= self.replies.len() {
            return true;
        }
        let doubled = bytes.next_power_of_two();
        doubled <= KEPT_REPLY_BYTES && self.replies.grow(doubled, 0) || self.replies.grow(bytes, 0)
    }

    /// The buffer of replies, to read a piece of a long request into: large enough for the longest request that is done
    /// whole, if there is memory. For an empty batch only.
    pub(crate) fn piece_buffer(&mut self) -> &mut [u8] {
        self.make_room(LONGEST_WHOLE_BYTES as usize);
        &mut self.replies
    }

    /// Whether a write was done after the last flush.
    pub(crate) fn leaves_unflushed(&self) -> Option<bool> {
        self.entries.iter().rev().filter(|entry| entry.error.is_none()).find_map(
            |entry| match entry.request.command {
                Command::FLUSH => Some(false),
                Command::WRITE | Command::WRITE_ZEROES | Command::TRIM => Some(true),
                _ => None,
            },
        )
    }

    /// Has the device do everything, and makes the replies. `received` is where the data of writes is.
    pub(crate) fn execute(&mut self, received: &[u8], device: &dyn BlockDevice) {
        self.ask_device(received, device);
        self.close_gaps();
        if self.entries.iter().any(|entry| entry.shape == Shape::Status) {
            self.append_block_status(device);
        }
    }

    fn ask_device(&mut self, received: &[u8], device: &dyn BlockDevice) {
        // One allocation per batch: the requests borrow from two buffers, so they cannot outlive this function.
        let mut requests = Vec::with_capacity(self.entries.len());
        let mut rest = &mut *self.replies;
        for entry in &self.entries {
            let (_, after_head) = rest.split_at_mut(entry.head_bytes);
            let (buffer, after) = after_head.split_at_mut(entry.data_bytes);
            rest = after;
            if let Some(operation) = entry.operation(received, buffer) {
                requests.push(Request { operation, outcome: Ok(()) });
            }
        }
        if requests.is_empty() {
            return;
        }
        device.execute(&mut requests);
        let mut outcomes = requests.into_iter().map(|request| request.outcome);
        for entry in &mut self.entries {
            if entry.operation(&[], &mut []).is_some()
                && let Some(Err(error)) = outcomes.next()
            {
                entry.error = ErrorCode::of_device(&error);
            }
        }
    }

    /// Puts the head of each reply before its data, and moves replies forward where one before them became shorter.
    fn close_gaps(&mut self) {
        let mut slot_start = 0;
        let mut filled = 0;
        for entry in &self.entries {
            let (cookie, error) = (entry.request.cookie, entry.error);
            let slot_bytes = entry.head_bytes + entry.data_bytes;
            let kept_bytes = entry.reply_bytes();
            if filled != slot_start {
                self.replies.copy_within(slot_start..slot_start + kept_bytes, filled);
            }
            slot_start += slot_bytes;
            let Some(place) = self.replies.get_mut(filled..filled + kept_bytes) else { return };
            filled += kept_bytes;
            match entry.shape {
                Shape::Status => {}
                Shape::Simple => put(place, &SimpleReply { error, cookie }.encode()),
                Shape::Chunk if error.is_none() => {
                    let RequestHeader { offset, length, .. } = entry.request;
                    put(place, &encode_offset_data_header(cookie, offset, length));
                }
                Shape::Chunk => put(place, &encode_error_chunk(cookie, error)),
            }
        }
        self.reply_bytes = filled;
    }

    fn append_block_status(&mut self, device: &dyn BlockDevice) {
        let mut reply = Vec::with_capacity(MOST_STATUS_BYTES);
        for entry in self.entries.iter().filter(|entry| entry.shape == Shape::Status) {
            reply.clear();
            put_block_status(&mut reply, &entry.request, entry.error, device);
            let Some(rest) = self.replies.get_mut(self.reply_bytes..) else { return };
            put(rest, &reply);
            self.reply_bytes += reply.len();
        }
    }

    /// The replies, to be sent.
    pub(crate) fn replies(&self) -> &[u8] {
        self.replies.get(..self.reply_bytes).unwrap_or_default()
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        let is_roomy = self.replies.is_grown() && self.reply_bytes < self.replies.len() / 4;
        self.roomy_batches = if is_roomy { self.roomy_batches + 1 } else { 0 };
        self.entries.clear();
        self.data_bytes = 0;
        self.slot_bytes = 0;
        self.status_bytes = 0;
        self.reply_bytes = 0;
        if self.replies.len() > KEPT_REPLY_BYTES || self.roomy_batches >= ROOMY_BATCHES {
            self.shrink();
        }
    }

    /// Whether there is memory to give back.
    pub(crate) fn is_grown(&self) -> bool {
        self.replies.is_grown()
    }

    /// Gives memory back, after [`Batch::clear`].
    pub(crate) fn shrink(&mut self) {
        self.roomy_batches = 0;
        self.replies.shrink(0);
    }
}

#[inline]
fn put(place: &mut [u8], head: &[u8]) {
    if let Some(there) = place.get_mut(..head.len()) {
        there.copy_from_slice(head);
    }
}

#[cfg(test)]
mod tests;
