//! The interface between block devices and servers: a volume implements [`BlockDevice`], and a
//! server exports it.
//!
//! Requests come in batches: a server passes on all requests that a connection has sent. A device
//! can then make one system call, take one lock or do one look-up for many requests.
//!
//! # Requests that complete later
//!
//! [`BlockDevice::submit`] executes the requests of a batch that do not have to wait, and leaves
//! the others. A client gets the replies to the first ones at once. Those that are left complete
//! later: [`Lanes`] keep them, and threads of [`Helpers`] execute and answer them, in any order,
//! while the thread of the client goes on with its next requests. This is the only path of
//! requests. Devices differ in what they leave: a volume leaves reads that are not in memory, and a
//! volume of a member all that waits for other machines. A caller without threads submits what is
//! left again, and waits for the first of it ([`Waiting::First`]).
//!
//! Requests of one range keep their order if one of them changes it. A front end whose protocol
//! asks for more keeps its replies until their turn.
//!
//! [`Exports`] gives devices names. A [`FrontEnd`] lets clients reach the named devices by a
//! protocol, such as NBD. An implementation of a front end needs this crate and no other part of
//! the engine. The front ends of a server share one limit of [`Memory`] for the buffers of their
//! clients, and the threads of [`Helpers`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod access;
mod exports;
mod front_end;
mod helpers;
mod lanes;
mod memory;
mod socket_file;
mod spin;

pub use access::{AllowedExports, ExportAccess};
pub use exports::{Export, ExportTable, Exports};
pub use front_end::{
    Connect, ConnectError, Devices, FrontEnd, FrontEndError, FrontEndStats, Listening, Transfers,
};
pub use helpers::{Helper, Helpers};
pub use lanes::{Claim, KeptRead, LaneClient, Lanes, OpenLane};
pub use memory::{Buffer, Memory, RESERVED_BUFFER_BYTES};
pub use socket_file::{MadeSocket, SocketAccess, listen_at_file, remove_left_socket};
pub use spin::Spin;

use gemelo_base::Classified;
use std::io;
use thiserror::Error;

/// The moment from which a write must survive a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// From the next [`Operation::Flush`] on.
    #[default]
    Flushed,
    /// From its acknowledgement on (NBD's FUA, force unit access).
    Immediate,
}

/// The operation of a request. Offsets and lengths are in bytes, aligned as [`Geometry`] says.
#[derive(Debug)]
pub enum Operation<'a> {
    /// Fills the buffer. Blocks that were never written read as zeros.
    Read {
        /// First byte of the range on the device.
        offset: u64,
        /// Receives the data. Its length is the length of the range.
        buffer: &'a mut [u8],
    },
    /// Replaces the bytes of the range by the data.
    Write {
        /// First byte of the range on the device.
        offset: u64,
        /// The bytes to write. Their number is the length of the range.
        data: &'a [u8],
        /// The moment from which the write must survive a crash.
        durability: Durability,
    },
    /// Makes the range read as zeros.
    WriteZeroes {
        /// First byte of the range on the device.
        offset: u64,
        /// Length of the range in bytes.
        length: u64,
        /// `true` if the device may deallocate the range.
        may_free: bool,
        /// The moment from which the zeros must survive a crash.
        durability: Durability,
    },
    /// Tells the device that the content of the range is no longer needed.
    Trim {
        /// First byte of the range on the device.
        offset: u64,
        /// Length of the range in bytes.
        length: u64,
        /// The moment from which the trim must survive a crash.
        durability: Durability,
    },
    /// Makes all writes that were acknowledged before it durable.
    Flush,
}

impl Operation<'_> {
    /// Returns what the operation reads or changes.
    #[must_use]
    pub fn claim(&self) -> Claim {
        let range = |offset: u64, length: u64| offset..offset.saturating_add(length);
        let (range, durability) = match self {
            Self::Read { offset, buffer } => {
                return Claim::Read(range(*offset, buffer.len() as u64));
            }
            Self::Write { offset, data, durability } => {
                (range(*offset, data.len() as u64), durability)
            }
            Self::WriteZeroes { offset, length, durability, .. }
            | Self::Trim { offset, length, durability } => (range(*offset, *length), durability),
            Self::Flush => return Claim::Flush,
        };
        Claim::Change { range, is_durable: *durability == Durability::Immediate }
    }
}

/// A request and its result. A device may execute the requests of a batch in any order, with two
/// exceptions: overlapping requests keep the order of the batch, and a flush comes after all
/// requests before it.
#[derive(Debug)]
pub struct Request<'a> {
    /// The operation to execute.
    pub operation: Operation<'a>,
    /// The result. It is [`Ok`] until [`BlockDevice::execute`] sets it.
    pub outcome: Result<(), DeviceError>,
}

