//! Why a trace cannot be read: file and line first.

use crate::Format;
use std::path::PathBuf;
use thiserror::Error;

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field}: expected {expected}")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
    /// What should stand there.
    pub expected: &'static str,
}

impl Malformed {
    pub(crate) const fn new(field: &'static str, expected: &'static str) -> Self {
        Self { field, expected }
    }
}

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A line that is not of the format.
    #[error("{}:{line}: {problem}, found '{found}' ({format}); --skip-malformed goes on", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1; of binary formats, which record.
        line: u64,
        /// What is wrong.
        problem: Malformed,
        /// The line, shortened.
        found: String,
        /// The format it was read as.
        format: Format,
    },
    /// A line longer than any format has.
    #[error("{}:{line}: the line is longer than {most_bytes} bytes: this is no trace", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: u64,
        /// The limit.
        most_bytes: usize,
    },
    /// Content that no format recognises.
    #[error("{} is of no known format: name it with --format ({known})", path.display())]
    Unrecognised {
        /// The file.
        path: PathBuf,
        /// The formats there are.
        known: String,
    },
    /// An archive.
    #[error("{} is a tar archive: unpack it, and name the files in it", path.display())]
    Archive {
        /// The file.
        path: PathBuf,
    },
    /// A file without records.
    #[error("{} has no records", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Too many files open at one time of the trace.
    #[error(
        "more than {most} files overlap in time: merge some of them first, with gemelo trace convert"
    )]
    TooManyFiles {
        /// The limit.
        most: usize,
    },
    /// A device that was asked for, and does not occur.
    #[error("device '{device}' does not occur in the trace; those that do: {found}")]
    NoDevice {
        /// What was asked for.
        device: String,
        /// Devices there are.
        found: String,
    },
}

impl TraceError {
    /// Whether the trace is at fault, rather than the machine it is read on.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        match self {
            Self::Io { action, .. } => matches!(action.as_bytes(), b"open"),
            _ => true,
        }
    }
}
