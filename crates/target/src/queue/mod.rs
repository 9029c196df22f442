//! Queues: how load reads and writes a place.
//!
//! A queue has as many slots as operations it can have in flight. Whoever drives it fills a slot's buffer, submits a
//! request for that slot, and reaps completions; a slot is free again when its completion was reaped.

mod batch;
mod buffers;
mod nbd;
mod null;
mod psync;
mod uring;

pub(crate) use batch::BatchQueue;
pub(crate) use nbd::{NbdPlace, NbdQueue};
pub(crate) use null::NullQueue;
pub(crate) use psync::PsyncQueue;
pub(crate) use uring::UringQueue;

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Fills the slot's buffer from storage.
    Read,
    /// Writes the slot's buffer to storage.
    Write,
    /// The content of the range is no longer needed; storage may free it, or do nothing.
    Trim,
    /// Makes all completed writes of this queue durable (`fdatasync`).
    Sync,
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
        })
    }
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// What to do.
    pub operation: Operation,
    /// Where the place is read or written, in bytes from its start; no meaning for a sync.
    pub offset: u64,
    /// How many bytes from the start of the buffer; of a trim, which uses no buffer, up to
    /// [`Request::MOST_TRIM_BYTES`]; no meaning for a sync.
    pub bytes: usize,
}

impl Request {
    /// The longest trim: what NBD's lengths of 32 bits hold.
    pub const MOST_TRIM_BYTES: usize = 1 << 30;
}

/// How long [`Queue::reap`] waits for a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Not,
    /// Until there is at least one.
    ForOne,
    /// Until there is at least one, or this has passed.
    AtMost(Duration),
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// Whose request it was.
    pub slot: usize,
    /// All bytes were read or written, or why not.
    pub outcome: Result<(), Box<IoFailure>>,
}

/// A failed request: what, where, why.
#[derive(Debug, Error)]
#[error("cannot {operation} {} at byte {offset}", if *operation == Operation::Sync { place.clone() } else { format!("{bytes} bytes of {place}") })]
pub struct IoFailure {
    /// What was asked.
    pub operation: Operation,
    /// The file, device, volume or export.
    pub place: String,
    /// Bytes from the start of that.
    pub offset: u64,
    /// How many bytes were asked.
    pub bytes: usize,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

/// A place, opened for reading and writing by one thread.
pub trait Queue {
    /// How many slots there are.
    fn depth(&self) -> usize;

    /// The buffer of a free slot: aligned for direct I/O, as long as [`QueueOptions::buffer_bytes`]. After a completed
    /// read it holds what was read.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// Starts a request with a free slot's buffer, or puts it in line until the next [`Queue::reap`].
    ///
    /// # Errors
    /// If the engine itself fails; failures of the request come with its completion.
    fn submit(&mut self, slot: usize, request: Request) -> Result<(), Box<IoFailure>>;

    /// Appends finished requests to `done`. Short reads and writes were gone on with: what arrives here is whole or
    /// failed.
    ///
    /// # Errors
    /// If the engine itself fails.
    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>>;
}

/// How a file or device is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// One `pread` or `pwrite` after the other.
    #[default]
    Psync,
    /// Any number of operations in flight, through Linux's io_uring.
    IoUring,
    /// The storage's own way: batches for a volume, requests in flight for an export. Files and devices have none.
    Native,
}

/// A name that is no engine.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no engine: psync or io-uring")]
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

/// How a queue is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// How the storage is driven.
    pub engine: Engine,
    /// Slots, at least one.
    pub depth: usize,
    /// Bytes of a slot's buffer.
    pub buffer_bytes: usize,
}

/// A place as a queue sees it.
#[derive(Debug)]
pub(crate) struct OpenPlace {
    /// Opened as the job needs it.
    pub(crate) file: std::fs::File,
    /// For messages.
    pub(crate) name: String,
    /// Where the place begins in the file, in bytes.
    pub(crate) first_byte: u64,
}

impl OpenPlace {
    #[cold]
    pub(crate) fn failure(
        &self,
        request: Request,
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

/// The error of a read or write that moved nothing.
#[cold]
pub(crate) fn nothing_moved(operation: Operation) -> io::Error {
    match operation {
        Operation::Read => io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends here"),
        _ => io::Error::new(io::ErrorKind::WriteZero, "the device takes no more bytes"),
    }
}
