//! Errors of targets.

use gemelo_base::ShowPath as _;
use gemelo_base::units::format_size;
use gemelo_base::{Classified, FailureKind, Remedy};
use gemelo_disk::DiskError;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// The reason why storage is refused as a target, or cannot be prepared, opened or cleaned up.
#[derive(Debug, thiserror::Error, Classified)]
pub enum TargetError {
    /// The name of the target is empty.
    #[kind(BadInput)]
    #[error("the name of the target is empty: give {forms}")]
    NoTarget {
        /// The forms of names that are known.
        forms: String,
    },
    /// The name begins with an unknown scheme.
    #[kind(BadInput)]
    #[error("invalid target '{uri}': give {forms} (write ./ before a path that has a colon)")]
    Scheme {
        /// The name as the user gave it.
        uri: String,
        /// The forms of names that are known.
        forms: String,
    },
    /// Storage of another kind is refused, or fails.
    #[kind(source)]
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The path is not a file, a directory or a block device.
    #[kind(BadInput)]
    #[error("{} is {found}: give a directory, a file or a block device", path.shown())]
    Kind {
        /// The path that the user gave.
        path: PathBuf,
        /// The kind of file at the path.
        found: &'static str,
    },
    /// A size of the job is not a multiple of the storage's block size.
    #[kind(BadInput)]
    #[error(
        "{what} is {bytes} bytes, but {} needs a multiple of its block size, {unit_bytes} bytes",
        path.shown()
    )]
    Unit {
        /// Name of the size.
        what: &'static str,
        /// The size in bytes.
        bytes: u64,
        /// Block size of the storage in bytes.
        unit_bytes: u64,
        /// The storage that refuses the size.
        path: PathBuf,
    },
    /// The directory of the target does not exist.
    #[kind(BadInput, remedy = NoDirect)]
    #[error("{} does not exist: create this directory first", path.shown())]
    NoDirectory {
        /// The directory that has to be created.
        path: PathBuf,
    },
    /// The job reads a file that does not exist.
    #[kind(BadInput)]
    #[error(
        "{} does not exist, so the job has nothing to read: populate the target first",
        path.shown()
    )]
    Missing {
        /// The file that the job was to read.
        path: PathBuf,
    },
    /// The job would overwrite an existing file.
    #[kind(BadInput, remedy = OverwriteFile)]
    #[error("{} exists", path.shown())]
    Exists {
        /// The file that a write would replace.
        path: PathBuf,
    },
    /// The job would overwrite storage that holds data.
    #[kind(BadInput, remedy = OverwriteTarget)]
    #[error("{} holds {what}", path.shown())]
    HoldsData {
        /// The device, volume or export.
        path: PathBuf,
        /// The kind of data, such as "an XFS file system", or just "data".
        what: String,
    },
    /// The device does not exist, or it cannot be used as a target.
    #[kind(source, untouched)]
    #[error(transparent)]
    Device(DiskError),
    /// Something else uses the block device or file.
    #[kind(InUse)]
    #[error("{} is in use: {by}; give another target, or end that use first", path.shown())]
    InUse {
        /// The device or file.
        path: PathBuf,
        /// The user of the device or file.
        by: String,
    },
    /// The job writes, and the storage is read-only.
    #[kind(BadInput)]
    #[error("{} is read-only, but the job writes: give a writable target", path.shown())]
    ReadOnly {
        /// The device, volume or export that refuses writes.
        path: PathBuf,
    },
    /// The storage is smaller than the job needs.
    #[kind(BadInput)]
    #[error(
        "{} has {} ({have_bytes} bytes), but the job needs {} ({need_bytes} bytes): make the job \
         smaller or give a larger target",
        path.shown(), format_size(*have_bytes), format_size(*need_bytes)
    )]
    TooSmall {
        /// The file, device, volume or export, or a path in the file system.
        path: PathBuf,
        /// The storage's size in bytes, or the space that is free in the file system.
        have_bytes: u64,
        /// The size that the job needs in bytes.
        need_bytes: u64,
    },
    /// Several hosts are to share a file that does not have its whole size yet.
    #[kind(BadInput)]
    #[error(
        "{} is no directory, and a file that hosts share must have its whole size before the run: \
         make it with truncate -s {need_bytes}, or give a directory",
        path.shown()
    )]
    SharedFile {
        /// The file that all hosts were given.
        path: PathBuf,
        /// The size that all hosts together need in bytes.
        need_bytes: u64,
    },
    /// A size of the job is not a multiple of the sectors of direct I/O.
    #[kind(BadInput)]
    #[error(
        "{what} is {bytes} bytes, but direct I/O on {} needs a multiple of {sector_bytes} bytes",
        path.shown()
    )]
    Sector {
        /// Name of the size.
        what: &'static str,
        /// The size in bytes.
        bytes: u64,
        /// Sector size of direct I/O in bytes.
        sector_bytes: u64,
        /// The file, directory or device.
        path: PathBuf,
    },
    /// The storage does not support direct I/O.
    #[kind(BadInput)]
    #[error("{} does not support direct I/O", path.shown())]
    NoDirect {
        /// The file, directory, volume or export.
        path: PathBuf,
    },
    /// The total size is zero, or larger than a file can be.
    #[kind(BadInput)]
    #[error(
        "invalid size: {processes} processes of {place_bytes} bytes each; the total must be from 1 \
         byte to 8 EiB - 1"
    )]
    Size {
        /// Number of processes of the job.
        processes: u32,
        /// Size of each process's place in bytes.
        place_bytes: u64,
    },
    /// The kernel does not offer io_uring to this user.
    #[kind(BadInput, remedy = UsePsync)]
    #[error("io_uring is not available on this machine or to this user")]
    NoIoUring(#[source] std::io::Error),
    /// A system call failed.
    // A system call can fail at any time.
    #[kind(source)]
    #[error("cannot {action} {}", path.shown())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The path that the action was attempted on.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
}

/// The error of an [`crate::Adapter`]. Its text is that of the error inside.
#[derive(Debug)]
pub struct AdapterError(Box<dyn Classified + Send + Sync>);

impl AdapterError {
    /// Wraps the error of an adapter.
    #[must_use]
    pub fn new(error: impl Classified + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }
}

impl Classified for AdapterError {
    fn kind(&self) -> FailureKind {
        self.0.kind()
    }

    fn remedy(&self) -> Option<Remedy> {
        self.0.remedy()
    }
}

impl fmt::Display for AdapterError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for AdapterError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Adds the action and the path to the error of a system call.
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
