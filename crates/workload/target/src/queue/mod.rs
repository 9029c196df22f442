//! Queues, through which load reads and writes a place.
//!
//! A queue has one slot for each operation that can be in flight. The caller fills a slot's buffer,
//! submits a request for the slot, and reaps completions. A slot is free again once its completion
//! was reaped.

mod buffers;
mod null;
mod psync;
mod uring;

pub use buffers::Buffers;
pub(crate) use null::NullQueue;
pub(crate) use psync::PsyncQueue;
pub(crate) use uring::UringQueue;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetOperation {
    /// Fills the slot's buffer from storage.
    Read,
    /// Writes the slot's buffer to storage.
    Write,
    /// Tells storage that the content of the range is no longer needed. Storage may free the range
    /// or ignore the request.
    Trim,
    /// Makes all completed writes of this queue durable (`fdatasync`).
    Sync,
}

impl fmt::Display for TargetOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
        })
    }
}

/// A request of load to a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetRequest {
    /// The operation to carry out.
    pub operation: TargetOperation,
    /// First byte of the range, counted from the start of the place. A sync ignores it.
    pub offset: u64,
    /// Length of the range in bytes. A read or write moves this number of bytes from the start of
    /// the buffer. A trim uses no buffer and takes up to [`TargetRequest::MAX_TRIM_BYTES`]. A sync
    /// ignores the length.
    pub bytes: usize,
}

impl TargetRequest {
    /// The longest trim in bytes. It fits the 32-bit lengths of NBD.
    pub const MAX_TRIM_BYTES: usize = 1 << 30;
}

/// The time that [`Queue::reap`] waits for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Does not wait.
    Not,
    /// Waits for at least one completion.
    ForOne,
    /// Waits for at least one completion, but no longer than this time.
    AtMost(Duration),
}

/// A request that has ended, with its outcome.
#[derive(Debug)]
pub struct Completion {
    /// Slot of the request.
    pub slot: usize,
    /// [`Ok`] if all bytes were read or written, else the failure.
    pub outcome: Result<(), Box<IoFailure>>,
}

/// A failed request with its place and its cause.
#[derive(Debug, Error)]
#[error(
    "cannot {operation} {}",
    if *operation == TargetOperation::Sync { place.clone() }
    else { format!("{bytes} bytes of {place} at byte {offset}") }
)]
pub struct IoFailure {
    /// The operation that was requested.
    pub operation: TargetOperation,
    /// Name of the file, device, volume or export.
    pub place: String,
    /// First byte of the failed range, counted from the start of the file, device, volume or
    /// export.
    pub offset: u64,
    /// Length of the failed range in bytes.
    pub bytes: usize,
    /// Cause of the failure.
    #[source]
    pub source: io::Error,
}

impl IoFailure {
    /// The failure of a request to a place that begins at `first_byte`.
    #[cold]
    #[must_use]
    pub fn of(
        place: &str,
        first_byte: u64,
        request: TargetRequest,
        source: io::Error,
    ) -> Box<Self> {
        Box::new(Self {
            operation: request.operation,
            place: place.to_owned(),
            offset: first_byte + request.offset,
            bytes: request.bytes,
            source,
        })
    }
}

/// A place that one thread has opened for reading and writing.
pub trait Queue {
    /// Returns the number of slots.
    fn depth(&self) -> usize;

    /// Returns the buffer of a free slot. It is aligned for direct I/O and has
    /// [`QueueOptions::buffer_bytes`] bytes. After a completed read it holds the data.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Starts a request that uses a free slot, or holds it until the next [`Queue::reap`].
    ///
    /// # Errors
    /// Fails if the engine itself fails. A failure of the request comes with its completion.
    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>>;

    /// Appends finished requests to `done`. The queue continues short reads and writes, so a
    /// request here was done in full or has failed.
    ///
    /// # Errors
    /// Fails if the engine itself fails.
    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>>;
}

/// The interface through which a file or device is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Carries out one system call after another (`pread`, `pwrite`).
    #[default]
    Psync,
    /// Keeps several operations in flight through Linux's io_uring.
    IoUring,
    /// Uses the storage's own interface: batches for a volume, requests in flight for an export.
    /// Files and devices have no such interface.
    Native,
}

/// The error that a text is not the name of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown engine '{0}': use psync or io-uring")]
pub struct UnknownEngine(String);

impl FromStr for Engine {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        match text {
            "psync" => Ok(Self::Psync),
            "io-uring" => Ok(Self::IoUring),
            _ => Err(UnknownEngine(text.to_owned())),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Psync => "psync",
            Self::IoUring => "io-uring",
            Self::Native => "native",
        })
    }
}

/// The options of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// The interface through which the storage is driven.
    pub engine: Engine,
    /// Number of slots; at least one.
    pub depth: usize,
    /// Length of a slot's buffer in bytes.
    pub buffer_bytes: usize,
}

/// A file or device that was opened for a queue.
#[derive(Debug)]
pub(crate) struct OpenPlace {
    /// Opened with the access and flags that the job needs.
    pub(crate) file: std::fs::File,
    /// Name of the place for messages.
    pub(crate) name: String,
    /// First byte of the place in the file or device.
    pub(crate) first_byte: u64,
}

impl OpenPlace {
    #[cold]
    pub(crate) fn failure(
        &self,
        request: TargetRequest,
        done: usize,
        source: io::Error,
    ) -> Box<IoFailure> {
        Box::new(IoFailure {
            operation: request.operation,
            place: self.name.clone(),
            offset: self.first_byte + request.offset + done as u64,
            bytes: request.bytes.saturating_sub(done),
            source,
        })
    }
}

/// Returns the error of a read or write that moved no bytes.
#[cold]
pub(crate) fn nothing_moved(operation: TargetOperation) -> io::Error {
    match operation {
        TargetOperation::Read => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before the range does")
        }
        _ => io::Error::new(io::ErrorKind::WriteZero, "the storage accepted no bytes"),
    }
}
