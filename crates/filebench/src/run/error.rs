//! Why a run is refused or ends early.

use crate::sources::SourceError;
use std::path::PathBuf;
use thiserror::Error;

/// Why a run is refused or failed.
#[derive(Debug, Error)]
pub enum RunError {
    /// A fileset's tree is there already, and the script does not say to use it.
    #[error(
        "{} exists: say 'reuse' in the script to use it, or force its removal", path.display()
    )]
    Exists {
        /// The tree.
        path: PathBuf,
    },
    /// A fileset would lie outside of the folder that everything has to stay in.
    #[error("the fileset '{fileset}' lies at {}, outside of {}", path.display(), dir.display())]
    Outside {
        /// The fileset.
        fileset: String,
        /// Where it would lie.
        path: PathBuf,
        /// Where everything has to stay.
        dir: PathBuf,
    },
    /// A device where a folder should be.
    #[error("{} is a device: only files of a file system are supported, use `gemelo bench` for devices", path.display())]
    Device {
        /// The device.
        path: PathBuf,
    },
    /// A data source cannot be had.
    #[error("data source of '{fileset}'")]
    Source {
        /// The fileset.
        fileset: String,
        /// Why.
        source: SourceError,
    },
    /// An operation on a file or folder failed.
    #[error("cannot {what} {}", path.display())]
    Path {
        /// What was tried.
        what: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A flowop failed.
    #[error("{process}, {thread}: {flowop} cannot {what}")]
    Flowop {
        /// The process.
        process: String,
        /// The thread.
        thread: String,
        /// The flowop.
        flowop: String,
        /// What it tried.
        what: String,
        /// Why, where the system says so.
        source: Option<std::io::Error>,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    /// A shell cannot be started.
    #[error("cannot run '{command}'")]
    System {
        /// The command.
        command: String,
        /// Why.
        source: std::io::Error,
    },
}

impl RunError {
    /// Whether it was found before anything was touched.
    #[must_use]
    pub const fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Exists { .. } | Self::Outside { .. } | Self::Device { .. } | Self::Source { .. }
        )
    }

    pub(super) fn path(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Path { what, path, source }
    }
}
