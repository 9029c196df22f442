//! Errors of reading a pool: the kind, and the disk.

use crate::DiskRole;
use gemelo_base::Classified;
use std::io;
use thiserror::Error;

/// The reason why a pool's structs cannot be read.
#[derive(Debug, Error, Classified)]
pub enum FormatError {
    /// The storage below failed.
    #[kind(source)]
    #[error("cannot {action} the {disk}")]
    Io {
        /// The disk on which the request failed.
        disk: DiskRole,
        /// The attempted action, as a verb.
        action: &'static str,
        /// The error of the storage.
        source: io::Error,
    },
    /// The disks do not hold a pool.
    #[kind(BadInput)]
    #[error("not a pool: {why}")]
    NotAPool {
        /// The reason, as a clause.
        why: &'static str,
    },
    /// The disks hold a pool that this program is too old for.
    #[kind(BadInput)]
    #[error("the pool has {what}, which this version of gemelo does not know")]
    Unknown {
        /// The version or the feature.
        what: String,
    },
    /// The disks hold a pool that this program can read, and is too old to change.
    #[kind(BadInput)]
    #[error(
        "the pool has {what}, which this version of gemelo does not know: it can be read, not \
         changed"
    )]
    ReadableOnly {
        /// The feature.
        what: String,
    },
    /// A disk has lost all heads that tell the kind of its pool, so that nothing can be checked or
    /// repaired.
    #[kind(Damaged)]
    #[error("{what}")]
    LostHeads {
        /// The heads, and what helps.
        what: &'static str,
    },
    /// Metadata fails its checksum, or contradicts itself.
    #[kind(Damaged)]
    #[error("the metadata is damaged: {what}")]
    Damaged {
        /// The name of the damaged part.
        what: String,
    },
}

impl FormatError {
    /// Adds the disk and the action to an error of the storage. A disk that ends too early is
    /// damaged.
    pub fn io(disk: DiskRole, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Self::damaged(format!("the {disk} is cut off: {source}"))
            }
            _ => Self::Io { disk, action, source },
        }
    }

    /// Returns the error for metadata with this damaged part.
    #[must_use]
    pub fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }
}

/// The result of most functions of this crate.
pub(crate) type Result<T> = std::result::Result<T, FormatError>;
