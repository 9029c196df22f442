//! The hosts of a run on several hosts, each with its figures, and the slowest of them.

use crate::parts::name_parts;
use gemelo_record::{Better, HostRecord, ResultFile, Stats};

/// The figures by which hosts are compared: one of them for each job.
const THROUGHPUTS: [&str; 3] =
    ["all/bytes_per_s", "filebench/operations_per_s", "scan/bytes_per_s"];

/// One host of a result file.
#[derive(Debug, Clone, PartialEq)]
pub struct HostResult {
    /// Name of the host, as the user gave it.
    pub host: String,
    /// Number of the host, counted from 0.
    pub index: u32,
    /// The quickest round trip to the host.
    pub round_trip_ns: u64,
    /// The time after the common start at which each run started there.
    pub start_delays_ns: Vec<u64>,
    /// Reason why the host has no complete result.
    pub failure: Option<String>,
    /// The figures of the host alone; `None` if it has no result.
    pub figures: Option<Stats>,
}

/// The slowest of several hosts in one job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowest<'a> {
    /// The host.
    pub host: &'a HostResult,
    /// Its throughput.
    pub per_s: f64,
    /// The same as a share of the mean of all hosts.
    pub share: f64,
}

impl HostResult {
    /// Returns a host with the figures of its result.
    pub(crate) fn new<Input, Measured>(
        record: &HostRecord<Input, Measured>,
        figures: impl Fn(&ResultFile<Input, Measured>) -> Stats,
    ) -> Self {
        Self {
            host: record.host.clone(),
            index: record.index,
            round_trip_ns: record.round_trip_ns,
            start_delays_ns: record.start_delays_ns.clone(),
            failure: record.failure.clone(),
            figures: record.file.as_ref().map(figures),
        }
    }
}

/// Returns the name of the figure by which hosts are compared in each job.
#[must_use]
pub fn throughputs(figures: &Stats) -> Vec<&str> {
    let names = figures.figures.iter().map(|figure| figure.name.as_str());
    names.filter(|name| THROUGHPUTS.contains(&name_parts(name).bare)).collect()
}

/// Returns the host with the lowest throughput by this figure; `None` if fewer than two have it.
#[must_use]
pub fn slowest_host<'a>(hosts: &'a [HostResult], throughput: &str) -> Option<Slowest<'a>> {
    let rate = |host: &'a HostResult| Some((host, host.figures.as_ref()?.value(throughput)?));
    let rates: Vec<(&HostResult, f64)> = hosts.iter().filter_map(rate).collect();
    if rates.len() < 2 {
        return None;
    }
    let mean = rates.iter().map(|(_, per_s)| per_s).sum::<f64>() / rates.len() as f64;
    let (host, per_s) = rates.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(Slowest { host, per_s, share: per_s / mean })
}

/// Adds the throughput of the slowest host in each job, as a share of the mean of all.
pub(crate) fn add_slowest(figures: &mut Stats, hosts: &[HostResult]) {
    let shares: Vec<(String, f64)> = throughputs(figures)
        .into_iter()
        .filter_map(|name| {
            let job = name_parts(name).job.map(|job| format!("{job}.")).unwrap_or_default();
            Some((format!("{job}hosts/slowest_share"), slowest_host(hosts, name)?.share))
        })
        .collect();
    for (name, share) in shares {
        figures.push(name, share, Better::Higher);
    }
}
