//! The result of a run on several hosts: the merged result, and the file of each host.

use crate::ResultFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A result of several hosts. It is a result file of all of them together, with one more member, so
/// that commands that know nothing of hosts read it, too.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct HostsFile<Input, Measured> {
    /// The result of all hosts together, with the keys of a result of one host.
    #[serde(flatten)]
    pub file: ResultFile<Input, Measured>,
    /// The host with the lowest throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest_host: Option<String>,
    /// The hosts, in the order in which their processes are numbered; none if the result is of one
    /// host.
    #[serde(
        default = "Vec::<HostRecord<Input, Measured>>::new",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub hosts: Vec<HostRecord<Input, Measured>>,
}

impl<Input, Measured> From<ResultFile<Input, Measured>> for HostsFile<Input, Measured> {
    /// The result of one host alone.
    fn from(file: ResultFile<Input, Measured>) -> Self {
        Self { file, slowest_host: None, hosts: Vec::new() }
    }
}

/// The result of a host that has one.
#[derive(Debug)]
pub struct HostFile<'a, Input, Measured> {
    /// Name of the host.
    pub host: &'a str,
    /// Number of the host.
    pub index: u32,
    /// The result of this host alone.
    pub file: &'a ResultFile<Input, Measured>,
}

impl<Input, Measured> HostRecord<Input, Measured> {
    /// Returns the result of the host, if it has one.
    pub fn result(&self) -> Option<HostFile<'_, Input, Measured>> {
        let file = self.file.as_ref()?;
        Some(HostFile { host: &self.host, index: self.index, file })
    }
}

/// Returns the host with the lowest rate; [`None`] if there are fewer than two.
#[must_use]
pub fn slowest<'a, Input, Measured>(
    files: &[HostFile<'a, Input, Measured>],
    rate: impl Fn(&ResultFile<Input, Measured>) -> f64,
) -> Option<&'a str> {
    let slowest = files.iter().min_by(|one, other| rate(one.file).total_cmp(&rate(other.file)))?;
    (files.len() > 1).then_some(slowest.host)
}

/// One host of a run.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
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
