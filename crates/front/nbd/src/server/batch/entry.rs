//! A request of a batch, and the shape of its reply.

use crate::wire::{
    COMMAND_FLAG_FUA, COMMAND_FLAG_NO_HOLE, Command, ERROR_CHUNK_BYTES, ErrorCode,
    OFFSET_DATA_HEADER_BYTES, RequestHeader, SIMPLE_REPLY_BYTES,
};
use gemelo_device::{Claim, Durability, Operation};
use std::ops::Range;

/// The format of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A simple reply, followed by the data of a read that succeeded.
    Simple,
    /// One chunk with the data of a read, or with an error.
    Chunk,
    /// One chunk with extents, or with an error. It comes after all other replies.
    Status,
}

/// A request and its reply.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) request: RequestHeader,
    /// Place of the request's data in the received bytes.
    pub(super) payload: Range<usize>,
    /// Result of the request so far.
    pub(super) error: ErrorCode,
    pub(super) shape: Shape,
    /// Bytes of reply before the data that the device reads; the whole reply if it reads none.
    pub(super) head_bytes: usize,
    /// Bytes that the device reads, or bytes of a write that the batch holds.
    pub(super) data_bytes: usize,
    /// `true` if the data of the request lies in its place among the replies.
    pub(super) holds_data: bool,
    /// `true` if the device has nothing left to do.
    pub(super) is_done: bool,
    /// `true` once the device was asked to execute the request.
    pub(super) is_asked: bool,
    /// `true` if the device has left the request, so that it has no reply yet.
    pub(super) is_left: bool,
}

impl Entry {
    /// Returns the length of the reply before its data, for the result known so far.
    pub(super) fn head_bytes(shape: Shape, error: ErrorCode) -> usize {
        match shape {
            Shape::Simple => SIMPLE_REPLY_BYTES,
            Shape::Chunk if error.is_none() => OFFSET_DATA_HEADER_BYTES,
            Shape::Chunk => ERROR_CHUNK_BYTES,
            Shape::Status => 0,
        }
    }

    /// Returns the length of the reply after the device has executed the batch.
    pub(super) fn reply_bytes(&self) -> usize {
        if self.is_left {
            return 0;
        }
        let sends_data = self.request.command == Command::READ && self.error.is_none();
        Self::head_bytes(self.shape, self.error) + if sends_data { self.data_bytes } else { 0 }
    }

    /// Returns whether the request was executed without an error.
    pub(super) fn is_done_right(&self) -> bool {
        self.error.is_none() && !self.is_left
    }

    /// Returns what the request reads or changes, unless it was refused.
    pub(super) fn claim(&self) -> Option<Claim> {
        let range = self.request.range();
        match self.request.command {
            _ if !self.error.is_none() => None,
            Command::READ | Command::CACHE => Some(Claim::Read(range)),
            Command::WRITE | Command::WRITE_ZEROES | Command::TRIM => {
                let is_durable = self.request.has(COMMAND_FLAG_FUA);
                Some(Claim::Change { range, is_durable })
            }
            Command::FLUSH => Some(Claim::Flush),
            _ => None,
        }
    }

    fn durability(&self) -> Durability {
        if self.request.has(COMMAND_FLAG_FUA) { Durability::Immediate } else { Durability::Flushed }
    }

    /// Returns the operation for the device, if one is needed.
    pub(super) fn operation<'a>(
        &self,
        received: &'a [u8],
        buffer: &'a mut [u8],
    ) -> Option<Operation<'a>> {
        if self.is_done || !self.error.is_none() {
            return None;
        }
        let (offset, length) = (self.request.offset, u64::from(self.request.length));
        let durability = self.durability();
        Some(match self.request.command {
            Command::READ | Command::CACHE if self.data_bytes > 0 => {
                assert!(buffer.len() as u64 == length, "a read has room for all of its data");
                Operation::Read { offset, buffer }
            }
            Command::WRITE if self.holds_data => {
                assert!(buffer.len() as u64 == length, "a write that is held has all of its data");
                Operation::Write { offset, data: buffer, durability }
            }
            Command::WRITE => {
                let data = received.get(self.payload.clone()).unwrap_or_default();
                assert!(data.len() as u64 == length, "a write has all of its data");
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
