//! The part of a job that one of several hosts runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The part of a job that one of several hosts runs. Each host runs the same number of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct HostPart {
    /// Number of the host, counted from 0.
    pub index: u32,
    /// `true` if all hosts run on one target, and `false` if each has a target of its own.
    pub shares_target: bool,
}
