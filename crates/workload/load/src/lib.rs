//! Generates load on storage: jobs, access patterns, pacing, execution, verification and
//! measurement.
//!
//! [`Job::new`] validates a [`JobSpec`]. [`run`] executes the [`Job`] with its [`Contents`] on a
//! [`Target`](gemelo_target::Target) and returns a [`RunResult`]. The result contains a
//! [`History`], from which [`verify`] can later compute the expected content of every block of the
//! target.
//!
//! This crate depends on no particular kind of storage and prints nothing. It reads time only
//! through a [`Clock`](gemelo_base::Clock).

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod barrier;
mod check;
mod contents;
mod drive;
mod environment;
mod generate;
mod history;
mod host_part;
mod job;
mod log;
mod measure;
mod merge;
mod open_end;
mod operations;
mod populate;
mod process;
mod result;
mod run;
mod stored;
mod summary;
mod verify;
mod written;

pub use barrier::{StartBarrier, Starter};
pub use contents::Contents;
pub use drive::{
    Cause, Completed, DriveContext, DriveTime, Driven, Flight, LATE_NS, OperationSource, drive,
};
pub use environment::Environment;
pub use generate::{GenerateError, Generated, Output, generate};
pub use history::{History, OpenEnd, OtherLayout, Segment, UncertainWrite};
pub use host_part::HostPart;
pub use job::{Job, JobError, JobOperation, JobSpec, Pace, Populate, SyncPolicy, Verify};
pub use log::{LogError, LogRecord, read_log};
pub use measure::{IntervalPart, Latencies, LatencyHistogram, LatencySummary, Phase, Usage};
pub use merge::{PartResult, merge};
pub use result::{
    Ended, FoundContent, Interval, IntervalStats, Measured, Mismatch, OperationFailure,
    OperationStats, Populated, PredictedBlocks, ProcessBlock, ProcessResult, RunResult, Stored,
    Timing, Verification, WrittenDistribution,
};
pub use run::{RunError, run};
pub use verify::verify;
