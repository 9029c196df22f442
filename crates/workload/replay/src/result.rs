//! The result of a replay.

use gemelo_load::{LatencyHistogram, LatencySummary, Stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measurements of a replay.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReplayResult {
    /// Records replayed. A record is several operations if it crosses from the part of one process
    /// to another's, or if its blocks are not consecutive on the target.
    pub records: u64,
    /// Time from the start to the last completion.
    pub duration_ns: u64,
    /// Figures of the reads.
    pub reads: ReplayStats,
    /// Figures of the writes.
    pub writes: ReplayStats,
    /// The reads and writes of each second, by their completion, up to a day.
    pub seconds: Vec<ReplaySecond>,
    /// Flushes of the trace. Each is executed by all processes.
    pub flushes: u64,
    /// Trims. A trim that crosses from the part of one process to another's counts several times.
    pub trims: u64,
    /// Blocks written before the start.
    pub populated_blocks: u64,
    /// Time taken to populate the target.
    pub populate_ns: u64,
    /// Time spent making contents, summed over all processes.
    pub generating_ns: u64,
    /// Late starts of operations; `None` at unlimited speed.
    pub lateness: Option<Lateness>,
    /// Figures of the pool, and its blocks predicted from the contents of the trace; `None` if the
    /// target is not on a pool.
    pub stored: Option<Stored>,
    /// Result of checking reads.
    pub verification: ReplayVerification,
    /// `true` if every record was replayed.
    pub is_complete: bool,
    /// Failure of an operation, if there was one.
    pub failure: Option<String>,
}

/// The figures of the reads or of the writes.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ReplayStats {
    /// Operations that completed. A record can be several of them.
    pub operations: u64,
    /// Bytes of these operations.
    pub data_bytes: u64,
    /// Time from the start of an operation to its end.
    pub service_ns: LatencyHistogram,
    /// Time from the due time of an operation to its end. At unlimited speed it is the service
    /// time.
    pub response_ns: LatencyHistogram,
    /// Figures of the response time.
    pub response_summary: Option<LatencySummary>,
}

/// The operations that completed in one second of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ReplaySecond {
    /// Start of the second, since the start of the replay.
    pub start_ns: u64,
    /// Length of the second. The last one ends with the replay.
    pub length_ns: u64,
    /// The reads.
    pub reads: SecondStats,
    /// The writes.
    pub writes: SecondStats,
}

/// The reads or the writes of one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct SecondStats {
    /// Operations that completed.
    pub operations: u64,
    /// Bytes of these operations.
    pub data_bytes: u64,
    /// Sum of their response times.
    pub response_sum_ns: u64,
}

/// The late starts of operations.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Lateness {
    /// Operations that started more than [`Self::late_after_ns`] after their due time.
    pub late: u64,
    /// Delay from which an operation counts as late.
    pub late_after_ns: u64,
    /// Delays of the late operations.
    pub by_ns: LatencyHistogram,
    /// Figures of these delays; none if no operation was late.
    pub summary: Option<LatencySummary>,
}

/// The result of checking reads.
#[derive(Debug, Clone, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ReplayVerification {
    /// Blocks that were read and compared with the content that the trace left there.
    pub checked: u64,
    /// Blocks that differ from the expected content.
    pub wrong: u64,
    /// Blocks read whose hash in the trace differs from the content that the trace wrote. The
    /// written content was expected.
    pub contradictions: u64,
    /// The first of the wrong blocks.
    pub mismatches: Vec<ReplayMismatch>,
}

/// A block that differs from its expected content.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReplayMismatch {
    /// Number of the block on the target.
    pub block: u64,
    /// Description of the content that the trace left in the block.
    pub expected: String,
    /// Description of the content found.
    pub found: String,
}
