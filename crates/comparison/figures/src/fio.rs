//! Figures of the JSON output of `fio` 3 (`--output-format=json` or `json+`).
//!
//! Latencies are those from the submission of an operation to its completion, as those of `bench`.
//! `fio` gives percentiles of them only with `lat_percentiles=1`; without it, the percentiles are
//! those of the completion latency, which leaves out the time of the submission.

use crate::prefix::{Prefixes, append};
use crate::timing;
use gemelo_load::LatencyHistogram;
use gemelo_record::{Better, Stats};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The output of one call of `fio`.
#[derive(Deserialize)]
pub(crate) struct FioView {
    /// The key that no other file has. It is read so that other files are refused.
    #[serde(rename = "fio version")]
    version: String,
    /// The jobs; with `--client`, those of all clients and their sums.
    #[serde(alias = "client_stats")]
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i64,
    #[serde(default)]
    read: Direction,
    #[serde(default)]
    write: Direction,
    #[serde(default)]
    trim: Direction,
    /// All operations together, which `fio` has instead with `unified_rw_reporting=mixed`.
    #[serde(default)]
    mixed: Direction,
    #[serde(default)]
    sync: Sync,
    #[serde(default)]
    job_runtime: u64,
    #[serde(default)]
    usr_cpu: f64,
    #[serde(default)]
    sys_cpu: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Direction {
    total_ios: u64,
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
    lat_ns: Latency,
    clat_ns: Latency,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sync {
    total_ios: u64,
    lat_ns: Latency,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Latency {
    max: f64,
    mean: f64,
    /// Latencies by percentage, which `fio` writes with six decimals.
    percentile: BTreeMap<String, f64>,
    /// Numbers of operations by latency; `json+` alone has them.
    bins: BTreeMap<String, u64>,
}

/// The percentiles that become figures, as `fio` writes them, with the words of their names.
const PERCENTILES: [(&str, &str); 5] = [
    ("50.000000", "p50"),
    ("90.000000", "p90"),
    ("99.000000", "p99"),
    ("99.900000", "p99.9"),
    ("99.990000", "p99.99"),
];

impl FioView {
    /// Returns the version if it is older than 3: that `fio` counts bytes in KiB and latencies in
    /// microseconds, under other names.
    pub(crate) fn too_old(&self) -> Option<&str> {
        let number = self.version.strip_prefix("fio-")?.split(['.', '-']).next()?;
        number.parse::<u32>().is_ok_and(|number| number < 3).then_some(self.version.as_str())
    }

    /// Returns the figures. With several jobs, each name has the name of its job in front.
    pub(crate) fn figures(&self) -> Stats {
        let mut figures = Stats::default();
        let mut prefixes = Prefixes::default();
        for job in &self.jobs {
            let prefix = (self.jobs.len() > 1).then(|| prefixes.unique(&job.jobname));
            append(&mut figures, prefix.as_deref(), job.figures());
        }
        figures
    }

    /// Returns a sentence for each job that failed.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let failed = self.jobs.iter().filter(|job| job.error != 0);
        failed
            .map(|job| format!("job {} of fio failed with error {}", job.jobname, job.error))
            .collect()
    }
}

impl Job {
    fn figures(&self) -> Stats {
        let mut figures = Stats::default();
        let (mut operations_per_s, mut bytes_per_s) = (0.0, 0.0);
        let apart = [("write", &self.write), ("read", &self.read), ("trim", &self.trim)];
        let is_mixed = apart.iter().all(|(_, direction)| direction.total_ios == 0);
        let mixed = is_mixed.then_some(("mixed", &self.mixed));
        for (name, direction) in apart.into_iter().chain(mixed) {
            if direction.total_ios > 0 {
                operations_per_s += direction.iops;
                bytes_per_s += direction.bw_bytes;
                direction.add_to(&mut figures, name);
            }
        }
        figures.push("all/operations_per_s", operations_per_s, Better::Higher);
        figures.push("all/bytes_per_s", bytes_per_s, Better::Higher);
        if self.sync.total_ios > 0 {
            latency(&mut figures, "sync/latency", &self.sync.lat_ns, &self.sync.lat_ns);
        }
        figures.push("run/elapsed_ns", self.job_runtime as f64 * 1e6, Better::Neither);
        let cpu_share = (self.usr_cpu + self.sys_cpu) / 100.0;
        figures.push("usage/cpu_share", cpu_share, Better::Lower);
        figures
    }
}

impl Direction {
    fn add_to(&self, figures: &mut Stats, name: &str) {
        figures.push(format!("{name}/operations_per_s"), self.iops, Better::Higher);
        figures.push(format!("{name}/bytes_per_s"), self.bw_bytes, Better::Higher);
        figures.push(format!("{name}/operations"), self.total_ios as f64, Better::Neither);
        figures.push(format!("{name}/data_bytes"), self.io_bytes as f64, Better::Neither);
        let has_percentiles = !self.lat_ns.percentile.is_empty();
        let percentiles = if has_percentiles { &self.lat_ns } else { &self.clat_ns };
        latency(figures, &format!("{name}/latency"), &self.lat_ns, percentiles);
    }
}

fn latency(figures: &mut Stats, name: &str, all: &Latency, percentiles: &Latency) {
    figures.push(format!("{name}_mean_ns"), all.mean, Better::Lower);
    for (key, word) in PERCENTILES {
        if let Some(latency_ns) = percentiles.percentile.get(key) {
            figures.push(format!("{name}_{word}_ns"), *latency_ns, Better::Lower);
        }
    }
    figures.push(format!("{name}_max_ns"), all.max, Better::Lower);
    let pair = |(latency_ns, count): (&String, &u64)| Some([latency_ns.parse().ok()?, *count]);
    let mut counts: Vec<[u64; 2]> = percentiles.bins.iter().filter_map(pair).collect();
    counts.sort_unstable();
    timing::curve(figures, name, &LatencyHistogram { sum_ns: 0, counts });
}
