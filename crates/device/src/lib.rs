//! The seam between a block device and whoever serves it: what a server exports, and what a volume implements.
//!
//! Requests come in batches, so that a device can do once for many what would cost a system call, a lock or a look-up
//! each; a server hands over all that a connection has sent.

use std::io;
use thiserror::Error;

/// Whether a write has to be durable when it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// With the next flush.
    #[default]
    Flushed,
    /// Now (force unit access).
    Immediate,
}

/// What a request does. Offsets and lengths are bytes, of any alignment that [`Geometry`] allows.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Fills the buffer; blocks never written read as zeros.
    Read {
        /// Where to read.
        offset: u64,
        /// What to fill.
        buffer: &'a mut [u8],
    },
    /// Writes the data.
    Write {
        /// Where to write.
        offset: u64,
        /// What to write.
        data: &'a [u8],
        /// Whether it has to be durable when it is acknowledged.
        durability: Durability,
    },
    /// Makes the range read as zeros.
    WriteZeroes {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// Whether the space may be freed.
        may_free: bool,
        /// Whether it has to be durable when it is acknowledged.
        durability: Durability,
    },
    /// The content of the range is no longer needed.
    Trim {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        length: u64,
        /// Whether it has to be durable when it is acknowledged.
        durability: Durability,
    },
    /// Makes all writes acknowledged so far durable.
    Flush,
}

/// One request and what became of it. Requests of a batch may be done in any order, except that those that overlap are
/// done in the order of the batch, and a flush comes after all before it.
#[derive(Debug)]
pub struct Request<'a> {
    /// What to do.
    pub operation: Operation<'a>,
    /// How it went; [`Ok`] before it was done.
    pub outcome: Result<(), DeviceError>,
}

/// Why a request failed.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// Beyond the end of the device, or of a length that cannot be.
    #[error("{length} bytes at {offset} are outside of the device's {size_bytes} bytes")]
    OutOfRange {
        /// Where the request began.
        offset: u64,
        /// How long it was.
        length: u64,
        /// The size of the device.
        size_bytes: u64,
    },
    /// The device takes no writes.
    #[error("the device is read-only")]
    ReadOnly,
    /// No space is left for a block that needs some.
    #[error("no space is left")]
    NoSpace,
    /// What was read is not what was written.
    #[error("the content at {offset} is damaged")]
    Damaged {
        /// Where the damage begins.
        offset: u64,
    },
    /// The storage below failed.
    #[error("input or output failed")]
    Io(#[from] io::Error),
}

/// A stretch of the device that is of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its length in bytes.
    pub length: u64,
    /// Whether it takes space.
    pub allocated: bool,
    /// Whether it reads as zeros.
    pub zero: bool,
}

/// The sizes of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// The device's size in bytes.
    pub size_bytes: u64,
    /// Offsets and lengths of requests are multiples of this.
    pub minimum_block_bytes: u32,
    /// The size and alignment that costs least.
    pub preferred_block_bytes: u32,
    /// The longest read or write.
    pub maximum_request_bytes: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// A device that can be exported. All methods may be called from many threads at once.
pub trait BlockDevice: Send + Sync {
    /// The device's sizes; the size may change between calls.
    fn geometry(&self) -> Geometry;

    /// Does every request of the batch and sets its outcome.
    fn execute(&self, batch: &mut [Request<'_>]);

    /// Tells of the range in extents, in order, at most `most_extents` of them.
    ///
    /// # Errors
    /// If the range is outside of the device, or its metadata cannot be read.
    fn extents(
        &self,
        offset: u64,
        length: u64,
        most_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError>;
}
