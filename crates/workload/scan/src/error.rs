//! The errors of a scan.

use crate::options::OptionsError;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a scan cannot begin or has no result. Problems with single files are reported to
/// the monitor and counted instead.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ScanError {
    /// The options are invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A path to scan cannot be examined.
    #[error("cannot scan {}", path.shown())]
    Path {
        /// The path as the user gave it.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A path to scan is not a file, a directory or a block device.
    #[error(
        "cannot scan {}: it is a {kind}; give files, directories or block devices",
        path.shown()
    )]
    Kind {
        /// The path as the user gave it.
        path: PathBuf,
        /// The file type, in words.
        kind: &'static str,
    },
    /// A path to scan lies in another one, so its blocks would count twice.
    #[error(
        "{} lies in {}, which is scanned too: give only one of them",
        inner.shown(),
        outer.shown()
    )]
    Overlap {
        /// The path that lies in the other one.
        inner: PathBuf,
        /// The path that contains the other one.
        outer: PathBuf,
    },
    /// A thread cannot be started.
    #[kind(source)]
    #[error("cannot start a reading thread: {}", gemelo_base::threads::REFUSED)]
    Thread {
        /// The error of the operating system.
        source: io::Error,
    },
    /// The temporary file with the counted fingerprints cannot be read back.
    #[kind(source)]
    #[error("cannot read the temporary file in {}", directory.shown())]
    Spill {
        /// The directory that contains the temporary file.
        directory: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The fingerprint set cannot be written.
    #[kind(source)]
    #[error(transparent)]
    Saved(#[from] crate::saved::SavedSetError),
}
