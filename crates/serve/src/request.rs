//! What can be asked of an open pool, by this process or through the control socket: one list for both.

use crate::report::StatReport;
use gemelo_format::DedupMode;
use gemelo_volume::{FinderReport, GcReport, LiveCheck};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// The pool in numbers.
    Stat,
    /// A new volume.
    CreateVolume {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size_bytes: u64,
        /// Whether it looks for duplicates.
        mode: DedupMode,
    },
    /// A volume is to go.
    RemoveVolume {
        /// Which.
        name: String,
        /// Also if it holds something, or a client is connected.
        force: bool,
    },
    /// Another name for a volume.
    RenameVolume {
        /// Which.
        name: String,
        /// The new name.
        new_name: String,
    },
    /// Another size for a volume.
    ResizeVolume {
        /// Which.
        name: String,
        /// The new size in bytes.
        size_bytes: u64,
        /// Also if it becomes smaller.
        force: bool,
    },
    /// A volume that is what another is now: read-only for ever, or the beginning of something new.
    CopyVolume {
        /// Of which.
        name: String,
        /// The copy's name.
        new_name: String,
        /// Whether it takes no writes.
        read_only: bool,
    },
    /// When a volume's further writes are deduplicated, if at all.
    SetMode {
        /// Of which.
        name: String,
        /// To what.
        mode: DedupMode,
    },
    /// Runs the collector.
    Collect {
        /// Within this rate.
        most_bytes_per_s: Option<u64>,
    },
    /// Runs the finder over all that off-line volumes have.
    Find,
    /// Counts references again; with `data`, compares contents with their fingerprints.
    Check {
        /// Whether contents are read.
        data: bool,
    },
    /// Makes the data store larger.
    Grow {
        /// Its new size in bytes.
        capacity_bytes: u64,
    },
    /// The connection is to be one to the NBD server, which exports all volumes on it.
    Attach,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is done.
    Done,
    /// To [`Request::Stat`].
    Stat(Box<StatReport>),
    /// To [`Request::Collect`].
    Collected(GcReport),
    /// To [`Request::Find`].
    Found(FinderReport),
    /// To [`Request::Check`].
    Checked(CheckedReport),
}

/// What a check of an open pool found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedReport {
    /// What is counted wrong, in words.
    pub differences: Vec<String>,
    /// Of the contents, if they were read.
    pub contents: Option<LiveCheck>,
}

impl CheckedReport {
    /// Whether all is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
            && self.contents.as_ref().is_none_or(|found| found.problems.is_empty())
    }
}
