//! The reasons why a run is refused or ends early.

use crate::sources::SourceError;
use gemelo_base::ShowPath as _;
use gemelo_base::{Classified, FailureKind, Remedy};
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a run was refused or failed.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The directory of a fileset exists and is not empty, and the script does not reuse it.
    #[error(
        "{} exists, and the script does not say 'reuse'",
        path.shown()
    )]
    Exists {
        /// Directory of the fileset.
        path: PathBuf,
    },
    /// A fileset is outside of the directory that contains all files.
    #[error(
        "the fileset '{fileset}' is at {}, outside of {}: change its path",
        path.shown(), dir.shown()
    )]
    Outside {
        /// Name of the fileset.
        fileset: String,
        /// Directory of the fileset.
        path: PathBuf,
        /// Directory that contains all files.
        dir: PathBuf,
    },
    /// The path of a fileset is a device.
    #[error(
        "{} is a device: only files of a file system are supported; use `gemelo bench` for devices",
        path.shown()
    )]
    Device {
        /// Path of the device.
        path: PathBuf,
    },
    /// A fileset is in a pool, or has one.
    #[error(transparent)]
    Pool(#[from] gemelo_disk::DiskError),
    /// A data source cannot be opened.
    #[error("cannot open the data source of the fileset '{fileset}'")]
    Source {
        /// Name of the fileset.
        fileset: String,
        /// Error of the data source.
        source: SourceError,
    },
    /// An operation on a file or directory failed.
    #[error("cannot {what} {}", path.shown())]
    Path {
        /// Operation that failed, as a verb.
        what: &'static str,
        /// File or directory it failed on.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// An operation of a flowop failed.
    #[error("{process}, {thread}: {flowop} cannot {what}")]
    Flowop {
        /// Name of the process.
        process: String,
        /// Name of the thread.
        thread: String,
        /// Name of the flowop.
        flowop: String,
        /// Operation that failed, beginning with a verb.
        what: String,
        /// Error of the operating system, if there is one.
        source: Option<std::io::Error>,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {}", gemelo_base::threads::REFUSED)]
    Thread(#[source] std::io::Error),
    /// A shell could not be started.
    #[error("cannot run '{command}'")]
    System {
        /// Shell command.
        command: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Classified for WorkloadError {
    fn kind(&self) -> FailureKind {
        match self {
            // These are found before any file is touched.
            Self::Pool(error) => error.kind(),
            Self::Exists { .. }
            | Self::Outside { .. }
            | Self::Device { .. }
            | Self::Source { .. } => FailureKind::BadInput,
            Self::Path { source, .. } | Self::Thread(source) | Self::System { source, .. } => {
                FailureKind::of_io(source)
            }
            Self::Flowop { source, .. } => {
                source.as_ref().map_or(FailureKind::Failed, FailureKind::of_io)
            }
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Exists { .. } => Some(Remedy::ReuseFileset),
            Self::Pool(error) => error.remedy(),
            _ => None,
        }
    }
}

impl WorkloadError {
    pub(super) fn path(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Path { what, path, source }
    }
}
