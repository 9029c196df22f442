//! The errors of engine and pools: the kind, the place and the cause.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_base::panics::Panicked;
use gemelo_base::units::format_size;
use gemelo_check::CheckError;
use gemelo_device::DeviceError;
use gemelo_disk::DiskError;
use gemelo_format::{DiskRole, FormatError, SnapshotId};
use gemelo_metadata::MetadataError;
use std::error::Error as _;
use std::fmt;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// An error of an engine or a pool.
#[derive(Debug, Error, Classified)]
pub enum VolumeError {
    /// The storage below failed.
    #[kind(source)]
    #[error("cannot {action} the {disk}")]
    Io {
        /// The disk that failed.
        disk: DiskRole,
        /// The failed action as a verb: "read", "write", "sync" and so on.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or device of the pool was refused, or failed.
    // The files of a pool are opened before anything in it is changed.
    #[kind(source, untouched)]
    #[error(transparent)]
    Disk(DiskError),
    /// The directory or the disks do not hold a pool.
    #[kind(BadInput)]
    #[error("not a pool: {why}")]
    NotAPool {
        /// The reason, as a clause.
        why: &'static str,
    },
    /// The disks hold a pool that this program is too old for.
    #[kind(BadInput, remedy = UseNewer)]
    #[error("the pool has {what}, which this version of gemelo does not know")]
    Unknown {
        /// The version or the feature.
        what: String,
    },
    /// The disks hold a pool that this program can read, and is too old to change.
    #[kind(BadInput, remedy = UseNewer)]
    #[error(
        "the pool has {what}, which this version of gemelo does not know: it can be read, not \
         changed"
    )]
    ReadableOnly {
        /// The feature.
        what: String,
    },
    /// Another process has the pool open.
    #[kind(InUse)]
    #[error("the pool is in use by {holder}")]
    InUse {
        /// The holder's name, such as "process 123".
        holder: String,
    },
    /// The target of a link in the pool's directory does not exist.
    #[kind(BadInput)]
    #[error(
        "'{path}' is a link to '{target}', which does not exist: attach the device or mount the \
         file system", path = path.shown(), target = target.shown())]
    LostDisk {
        /// The path of the link.
        path: PathBuf,
        /// The place that the link names.
        target: PathBuf,
    },
    /// Data and metadata are on one disk.
    #[kind(BadInput)]
    #[error("data and metadata are both in '{path}': each needs a file or device of its own", path = path.shown())]
    OneDisk {
        /// The path of that disk.
        path: PathBuf,
    },
    /// A device is too small for its part of the pool.
    #[kind(BadInput)]
    #[error(
        "'{path}' has {have_bytes} bytes, but this pool needs {need_bytes} there: use a larger \
         device or make a smaller pool", path = path.shown())]
    SmallDevice {
        /// The path of the device.
        path: PathBuf,
        /// The size of the device.
        have_bytes: u64,
        /// The least size that is needed.
        need_bytes: u64,
    },
    /// An option is outside of its range.
    #[kind(BadInput)]
    #[error("invalid {what}: {rule}")]
    BadOption {
        /// The option with its value.
        what: String,
        /// The rule that the value breaks, with its limits.
        rule: String,
    },
    /// A disk has lost all heads that tell the kind of its pool, so that nothing can be checked or
    /// repaired.
    #[kind(Damaged)]
    #[error("{what}")]
    LostHeads {
        /// The heads, and what helps.
        what: &'static str,
    },
    /// The metadata does not match its checksum, or contradicts itself.
    #[kind(Damaged)]
    #[error("the metadata is damaged: {what}")]
    Damaged {
        /// The name of the damaged part.
        what: String,
    },
    /// The pool failed before and takes no changes until it is opened anew.
    #[kind(Failed)]
    #[error("the pool stopped taking changes {reason}")]
    Stopped {
        /// The reason, as a clause.
        reason: StopReason,
    },
    /// A directory has one of the two files of a pool, and lacks the other.
    #[kind(Damaged)]
    #[error(
        "the pool has lost '{missing}': '{present}' is there. Neither is of use alone: put the file \
         back, or restore both from a backup", missing = missing.shown(), present = present.shown())]
    LostFile {
        /// The path of the file that is missing.
        missing: PathBuf,
        /// The path of the file that is there.
        present: PathBuf,
    },
    /// The pool is open for reading only.
    #[kind(BadInput)]
    #[error("the pool is open for reading only: 'gemelo pool status' says why")]
    ReadOnly,
    /// The pool has no volume of this name.
    #[kind(BadInput)]
    #[error("there is no volume '{name}'")]
    NoSuchVolume {
        /// The requested name.
        name: String,
    },
    /// The pool has a volume of this name already.
    #[kind(BadInput)]
    #[error("a volume '{name}' exists already")]
    VolumeExists {
        /// The requested name.
        name: String,
    },
    /// The pool has no copy of the snapshot on which another one builds.
    #[kind(BadInput)]
    #[error(
        "the pool has no copy of the snapshot {identity}, on which the stream builds: receive that \
         one first, or send the whole snapshot"
    )]
    NoBase {
        /// The snapshot that is missing.
        identity: SnapshotId,
    },
    /// The pool has a copy of the snapshot already.
    #[kind(BadInput)]
    #[error("volume '{name}' is a copy of this snapshot already")]
    ReceivedBefore {
        /// The name of the copy.
        name: String,
    },
    /// Another process fills a copy of the snapshot.
    #[kind(InUse)]
    #[error("a copy of this snapshot is being made by another command, as '{name}'")]
    BeingReceived {
        /// The name of the copy.
        name: String,
    },
    /// The volume takes writes, so it has no identity.
    #[kind(BadInput)]
    #[error("volume '{name}' is no snapshot: create one with 'gemelo volume snapshot' first")]
    NotASnapshot {
        /// The name of the volume.
        name: String,
    },
    /// A snapshot keeps its size, because copies of it in other pools do.
    #[kind(BadInput)]
    #[error("volume '{name}' is a snapshot, which keeps its size: clone it, and resize the clone")]
    SnapshotResize {
        /// The name of the snapshot.
        name: String,
    },
    /// A snapshot keeps its contents.
    #[kind(BadInput)]
    #[error("volume '{name}' is a snapshot, which keeps its contents: roll back a volume")]
    SnapshotRollback {
        /// The name of the snapshot.
        name: String,
    },
    /// The snapshot was made of another volume.
    #[kind(BadInput)]
    #[error(
        "'{snapshot}' is no snapshot of volume '{name}': for a volume with its contents, use 'gemelo \
         volume clone'"
    )]
    SnapshotOfAnother {
        /// The name of the volume.
        name: String,
        /// The name of the snapshot.
        snapshot: String,
    },
    /// The snapshot is held.
    #[kind(BadInput)]
    #[error(
        "snapshot '{name}' is held ({tags}): nothing removes it before 'gemelo volume release'"
    )]
    Held {
        /// The name of the snapshot.
        name: String,
        /// The tags of its holds.
        tags: String,
    },
    /// The snapshot has no such hold.
    #[kind(BadInput)]
    #[error("snapshot '{name}' has no hold '{tag}'")]
    NoSuchHold {
        /// The name of the snapshot.
        name: String,
        /// The tag that it does not have.
        tag: String,
    },
    /// A reference count would exceed its limit.
    #[kind(Exhausted)]
    #[error(
        "the copy would give a block more than 2^32 - 1 references: remove other clones or \
         snapshots of the volume first"
    )]
    TooManyReferences,
    /// A disk of the pool is full.
    #[kind(Exhausted)]
    #[error("no space is left in the {disk}")]
    NoSpace {
        /// The disk that is full.
        disk: DiskRole,
    },
    /// The change needs a checkpoint, and the last try of one has just failed.
    #[kind(Failed)]
    #[error("no checkpoint can be written: {error}")]
    NoCheckpoint {
        /// The error of that try, with its causes.
        error: String,
    },
    /// A block does not match the checksum of its content, or cannot be read.
    #[kind(Damaged)]
    #[error("block {lbn} of the volume is damaged")]
    DamagedBlock {
        /// The number of the block in the volume.
        lbn: u64,
    },
    /// Damaged contents have another copy, but could not be written again.
    #[kind(Damaged)]
    #[error(
        "{contents} damaged contents have another copy and could not be written again: the data \
         store fails, or has lost their places in blocks of compressed contents. They are not \
         given up; writing them anew heals them"
    )]
    Unhealed {
        /// The number of these contents.
        contents: u64,
    },
    /// The volume has as much data as it may have.
    #[kind(Exhausted)]
    #[error("the volume has its quota of {}", format_size(*quota_bytes))]
    Quota {
        /// The quota.
        quota_bytes: u64,
    },
    /// The work was stopped on request.
    #[kind(Failed)]
    #[error("stopped before the end")]
    Interrupted,
}

