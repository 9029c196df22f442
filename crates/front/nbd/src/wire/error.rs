//! Error numbers of replies, and errors of decoding.

use super::Truncated;
use gemelo_device::DeviceError;
use std::fmt;
use std::io;
use thiserror::Error;

/// The reason why a message is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The message ends too early.
    #[error(transparent)]
    Truncated(#[from] Truncated),
    /// The message does not begin with the magic number of its kind.
    #[error("the message begins with {found:#x} and is not {expected}")]
    Magic {
        /// The number at the beginning of the message.
        found: u64,
        /// The expected kind of message.
        expected: &'static str,
    },
    /// A part of the message is longer than the protocol or this program allows.
    #[error("{what} of {length} bytes is too long: the limit is {most} bytes")]
    TooLong {
        /// The part that is too long.
        what: &'static str,
        /// Length of the part in bytes.
        length: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// A text is not UTF-8, or it contains a zero byte.
    #[error("{0} is not valid text: it must be UTF-8 without zero bytes")]
    NoText(&'static str),
    /// Bytes follow the last field.
    #[error("the message continues after its last field")]
    Excess,
}

/// The error number of a reply ("Error values"). Unknown numbers are kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error.
    pub const NONE: Self = Self(0);
    /// The operation is not permitted, such as a write to a read-only export.
    pub const PERM: Self = Self(1);
    /// I/O failed.
    pub const IO: Self = Self(5);
    /// The server lacks memory.
    pub const NO_MEMORY: Self = Self(12);
    /// The request is invalid.
    pub const INVALID: Self = Self(22);
    /// No space is left, or a write ends beyond the export.
    pub const NO_SPACE: Self = Self(28);
    /// The request or its result is too large.
    pub const OVERFLOW: Self = Self(75);
    /// The operation is not supported, such as fast zeroes on this export.
    pub const NOT_SUPPORTED: Self = Self(95);
    /// The server is shutting down.
    pub const SHUTDOWN: Self = Self(108);

    /// Returns whether this is [`Self::NONE`].
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Returns the error number for a device's error.
    #[must_use]
    pub fn of_device(error: &DeviceError) -> Self {
        match error {
            full if full.is_full() => Self::NO_SPACE,
            DeviceError::OutOfRange { .. } => Self::INVALID,
            DeviceError::ReadOnly => Self::PERM,
            DeviceError::NoSpace => Self::NO_SPACE,
            DeviceError::Damaged { .. } => Self::IO,
            DeviceError::Io(error) => match error.kind() {
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
            Self::IO => "I/O failed (EIO)",
            Self::NO_MEMORY => "no memory (ENOMEM)",
            Self::INVALID => "invalid request (EINVAL)",
            Self::NO_SPACE => "no space is left (ENOSPC)",
            Self::OVERFLOW => "too large (EOVERFLOW)",
            Self::NOT_SUPPORTED => "not supported (ENOTSUP)",
            Self::SHUTDOWN => "the server is shutting down (ESHUTDOWN)",
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
