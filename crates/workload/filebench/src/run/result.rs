//! The measurements of a run in the form of the result file.

use super::cells::Stats;
use super::seconds::RunSecond;
use crate::flowop::{Direction, Kind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of one flowop over all threads.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FlowopResult {
    /// Name of the flowop.
    pub name: String,
    /// `true` if the summary counts the flowop.
    pub is_io: bool,
    /// `true` if the flowop reads.
    pub reads: bool,
    /// `true` if the flowop writes.
    pub writes: bool,
    /// Number of operations that were completed in the interval.
    pub operations: u64,
    /// Operations a second in the interval.
    pub operations_per_s: f64,
    /// Bytes that these operations read and wrote.
    pub data_bytes: u64,
    /// Bytes a second in the interval.
    pub data_bytes_per_s: f64,
    /// Mean latency in nanoseconds.
    pub mean_latency_ns: f64,
    /// Least latency in nanoseconds.
    pub min_latency_ns: u64,
    /// Largest latency in nanoseconds.
    pub max_latency_ns: u64,
    /// Sum of all latencies in nanoseconds.
    pub total_latency_ns: u64,
    /// Time spent making data in nanoseconds. The latencies do not include it.
    pub generation_ns: u64,
    /// Numbers of operations by latency. Number n counts latencies from 2^(n-1) to below 2^n
    /// nanoseconds.
    pub latency_histogram: Vec<u64>,
}

impl FlowopResult {
    pub(super) fn new(name: &str, kind: Kind, figures: &Stats, elapsed_ns: u64) -> Self {
        let per_s = |count: u64| count as f64 / (elapsed_ns.max(1) as f64 / 1e9);
        let any = figures.count > 0;
        Self {
            name: name.to_owned(),
            is_io: kind.is_io(),
            reads: kind.direction() == Direction::Read,
            writes: kind.direction() == Direction::Write,
            operations: figures.count,
            operations_per_s: per_s(figures.count),
            data_bytes: figures.bytes,
            data_bytes_per_s: per_s(figures.bytes),
            mean_latency_ns: if any { figures.total_ns as f64 / figures.count as f64 } else { 0.0 },
            min_latency_ns: if any && figures.min_ns != u64::MAX { figures.min_ns } else { 0 },
            max_latency_ns: if any { figures.max_ns } else { 0 },
            total_latency_ns: figures.total_ns,
            generation_ns: figures.generate_ns,
            latency_histogram: figures.histogram.to_vec(),
        }
    }
}

/// The figures of an interval.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WorkloadInterval {
    /// Length of the interval in seconds.
    pub elapsed_s: f64,
    /// Number of threads of all processes together.
    pub threads: u64,
    /// Operations of flowops that work on files.
    pub operations: u64,
    /// Operations on files a second.
    pub operations_per_s: f64,
    /// Operations that read, a second.
    pub reads_per_s: f64,
    /// Operations that write, a second.
    pub writes_per_s: f64,
    /// Bytes that these operations read and wrote.
    pub data_bytes: u64,
    /// The same bytes divided by the length of the interval, in bytes a second.
    pub data_bytes_per_s: f64,
    /// Mean latency of operations on files in nanoseconds.
    pub mean_latency_ns: f64,
    /// Time that all threads together spent in operations on files, in nanoseconds.
    pub io_ns: u64,
    /// Time that all threads together spent making data, in nanoseconds.
    pub generation_ns: u64,
    /// Bytes a second of I/O time, which is the time that a thread spent, on average, in operations
    /// on files.
    pub data_bytes_per_io_s: f64,
    /// Figures of every flowop, in the order of the script.
    pub flowops: Vec<FlowopResult>,
}

impl WorkloadInterval {
    pub(super) fn new(flowops: Vec<FlowopResult>, elapsed_ns: u64, threads: u64) -> Self {
        let elapsed_s = elapsed_ns.max(1) as f64 / 1e9;
        let io = || flowops.iter().filter(|flowop| flowop.is_io);
        let operations: u64 = io().map(|flowop| flowop.operations).sum();
        let data_bytes: u64 = io().map(|flowop| flowop.data_bytes).sum();
        let io_ns: u64 = io().map(|flowop| flowop.total_latency_ns).sum();
        let count = |chosen: fn(&FlowopResult) -> bool| -> u64 {
            io().filter(|flowop| chosen(flowop)).map(|flowop| flowop.operations).sum()
        };
        // Threads work in parallel, so the I/O time is the mean over all threads.
        let io_s = io_ns as f64 / 1e9 / threads.max(1) as f64;
        Self {
            elapsed_s,
            threads,
            operations,
            operations_per_s: operations as f64 / elapsed_s,
            reads_per_s: count(|flowop| flowop.reads) as f64 / elapsed_s,
            writes_per_s: count(|flowop| flowop.writes) as f64 / elapsed_s,
            data_bytes,
            data_bytes_per_s: data_bytes as f64 / elapsed_s,
            mean_latency_ns: if operations > 0 { io_ns as f64 / operations as f64 } else { 0.0 },
            io_ns,
            generation_ns: flowops.iter().map(|flowop| flowop.generation_ns).sum(),
            data_bytes_per_io_s: if io_s > 0.0 { data_bytes as f64 / io_s } else { 0.0 },
            flowops,
        }
    }
}

/// A fileset as it was created.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct FilesetResult {
    /// Name of the fileset.
    pub name: String,
    /// Directory of the fileset.
    pub path: String,
    /// Number of files that can exist.
    pub entries: u64,
    /// Number of files at the start of the run.
    pub files_made: u64,
    /// Bytes of all files that can exist.
    pub planned_bytes: u64,
    /// Bytes written to create files.
    pub written_bytes: u64,
    /// Time spent making these data in nanoseconds.
    pub generation_ns: u64,
    /// Data source and its attributes, if the fileset has one.
    pub source: Option<String>,
}

/// The result of one `run`.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WorkloadResult {
    /// Filesets of the run.
    pub filesets: Vec<FilesetResult>,
    /// All statistics that the script requested. The last one is from the end of the run.
    pub intervals: Vec<WorkloadInterval>,
    /// The operations of each second of `run` and `psrun`, up to a day.
    pub seconds: Vec<RunSecond>,
    /// Reason why the run ended before its time, if it did.
    pub ended_early: Option<String>,
    /// `true` if the run measured everything that was requested.
    pub complete: bool,
    /// Growth of the bytes that the file system stores, since before the files were created, if it
    /// was requested. Writes of other programs count, too.
    pub stored_bytes: Option<i64>,
}
