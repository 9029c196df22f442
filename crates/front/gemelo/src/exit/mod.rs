//! The end of a command: the only place that decides the exit status and the error text.
//!
//! `docs/reference/exit-status.md` lists the statuses for users.

mod advice;
mod failure;
mod loss;

pub(crate) use failure::{Failure, OrFailed, OrFailure, Result, failed, refused};
pub(crate) use loss::end_at_loss;

use gemelo_base::FailureKind;
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
    /// The command did its work, and found a pool that is full soon.
    FullSoon,
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

/// The statuses with their meanings, for the manual pages.
pub(crate) const STATUSES: [(u8, &str); 10] = [
    (DONE, "The command did all that was asked."),
    (1, "The command failed, was interrupted, or did a part of the work and said which."),
    (2, "Bad input: an argument, an option, a file or a name is wrong. Nothing was touched."),
    (3, "Another process has the pool, the device, the file or the address."),
    (4, "Stored data are damaged."),
    (5, "No space, memory or other limited resource is left, or not for long."),
    (SLOWER, "A comparison found a figure that is slower than permitted."),
    (7, "The process may not act for a member of a domain any more."),
    (UNDECIDED, "A comparison cannot tell whether a figure is slower than permitted."),
    (70, "The program contradicts itself: report it."),
];

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

/// Returns the kind of failure for the exit status of another process of this program. That of a
/// program in between, such as a shell for other hosts, is a plain failure.
pub(crate) fn kind_of(code: Option<i32>) -> FailureKind {
    let kind = FailureKind::ALL.into_iter().find(|kind| Some(i32::from(status(*kind))) == code);
    kind.unwrap_or(FailureKind::Failed)
}

/// Returns the exit status of the program for the end of a command. Prints the error of a command
/// that failed.
pub(crate) fn exit_code(ended: &Result<Outcome>) -> ExitCode {
    ExitCode::from(match ended {
        Ok(Outcome::Done) => DONE,
        Ok(Outcome::Partial) => status(FailureKind::Failed),
        Ok(Outcome::FoundDamage) => status(FailureKind::Damaged),
        Ok(Outcome::FullSoon) => status(FailureKind::Exhausted),
        Ok(Outcome::FoundSlower) => SLOWER,
        Ok(Outcome::Undecided) => UNDECIDED,
        Err(failure) if failure.is_broken_pipe() => DONE,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "gemelo: {}", failure.message());
            status(failure.kind())
        }
    })
}

/// Failures that occur after the result exists. If one output cannot be written, the others still
/// are.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    first: Option<Failure>,
}

impl Failures {
    /// Remembers the first failure, and reports a later one at once.
    pub(crate) fn note(&mut self, outcome: Result<()>, monitor: &dyn gemelo_base::Monitor) {
        match (outcome, &self.first) {
            (Ok(()), _) => (),
            (Err(error), None) => self.first = Some(error),
            (Err(error), Some(_)) => monitor.warn(&error.message()),
        }
    }

    /// Notes the failures of a run, and leaves none there.
    pub(crate) fn note_all(
        &mut self,
        failures: &mut Vec<impl Into<Failure>>,
        monitor: &dyn gemelo_base::Monitor,
    ) {
        failures.drain(..).for_each(|failure| self.note(Err(failure.into()), monitor));
    }

    /// Returns the first failure. Without a failure, returns the outcome.
    pub(crate) fn or(self, outcome: Outcome) -> Result<Outcome> {
        self.first.map_or(Ok(outcome), Err)
    }
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
}
