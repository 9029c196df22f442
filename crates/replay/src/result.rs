//! What a replay measured.

use gemelo_load::{LatencyHistogram, LatencySummary, Stored};
use serde::{Deserialize, Serialize};

/// What a replay measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayResult {
    /// Records replayed; one that crosses from one process's part to another's, or whose blocks do not lie together, is
    /// several operations.
    pub records: u64,
    /// From the start to the last completion.
    pub duration_ns: u64,
    /// Reads.
    pub reads: OperationFigures,
    /// Writes.
    pub writes: OperationFigures,
    /// Flushes.
    pub flushes: u64,
    /// Trims; one that crosses from one process's part to another's is several.
    pub trims: u64,
    /// Blocks written before the start.
    pub populated_blocks: u64,
    /// How long that took.
    pub populate_ns: u64,
    /// Time spent making contents, of all processes together.
    pub generating_ns: u64,
    /// How late operations started; `None` at unlimited speed.
    pub lateness: Option<Lateness>,
    /// What a pool made of what was written, and what it should hold by the contents of the trace.
    pub stored: Option<Stored>,
    /// What checking reads found.
    pub verification: Verification,
    /// Whether every record was replayed.
    pub is_complete: bool,
    /// Why not, if an operation failed.
    pub failure: Option<String>,
}

/// Reads or writes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Operations completed.
    pub operations: u64,
    /// Bytes of them.
    pub data_bytes: u64,
    /// From the start of an operation to its end.
    pub service_ns: LatencyHistogram,
    /// From when it was due to its end; as the service time at unlimited speed.
    pub response_ns: LatencyHistogram,
    /// Figures of the response time.
    pub response_summary: Option<LatencySummary>,
}

/// How late operations started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Operations that started more than [`Self::late_after_ns`] after they were due.
    pub late: u64,
    /// What counts as late.
    pub late_after_ns: u64,
    /// By how much late operations were.
    pub by_ns: LatencyHistogram,
    /// The figures of it.
    pub summary: Option<LatencySummary>,
}

/// What checking reads found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Blocks compared.
    pub checked: u64,
    /// Blocks that were not as they should be.
    pub wrong: u64,
    /// Blocks of which the trace says another content than it wrote there; these were compared with what it wrote.
    pub contradictions: u64,
    /// The first of the wrong ones.
    pub mismatches: Vec<Mismatch>,
}

/// A block that was not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The block of the target.
    pub block: u64,
    /// The content it should hold.
    pub expected: String,
    /// What it holds.
    pub found: String,
}
