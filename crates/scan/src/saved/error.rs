//! Why a saved set cannot be written, read or merged.

use super::SET_FORMAT;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why a saved set cannot be written, read or merged.
#[derive(Debug, Error)]
pub enum SavedSetError {
    /// The file cannot be written.
    #[error("cannot write the fingerprint set")]
    Write(#[source] io::Error),
    /// The columns cannot be written.
    #[error("cannot write the fingerprint set")]
    WriteColumns(#[source] parquet::errors::ParquetError),
    /// A sample cannot be saved.
    #[error("an estimate has no fingerprint set to save: scan without it")]
    Estimate,
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no fingerprint set at all.
    #[error("{} is not a saved fingerprint set: {what}", path.display())]
    NotASet {
        /// The file.
        path: PathBuf,
        /// How that shows.
        what: &'static str,
    },
    /// A set, but not as it was written.
    #[error("{} is damaged: its checksum does not match; copy it again or scan again", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// Columns that cannot be read although the checksum matches.
    #[error("{} cannot be read as Parquet", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// Contents that no scan can have written.
    #[error("{} is not a valid set: {what}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A set of another version.
    #[error("{} has format '{found}', this program reads '{SET_FORMAT}'", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: String,
    },
    /// Sets that do not fit each other.
    #[error(
        "{} and {} cannot be merged: their {what} differ ({first_has} and {second_has})",
        first.display(),
        second.display()
    )]
    Differ {
        /// One set.
        first: PathBuf,
        /// Another set.
        second: PathBuf,
        /// What differs.
        what: &'static str,
        /// What the one has.
        first_has: String,
        /// What the other has.
        second_has: String,
    },
    /// No set, or more than can be open at once.
    #[error(
        "{found} sets were given, from 1 to {most} can be merged at once: merge in steps with --save"
    )]
    Count {
        /// How many were given.
        found: usize,
        /// How many can be merged.
        most: usize,
    },
    /// The merge was stopped.
    #[error("stopped; a merge has no figures before its end")]
    Stopped,
}
