//! Failures of a campaign, and of the steps of one run.

use crate::plan::PlanError;
use gemelo_base::Classified;
use gemelo_base::ShowPath as _;
use gemelo_base::units::{format_duration_ns, format_size};
use gemelo_compare::SettingsError;
use gemelo_record::RecordError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// The reason why a campaign cannot begin or go on.
#[derive(Debug, Error, Classified)]
pub enum CampaignError {
    /// The plan is wrong.
    #[kind(source)]
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The record of the campaign cannot be read.
    #[kind(source)]
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An operation on a file failed.
    #[kind(source)]
    #[error("cannot {action} {}", path.shown())]
    Io {
        /// The attempted action, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The directory of a new campaign cannot be created.
    #[kind(source, untouched)]
    #[error("cannot create the directory of the campaign, {}", path.shown())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process runs or cleans the campaign.
    #[kind(InUse)]
    #[error("another process runs or cleans the campaign in {}: wait until it ends", .0.shown())]
    Locked(PathBuf),
    /// The directory already has a campaign.
    #[kind(BadInput)]
    #[error("{} already has a campaign: go on with --resume, or give another directory", .0.shown())]
    Exists(PathBuf),
    /// The directory has no campaign to go on with.
    #[kind(BadInput)]
    #[error("{} has no campaign: start one without --resume", .0.shown())]
    Absent(PathBuf),
    /// Something that the campaign did not make has the name of one of its files.
    #[kind(BadInput)]
    #[error(
        "{} exists already, and nothing proves that this campaign made it: move it away, or give \
         another directory",
        .0.shown()
    )]
    Taken(PathBuf),
    /// The campaign in the directory has another plan.
    #[kind(BadInput)]
    #[error(
        "the campaign in {} has another plan or other parameters: its own is plan.toml there; give \
         that, or another directory",
        .0.shown()
    )]
    OtherPlan(PathBuf),
    /// The journal cannot be understood.
    #[kind(Damaged)]
    #[error("line {line} of {} is not an entry of a journal of this version", path.shown())]
    Journal {
        /// Path of the journal.
        path: PathBuf,
        /// Number of the line.
        line: usize,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// Something that an earlier start has left cannot be given back.
    #[kind(Failed)]
    #[error("something of an earlier start is left: {0}: remove the cause and try again")]
    Leftover(String),
    /// There is less free space than a target needs.
    #[kind(Exhausted)]
    #[error(
        "{} has {} free, and the plan needs {} for one target at a time: make room, or set smaller \
         sizes",
        path.shown(),
        format_size(*free_bytes),
        format_size(*needed_bytes)
    )]
    NoRoom {
        /// The directory in which targets are made.
        path: PathBuf,
        /// Space that the largest target needs.
        needed_bytes: u64,
        /// Space that is free.
        free_bytes: u64,
    },
    /// A run found its disk full, as all further runs would.
    #[kind(Exhausted)]
    #[error("the campaign ends, because a disk is full: run {run}: {reason}")]
    Full {
        /// Name of the run.
        run: String,
        /// Reason for the failure of the run.
        reason: String,
    },
    /// The record of the campaign has an invalid level or margin.
    #[kind(source)]
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Every target is left out.
    #[kind(BadInput)]
    #[error("no run is left: {0}")]
    NothingToRun(String),
}

impl CampaignError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// The reason why a step of a run failed. Other runs go on.
#[derive(Debug, Error)]
pub(crate) enum StepError {
    /// The user asked the campaign to stop.
    #[error("the campaign was interrupted")]
    Interrupted,
    /// An operation on a file failed.
    #[error("cannot {action} {}", path.shown())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A program cannot be started.
    #[error("cannot start '{program}'")]
    Start { program: String, source: io::Error },
    /// A program ended with a status other than 0.
    #[error("'{program}' ended with {status}{}", said(output))]
    Program { program: String, status: String, output: String },
    /// A program took too long.
    #[error(
        "'{program}' was ended after {}, its time limit: raise 'time-limit'",
        format_duration_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX))
    )]
    TooLong { program: String, limit: Duration },
    /// A program has printed something else than was expected.
    #[error("'{program}' has printed no {expected}")]
    Unexpected { program: String, expected: &'static str },
    /// A result file has another layout.
    #[error("{} is not a result: {reason}", path.shown())]
    Result { path: PathBuf, reason: String },
    /// A resource could not be given back.
    #[error("cannot give back {what}: {reason}")]
    Undo { what: String, reason: String },
}

fn said(output: &str) -> String {
    if output.is_empty() { String::new() } else { format!(": {output}") }
}

impl StepError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Returns the error and its causes as one line.
    pub(crate) fn reason(&self) -> String {
        Self::chain(self)
    }

    /// Returns any error and its causes as one line.
    pub(crate) fn chain(error: &dyn std::error::Error) -> String {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
