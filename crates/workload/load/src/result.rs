//! The result of a run. All of it can be stored as JSON. Histograms are stored as pairs, so that
//! results can be merged and read again later.

use crate::history::History;
use crate::measure::{IntervalPart, LatencyHistogram, LatencySummary, Phase, Usage};
use gemelo_target::{IoFailure, PoolStats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one run of a job.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RunResult {
    /// Reason why the run ended.
    pub ended: Ended,
    /// The first failure, if there was one. The figures then describe the part before it.
    pub failure: Option<OperationFailure>,
    /// Time from the first operation's start to the last one's end, without populating and
    /// verifying.
    pub elapsed_ns: u64,
    /// Length of the measured part: the elapsed time without ramp-up and cool-down.
    pub measured_ns: u64,
    /// Figures of all processes together.
    pub total: Measured,
    /// Figures of each process.
    pub processes: Vec<ProcessResult>,
    /// Figures of each interval, ramp-up and cool-down included.
    pub intervals: Vec<Interval>,
    /// Histograms of the intervals, for a host whose results are merged with those of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interval_parts: Vec<IntervalPart>,
    /// Amount written before the run.
    pub populated: Option<Populated>,
    /// Duplicates among the blocks written by populating and by the run.
    pub written: Option<WrittenDistribution>,
    /// Figures of the pool before and after the run; `None` if the target is not on a pool.
    #[serde(default)]
    pub stored: Option<Stored>,
    /// Result of verification, if the job asked for it.
    pub verification: Option<Verification>,
    /// Processor time of the run without populating and verifying, and peak memory since the run
    /// began.
    pub usage: Usage,
    /// Writes to the target's places, for `gemelo verify` and for jobs that continue with these
    /// places. `None` if they are unknown or the target holds no data.
    pub history: Option<History>,
    /// Reason why the requested log of operations is incomplete.
    #[serde(default)]
    pub log_failure: Option<String>,
    /// Advice computed from the figures.
    pub warnings: Vec<String>,
}

impl RunResult {
    /// Returns whether the run was complete, without failure, and every block that was checked was
    /// right.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let verified = self.verification.as_ref().is_none_or(Verification::is_success);
        let did_all =
            self.failure.is_none() && self.log_failure.is_none() && self.ended.is_complete();
        did_all && verified
    }
}

/// The figures of a pool before and after a run, and the prediction from the contents written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Stored {
    /// Figures of the pool before the target was populated.
    pub before: PoolStats,
    /// Stats after the run.
    pub after: PoolStats,
    /// Blocks that the target's places hold by the job's own count. `None` if their earlier content
    /// is unknown, there are too many blocks, or a job's block is not a multiple of the pool's.
    pub predicted: Option<PredictedBlocks>,
}

/// The blocks of a pool, predicted from the contents written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PredictedBlocks {
    /// Blocks that hold a content other than zeros.
    pub logical_blocks: u64,
    /// Distinct contents among the logical blocks.
    pub distinct_blocks: u64,
}

impl PredictedBlocks {
    /// Returns logical blocks divided by distinct ones, or 1 if there are none.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.distinct_blocks == 0 {
            1.0
        } else {
            self.logical_blocks as f64 / self.distinct_blocks as f64
        }
    }
}

/// The reason why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The time limit was reached.
    Time,
    /// All processes reached their byte limit.
    Bytes,
    /// The stop flag was raised.
    Stopped,
    /// An operation or a process failed.
    Failed,
}

impl Ended {
    /// Returns whether the run reached its own limit.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Time | Self::Bytes)
    }
}

/// The failure of an operation.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OperationFailure {
    /// Process whose operation failed.
    pub process: u32,
    /// File or device of that process.
    pub place: String,
    /// Operation that failed, such as read, write, sync or open.
    pub operation: String,
    /// Offset of the operation from the start of the file or device.
    pub offset_bytes: u64,
    /// Error message of the cause.
    pub reason: String,
}

