//! Runs a program: creates files, starts threads, measures, and removes the files.

mod aio;
mod cells;
mod data;
mod engine;
mod error;
mod execute;
mod files;
mod fileset;
mod flowop_state;
mod handles;
mod layout;
mod live;
mod memory;
mod merge;
mod options;
mod pool;
mod populate;
mod result;
mod seconds;
mod shared;
mod signals;
mod text;
mod thread_signals;
mod waits;
mod worker;

pub use cells::HISTOGRAM_BUCKETS;
pub use error::WorkloadError;
pub use execute::{Outcome, execute};
pub use merge::{WorkloadPart, merge};
pub use options::{Console, Options};
pub use result::{FilesetResult, FlowopResult, WorkloadInterval, WorkloadResult};
pub use seconds::RunSecond;
