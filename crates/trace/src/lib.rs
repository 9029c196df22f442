//! Block I/O traces as streams of records.
//!
//! - [`Record`]: one operation, in any format; [`RecordSource`]: a stream of them, in bounded memory.
//! - [`Format`]: the formats that are read and written; [`Merged`]: files read as one trace, in order of time.
//! - [`TraceWriter`]: records into a file of a format, with an account of what it cannot carry ([`Loss`]).
//! - [`Statistics`]: what the papers' tables say of a trace.
//! - [`Synthesis`]: a trace made from a distribution, a pattern, a read share and an arrival process.
//!
//! Nothing here runs load; that is for `gemelo-replay`.

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
mod window;
mod write;

pub use blocks::{BlockError, Blocks, TouchedBlock};
pub use error::{Malformed, TraceError};
pub use format::{Format, fuzz};
pub use merge::{DeviceRule, Merged, ReadOptions};
pub use record::{ContentHash, Names, Operation, Record, RecordSource};
pub use stat::{
    AccessProfile, Concentration, Counting, DeviceFigures, Figures, HotPlace, MemoryLimit,
    StatError, Statistics,
};
pub use synthesize::{
    Arrival, ArrivalError, Preset, Synthesis, SynthesisError, SynthesisSpec, Volume, presets,
};
pub use window::{Stretch, Window};
pub use write::{Loss, TraceWriter, WriteError};