impl OperationFailure {
    pub(crate) fn of_io(process: u32, failure: &IoFailure) -> Self {
        Self {
            process,
            place: failure.place.clone(),
            operation: failure.operation.to_string(),
            offset_bytes: failure.offset,
            reason: failure.source.to_string(),
        }
    }
}

impl std::fmt::Display for OperationFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, place, operation, offset_bytes, reason } = self;
        write!(
            formatter,
            "process {process}: cannot {operation} {place} at byte {offset_bytes}: {reason}"
        )
    }
}

/// The figures of one process, or of all of them together.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Measured {
    /// Figures of the reads; `None` if there were none.
    pub reads: Option<OperationStats>,
    /// Figures of the writes; `None` if there were none.
    pub writes: Option<OperationStats>,
    /// Times of `fdatasync`. The latency of the writes that waited for it includes them.
    pub syncs: Option<Timing>,
    /// Time spent drawing blocks, making contents and in the process's own bookkeeping.
    pub generating_ns: u64,
    /// Time spent checking data that was read.
    pub checking_ns: u64,
    /// Time spent generating as a share of the time of all processes, from 0 to 1.
    pub generating_share: f64,
    /// Operations of an open loop that started more than 100 µs after their due time.
    pub late_operations: u64,
    /// Operations of an open loop that were due by the end of the run and did not start.
    pub missed_operations: u64,
}

/// The figures of the reads or of the writes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct OperationStats {
    /// Operations that completed, without those of ramp-up and cool-down.
    pub operations: u64,
    /// Bytes of these operations.
    pub data_bytes: u64,
    /// Operations divided by the measured time, in operations a second.
    pub operations_per_s: f64,
    /// Bytes of these operations divided by the measured time, in bytes a second.
    pub bytes_per_s: f64,
    /// Latency. In an open loop it counts from the due time of an operation.
    pub latency: Timing,
    /// Time from the start of an operation; `None` in a closed loop, where it is the latency.
    pub service: Option<Timing>,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Timing {
    /// The figures that people read.
    pub summary: LatencySummary,
    /// The whole distribution, to three digits.
    pub histogram: LatencyHistogram,
}

impl Timing {
    pub(crate) fn of(histogram: LatencyHistogram) -> Option<Self> {
        Some(Self { summary: histogram.summary()?, histogram })
    }
}

/// The figures of one process.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ProcessResult {
    /// Number of the process, counted from 0.
    pub process: u32,
    /// File or device of the process.
    pub place: String,
    /// Time at which the process ended, since the run began.
    pub ended_ns: u64,
    /// Figures of the measured part.
    pub measured: Measured,
    /// Reads started in the whole run.
    pub reads: u64,
    /// Writes started in the whole run.
    pub writes: u64,
    /// Processor time of the process.
    pub usage: Usage,
}

/// The figures of one interval, of all processes together.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Interval {
    /// Start of the interval, since the run began.
    pub start_ns: u64,
    /// Length of the interval. The last one ends with the run.
    pub length_ns: u64,
    /// Phase of the run that contains the interval.
    pub phase: Phase,
    /// Reads; `None` if none completed.
    pub reads: Option<IntervalStats>,
    /// Writes; `None` if none completed.
    pub writes: Option<IntervalStats>,
}

/// The reads or the writes of one interval.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct IntervalStats {
    /// Operations that completed in the interval.
    pub operations: u64,
    /// Bytes of these operations divided by the length of the interval, in bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Median latency, to one part in a hundred.
    pub p50_ns: u64,
    /// Latency that 99 % of operations did not exceed, to one part in a hundred.
    pub p99_ns: u64,
    /// Longest latency, to one part in a hundred.
    pub max_ns: u64,
}

/// The amount written before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Populated {
    /// Bytes that all processes together wrote.
    pub data_bytes: u64,
    /// Time taken, including a sync at the end.
    pub elapsed_ns: u64,
}

