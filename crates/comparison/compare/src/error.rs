//! The reasons why two sides cannot be compared.

use crate::MAX_FILES;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_figures::FiguresError;
use gemelo_record::RecordError;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why two sides cannot be compared.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum CompareError {
    /// A result file cannot be read.
    #[error(transparent)]
    File(#[from] FiguresError),
    /// A campaign cannot be read.
    #[error(transparent)]
    Campaign(#[from] RecordError),
    /// A directory is given together with other files.
    #[error(
        "{} is a directory: give one campaign alone, or several result files",
        path.shown()
    )]
    DirectoryAmongFiles {
        /// Path of the directory.
        path: PathBuf,
    },
    /// The number of files of a side is zero or too large.
    #[error("a side has {count} result files: give 1 to {MAX_FILES}")]
    Count {
        /// Number of files.
        count: usize,
    },
    /// One side is a campaign, and the other is not.
    #[error(
        "a campaign cannot be compared with single results: give the result files in the runs of \
         the campaign, or two campaigns"
    )]
    Mixed,
    /// Sides that were measured in rounds have other numbers of repetitions.
    #[error(
        "the sides have {before} and {after} repetitions: sides that were measured in rounds have one of each \
         round, in the same order"
    )]
    OtherRounds {
        /// Number of repetitions before.
        before: usize,
        /// Number of repetitions after.
        after: usize,
    },
    /// The sides have no figure in common.
    #[error(
        "the two sides have no selected figure in common: give results of the same kind, or other \
         names of figures"
    )]
    NothingInCommon,
}
