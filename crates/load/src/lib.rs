//! Load on storage: jobs, access patterns, pacing, execution, verification, measurement.
//!
//! A [`JobSpec`] is checked into a [`Job`]; with its [`Contents`] and a [`Target`](gemelo_target::Target) it is
//! [`run`], which gives a [`RunResult`]. The result holds a [`History`], from which [`verify`] can tell later what every
//! block of the target should hold.
//!
//! This crate knows of no kind of storage, prints nothing, and reads time through a
//! [`Clock`](gemelo_base::Clock) only.

mod check;
mod contents;
mod generate;
mod history;
mod job;
mod log;
mod measure;
mod operations;
mod pattern;
mod populate;
mod process;
mod result;
mod run;
mod stored;
mod summary;
mod verify;
mod written;

pub use contents::Contents;
pub use generate::{GenerateError, Generated, Output, generate};
pub use history::{History, OtherLayout, Segment, UncertainWrite};
pub use job::{Job, JobError, JobOperation, JobSpec, Pace, Populate, SyncPolicy, Verify};
pub use log::{LogError, LogRecord, read_log};
pub use measure::{Latencies, LatencyHistogram, LatencySummary, Phase, Usage};
pub use pattern::{Pattern, PatternError, Positions};
pub use result::{
    Ended, Failure, Found, Interval, IntervalFigures, Measured, Mismatch, OperationFigures, Place,
    Populated, PredictedBlocks, ProcessResult, RunResult, Stored, Timing, Verification,
    WrittenDistribution,
};
pub use run::{Environment, RunError, run};
pub use verify::verify;
