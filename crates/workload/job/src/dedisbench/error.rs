//! The faults of DEDISbench command lines and configurations.

use gemelo_base::Classified;
use thiserror::Error;

/// A fault of a DEDISbench command line or configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
pub enum DedisbenchError {
    /// A word of the command line is wrong.
    #[error("{flag}: {message}")]
    Flag {
        /// The flag as the user gave it.
        flag: String,
        /// The description of the fault.
        message: String,
    },
    /// A line of the configuration is wrong.
    #[error("line {line}: {message}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// The description of the fault.
        message: String,
    },
    /// The command line lacks something that DEDISbench requires.
    #[error("the DEDISbench command line lacks {what}")]
    Missing {
        /// The flags that are missing.
        what: &'static str,
    },
    /// Only DEDISbench has the distribution.
    #[error(
        "gemelo does not have the distribution {name}: give the path of its file, such as \
         distfile=./{name}"
    )]
    UnknownDistribution {
        /// Name of the distribution.
        name: &'static str,
    },
}
