//! Executes many requests as one batch: checks them, gives them to the device together, and lays
//! out all replies as one run of bytes.
//!
//! The replies are laid out before the device executes the batch, so that it reads data directly
//! into its place in the replies. A failed read makes its reply shorter and leaves a gap. The
//! replies after the gap then move forward.

mod entry;

use super::check::{Rules, check};
use super::connection_log::Traffic;
use super::intake::LONGEST_WHOLE_BYTES;

use super::status::{MAX_STATUS_BYTES, StatusContexts, put_block_status};
use crate::wire::{
    COMMAND_FLAG_FUA, Command, ErrorCode, OFFSET_DATA_HEADER_BYTES, RequestHeader, SimpleReply,
    encode_error_chunk, encode_offset_data_header,
};
use entry::{Entry, Shape};
use gemelo_device::{BlockDevice, Buffer, Claim, Memory, Request, Waiting};
use std::io;
use std::ops::Range;

/// Most requests in a batch. A larger batch gains little, and its first request would wait for its
/// last.
const MAX_REQUESTS: usize = 128;

/// Most bytes of data in a batch of several requests, so that small requests do not wait long for
/// large ones.
const MAX_DATA_BYTES: usize = 1 << 20;

/// Least bytes of data of a batch of long writes. The device takes some 50 µs to copy them and to
/// take their fingerprints; handing the batch to another thread takes 10 µs.
const LONG_WRITE_BYTES: usize = 128 << 10;

/// Bytes of replies from which on a batch takes no more requests. So many stay in the processor's
/// cache until they are sent, and handing them to another thread takes a fraction of their time.
const LONG_READ_BYTES: usize = 256 << 10;

/// Size in bytes that the reply buffer may keep between batches: enough for any batch of common
/// requests.
const KEPT_REPLY_BYTES: usize = 4 << 20;

/// The reply buffer shrinks after this number of batches in a row whose replies filled less than a
/// quarter of it.
const ROOMY_BATCHES: u32 = 1024;

/// Place of the first reply in its buffer. The kernel copies with `rep movs`, which is slow on many
/// processors if the destination lies 1 to 31 bytes after the source, modulo 4096. Data of the page
/// cache begins at a page boundary, and so does the memory of a socket that takes the replies. With
/// this place the data of a read lies 80 bytes or more after a page boundary, and what each part of
/// a long send copies begins at a multiple of 64: a unix socket takes it in parts of 106,432 bytes,
/// 64 less than a multiple of 4096. The bytes of writes begin at byte 36 of their buffer, which
/// puts the first data at 64.
const REPLIES_AT: usize = 64;

/// A request that the device has left, and the place of its data in the received bytes.
pub(crate) type Left = (RequestHeader, Range<usize>);

/// A batch under construction with its replies. It is reused, so that its buffers are allocated
/// once.
#[derive(Debug)]
pub(crate) struct Batch {
    entries: Vec<Entry>,
    /// Bytes of data in all requests.
    data_bytes: usize,
    /// Bytes of the replies before the device executes the batch, without block status.
    slot_bytes: usize,
    /// Upper bound for the bytes of block status, which follows the other replies.
    status_bytes: usize,
    /// Has room for all replies, block status included.
    replies: Buffer,
    /// Bytes of the replies that must be sent.
    reply_bytes: usize,
    structured_replies: bool,
    /// The contexts of block status that were agreed on.
    contexts: StatusContexts,
    /// `true` if a request's data lies among the replies.
    holds_data: bool,
    roomy_batches: u32,
}

impl Batch {
    /// Makes a batch with the reserved memory of its connection.
    pub(crate) fn new(structured_replies: bool, memory: &Memory) -> io::Result<Self> {
        Ok(Self::with_replies(structured_replies, Buffer::reserved(memory)?))
    }

    /// Makes a further batch of a connection, if memory is granted.
    pub(crate) fn further(structured_replies: bool, memory: &Memory) -> Option<Self> {
        Some(Self::with_replies(structured_replies, Buffer::granted(memory)?))
    }

