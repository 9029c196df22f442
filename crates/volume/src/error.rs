//! Why something could not be done: the kind, and where.

use gemelo_base::{Classified, FailureKind};
use gemelo_check::CheckError;
use gemelo_device::DeviceError;
use gemelo_disk::DiskError;
use gemelo_format::{DiskRole, FormatError};
use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// What an engine or a pool refuses or fails with.
#[derive(Debug, Error)]
pub enum VolumeError {
    /// The storage below failed.
    #[error("cannot {action} the {disk}")]
    Io {
        /// Which disk.
        disk: DiskRole,
        /// "read", "write", "sync" and so on.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A file or device of the pool is refused, or could not be used.
    #[error(transparent)]
    Disk(DiskError),
    /// There is no pool where one was expected.
    #[error("this is no pool: {why}")]
    NotAPool {
        /// What was found instead.
        why: &'static str,
    },
    /// The pool has an older format, which has to be converted first.
    #[error("the pool has format version {version}, and this program works with version 2")]
    OldFormat {
        /// The version that the pool has.
        version: u32,
    },
    /// The pool has the present format, so there is nothing to convert.
    #[error("the pool has format version 2 already: there is nothing to convert")]
    PresentFormat,
    /// Another process has the pool open.
    #[error("the pool is in use by {holder}")]
    InUse {
        /// "process 123", or what else is known.
        holder: String,
    },
    /// A link of the pool's directory that leads nowhere.
    #[error(
        "'{path}' leads to '{target}', where nothing is: attach the device or mount the file system"
    )]
    LostDisk {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// Data and metadata in one place.
    #[error("data and metadata are both in '{path}': each needs a file or device of its own")]
    OneDisk {
        /// The place.
        path: PathBuf,
    },
    /// A device that is too small for what it is to hold.
    #[error("'{path}' has {have_bytes} bytes, but {need_bytes} are needed")]
    SmallDevice {
        /// The device.
        path: PathBuf,
        /// Its size.
        have_bytes: u64,
        /// The least size.
        need_bytes: u64,
    },
    /// An option is outside of its range.
    #[error("{what} is not {expected}")]
    BadOption {
        /// Which option, with its value.
        what: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// Metadata does not fit its checksum or itself.
    #[error("the metadata is damaged: {what}")]
    Damaged {
        /// What is damaged.
        what: String,
    },
    /// The pool failed before and takes no changes until it is opened anew.
    #[error("the pool stopped taking changes when it could not {action} its {disk}; open it anew")]
    Stopped {
        /// Which disk failed.
        disk: DiskRole,
        /// At what.
        action: &'static str,
    },
    /// The pool is open for reading only.
    #[error("the pool is open for reading only")]
    ReadOnly,
    /// There is no such volume.
    #[error("there is no volume '{name}'")]
    NoSuchVolume {
        /// The name asked for.
        name: String,
    },
    /// There is such a volume already.
    #[error("there is a volume '{name}' already")]
    VolumeExists {
        /// The name asked for.
        name: String,
    },
    /// A block has as many references as can be counted.
    #[error("a block of the volume has as many references as can be counted")]
    TooManyReferences,
    /// No space is left for a block that needs some.
    #[error("no space is left in the {disk}")]
    NoSpace {
        /// Where.
        disk: DiskRole,
    },
    /// A block cannot be read as it was written.
    #[error("block {lbn} of the volume is damaged")]
    DamagedBlock {
        /// Which block.
        lbn: u64,
    },
    /// The work was asked to stop.
    #[error("stopped before the end")]
    Interrupted,
}

impl Classified for VolumeError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Io { source, .. } => FailureKind::of_io(source),
            // The files of a pool are opened before anything is changed in it.
            Self::Disk(source) => source.kind().untouched(),
            Self::InUse { .. } => FailureKind::InUse,
            Self::Damaged { .. } | Self::DamagedBlock { .. } => FailureKind::Damaged,
            Self::NoSpace { .. } | Self::TooManyReferences => FailureKind::Exhausted,
            Self::Stopped { .. } | Self::Interrupted => FailureKind::Failed,
            Self::NotAPool { .. }
            | Self::OldFormat { .. }
            | Self::PresentFormat
            | Self::LostDisk { .. }
            | Self::OneDisk { .. }
            | Self::SmallDevice { .. }
            | Self::BadOption { .. }
            | Self::ReadOnly
            | Self::NoSuchVolume { .. }
            | Self::VolumeExists { .. } => FailureKind::BadInput,
        }
    }
}

impl VolumeError {
    /// All slots of the metadata disk hold pages that are in use: the metadata are not damaged, and
    /// room can be made.
    pub(crate) const NO_SLOT: Self = Self::NoSpace { disk: DiskRole::Metadata };

    /// Wraps what a disk says; a full one becomes [`Self::NoSpace`].
    pub(crate) fn io(disk: DiskRole, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { disk },
            _ => Self::Io { disk, action, source },
        }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    /// What a server tells its client.
    pub(crate) fn for_device(&self, block_bytes: u64) -> DeviceError {
        match self {
            Self::NoSpace { .. } => DeviceError::NoSpace,
            Self::ReadOnly => DeviceError::ReadOnly,
            Self::DamagedBlock { lbn } => DeviceError::Damaged { offset: lbn * block_bytes },
            Self::Io { source, .. } => {
                DeviceError::Io(io::Error::new(source.kind(), self.with_source()))
            }
            _ => DeviceError::Io(io::Error::other(self.with_source())),
        }
    }

    fn with_source(&self) -> String {
        match self.source() {
            Some(source) => format!("{self}: {source}"),
            None => self.to_string(),
        }
    }
}

/// A locked disk is a pool in use; every other error keeps its own words.
impl From<DiskError> for VolumeError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Locked { holder, .. } => Self::InUse { holder },
            error => Self::Disk(error),
        }
    }
}

/// What cannot be read is the pool's own failure: callers need not know which crate read it.
impl From<FormatError> for VolumeError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Io { disk, action, source } => Self::io(disk, action)(source),
            FormatError::NotAPool { why } => Self::NotAPool { why },
            FormatError::Damaged { what } => Self::Damaged { what },
        }
    }
}

/// A conversion and a repair begin with a check.
impl From<CheckError> for VolumeError {
    fn from(error: CheckError) -> Self {
        match error {
            CheckError::Format(error) => error.into(),
            CheckError::Interrupted => Self::Interrupted,
        }
    }
}

/// What most of the crate returns.
pub(crate) type Result<T> = std::result::Result<T, VolumeError>;
