//! Error numbers of replies, and what can be wrong with a message.

use super::Truncated;
use gemelo_device::DeviceError;
use std::fmt;
use std::io;
use thiserror::Error;

/// What is wrong with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// It ends too early.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// It does not begin with the number that its kind begins with.
    #[error("the message begins with {found:#x} instead of {expected}")]
    Magic {
        /// What it begins with.
        found: u64,
        /// What was expected.
        expected: &'static str,
    },
    /// Something is longer than the protocol or this program allows.
    #[error("{what} of {length} bytes is too long (at most {most})")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// Its length.
        length: u64,
        /// The limit.
        most: u64,
    },
    /// A name or message that is no UTF-8, or holds a zero byte.
    #[error("{0} is no text")]
    NoText(&'static str),
    /// Bytes are left over.
    #[error("the message is longer than its contents")]
    Excess,
}

/// An error number of a reply ("Error values"); numbers unknown here are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error.
    pub const NONE: Self = Self(0);
    /// Not permitted: a write to what is read-only.
    pub const PERM: Self = Self(1);
    /// Input or output failed.
    pub const IO: Self = Self(5);
    /// No memory.
    pub const NO_MEMORY: Self = Self(12);
    /// Not a valid request.
    pub const INVALID: Self = Self(22);
    /// No space is left, or a write beyond the end.
    pub const NO_SPACE: Self = Self(28);
    /// Too large.
    pub const OVERFLOW: Self = Self(75);
    /// Not supported, such as zeroes that are not fast.
    pub const NOT_SUPPORTED: Self = Self(95);
    /// The server is going down.
    pub const SHUTDOWN: Self = Self(108);

    /// Whether this is no error.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// The number for what a device says.
    #[must_use]
    pub fn of_device(error: &DeviceError) -> Self {
        match error {
            DeviceError::OutOfRange { .. } => Self::INVALID,
            DeviceError::ReadOnly => Self::PERM,
            DeviceError::NoSpace => Self::NO_SPACE,
            DeviceError::Damaged { .. } => Self::IO,
            DeviceError::Io(error) => match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NO_SPACE,
                io::ErrorKind::OutOfMemory => Self::NO_MEMORY,
                io::ErrorKind::ReadOnlyFilesystem => Self::PERM,
                _ => Self::IO,
            },
        }
    }

    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "no error",
            Self::PERM => "not permitted (EPERM)",
            Self::IO => "input or output failed (EIO)",
            Self::NO_MEMORY => "no memory (ENOMEM)",
            Self::INVALID => "not a valid request (EINVAL)",
            Self::NO_SPACE => "no space is left (ENOSPC)",
            Self::OVERFLOW => "too large (EOVERFLOW)",
            Self::NOT_SUPPORTED => "not supported (ENOTSUP)",
            Self::SHUTDOWN => "the server is going down (ESHUTDOWN)",
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => formatter.write_str(name),
            None => write!(formatter, "error {}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ErrorCode({}: {self})", self.0)
    }
}