    fn with_replies(structured_replies: bool, replies: Buffer) -> Self {
        Self {
            entries: Vec::new(),
            data_bytes: 0,
            slot_bytes: 0,
            status_bytes: 0,
            replies,
            reply_bytes: 0,
            structured_replies,
            contexts: StatusContexts::default(),
            holds_data: false,
            roomy_batches: 0,
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= MAX_REQUESTS
            || self.data_bytes + self.status_bytes >= MAX_DATA_BYTES
            || self.slot_bytes >= LONG_READ_BYTES
    }

    /// Adds a request whose data is at `payload` in the received bytes. Returns `false` if there is
    /// no memory for its reply. A request without data always fits into an empty batch.
    pub(crate) fn push(
        &mut self,
        request: RequestHeader,
        payload: Range<usize>,
        rules: &Rules,
    ) -> bool {
        self.push_checked(request, payload, &[], rules)
    }

    /// Adds a request as [`Self::push`] does, and copies its data, so that the batch can be
    /// executed while the connection receives more.
    pub(crate) fn push_copied(
        &mut self,
        request: RequestHeader,
        data: &[u8],
        rules: &Rules,
    ) -> bool {
        self.push_checked(request, 0..0, data, rules)
    }

    /// Adds a request whose result is known, because it was refused or is done.
    pub(crate) fn push_done(&mut self, request: RequestHeader, error: ErrorCode) {
        let (shape, payload) = (self.shape(&request), 0..0);
        let head_bytes = Entry::head_bytes(shape, error);
        let is_status = shape == Shape::Status;
        self.slot_bytes += head_bytes;
        self.status_bytes += if is_status { MAX_STATUS_BYTES } else { 0 };
        assert!(
            self.entries.is_empty() && self.slot_bytes + self.status_bytes <= self.room_bytes(),
            "a request whose result is known is alone in its batch, and its reply has room"
        );
        self.entries.push(Entry {
            request,
            payload,
            error,
            shape,
            head_bytes,
            data_bytes: 0,
            holds_data: false,
            is_done: true,
            is_asked: false,
            is_left: false,
        });
    }

    fn shape(&self, request: &RequestHeader) -> Shape {
        match request.command {
            Command::READ if self.structured_replies => Shape::Chunk,
            Command::BLOCK_STATUS if self.structured_replies => Shape::Status,
            _ => Shape::Simple,
        }
    }

    /// Adds a request. The batch keeps a copy of the data in `held`.
    fn push_checked(
        &mut self,
        request: RequestHeader,
        payload: Range<usize>,
        held: &[u8],
        rules: &Rules,
    ) -> bool {
        let error = check(&request, rules).err().unwrap_or(ErrorCode::NONE);
        self.contexts = StatusContexts::of(rules.agreed);
        let held = if error.is_none() { held } else { &[] };
        let is_read = request.command == Command::READ && error.is_none();
        // CACHE is a read whose data is not sent. A range longer than the longest read is not read,
        // because CACHE is only advice.
        let is_cache = request.command == Command::CACHE
            && error.is_none()
            && request.length <= rules.sizes.maximum;
        let shape = self.shape(&request);
        let head_bytes = Entry::head_bytes(shape, error);
        let data_bytes = if is_read || is_cache { request.length as usize } else { held.len() };
        let status_bytes = if shape == Shape::Status { MAX_STATUS_BYTES } else { 0 };
        let room_bytes =
            self.slot_bytes + self.status_bytes + head_bytes + data_bytes + status_bytes;
        if !self.make_room(room_bytes) {
            return false;
        }
        assert!(room_bytes <= self.room_bytes(), "a request has room for its reply and its data");
        if !held.is_empty() {
            put(&mut self.replies, REPLIES_AT + self.slot_bytes + head_bytes, held);
            self.holds_data = true;
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
            holds_data: !held.is_empty(),
            is_done: false,
            is_asked: false,
            is_left: false,
        });
        true
    }

    /// Returns the number of bytes of replies that fit at present.
    fn room_bytes(&self) -> usize {
        self.replies.len() - REPLIES_AT
    }