/// The failure that ended all changes of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// A disk failed such that it is unknown which changes are durable.
    Disk {
        /// The disk that failed.
        disk: DiskRole,
        /// The action that failed, as a verb.
        action: &'static str,
    },
    /// A thread of this program panicked, so that the state in memory may be half changed.
    Panic(Panicked),
    /// The file of a disk was deleted: what it holds is lost when this process ends.
    Deleted {
        /// The disk whose file was deleted.
        disk: DiskRole,
    },
    /// The owner of the veto of blocks does not know any more which of them others use.
    Owner {
        /// The reason, in words.
        why: String,
    },
    /// A part of the metadata was found damaged. What was acknowledged before is kept.
    Damage {
        /// The name of the damaged part.
        what: String,
    },
}

impl fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { disk, action } => {
                write!(formatter, "when it could not {action} its {disk}")
            }
            Self::Panic(panicked) => {
                write!(formatter, "because of a defect of this program: {panicked}")
            }
            Self::Deleted { disk } => write!(
                formatter,
                "because the file of its {disk} was deleted: what it holds is lost when this \
                 process ends"
            ),
            Self::Owner { why } => write!(formatter, "because {why}"),
            Self::Damage { what } => write!(
                formatter,
                "because its metadata is damaged ({what}): stop its server, and repair it with \
                 'gemelo pool check --repair'"
            ),
        }
    }
}

