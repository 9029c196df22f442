//! Runs a program: makes files, starts threads, measures, cleans up.

mod aio;
mod cells;
mod data;
mod engine;
mod error;
mod execute;
mod files;
mod fileset;
mod layout;
mod pool;
mod populate;
mod result;
mod shared;
mod signals;
mod text;
mod waits;
mod worker;

pub use cells::HISTOGRAM_BUCKETS;
pub use error::RunError;
pub use execute::{Outcome, execute};
pub use result::{FilesetResult, FlowopResult, Interval, RunResult};

use crate::sources::SourceSpec;
use std::path::PathBuf;

/// Where lines go that the original would print.
pub trait Console: Send + Sync {
    /// A line, or several.
    fn line(&self, text: &str);
}

/// What decides a run besides the script.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Everything has to lie below this folder.
    pub dir: Option<PathBuf>,
    /// Decides shapes, sizes, places and contents.
    pub seed: u64,
    /// Tells unique contents of runs apart.
    pub run_id: u64,
    /// Existing trees are removed.
    pub force: bool,
    /// Trees that the run made stay.
    pub keep: bool,
    /// Seconds of every run, whatever the script says.
    pub run_s: Option<f64>,
    /// The data source of filesets that have none.
    pub source: Option<SourceSpec>,
    /// Whether to find out what the file system stores; it has to write everything back for that.
    pub measure_stored: bool,
    /// An attribute that is set on every data source that has it.
    pub source_attribute: Option<(String, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            dir: None,
            seed: 1,
            run_id: 0,
            force: false,
            keep: false,
            run_s: None,
            source: None,
            measure_stored: false,
            source_attribute: None,
        }
    }
}