    /// Makes room for this many bytes of replies. Returns `false` if memory is not granted.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes <= self.room_bytes() {
            return true;
        }
        let bytes = REPLIES_AT + bytes;
        let doubled = bytes.next_power_of_two();
        let kept = if self.holds_data { REPLIES_AT + self.slot_bytes } else { 0 };
        doubled <= KEPT_REPLY_BYTES && self.replies.grow(doubled, kept)
            || self.replies.grow(bytes, kept)
    }

    /// Grows the reply buffer for a read of this length, if memory is granted. The batch must be
    /// empty.
    pub(crate) fn make_room_for_read(&mut self, bytes: u32) {
        self.make_room(OFFSET_DATA_HEADER_BYTES + bytes as usize);
    }

    /// Returns the length in bytes of the longest read that fits into the empty batch.
    pub(crate) fn longest_read(&self) -> u32 {
        // The buffer of a batch is not longer than a request.
        self.room_bytes().saturating_sub(OFFSET_DATA_HEADER_BYTES) as u32
    }

    /// Returns the reply buffer, into which a piece of a long request can be read. It holds the
    /// longest request that is executed whole, if memory is granted. The batch must be empty.
    pub(crate) fn piece_buffer(&mut self) -> &mut [u8] {
        self.make_room(LONGEST_WHOLE_BYTES as usize);
        &mut self.replies
    }

    /// Returns whether a write succeeded after the last flush, and [`None`] if the batch has
    /// neither.
    pub(crate) fn leaves_unflushed(&self) -> Option<bool> {
        let done = self.entries.iter().rev().filter(|entry| entry.is_done_right());
        done.into_iter().find_map(|entry| match entry.request.command {
            Command::FLUSH => Some(false),
            Command::WRITE | Command::WRITE_ZEROES | Command::TRIM => Some(true),
            _ => None,
        })
    }

    /// Returns whether this is a batch of long writes: so much data that receiving the next batch
    /// meanwhile saves time, and no other requests.
    pub(crate) fn has_long_writes(&self) -> bool {
        let is_plain = |entry: &Entry| {
            let is_write = entry.request.command == Command::WRITE && entry.error.is_none();
            is_write && !entry.request.has(COMMAND_FLAG_FUA)
        };
        self.data_bytes >= LONG_WRITE_BYTES && self.entries.iter().all(is_plain)
    }

    /// Returns whether this is a batch of long reads, and of no other requests.
    pub(crate) fn has_long_reads(&self) -> bool {
        let is_read = |entry: &Entry| entry.request.command == Command::READ;
        self.slot_bytes >= LONG_READ_BYTES && self.entries.iter().all(is_read)
    }

    /// Returns what the requests read and change.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Claim> {
        self.entries.iter().filter_map(Entry::claim)
    }

    /// Returns the requests that the device has left, and that the batch therefore does not answer,
    /// with their places in the batch.
    pub(crate) fn left(&self) -> impl Iterator<Item = (usize, Left)> {
        let left = self.entries.iter().enumerate().filter(|(_, entry)| entry.is_left);
        left.map(|(place, entry)| (place, (entry.request, entry.payload.clone())))
    }

    /// Returns the number of requests that the batch answers, after [`Self::execute`].
    pub(crate) fn answered(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_left).count()
    }

    /// Returns whether a flush succeeded.
    pub(crate) fn has_flushed(&self) -> bool {
        let mut done = self.entries.iter().filter(|entry| entry.is_done_right());
        done.any(|entry| entry.request.command == Command::FLUSH)
    }

    /// Returns the requests and their data, after [`Self::execute`].
    pub(crate) fn traffic(&self) -> Traffic {
        let mut traffic = Traffic { requests: self.answered() as u64, ..Traffic::default() };
        for entry in self.entries.iter().filter(|entry| entry.is_done_right()) {
            match entry.request.command {
                Command::READ => traffic.read_bytes += u64::from(entry.request.length),
                Command::WRITE => traffic.written_bytes += u64::from(entry.request.length),
                _ => {}
            }
        }
        traffic
    }

    /// Executes all requests on the device, unless it leaves some, and makes the replies.
    /// `received` holds the data of writes.
    pub(crate) fn execute(&mut self, received: &[u8], device: &dyn BlockDevice, waiting: Waiting) {
        self.ask_device(received, device, waiting);
        self.close_gaps();
        if self.entries.iter().any(|entry| entry.shape == Shape::Status) {
            self.append_block_status(device);
        }
    }

    fn ask_device(&mut self, received: &[u8], device: &dyn BlockDevice, waiting: Waiting) {
        // Each batch costs one allocation: the requests borrow from two buffers, so they cannot be
        // kept.
        let mut requests = Vec::with_capacity(self.entries.len());
        let (_, mut rest) = self.replies.split_at_mut(REPLIES_AT);
        for entry in &mut self.entries {
            let (_, after_head) = rest.split_at_mut(entry.head_bytes);
            let (buffer, after) = after_head.split_at_mut(entry.data_bytes);
            rest = after;
            if let Some(operation) = entry.operation(received, buffer) {
                requests.push(Request { operation, outcome: Ok(()) });
                entry.is_asked = true;
            }
        }
        if requests.is_empty() {
            return;
        }
        let left = device.submit(&mut requests, waiting);
        assert!(
            left.is_sorted_by(|one, next| one < next) && left.last() < Some(&requests.len()),
            "a device leaves requests of the batch, each once"
        );
        let asked = self.entries.iter().filter(|entry| entry.is_asked).count();
        assert!(
            asked == requests.len(),
            "an outcome for each request that the device was asked for"
        );
        let asked = self.entries.iter_mut().filter(|entry| entry.is_asked);
        for (entry, (place, request)) in asked.zip(requests.into_iter().enumerate()) {
            entry.is_left = left.binary_search(&place).is_ok();
            if let Err(error) = request.outcome {
                entry.error = ErrorCode::of_device(&error);
            }
        }
    }

    /// Writes the head of each reply before its data, and moves replies forward after one that
    /// became shorter.
    fn close_gaps(&mut self) {
        let mut slot_start = REPLIES_AT;
        let mut filled = REPLIES_AT;
        for entry in &self.entries {
            let (cookie, error) = (entry.request.cookie, entry.error);
            let slot_bytes = entry.head_bytes + entry.data_bytes;
            let kept_bytes = entry.reply_bytes();
            assert!(kept_bytes <= slot_bytes && filled <= slot_start, "a reply fits into its slot");
            if filled != slot_start {
                self.replies.copy_within(slot_start..slot_start + kept_bytes, filled);
            }
            slot_start += slot_bytes;
            let place = filled;
            filled += kept_bytes;
            match entry.shape {
                Shape::Status => {}
                _ if entry.is_left => {}
                Shape::Simple => {
                    put(&mut self.replies, place, &SimpleReply { error, cookie }.encode());
                }
                Shape::Chunk if error.is_none() => {
                    let RequestHeader { offset, length, .. } = entry.request;
                    let head = encode_offset_data_header(cookie, offset, length);
                    put(&mut self.replies, place, &head);
                }
                Shape::Chunk => {
                    put(&mut self.replies, place, &encode_error_chunk(cookie, error));
                }
            }
        }
        assert!(slot_start == REPLIES_AT + self.slot_bytes, "the slots are those of the requests");
        self.reply_bytes = filled - REPLIES_AT;
    }

    fn append_block_status(&mut self, device: &dyn BlockDevice) {
        let mut reply = Vec::with_capacity(MAX_STATUS_BYTES);
        for entry in self.entries.iter().filter(|entry| entry.shape == Shape::Status) {
            reply.clear();
            put_block_status(&mut reply, &entry.request, entry.error, (device, self.contexts));
            assert!(reply.len() <= MAX_STATUS_BYTES, "a block status has the room of its bound");
            put(&mut self.replies, REPLIES_AT + self.reply_bytes, &reply);
            self.reply_bytes += reply.len();
        }
    }

    /// Returns the replies to be sent.
    pub(crate) fn replies(&self) -> &[u8] {
        assert!(self.reply_bytes <= self.room_bytes(), "the replies are in their buffer");
        self.replies.get(REPLIES_AT..REPLIES_AT + self.reply_bytes).unwrap_or_default()
    }

    /// Empties the batch for its next use, and releases memory if the last batches used little.
    pub(crate) fn clear(&mut self) {
        let is_roomy = self.replies.is_grown() && self.reply_bytes < self.replies.len() / 4;
        self.roomy_batches = if is_roomy { self.roomy_batches + 1 } else { 0 };
        self.empty();
        if self.replies.len() > KEPT_REPLY_BYTES || self.roomy_batches >= ROOMY_BATCHES {
            self.shrink();
        }
    }

    /// Empties the batch, and keeps its memory.
    pub(crate) fn empty(&mut self) {
        self.entries.clear();
        self.data_bytes = 0;
        self.slot_bytes = 0;
        self.status_bytes = 0;
        self.reply_bytes = 0;
        self.holds_data = false;
    }

    /// Returns whether the batch has memory to release.
    pub(crate) fn is_grown(&self) -> bool {
        self.replies.is_grown()
    }

    /// Releases memory. The batch must be empty.
    pub(crate) fn shrink(&mut self) {
        self.roomy_batches = 0;
        self.replies.shrink(0);
    }
}

/// Copies bytes to their place among the replies. A reply without its head would take another
/// meaning, so there is no default.
#[inline]
fn put(replies: &mut [u8], place: usize, bytes: &[u8]) {
    assert!(
        place.checked_add(bytes.len()).is_some_and(|end| end <= replies.len()),
        "a reply has its room"
    );
    if let Some(there) = replies.get_mut(place..place + bytes.len()) {
        there.copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
