//! The parts of a run that the caller decides: targets, time, progress, interruption and outputs.

use gemelo_base::{Classified, Clock, FailureKind, Monitor, StartLine, StopFlag};
use gemelo_load::Environment;
use gemelo_target::Targets;
use std::io::Write;
use std::path::Path;
use thiserror::Error;

/// The error of an output, as the caller told it, who writes the outputs.
#[derive(Debug, Error)]
#[error("{text}")]
pub struct OutputError {
    /// The error and its causes.
    pub text: String,
    /// The kind of the error.
    pub kind: FailureKind,
}

impl Classified for OutputError {
    fn kind(&self) -> FailureKind {
        self.kind
    }
}

/// A file that a job writes in addition to its result, such as a log of operations. A file that is
/// dropped before [`OutputFile::finish`] is incomplete, and the caller may remove it.
pub trait OutputFile: Write + Send {
    /// Completes the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), OutputError>;
}

/// Creates the files that jobs write in addition to their results. The caller decides how a file
/// appears, and how an existing file is treated.
pub trait OutputFiles {
    /// Creates a file. An existing file is replaced only with `force`.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    fn create(&self, path: &Path, force: bool) -> Result<Box<dyn OutputFile>, OutputError>;
}

/// The parts of a run that the caller decides.
#[derive(Clone, Copy)]
pub struct JobEnvironment<'a> {
    /// The kinds of storage that jobs can run against.
    pub targets: &'a Targets,
    /// Clock for all times of a run.
    pub clock: &'a dyn Clock,
    /// Monitor that receives progress and warnings.
    pub monitor: &'a dyn Monitor,
    /// Flag that ends a run early when raised.
    pub stop: &'a StopFlag,
    /// Holds a run back until it starts.
    pub start: &'a dyn StartLine,
    /// Creates the files that jobs write in addition to their results.
    pub outputs: &'a dyn OutputFiles,
}

impl<'a> JobEnvironment<'a> {
    pub(crate) const fn of_load(&self) -> Environment<'a> {
        Environment { clock: self.clock, monitor: self.monitor, stop: self.stop, start: self.start }
    }
}
