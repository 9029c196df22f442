//! Requests to a disk. They come in lists, so that a disk can have all of a list in flight at once.
//!
//! Each request has its own outcome: with io_uring each completion has its own result, a network
//! answers each message, and a bad sector must fail the one request that needs it. A list has no
//! order: requests of one list do not overlap.

use std::io;

/// A read of one range of a disk.
#[derive(Debug)]
pub struct DiskRead<'a> {
    /// The first byte of the range.
    pub offset: u64,
    /// Filled by the disk. After an error its bytes are undefined.
    pub buffer: &'a mut [u8],
    /// Set by the disk. Reading beyond the end is an error of kind `UnexpectedEof`.
    pub outcome: io::Result<()>,
}

impl<'a> DiskRead<'a> {
    /// Makes a request without an outcome.
    pub const fn new(offset: u64, buffer: &'a mut [u8]) -> Self {
        Self { offset, buffer, outcome: Ok(()) }
    }

    /// Returns whether the other request begins where this one ends.
    #[must_use]
    pub const fn is_followed_by(&self, next: &Self) -> bool {
        self.offset + self.buffer.len() as u64 == next.offset
    }
}

/// A write of one range of a disk.
#[derive(Debug)]
pub struct DiskWrite<'a> {
    /// The first byte of the range.
    pub offset: u64,
    /// The bytes to write. Their number is the length of the range.
    pub bytes: &'a [u8],
    /// `true` if nobody is expected to read the range soon: a system's cache has no use for it.
    pub is_unread: bool,
    /// Set by the disk. After an error any part of the range may have been written.
    pub outcome: io::Result<()>,
}

impl<'a> DiskWrite<'a> {
    /// Makes a request without an outcome.
    pub const fn new(offset: u64, bytes: &'a [u8]) -> Self {
        Self { offset, bytes, is_unread: false, outcome: Ok(()) }
    }

    /// The same for bytes that nobody is expected to read soon.
    #[must_use]
    pub fn unread(self) -> Self {
        Self { is_unread: true, ..self }
    }

    /// Returns whether the other request begins where this one ends.
    #[must_use]
    pub const fn is_followed_by(&self, next: &Self) -> bool {
        self.offset + self.bytes.len() as u64 == next.offset
    }
}
