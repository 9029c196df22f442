//! The failure of a command: its text, its kind and its remedy, all taken from the error where that
//! becomes a failure.
//!
//! Only an error with a kind ([`Classified`]) becomes a failure by `?`, so an error of a library
//! without a kind does not build here.

use gemelo_base::units::{format_line, format_lines};
use gemelo_base::{Classified, FailureKind, Remedy, with_causes};
use gemelo_job::OutputError;
use std::error::Error;
use std::fmt::{self, Display};
use std::io;

/// The failure of a command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error and its causes, without control characters. One line, unless the error lists
    /// several faults.
    text: String,
    kind: FailureKind,
    remedy: Option<Remedy>,
    is_broken_pipe: bool,
}

/// The result of most functions of this crate.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// Makes a failure of a command that had begun its work.
    pub(crate) fn failed(text: impl Display) -> Self {
        Self::new(FailureKind::Failed, text)
    }

    /// Makes a failure that was found before anything was touched.
    pub(crate) fn refused(text: impl Display) -> Self {
        Self::new(FailureKind::BadInput, text)
    }

    /// Makes a failure of this kind with a text of one line.
    pub(crate) fn new(kind: FailureKind, text: impl Display) -> Self {
        let text = format_line(&text.to_string());
        Self { text, kind, remedy: None, is_broken_pipe: false }
    }

    /// Makes a failure with the kind and the remedy given, and the text of an error.
    fn of(error: &(dyn Error + 'static), kind: FailureKind, remedy: Option<Remedy>) -> Self {
        let mut calls = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
        let is_broken_pipe = calls.any(|call| call.kind() == io::ErrorKind::BrokenPipe);
        // The parser shows the line with the fault, and a mark below it.
        let has_lines = causes(error).any(<dyn Error>::is::<toml::de::Error>);
        let text = with_causes(error);
        let text = if has_lines { format_lines(&text) } else { format_line(&text) };
        Self { text, kind, remedy, is_broken_pipe }
    }

    /// Makes a failure that lists several faults, one on each line.
    pub(crate) fn lines(wrong: &[String]) -> Self {
        let lines: Vec<_> = wrong.iter().map(|one| format_line(one)).collect();
        Self { text: lines.join("\n"), ..Self::failed("") }
    }

    /// Puts what was attempted before the text.
    pub(crate) fn context(self, attempted: impl Display) -> Self {
        let text = format!("{}: {}", format_line(&attempted.to_string()), self.text);
        Self { text, ..self }
    }

    /// Returns the failure, found before anything was touched. A plain failure then counts as bad
    /// input.
    pub(crate) fn untouched(self) -> Self {
        Self { kind: self.kind.untouched(), ..self }
    }

    /// Returns the failure, found after work had begun. It then does not count as bad input.
    pub(crate) fn midway(self) -> Self {
        Self { kind: self.kind.midway(), ..self }
    }

    pub(crate) const fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns whether the reader of the output closed it early, as in `gemelo scan / | head`.
    pub(super) const fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }

    /// Returns the text, and the options that help, if there are any.
    pub(crate) fn message(&self) -> String {
        match &self.remedy {
            Some(remedy) => format!("{}: {}", self.text, super::advice::text(remedy)),
            None => self.text.clone(),
        }
    }
}

/// Returns the error and those below it, from the outside in.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl<E: Classified + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::of(&error, error.kind(), error.remedy())
    }
}

impl From<Failure> for OutputError {
    fn from(failure: Failure) -> Self {
        Self { text: failure.message(), kind: failure.kind }
    }
}

/// Makes a [`Failure`] of a command that had begun its work from a text with placeholders.
macro_rules! failed {
    ($($text:tt)*) => { $crate::exit::Failure::failed(format_args!($($text)*)) };
}

/// Makes a [`Failure`] that was found before anything was touched from a text with placeholders.
macro_rules! refused {
    ($($text:tt)*) => { $crate::exit::Failure::refused(format_args!($($text)*)) };
}

pub(crate) use {failed, refused};

/// Turns errors into failures that say what was attempted.
pub(crate) trait OrFailure<T>: Sized {
    /// Turns the error into a failure.
    fn or_failure(self) -> Result<T>;

    /// Says what was attempted.
    fn context(self, attempted: impl Display) -> Result<T> {
        self.with_context(|| attempted)
    }

    /// Says what was attempted, with a text that is only made for a failure.
    fn with_context<D: Display>(self, attempted: impl FnOnce() -> D) -> Result<T> {
        self.or_failure().map_err(|failure| failure.context(attempted()))
    }

    /// Marks the error, if there is one, as found before anything was touched.
    fn or_bad_input(self) -> Result<T> {
        self.or_failure().map_err(Failure::untouched)
    }
}

impl<T, E: Into<Failure>> OrFailure<T> for Result<T, E> {
    fn or_failure(self) -> Result<T> {
        self.map_err(Into::into)
    }
}

/// Turns errors that have no kind, of foreign libraries, into plain failures.
pub(crate) trait OrFailed<T> {
    /// Makes a failure of a command that had begun its work.
    fn or_failed(self) -> Result<T>;
}

impl<T, E: Error + 'static> OrFailed<T> for Result<T, E> {
    fn or_failed(self) -> Result<T> {
        self.map_err(|error| Failure::of(&error, FailureKind::Failed, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_volume::VolumeError;

    fn in_use() -> VolumeError {
        VolumeError::InUse { holder: "process 1".to_owned() }
    }

    #[test]
    fn a_failure_has_the_kind_of_its_error_through_contexts_and_marks() {
        let kind = |failure: Failure| failure.kind();
        assert_eq!(kind(in_use().into()), FailureKind::InUse);
        assert_eq!(kind(Failure::from(in_use()).context("pool")), FailureKind::InUse);
        assert_eq!(kind(Failure::from(in_use()).untouched().context("pool")), FailureKind::InUse);
        assert_eq!(kind(failed!("text")), FailureKind::Failed);
        assert_eq!(kind(failed!("text").untouched()), FailureKind::BadInput);
        assert_eq!(kind(refused!("text").context("pool")), FailureKind::BadInput);
        assert_eq!(kind(Failure::from(VolumeError::ReadOnly).midway()), FailureKind::Failed);
    }

    #[test]
    fn a_full_disk_is_exhausted_whatever_was_written() {
        let full: io::Result<()> = Err(io::ErrorKind::StorageFull.into());
        let failure = full.context("cannot write result.json").unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Exhausted);
    }

    #[test]
    fn a_failure_has_its_causes_and_the_advice_on_one_line() {
        let error =
            gemelo_disk::DiskError::HoldsData { path: "/dev/x".into(), what: "data".to_owned() };
        assert_eq!(
            Failure::from(error).context("po\nol").message(),
            "po\\nol: '/dev/x' holds data: name another device, or use --force to overwrite it"
        );
        let lines = Failure::lines(&["one\n".to_owned(), "two".to_owned()]).context("plan");
        assert_eq!(lines.message(), "plan: one\\n\ntwo");
    }

    #[test]
    fn a_reader_that_went_away_is_seen_below_other_errors() {
        let closed: io::Result<()> = Err(io::ErrorKind::BrokenPipe.into());
        assert!(closed.context("cannot write").unwrap_err().is_broken_pipe());
        assert!(!failed!("cannot write").is_broken_pipe());
    }
}
