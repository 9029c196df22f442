//! Jobs: job file → resolved job → run → result.
//!
//! The options of a job are one definition, [`JobOptions`], for the command line and for job files:
//! each key of a [`job_file`] goes through the parser of the command line. [`bench`] resolves
//! options into jobs that are checked before anything is touched, and runs them. [`suite`],
//! [`replay`], [`filebench`], [`dedisbench`] and [`verify`] do the same for their kinds of jobs.
//! Each result has a schema name and can be read back.
//!
//! The caller gives a [`JobEnvironment`]: the known targets, a clock, a monitor, a stop flag, and
//! the way to write further outputs. This crate prints nothing, and writes no result file.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod bench;
pub mod contents;
pub mod dedisbench;
pub mod distributions;
mod engine;
mod environment;
pub mod filebench;
mod fleet;
pub mod job_file;
pub mod nearest;
mod options;
mod ran;
pub mod replay;
pub mod small;
pub mod suite;
mod sweep;
mod templates;
mod trace_input;
pub mod verify;

pub use environment::{JobEnvironment, OutputError, OutputFile, OutputFiles};
pub use fleet::{FleetFile, FleetJob, HostFile, Merged};
pub use options::{
    ContentChoice, ContentOptions, EngineChoice, JobOptions, LoadOptions, OperationChoice,
    PopulateChoice, SyncChoice, VerifyChoice,
};
pub use ran::Ran;
pub use sweep::Sweep;
pub use templates::target_of;
pub use trace_input::{ReadTrace, TraceInput};
