//! Errors in reading a trace. Messages begin with file and line.

use crate::trace_format::TraceFormat;
use gemelo_base::ShowPath as _;
use gemelo_base::{Classified, FailureKind, Remedy};
use std::path::PathBuf;
use thiserror::Error;

/// The field of a line that is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{field}: expected {expected}")]
pub struct Malformed {
    /// Name of the field.
    pub field: &'static str,
    /// Description of a valid field.
    pub expected: &'static str,
}

impl Malformed {
    pub(crate) const fn new(field: &'static str, expected: &'static str) -> Self {
        Self { field, expected }
    }
}

/// The reason why a trace cannot be read.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Opening or reading the file failed.
    #[error("cannot {action} {}", path.shown())]
    Io {
        /// Operation that failed, as a verb.
        action: &'static str,
        /// File it failed on.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A line does not match the format.
    #[error(
        "{}:{line}: {problem}, found '{found}' ({format})",
        path.shown()
    )]
    Line {
        /// Name of the file.
        path: PathBuf,
        /// Number of the line, or of the record in a binary format, counted from 1.
        line: u64,
        /// The reason why the line is malformed.
        problem: Malformed,
        /// Start of the line.
        found: String,
        /// Format that the file was read as.
        format: TraceFormat,
    },
    /// A line is longer than any format permits.
    #[error(
        "{}:{line}: the line is longer than {max_bytes} bytes: the file is not a trace",
        path.shown()
    )]
    TooLong {
        /// Name of the file.
        path: PathBuf,
        /// Number of the line, counted from 1.
        line: u64,
        /// Bytes of the longest line that is permitted.
        max_bytes: usize,
    },
    /// The content matches no format.
    #[error("{} is of no known format ({known})", path.shown())]
    Unrecognised {
        /// Name of the file.
        path: PathBuf,
        /// Names of all formats.
        known: String,
    },
    /// The file is a tar archive.
    #[error("{} is a tar archive: unpack it, and give the files in it", path.shown())]
    Archive {
        /// Name of the file.
        path: PathBuf,
    },
    /// The file is what blktrace records.
    #[error(
        "{0} is a binary trace of blktrace: turn it into text with `blkparse -i {0} -o FILE`, and \
         give that FILE",
        path.shown()
    )]
    Blktrace {
        /// Name of the file.
        path: PathBuf,
    },
    /// The file has no records.
    #[error("{} has no records", path.shown())]
    Empty {
        /// Name of the file.
        path: PathBuf,
    },
    /// Too many files cover the same time of the trace.
    #[error("more than {most} files overlap in time")]
    TooManyFiles {
        /// Most files that may be open together.
        most: usize,
    },
    /// A requested device does not occur in the trace.
    #[error("device '{device}' does not occur in the trace; its devices are: {found}")]
    NoDevice {
        /// Name of the requested device.
        device: String,
        /// Names of the devices in the trace.
        found: String,
    },
}

impl Classified for TraceError {
    fn kind(&self) -> FailureKind {
        match self {
            // Nothing of the trace was read yet.
            Self::Io { action: Self::OPEN, source, .. } => FailureKind::of_io(source).untouched(),
            Self::Io { source, .. } => FailureKind::of_io(source),
            _ => FailureKind::BadInput,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        Some(match self {
            Self::Line { .. } => Remedy::SkipMalformed,
            Self::Unrecognised { .. } => Remedy::NameFormat,
            Self::TooManyFiles { .. } => Remedy::MergeTraces,
            _ => return None,
        })
    }
}

impl TraceError {
    /// The action of [`TraceError::Io`] for a trace that cannot be opened.
    pub(crate) const OPEN: &'static str = "open";
}
