//! Translates DEDISbench command lines and configurations into the options of a job.
//!
//! The module `ini` reads configuration files, `parse` interprets flags and keys, and `translate`
//! makes options of `gemelo bench` of them.

mod ini;
mod parse;
mod translate;

pub use parse::DedisbenchJob;

use gemelo_base::{Classified, FailureKind};
use std::path::Path;
use thiserror::Error;

/// A fault of a DEDISbench command line or configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DedisbenchError {
    /// A word of the command line is wrong.
    #[error("{flag}: {message}")]
    Flag {
        /// The flag as the user gave it.
        flag: String,
        /// The fault.
        message: String,
    },
    /// A line of the configuration is wrong.
    #[error("line {line}: {message}")]
    Line {
        /// Number of the line, counted from 1.
        line: usize,
        /// The fault.
        message: String,
    },
    /// The command line lacks something that DEDISbench requires.
    #[error("the DEDISbench command line lacks {what}")]
    Missing {
        /// The missing flags.
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

impl Classified for DedisbenchError {
    fn kind(&self) -> FailureKind {
        FailureKind::BadInput
    }
}

impl DedisbenchJob {
    /// Reads the words after the name of the program.
    ///
    /// # Errors
    /// Fails with the first wrong word.
    pub fn of_words<Word: AsRef<str>>(words: &[Word]) -> Result<Self, DedisbenchError> {
        parse::command_line(words)
    }

    /// Returns the path of the configuration file that the command line names.
    #[must_use]
    pub fn configuration(&self) -> Option<&Path> {
        self.configuration.as_deref().map(Path::new)
    }

    /// Adds the text of a configuration file. Flags of the command line take precedence.
    ///
    /// # Errors
    /// Fails with the first wrong line.
    pub fn with_configuration(self, text: &str) -> Result<Self, DedisbenchError> {
        self.with_entries(&ini::parse(text)?)
    }
}
