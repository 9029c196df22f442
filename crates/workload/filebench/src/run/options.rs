//! Settings of a run besides the script, and the receiver of its text.

use crate::sources::SourceSpec;
use std::path::PathBuf;

/// Receives the lines that the original program prints.
pub trait Console: Send + Sync {
    /// Receives one or several lines.
    fn line(&self, text: &str);
}

/// Settings of a run besides the script.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Directory that contains all filesets.
    pub dir: Option<PathBuf>,
    /// Seed of shapes, sizes, offsets and contents.
    pub seed: u64,
    /// Number that separates the unique contents of different runs.
    pub run_id: u64,
    /// `true` if existing trees are removed.
    pub force: bool,
    /// `true` if trees that the run created are kept.
    pub keep: bool,
    /// Seconds of every run, in place of the script's.
    pub run_s: Option<f64>,
    /// Data source of filesets that have none.
    pub source: Option<SourceSpec>,
    /// `true` if the bytes that the file system stores are measured, which requires it to write
    /// everything back.
    pub measure_stored: bool,
    /// Attribute and value that are set on every data source with this attribute.
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