/// The duplicates among the blocks written.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WrittenDistribution {
    /// Blocks that the run wrote, each time that one was written.
    pub blocks: u64,
    /// Blocks counted: all of them up to a limit, else the first ones of each process.
    pub counted_blocks: u64,
    /// Share of the shared contents that were counted. It is below 1 for a uniform sample of very
    /// many contents.
    pub sampled_share: f64,
    /// Counted blocks of zeros.
    pub zero_blocks: u64,
    /// Pairs of `[duplicates, contents]` of the contents that are not zeros.
    pub distribution: Vec<[u64; 2]>,
}

/// The result of checking blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct Verification {
    /// Blocks checked, during the run and after it.
    pub checked_blocks: u64,
    /// Blocks that were read and have no known expected content.
    pub unknown_blocks: u64,
    /// Blocks that differ from the expected content.
    pub wrong_blocks: u64,
    /// The first of the wrong blocks.
    pub mismatches: Vec<Mismatch>,
    /// `true` if every block to be checked was checked.
    pub is_complete: bool,
}

impl Verification {
    /// Returns whether every block to be checked was checked and right.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.wrong_blocks == 0 && self.is_complete
    }
}

/// A block that differs from its expected content.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Mismatch {
    /// Process that the place belongs to.
    pub process: u32,
    /// Path of the file or device, or name of the volume or export, as in the target.
    pub place: String,
    /// Offset of the block from the start of the process's place.
    pub offset_bytes: u64,
    /// Expected content: zeros, or the name of a content.
    pub expected: String,
    /// Content that the block holds instead.
    pub found: FoundContent,
}

/// The content of a wrong block.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundContent {
    /// The block is all zeros.
    Zeros,
    /// The block is exactly another content.
    Content {
        /// Name of that content.
        content: String,
        /// A block to which that content was written, if there is one. If it is this block, a later
        /// write was lost.
        written_to: Option<ProcessBlock>,
    },
    /// Some sectors hold the expected content, and others do not.
    Torn {
        /// Sectors of 512 bytes that hold the expected content.
        intact_sectors: usize,
        /// Sectors in the block.
        sectors: usize,
        /// Content of the other sectors, if they can be recognised.
        other: Option<String>,
    },
    /// The bytes are not a known content.
    Garbage {
        /// Offset of the first wrong byte in the block.
        first_difference: usize,
        /// Number of wrong bytes in the block.
        different_bytes: usize,
    },
}

/// A block in the place of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ProcessBlock {
    /// Process that the place belongs to.
    pub process: u32,
    /// Offset of the block from the start of the place.
    pub offset_bytes: u64,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, place, offset_bytes, expected, found } = self;
        write!(
            formatter,
            "process {process}, {place}, byte {offset_bytes}: expected {expected}, found "
        )?;
        match found {
            FoundContent::Zeros => write!(formatter, "zeros"),
            FoundContent::Content { content, written_to: None } => {
                write!(formatter, "{content}, written nowhere")
            }
            FoundContent::Content { content, written_to: Some(to) }
                if to.process == *process && to.offset_bytes == *offset_bytes =>
            {
                write!(formatter, "{content}, written here before: a later write is lost")
            }
            FoundContent::Content { content, written_to: Some(to) } => {
                write!(
                    formatter,
                    "{content}, written to byte {} of process {}",
                    to.offset_bytes, to.process
                )
            }
            FoundContent::Torn { intact_sectors, sectors, other } => {
                write!(
                    formatter,
                    "a torn block: {intact_sectors} of {sectors} sectors as expected"
                )?;
                other.as_ref().map_or(Ok(()), |other| write!(formatter, ", others of {other}"))
            }
            FoundContent::Garbage { first_difference, different_bytes } => {
                write!(
                    formatter,
                    "garbage: {different_bytes} bytes differ, the first at {first_difference}"
                )
            }
        }
    }
}
