//! The end of a command: the only place that decides the exit status and the error text.
//!
//! `docs/reference/exit-status.md` lists the statuses for users.

mod advice;
mod kind;
mod loss;

pub(crate) use kind::{OrBadInput, bad_input, midway};
pub(crate) use loss::end_at_loss;

use gemelo_base::FailureKind;
use gemelo_base::units::{format_line, format_lines};
use kind::{find, kind_of};
use std::io::Write;
use std::process::ExitCode;

/// The end of a command that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The command did all of its work.
    Done,
    /// The command did a part of its work, and its output names that part.
    Partial,
    /// The command did its work, and found stored data damaged.
    FoundDamage,
    /// The comparison was complete, and a figure became slower by the limit of the user or more.
    FoundSlower,
    /// The comparison was complete, and the measurements do not tell whether a figure became slower
    /// by the limit of the user or more.
    Undecided,
}

/// The exit status of a command that did all of its work.
const DONE: u8 = 0;

/// The exit status of a comparison that found a figure slower than permitted. It differs from the
/// statuses of failures, so that a script can tell a slower program from a missing file.
const SLOWER: u8 = 6;

/// The exit status of a comparison whose measurements do not answer the question of the user. A
/// script can repeat the measurement, and never counts it as a pass.
const UNDECIDED: u8 = 8;

/// Returns the exit status for a kind of failure.
const fn status(kind: FailureKind) -> u8 {
    match kind {
        FailureKind::Failed => 1,
        FailureKind::BadInput => 2,
        FailureKind::InUse => 3,
        FailureKind::Damaged => 4,
        FailureKind::Exhausted => 5,
        // 6 and 8 are statuses of a comparison.
        FailureKind::Displaced => 7,
        // EX_SOFTWARE of sysexits.h: "an internal software error has been detected".
        FailureKind::Bug => 70,
    }
}

/// Returns the exit status of the program for the end of a command. Prints the error of a command
/// that failed.
pub(crate) fn exit_code(ended: &anyhow::Result<Outcome>) -> ExitCode {
    ExitCode::from(match ended {
        Ok(Outcome::Done) => DONE,
        Ok(Outcome::Partial) => status(FailureKind::Failed),
        Ok(Outcome::FoundDamage) => status(FailureKind::Damaged),
        Ok(Outcome::FoundSlower) => SLOWER,
        Ok(Outcome::Undecided) => UNDECIDED,
        // The reader of the output closed it early, as in `gemelo scan / | head`.
        Err(error) if is_broken_pipe(error) => DONE,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "gemelo: {}", message(error));
            status(kind_of(error))
        }
    })
}

/// Prints the message of the argument parser. Returns status 0 for help and version, and the status
/// of bad input for errors.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { status(FailureKind::BadInput) } else { DONE })
}

/// Failures that occur after the result exists. If one output cannot be written, the others still
/// are.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<anyhow::Error>,
}

impl Failures {
    /// Remembers the first failure, and reports a later one at once.
    pub(crate) fn note(&mut self, outcome: anyhow::Result<()>, monitor: &dyn gemelo_base::Monitor) {
        match (outcome, &self.first) {
            (Ok(()), _) => (),
            (Err(error), None) => self.first = Some(error),
            (Err(error), Some(_)) => monitor.warn(&message(&error)),
        }
    }

    /// Returns the first failure. Without a failure, returns the outcome.
    pub(crate) fn or(self, outcome: Outcome) -> anyhow::Result<Outcome> {
        self.first.map_or(Ok(outcome), Err)
    }
}

/// Several faults, one on each line.
#[derive(Debug)]
struct Lines(String);

impl std::fmt::Display for Lines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Lines {}

/// Makes an error that lists several faults, one on each line.
pub(crate) fn lines(wrong: &[String]) -> anyhow::Error {
    Lines(wrong.iter().map(|one| format_line(one)).collect::<Vec<_>>().join("\n")).into()
}

/// Returns the error, its causes and the advice on it as text without control characters. The text
/// is one line, unless a cause has several lines of its own.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut text = format!("{error:#}");
    if let Some(advice) = find(error, &advice::advice) {
        text += ": ";
        text += &advice;
    }
    if has_lines(error) { format_lines(&text) } else { format_line(&text) }
}

/// Returns the kind of a failure.
pub(crate) fn kind(error: &anyhow::Error) -> FailureKind {
    kind_of(error)
}

fn has_lines(error: &anyhow::Error) -> bool {
    let has_lines = |cause: &(dyn std::error::Error + 'static)| {
        (cause.is::<Lines>() || cause.is::<toml::de::Error>()).then_some(())
    };
    find(error, &has_lines).is_some()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_broken_pipe = |cause: &(dyn std::error::Error + 'static)| {
        let error = cause.downcast_ref::<std::io::Error>()?;
        (error.kind() == std::io::ErrorKind::BrokenPipe).then_some(())
    };
    find(error, &is_broken_pipe).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::FailureKind;
    use std::collections::HashSet;

    #[test]
    fn every_kind_of_failure_has_a_status_of_its_own_that_the_document_lists() {
        let document = include_str!("../../../../../docs/reference/exit-status.md");
        let statuses: HashSet<u8> = FailureKind::ALL.into_iter().map(status).collect();
        assert_eq!(statuses.len(), FailureKind::ALL.len());
        assert!(!statuses.contains(&SLOWER) && !statuses.contains(&UNDECIDED));
        for status in statuses.into_iter().chain([DONE, SLOWER, UNDECIDED]) {
            assert!(document.contains(&format!("\n| {status} |")), "status {status}");
        }
    }

    #[test]
    fn an_error_has_its_causes_and_the_advice_on_one_line() {
        let error =
            gemelo_disk::DiskError::HoldsData { path: "/dev/x".into(), what: "data".to_owned() };
        let error = anyhow::Error::from(error).context("pool");
        assert_eq!(
            message(&bad_input(error)),
            "pool: '/dev/x' holds data: name another device, or use --force to overwrite it"
        );
    }
}
