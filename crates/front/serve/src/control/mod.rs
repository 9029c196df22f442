//! The control socket, through which other processes send requests to a pool that this process has.
//!
//! A connection carries one request. Both sides send frames: a length in 4 bytes, little-endian,
//! and JSON of that length. The client sends a [`PoolRequest`](crate::PoolRequest). The server
//! sends any number of progress messages and then the reply. After the reply to `connect`, a front
//! end of the server speaks its own protocol on the connection. After the reply to `send` or
//! `receive`, chunks of a stream come, and then another reply.

mod chunks;
mod client;
mod frame;
mod look;
mod notes;
mod server;

pub(crate) use client::{HolderKind, ask, connect_front_end, is_answering, receive, send};
pub use look::LookServer;
pub(crate) use server::{Control, MAX_OPEN_FILES};

use crate::failure::RequestFailure;
use crate::request::Reply;
use gemelo_base::Unit;
use serde::{Deserialize, Serialize};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Name of the server's socket in the pool's directory.
pub(crate) const NAME: &str = "control";
/// Name of the socket of a command that has the pool for a while. It differs, so that requests
/// which the command does not perform are not sent to it.
pub(crate) const LOOK_NAME: &str = "look";
/// Longest request in bytes: a name is at most 255, written as JSON at most six times that.
const MAX_REQUEST_BYTES: usize = 16 << 10;
/// Longest reply in bytes: statistics of a hundred thousand volumes.
const MAX_REPLY_BYTES: usize = 256 << 20;

/// A message of the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Message {
    Begin { phase: String, unit: NotedUnit, total: Option<u64> },
    Total { total: u64 },
    Advance { amount: u64 },
    Warn { message: String },
    Finish,
    Reply(Reply),
    Failure(RequestFailure),
}

/// A [`Unit`] in JSON.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NotedUnit {
    Bytes,
    Items,
    Nanoseconds,
}

impl From<Unit> for NotedUnit {
    fn from(unit: Unit) -> Self {
        match unit {
            Unit::Bytes => Self::Bytes,
            Unit::Items => Self::Items,
            Unit::Nanoseconds => Self::Nanoseconds,
        }
    }
}

impl From<NotedUnit> for Unit {
    fn from(unit: NotedUnit) -> Self {
        match unit {
            NotedUnit::Bytes => Self::Bytes,
            NotedUnit::Items => Self::Items,
            NotedUnit::Nanoseconds => Self::Nanoseconds,
        }
    }
}

/// The address of a socket in a pool's directory. It leads through the open directory, because the
/// path may be longer than the 107 bytes that the address of a socket can have.
struct ControlAddress {
    _directory: std::fs::File,
    address: PathBuf,
}

impl ControlAddress {
    fn of(directory: &Path) -> std::io::Result<Self> {
        Self::named(directory, NAME)
    }

    fn named(directory: &Path, name: &str) -> std::io::Result<Self> {
        let opened = std::fs::File::open(directory)?;
        let address = PathBuf::from(format!("/proc/self/fd/{}/{name}", opened.as_raw_fd()));
        Ok(Self { _directory: opened, address })
    }
}
