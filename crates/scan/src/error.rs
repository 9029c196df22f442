//! Why a scan or a merge failed.

use crate::options::OptionsError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a scan could not begin, or has no result at all. What fails on the way is told to the monitor and counted.
#[derive(Debug, Error)]
pub enum ScanError {
    /// The request cannot be done.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A path that was given cannot be looked at.
    #[error("cannot scan {}", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that was given is none of file, directory and block device.
    #[error("cannot scan {}: it is a {kind}; give files, directories or block devices", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// A path that was given lies in another one, so that its blocks would count twice.
    #[error("{} lies in {}, which is scanned too: give only one of them", inner.display(), outer.display())]
    Overlap {
        /// The path within.
        inner: PathBuf,
        /// The path around it.
        outer: PathBuf,
    },
    /// Threads cannot be started.
    #[error("cannot start a reading thread")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// The temporary file cannot be read back.
    #[error("cannot read the temporary file in {}", folder.display())]
    Spill {
        /// The folder it is in.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The fingerprint set cannot be written.
    #[error(transparent)]
    Saved(#[from] crate::saved::SavedSetError),
}
