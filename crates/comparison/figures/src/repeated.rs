//! Repetitions of a benchmark in one file.

use gemelo_job::bench::JobInput;
use gemelo_record::ResultFile;
use gemelo_record::{Better, Figure, Stats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name of a [`RepeatedFile`].
pub const REPEATED_SCHEMA: &str = "gemelo.bench-repetitions/1";

/// The repetitions of jobs, as a file keeps them.
pub type RepeatedFile = ResultFile<Vec<JobInput>, Repeated>;

/// Repetitions of the same jobs.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Repeated {
    /// Runs before the first repetition that do not count.
    pub warm_up_runs: u32,
    /// The repetitions, in order of time.
    pub repetitions: Vec<RepeatedRun>,
    /// The main figures over all repetitions.
    pub summary: Vec<FigureSummary>,
}

/// One repetition.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RepeatedRun {
    /// Number of the repetition, from 1.
    pub number: u32,
    /// `true` if all jobs were complete and right.
    pub is_complete: bool,
    /// The figures of all jobs.
    pub figures: Stats,
}

/// One figure over all repetitions.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FigureSummary {
    /// Name of the figure.
    pub name: String,
    /// The direction in which the figure improves.
    pub better: Better,
    /// Median of the repetitions.
    pub median: f64,
    /// Geometric mean; the arithmetic mean if a value is not positive.
    pub mean: f64,
    /// Both ends of the 95 % interval of the mean, if there is one.
    pub interval: Option<[f64; 2]>,
    /// Lowest value.
    pub lowest: f64,
    /// Highest value.
    pub highest: f64,
}

impl Repeated {
    /// Returns the figures of each complete repetition.
    pub fn complete(&self) -> impl Iterator<Item = &Stats> {
        self.repetitions.iter().filter(|run| run.is_complete).map(|run| &run.figures)
    }

    /// Returns the median of each figure of the summary.
    #[must_use]
    pub fn medians(&self) -> Stats {
        let of = |one: &FigureSummary| Figure {
            name: one.name.clone(),
            value: one.median,
            better: one.better,
        };
        Stats { figures: self.summary.iter().map(of).collect(), ..Stats::default() }
    }
}
