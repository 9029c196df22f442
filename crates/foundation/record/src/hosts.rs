//! The result of a run on several hosts: the merged result, and the file of each host.

use crate::ResultFile;
use serde::{Deserialize, Serialize};

/// A result of several hosts. It is a result file of all of them together, with one more member, so
/// that commands that know nothing of hosts read it, too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostsFile<Input, Measured> {
    /// The merged result.
    #[serde(flatten)]
    pub file: ResultFile<Input, Measured>,
    /// The host with the lowest throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_host: Option<String>,
    /// The hosts, in the order in which their processes are numbered.
    #[serde(default = "Vec::new")]
    pub hosts: Vec<HostRecord<Input, Measured>>,
}

/// One host of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRecord<Input, Measured> {
    /// Name of the host, as the user gave it.
    pub host: String,
    /// Number of the host, counted from 0.
    pub index: u32,
    /// The quickest round trip. Half of it bounds the errors of the offset and of the start.
    pub round_trip_ns: u64,
    /// The date of the host minus that of the coordinator.
    pub date_offset_ns: i64,
    /// The time after the common start at which each run started there.
    pub start_delays_ns: Vec<u64>,
    /// Reason why the host has no complete result.
    pub failure: Option<String>,
    /// The result of the host alone; `None` if it was lost.
    pub file: Option<ResultFile<Input, Measured>>,
}
