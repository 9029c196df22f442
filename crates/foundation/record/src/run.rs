//! One run of a campaign: its outcome, its figures, and the files of raw results.

use crate::Stats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema name of a [`RunRecord`].
pub const RUN_SCHEMA: &str = "gemelo.run/1";

/// The record of one run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name and version of the layout.
    pub schema: String,
    /// Name of the run, and of its directory.
    pub id: String,
    /// Name of the target.
    pub target: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Time at which the run began, in UTC, as RFC 3339.
    pub started_at: String,
    /// Length of the whole run, including making and removing the target.
    pub elapsed_ns: u64,
    /// The way in which the run ended.
    pub outcome: Outcome,
    /// The phases of the run, in order of time.
    #[serde(default)]
    pub phases: Vec<PhaseRecord>,
    /// The figures of the measured phase.
    pub figures: Stats,
    /// Resources used over time, by the system and by the processes of the target.
    #[serde(default)]
    pub monitor: Stats,
    /// Space used by the target before the load, after it, and after off-line deduplication.
    #[serde(default)]
    pub space: BTreeMap<String, Space>,
    /// Files of raw results, relative to the directory of the run.
    #[serde(default)]
    pub files: Vec<String>,
    /// Warnings of the workload and of the campaign.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// The run was complete.
    Done,
    /// The run failed. Its figures describe the part before the failure.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
    /// The campaign was interrupted during this run. A resumed campaign repeats it.
    Interrupted,
}

/// A part of a run.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PhaseRecord {
    /// Name of the phase, such as `prepare`, `run`, `idle` or `measure`.
    pub name: String,
    /// Start, in nanoseconds since the start of the run.
    pub start_ns: u64,
    /// Length of the phase.
    pub length_ns: u64,
}

/// The space that a target uses, by its own means of measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Space {
    /// Bytes used for data, or for everything if the target does not tell metadata apart.
    pub data_bytes: u64,
    /// Bytes used for metadata, if the target tells them apart.
    #[serde(default)]
    pub metadata_bytes: Option<u64>,
    /// Bytes that users have stored, if the target knows them.
    #[serde(default)]
    pub logical_bytes: Option<u64>,
}
