//! Why storage cannot carry a load.

use crate::uri::PoolVolume;
use gemelo_nbd::client::{ClientError, NbdUri, UriError};
use gemelo_volume::VolumeError;
use std::path::PathBuf;
use thiserror::Error;

/// Why storage is refused, or cannot be prepared, opened or cleaned up.
#[derive(Debug, Error)]
pub enum TargetError {
    /// An empty name.
    #[error(
        "the target has no name: give a directory, a file, a block device, pool:, nbd:// or null:"
    )]
    NoTarget,
    /// A scheme this program does not know.
    #[error(
        "'{uri}' is no known kind of target: give a directory, a file, a block device, pool:DIRECTORY/VOLUME, \
         nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH or null: (a path with a colon begins with ./)"
    )]
    Scheme {
        /// What was given.
        uri: String,
    },
    /// Neither file, directory nor block device.
    #[error("{} is {found}: give a directory, a file or a block device", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A pool without a volume, or a volume without a pool.
    #[error("'pool:{place}' names no volume: give pool:DIRECTORY/VOLUME")]
    PoolShape {
        /// What was given after the colon.
        place: String,
    },
    /// A text that is no address of an export.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The pool cannot be opened.
    #[error("cannot open the pool {}", directory.display())]
    Pool {
        /// The pool's directory.
        directory: PathBuf,
        /// Why not.
        source: VolumeError,
    },
    /// Another process has the pool.
    #[error(
        "the pool {} is in use by {holder}: if that serves it, name the export instead, as in \
         nbd+unix:///{}?socket=PATH", place.directory.display(), place.volume
    )]
    PoolInUse {
        /// What was asked for.
        place: PoolVolume,
        /// Who has it.
        holder: String,
    },
    /// The pool has other volumes.
    #[error("the pool {} has no volume '{}': it has {known}", place.directory.display(), place.volume)]
    NoVolume {
        /// What was asked for.
        place: PoolVolume,
        /// The names of its volumes, or "none".
        known: String,
    },
    /// The finder failed.
    #[error("cannot look for duplicates in the pool {}", directory.display())]
    Settle {
        /// The pool's directory.
        directory: PathBuf,
        /// Why not.
        source: VolumeError,
    },
    /// What was written to a pool may not be durable.
    #[error("cannot close the pool {}", directory.display())]
    ClosePool {
        /// The pool's directory.
        directory: PathBuf,
        /// Why not.
        source: VolumeError,
    },
    /// The server does not answer, or does not have the export.
    #[error("cannot use {uri}")]
    Nbd {
        /// The export.
        uri: Box<NbdUri>,
        /// Why not.
        source: Box<ClientError>,
    },
    /// The server does not promise that several connections see each other's writes.
    #[error(
        "the server of {uri} is for one connection at a time (no multi-conn), the job has {wanted} processes"
    )]
    Connections {
        /// The export.
        uri: Box<NbdUri>,
        /// Processes of the job.
        wanted: u32,
    },
    /// Sizes that the storage does not take.
    #[error("{what} is {bytes} bytes, which is not a multiple of the {unit_bytes} bytes that {} needs", path.display())]
    Unit {
        /// Which size.
        what: &'static str,
        /// The size.
        bytes: u64,
        /// The smallest unit of a request.
        unit_bytes: u64,
        /// The storage.
        path: PathBuf,
    },
    /// The folder that should hold the target does not exist.
    #[error("{} does not exist: make that folder first", path.display())]
    NoFolder {
        /// The missing folder.
        path: PathBuf,
    },
    /// A place that should be read does not exist.
    #[error("{} does not exist, so there is nothing to read: populate it first", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// A file that would be overwritten.
    #[error("{} exists: name another target, or say --force to overwrite it", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Storage that holds something.
    #[error("{} holds {what}: say --force to overwrite it", path.display())]
    HoldsData {
        /// The device, volume or export.
        path: PathBuf,
        /// "an XFS file system", or just "data".
        what: String,
    },
    /// A device that cannot be used, or is not there.
    #[error(transparent)]
    Device(VolumeError),
    /// A block device or file that something else uses.
    #[error("{} is in use: {by}", path.display())]
    InUse {
        /// The device or file.
        path: PathBuf,
        /// By what.
        by: String,
    },
    /// Read-only storage for a job that writes.
    #[error("{} is read-only", path.display())]
    ReadOnly {
        /// The path.
        path: PathBuf,
    },
    /// Too little room.
    #[error("{} has {have_bytes} bytes, the job needs {need_bytes}", path.display())]
    TooSmall {
        /// The file, device or file system.
        path: PathBuf,
        /// Bytes there are.
        have_bytes: u64,
        /// Bytes there should be.
        need_bytes: u64,
    },
    /// Direct I/O goes by sectors.
    #[error(
        "{what} is {bytes} bytes, which is not a multiple of the {sector_bytes} bytes that direct I/O \
         on {} needs", path.display()
    )]
    Sector {
        /// Which size.
        what: &'static str,
        /// The size.
        bytes: u64,
        /// The smallest unit of direct I/O.
        sector_bytes: u64,
        /// The file, folder or device.
        path: PathBuf,
    },
    /// The file system has no direct I/O.
    #[error("{} has no direct I/O: use --sync none or fsync", path.display())]
    NoDirect {
        /// The file, folder, volume or export.
        path: PathBuf,
    },
    /// A size that overflows 64 bits, or is nothing.
    #[error("{processes} processes of {place_bytes} bytes each make no size that storage can have")]
    Size {
        /// How many processes.
        processes: u32,
        /// Bytes of each.
        place_bytes: u64,
    },
    /// The kernel refuses io_uring.
    #[error("io_uring is not available here: use --engine psync")]
    NoIoUring(#[source] std::io::Error),
    /// A system call failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl TargetError {
    /// Whether nothing had been touched when this came up, so that it counts as bad input. Failures of system calls
    /// do not: they come up at any time.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Settle { .. } | Self::ClosePool { .. })
    }
}

/// Adds action and path to a failed system call.
pub(crate) trait AtPath<T> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T, TargetError>;
}

impl<T, E: Into<std::io::Error>> AtPath<T> for Result<T, E> {
    fn at(self, action: &'static str, path: &std::path::Path) -> Result<T, TargetError> {
        self.map_err(|source| TargetError::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        })
    }
}
