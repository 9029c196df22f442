//! Block I/O traces as streams of records.
//!
//! - [`Record`] is one operation of any format. [`RecordSource`] is a stream of them in bounded
//!   memory.
//! - [`TraceFormat`] lists the formats that can be read and written. [`Merged`] reads files as one
//!   trace
//!   in order of time.
//! - [`TraceWriter`] writes records in a format and counts what the format cannot represent
//!   ([`Loss`]).
//! - [`Statistics`] computes the figures that papers publish of traces.
//! - [`Synthesis`] makes a trace from a distribution, a pattern, a read share and an arrival
//!   process.
//!
//! This crate runs no load; `gemelo-replay` does.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod blocks;
mod error;
mod fields;
mod format;
mod input;
mod merge;
mod reader;
mod record;
mod stat;
mod synthesize;
mod trace_format;
mod window;
mod write;

pub use blocks::{BlockError, Blocks, TouchedBlock};
pub use error::{Malformed, TraceError};
pub use merge::{DeviceRule, Gap, Merged, ReadOptions};
pub use reader::Oddities;
pub use record::{ContentHash, Names, Record, RecordSource, TraceOperation};
pub use stat::{
    AccessProfile, Concentration, CopyCounting, DeviceStats, HotPlace, MemoryLimit, StatError,
    Statistics, Stats,
};
pub use synthesize::{
    Arrival, ArrivalError, DataAmount, Preset, Synthesis, SynthesisError, SynthesisSpec, presets,
};
pub use trace_format::TraceFormat;
pub use window::{Stretch, Window};
pub use write::{Loss, TraceWriter, WriteError};

pub use gemelo_pattern::Pattern;