impl VolumeError {
    /// The refusal of another change of the store's size.
    pub(crate) fn being_shrunk() -> Self {
        Self::BadOption {
            what: "capacity".to_owned(),
            rule: "another command makes the pool smaller at present".to_owned(),
        }
    }

    /// The damage of a pool that has a content where the copy of the data store's header is. The
    /// next copy would destroy it.
    pub(crate) fn content_in_header() -> Self {
        Self::Damaged { what: "a content where the copy of the data store's header is".to_owned() }
    }

    /// Wraps an error of a disk. An error of a full disk becomes [`Self::NoSpace`].
    pub(crate) fn io(disk: DiskRole, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { disk },
            io::ErrorKind::UnexpectedEof if disk == DiskRole::Metadata => {
                FormatError::io(disk, action)(source).into()
            }
            _ => Self::Io { disk, action, source },
        }
    }

    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    /// The error that a server reports to its client.
    pub(crate) fn for_device(&self, block_bytes: u64) -> DeviceError {
        match self {
            Self::NoSpace { .. } => DeviceError::NoSpace,
            // The pool has space, so it is no failure of its own.
            Self::Quota { .. } => {
                DeviceError::Io(io::Error::new(io::ErrorKind::QuotaExceeded, self.to_string()))
            }
            Self::ReadOnly | Self::ReadableOnly { .. } => DeviceError::ReadOnly,
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

/// Metadata that cannot be read is an error of the pool: callers need not know which crate read it.
impl From<FormatError> for VolumeError {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Io { disk, action, source } => Self::io(disk, action)(source),
            FormatError::NotAPool { why } => Self::NotAPool { why },
            FormatError::Unknown { what } => Self::Unknown { what },
            FormatError::ReadableOnly { what } => Self::ReadableOnly { what },
            FormatError::LostHeads { what } => Self::LostHeads { what },
            FormatError::Damaged { what } => Self::Damaged { what },
        }
    }
}

/// Metadata without a free slot is a full disk: it is intact, and removing volumes makes room.
impl From<MetadataError> for VolumeError {
    fn from(error: MetadataError) -> Self {
        match error {
            MetadataError::Format(error) => error.into(),
            MetadataError::Damaged { what } => Self::Damaged { what },
            // Looks that miss a page are taken again, and the last one reads it.
            MetadataError::Missing => {
                Self::io(DiskRole::Metadata, "read")(io::ErrorKind::WouldBlock.into())
            }
            MetadataError::NoSlot => Self::NoSpace { disk: DiskRole::Metadata },
            MetadataError::TooManyReferences => Self::TooManyReferences,
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

/// A result with a [`VolumeError`].
pub(crate) type Result<T> = std::result::Result<T, VolumeError>;