/// The requests of a batch that the caller waits for, among those that have to wait for a medium or
/// another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// All of them: the batch has its outcomes when the call returns.
    All,
    /// The first request of the batch, and others that take no longer.
    First,
    /// None of them: each is left, and completes later.
    None,
}

/// The reason why a request failed.
#[derive(Debug, Error, Classified)]
pub enum DeviceError {
    /// The range ends beyond the device, or the device does not take its length.
    #[kind(BadInput)]
    #[error("{length} bytes at byte {offset} are outside the device, which has {size_bytes} bytes")]
    OutOfRange {
        /// First byte of the refused range.
        offset: u64,
        /// Length of the refused range in bytes.
        length: u64,
        /// Size of the device in bytes.
        size_bytes: u64,
    },
    /// The request writes, and the device is read-only.
    #[kind(BadInput)]
    #[error("the device is read-only")]
    ReadOnly,
    /// The write needs a new block, and no space is left for one.
    #[kind(Exhausted)]
    #[error("no space is left on the device")]
    NoSpace,
    /// The stored content is not the content that was written.
    #[kind(Damaged)]
    #[error("the content at byte {offset} of the device is damaged")]
    Damaged {
        /// First damaged byte on the device.
        offset: u64,
    },
    /// The storage that holds the device's data failed.
    #[kind(source)]
    #[error("the device's storage failed")]
    Io(#[from] io::Error),
}

impl DeviceError {
    /// Returns whether the device, or a volume by its quota, is full: clients are told of no space.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::NoSpace => true,
            Self::Io(error) => {
                matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

/// A range of the device whose bytes all have the same state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Length of the range in bytes.
    pub length: u64,
    /// `true` if the range takes space.
    pub allocated: bool,
    /// `true` if the range reads as zeros.
    pub zero: bool,
}

/// A range of the device whose bytes all differ from an earlier state of it, or all do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedExtent {
    /// Length of the range in bytes.
    pub length: u64,
    /// `true` if the range may differ.
    pub is_changed: bool,
    /// `true` if the range held data, and reads as zeros now.
    pub is_zero: bool,
}

/// The size of a device and the limits of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Size of the device in bytes.
    pub size_bytes: u64,
    /// Alignment of requests in bytes: offsets and lengths are multiples of it.
    pub minimum_block_bytes: u32,
    /// Size and alignment in bytes of the cheapest requests.
    pub preferred_block_bytes: u32,
    /// Length of the longest read or write in bytes.
    pub maximum_request_bytes: u32,
    /// `true` if the device refuses writes.
    pub read_only: bool,
}

/// A device that a server can export. Several threads may call its methods at the same time.
pub trait BlockDevice: Send + Sync {
    /// Returns the device's size and limits. The size may change between calls.
    fn geometry(&self) -> Geometry;

    /// Returns `false` if nothing may be answered for the device any more, because another host may
    /// serve it by now. A server then ends the connections without a reply: a client connects
    /// again, and takes no error for one of the device.
    fn may_answer(&self) -> bool {
        true
    }

    /// Returns the most requests that a batch should have: few for a device whose rate is limited,
    /// because all of a batch are answered together.
    fn batch_requests(&self) -> usize {
        usize::MAX
    }

    /// Executes every request of the batch and sets its outcome.
    fn execute(&self, batch: &mut [Request<'_>]);

    /// Executes a batch, and may leave requests that would have to wait and are not waited for.
    /// Returns their places in the batch, in order; the buffers of reads that are left are
    /// undefined. The device may have begun to work on them. The caller submits them again later:
    /// none of them has bytes in common with another request of the batch, if one of both changes
    /// these. The first request is not left if it is waited for. A device that cannot tell leaves
    /// none.
    fn submit(&self, batch: &mut [Request<'_>], waiting: Waiting) -> Vec<usize> {
        let _ = waiting;
        self.execute(batch);
        Vec::new()
    }

    /// Returns the most threads that should wait together for requests of one client that the
    /// device has left. One is enough for a device that has begun to work on all of them, and whose
    /// waits are about as long as it takes to hand a request to another thread.
    fn waiters(&self) -> usize {
        1
    }

    /// Describes the range as a list of at most `max_extents` extents, in order of their offsets.
    /// The list may end before the range does.
    ///
    /// # Errors
    /// Fails if the range is outside the device, or if metadata cannot be read.
    fn extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<Extent>, DeviceError>;

    /// Describes the range as [`Self::extents`] does, by what differs from the earlier state that
    /// the device was opened with ([`Exports::since`]). Other devices have none.
    ///
    /// # Errors
    /// Fails if the range is outside the device, if metadata cannot be read, or if the earlier
    /// state is gone.
    fn changed_extents(
        &self,
        offset: u64,
        length: u64,
        max_extents: usize,
    ) -> Result<Vec<ChangedExtent>, DeviceError> {
        let _ = (offset, length, max_extents);
        Err(DeviceError::Io(io::ErrorKind::Unsupported.into()))
    }
}
