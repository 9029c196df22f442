//! Translates DEDISbench command lines and configurations into the options of a job.
//!
//! The module `ini` reads configuration files, `parse` interprets flags and keys, and `translate`
//! makes options of `gemelo bench` of them.

mod error;
mod ini;
mod parse;
mod translate;

pub use error::DedisbenchError;
pub use parse::DedisbenchJob;
pub use translate::Surroundings;

use std::path::Path;

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
