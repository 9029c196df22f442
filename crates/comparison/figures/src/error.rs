//! The reasons why a result file cannot be read.

use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_base::units::format_exact_size;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// The reason why figures cannot be read from a file.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum FiguresError {
    /// Reading the file failed.
    #[error("cannot read {}", path.shown())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is larger than any result.
    #[error(
        "{} is larger than {}, the limit for result files",
        path.shown(),
        format_exact_size(*max_bytes)
    )]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
        /// The largest permitted size in bytes.
        max_bytes: u64,
    },
    /// The text is not JSON, or its structure is not that of its schema.
    #[error("{} is not a result file: its layout is not that of {expected}", path.shown())]
    Layout {
        /// Path of the file.
        path: PathBuf,
        /// The layout that the file should have.
        expected: &'static str,
        /// Error of the parser, with its line and column.
        source: serde_json::Error,
    },
    /// The file is of `fio` 2 or 1.
    #[error(
        "{} is of {version}, which counts bytes and times in other units and under other names: \
         only results of fio 3 are read",
        path.shown()
    )]
    OldFio {
        /// Path of the file.
        path: PathBuf,
        /// Version that the file names.
        version: String,
    },
    /// The file has a schema without figures.
    #[error(
        "{} has schema '{found}', which has no figures to compare: give a result of bench, suite, \
         replay, filebench, scan, pool stat or fio",
        path.shown()
    )]
    Schema {
        /// Path of the file.
        path: PathBuf,
        /// Schema that the file names.
        found: String,
    },
}
