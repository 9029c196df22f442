//! How a command ends: exit status and error text, decided in one place.

use gemelo_base::units::{format_line, format_lines};
use gemelo_base::{Classified, FailureKind};
use std::io::Write;
use std::process::ExitCode;

/// How a command ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All of it was done.
    Done,
    /// Part of it was done, and the output said what was not.
    Partial,
}

/// Turns a result into one whose error is bad input.
pub(crate) trait OrBadInput<T> {
    /// Marks the error, if there is one, as bad input.
    fn or_bad_input(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrBadInput<T> for Result<T, E> {
    fn or_bad_input(self) -> anyhow::Result<T> {
        self.map_err(|error| bad_input(error.into()))
    }
}

/// An error that is marked as bad input, with a message of its own.
pub(crate) fn bad_input(error: anyhow::Error) -> anyhow::Error {
    MarkedBad { error }.into()
}

/// Marks an error of a library as bad input if its kind says that nothing was touched.
pub(crate) fn by_kind<E: Classified + Send + Sync + 'static>(error: E) -> anyhow::Error {
    match error.kind() {
        FailureKind::BadInput | FailureKind::InUse => bad_input(error.into()),
        _ => error.into(),
    }
}

/// Marks an error as bad input: nothing was touched, exit status 2. What is not marked failed midway: status 1. The
/// mark has no line of its own in the message.
#[derive(Debug)]
struct MarkedBad {
    error: anyhow::Error,
}

impl std::fmt::Display for MarkedBad {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(formatter)
    }
}

impl std::error::Error for MarkedBad {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// What failed after there was a result: one output that cannot be written must not cost the others.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<anyhow::Error>,
}

impl Failures {
    /// Goes on, whatever came of it. A failure after the first is told at once.
    pub(crate) fn note(&mut self, outcome: anyhow::Result<()>, monitor: &dyn gemelo_base::Monitor) {
        match (outcome, &self.first) {
            (Ok(()), _) => (),
            (Err(error), None) => self.first = Some(error),
            (Err(error), Some(_)) => monitor.warn(&format!("{error:#}")),
        }
    }

    /// The first failure, or how the command ended without one.
    pub(crate) fn or(self, outcome: Outcome) -> anyhow::Result<Outcome> {
        self.first.map_or(Ok(outcome), Err)
    }
}

pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // Help and version go to standard output with status 0, errors to standard error with status 2.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

pub(crate) fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Partial => ExitCode::from(1),
    }
}

pub(crate) fn failed(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // The reader of our output has seen enough: `gemelo scan / | head`.
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(std::io::stderr(), "gemelo: {}", message(error));
    let bad_input = error.chain().any(<dyn std::error::Error>::is::<MarkedBad>);
    ExitCode::from(if bad_input { 2 } else { 1 })
}

/// Several things that are wrong, a line each.
#[derive(Debug)]
struct Lines(String);

impl std::fmt::Display for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Lines {}

/// An error of several things that are wrong, which are told a line each.
pub(crate) fn lines(wrong: &[String]) -> anyhow::Error {
    Lines(wrong.iter().map(|one| format_line(one)).collect::<Vec<_>>().join("\n")).into()
}

/// The error and its causes, safe to print: on one line, unless a cause has lines of its own.
fn message(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    if has_lines(error) { format_lines(&text) } else { format_line(&text) }
}

fn has_lines(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let marked =
            cause.downcast_ref::<MarkedBad>().is_some_and(|marked| has_lines(&marked.error));
        marked || cause.is::<Lines>() || cause.is::<toml::de::Error>()
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
