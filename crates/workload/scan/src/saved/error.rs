//! The errors of saved sets.

use super::SET_FORMAT;
use gemelo_base::ShowPath as _;
use gemelo_base::{Classified, FailureKind};
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why a saved set cannot be written, read or merged.
#[derive(Debug, Error)]
pub enum SavedSetError {
    /// Writing the file failed.
    #[error("cannot write the fingerprint set")]
    Write(#[source] io::Error),
    /// Writing the columns failed.
    #[error("cannot write the fingerprint set")]
    WriteColumns(#[source] parquet::errors::ParquetError),
    /// An estimate cannot be saved.
    #[error("an estimate keeps no fingerprint set that could be saved: use exact counting")]
    Estimate,
    /// Reading the file failed.
    #[error("cannot read {}", path.shown())]
    Read {
        /// The path of the set.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not a fingerprint set.
    #[error("{} is not a saved fingerprint set: {what}", path.shown())]
    NotASet {
        /// The path of the file.
        path: PathBuf,
        /// The reason, in words.
        what: &'static str,
    },
    /// The file is a fingerprint set, but it was damaged after it was written.
    #[error(
        "{} is damaged: its checksum does not match; copy it again or scan again",
        path.shown()
    )]
    Checksum {
        /// The path of the set.
        path: PathBuf,
    },
    /// The columns cannot be read, although the checksum matches.
    #[error("cannot read the columns of {}", path.shown())]
    Columns {
        /// The path of the set.
        path: PathBuf,
        /// The error of the Parquet reader.
        source: parquet::errors::ParquetError,
    },
    /// The set holds values that no scan writes.
    #[error("{} is not a valid fingerprint set: {what}", path.shown())]
    Invalid {
        /// The path of the set.
        path: PathBuf,
        /// The fault, in words.
        what: &'static str,
    },
    /// The set has another format version.
    #[error(
        "{} has format '{found}', but this version of gemelo reads '{SET_FORMAT}'",
        path.shown()
    )]
    Version {
        /// The path of the set.
        path: PathBuf,
        /// The format that the set names.
        found: String,
    },
    /// Two sets were made with different options.
    #[error(
        "{} and {} cannot be merged: their {what} differ ({first_has} and {second_has})",
        first.shown(),
        second.shown()
    )]
    Differ {
        /// The path of the first set.
        first: PathBuf,
        /// The path of the set that differs from it.
        second: PathBuf,
        /// The option that differs, in the plural.
        what: &'static str,
        /// The option's value in the first set.
        first_has: String,
        /// The option's value in the second set.
        second_has: String,
    },
    /// The number of sets is 0 or above the limit.
    #[error(
        "{found} sets were given; give from 1 to {most}, and merge more of them in several steps"
    )]
    Count {
        /// The number of sets.
        found: usize,
        /// The most sets that can be merged at once.
        most: usize,
    },
    /// The merge was stopped.
    #[error("the merge was stopped; a merge has figures only when it is complete")]
    Stopped,
}

impl Classified for SavedSetError {
    fn kind(&self) -> FailureKind {
        match self {
            Self::Write(source) => FailureKind::of_io(source),
            Self::WriteColumns(source) => of_columns(source),
            Self::Stopped => FailureKind::Failed,
            Self::Checksum { .. } => FailureKind::Damaged,
            Self::Estimate
            | Self::Read { .. }
            | Self::NotASet { .. }
            | Self::Columns { .. }
            | Self::Invalid { .. }
            | Self::Version { .. }
            | Self::Differ { .. }
            | Self::Count { .. } => FailureKind::BadInput,
        }
    }
}

/// Returns the kind of a failure to write columns: that of the system call below it, if one failed.
fn of_columns(error: &(dyn std::error::Error + 'static)) -> FailureKind {
    let mut causes = std::iter::successors(Some(error), |error| error.source());
    let below = causes.find_map(|cause| cause.downcast_ref::<io::Error>());
    below.map_or(FailureKind::Failed, FailureKind::of_io)
}
