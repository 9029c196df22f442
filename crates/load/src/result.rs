//! What a run gives back. Everything can be kept as JSON: histograms as pairs, so that results can be merged and read
//! again later.

use crate::history::History;
use crate::measure::{LatencyHistogram, LatencySummary, Phase, Usage};
use gemelo_target::{IoFailure, PoolFigures};
use serde::{Deserialize, Serialize};

/// What one run of a job measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Why it ended.
    pub ended: Ended,
    /// What went wrong first, if something did. The figures then are of the part before.
    pub failure: Option<Failure>,
    /// From the first operation's start to the last one's end, without populating and verifying.
    pub elapsed_ns: u64,
    /// The part of it that the figures are about: without ramp-up and cool-down.
    pub measured_ns: u64,
    /// Of all processes together.
    pub total: Measured,
    /// Of each process.
    pub processes: Vec<ProcessResult>,
    /// Of each interval, ramp-up and cool-down included.
    pub intervals: Vec<Interval>,
    /// What was written before the run.
    pub populated: Option<Populated>,
    /// The duplicates of what was written by populating and by the run.
    pub written: Option<WrittenDistribution>,
    /// What a pool made of what was written.
    #[serde(default)]
    pub stored: Option<Stored>,
    /// What checking found.
    pub verification: Option<Verification>,
    /// Processor time of the run without populating and verifying, and memory of the program since the run began.
    pub usage: Usage,
    /// What the target's places hold: for `gemelo verify`, and for a job that goes on with them. `None` where that is
    /// not known, or the target holds nothing.
    pub history: Option<History>,
    /// Why the log of operations is not complete, if one was asked for and is not.
    #[serde(default)]
    pub log_failure: Option<String>,
    /// Advice computed from the figures.
    pub warnings: Vec<String>,
}

impl RunResult {
    /// Whether the run did all it should, and everything that was checked was right.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let verified = self.verification.as_ref().is_none_or(Verification::is_success);
        let did_all =
            self.failure.is_none() && self.log_failure.is_none() && self.ended.is_complete();
        did_all && verified
    }
}

/// A pool before and after a run, and what it should hold by what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Before populating.
    pub before: PoolFigures,
    /// After the run.
    pub after: PoolFigures,
    /// Blocks that the target's places hold by the job's own count; `None` where nobody knows what they held before, or
    /// where a block of the job is no whole number of the pool's.
    pub predicted: Option<PredictedBlocks>,
}

/// Blocks of a pool, as the contents written to it have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedBlocks {
    /// Blocks that hold something.
    pub logical_blocks: u64,
    /// Distinct contents among them.
    pub distinct_blocks: u64,
}

impl PredictedBlocks {
    /// Logical blocks / distinct ones; 1 if there are none.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.distinct_blocks == 0 {
            1.0
        } else {
            self.logical_blocks as f64 / self.distinct_blocks as f64
        }
    }
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// Its time was over.
    Time,
    /// All processes had read and written their bytes.
    Bytes,
    /// Somebody asked it to stop.
    Stopped,
    /// Something failed.
    Failed,
}

impl Ended {
    /// Whether the run came to the end it was given.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Time | Self::Bytes)
    }
}

/// What went wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The process it went wrong for.
    pub process: u32,
    /// The file or device.
    pub place: String,
    /// What was tried: read, write, sync or open.
    pub operation: String,
    /// Bytes from the start of the file or device.
    pub offset_bytes: u64,
    /// Why.
    pub reason: String,
}

impl Failure {
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

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { process, place, operation, offset_bytes, reason } = self;
        write!(
            formatter,
            "process {process}: cannot {operation} {place} at byte {offset_bytes}: {reason}"
        )
    }
}

/// Figures of a process, or of all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Reads; `None` if there were none.
    pub reads: Option<OperationFigures>,
    /// Writes; `None` if there were none.
    pub writes: Option<OperationFigures>,
    /// `fdatasync`s, whose time the writes that waited for them include.
    pub syncs: Option<Timing>,
    /// Time spent drawing places and making contents, and in the load's own book-keeping.
    pub generating_ns: u64,
    /// Time spent checking what was read.
    pub checking_ns: u64,
    /// Generating's share of the time of all processes, 0 to 1.
    pub generating_share: f64,
    /// Open loop: operations that started over 100 µs after they should have.
    pub late_operations: u64,
    /// Open loop: operations that should have started by the end of the run, and did not.
    pub missed_operations: u64,
}

/// Figures of one kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OperationFigures {
    /// Operations completed.
    pub operations: u64,
    /// Their bytes.
    pub data_bytes: u64,
    /// Operations a second.
    pub operations_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latency, counted in an open loop from when an operation should have started.
    pub latency: Timing,
    /// Open loop: the time from an operation's start; in a closed loop the latency is that.
    pub service: Option<Timing>,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Figures for people.
    pub summary: LatencySummary,
    /// All of it, to three digits.
    pub histogram: LatencyHistogram,
}

impl Timing {
    pub(crate) fn of(histogram: LatencyHistogram) -> Option<Self> {
        Some(Self { summary: histogram.summary()?, histogram })
    }
}

/// Figures of one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessResult {
    /// Its number.
    pub process: u32,
    /// Its file or device.
    pub place: String,
    /// When it ended, since the run began.
    pub ended_ns: u64,
    /// Its figures.
    pub measured: Measured,
    /// Reads started in the whole run.
    pub reads: u64,
    /// Writes started in the whole run.
    pub writes: u64,
    /// Its processor time.
    pub usage: Usage,
}

/// Figures of an interval, of all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its start, since the run began.
    pub start_ns: u64,
    /// Its length; the last one ends with the run.
    pub length_ns: u64,
    /// The part of the run it belongs to.
    pub phase: Phase,
    /// Reads; `None` if none was completed.
    pub reads: Option<IntervalFigures>,
    /// Writes; `None` if none was completed.
    pub writes: Option<IntervalFigures>,
}

/// Figures of one kind of operation in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IntervalFigures {
    /// Operations completed.
    pub operations: u64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Mean latency.
    pub mean_ns: f64,
    /// Median latency, to a hundredth.
    pub p50_ns: u64,
    /// The latency that 99 % did not exceed, to a hundredth.
    pub p99_ns: u64,
    /// The longest latency, to a hundredth.
    pub max_ns: u64,
}

/// What was written before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Populated {
    /// Bytes written.
    pub data_bytes: u64,
    /// Time it took, with a sync at the end.
    pub elapsed_ns: u64,
}

/// The duplicates of what was written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WrittenDistribution {
    /// Blocks written.
    pub blocks: u64,
    /// Blocks that were counted: all, unless there were very many; then the first of each process.
    pub counted_blocks: u64,
    /// Share of the shared contents that were counted: 1, unless there were very many; then a uniform sample of them.
    pub sampled_share: f64,
    /// Pairs of `[duplicates, contents]`.
    pub distribution: Vec<[u64; 2]>,
}

/// What checking found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Verification {
    /// Blocks checked, by reads of the run and after it.
    pub checked_blocks: u64,
    /// Blocks read of which nobody knows what they should hold.
    pub unknown_blocks: u64,
    /// Blocks that did not hold what they should.
    pub wrong_blocks: u64,
    /// The first of them.
    pub mismatches: Vec<Mismatch>,
    /// Whether all blocks that should be checked were.
    pub is_complete: bool,
}

impl Verification {
    /// Whether all was checked, and right.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        self.wrong_blocks == 0 && self.is_complete
    }
}

/// A block that does not hold what it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The process whose place it is in.
    pub process: u32,
    /// The file or device.
    pub place: String,
    /// Where the block begins, from the start of the process's place.
    pub offset_bytes: u64,
    /// The content it should hold: zeros, or a content's name.
    pub expected: String,
    /// What it holds.
    pub found: Found,
}

/// What a wrong block holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// Zeros.
    Zeros,
    /// Another content, byte by byte.
    Content {
        /// Its name.
        content: String,
        /// A block that it was written to, if it was; the same place means that a later write was lost.
        written_to: Option<Place>,
    },
    /// Some sectors of the right content, some of something else.
    Torn {
        /// Sectors of 512 bytes that are right.
        intact_sectors: usize,
        /// Sectors of the block.
        sectors: usize,
        /// The content of the others, where they say it.
        other: Option<String>,
    },
    /// Bytes of no known content.
    Garbage {
        /// The first wrong byte of the block.
        first_difference: usize,
        /// Wrong bytes of the block.
        different_bytes: usize,
    },
}

/// A block of a process's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Whose place.
    pub process: u32,
    /// Where the block begins, from the start of the place.
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
            Found::Zeros => write!(formatter, "zeros"),
            Found::Content { content, written_to: None } => {
                write!(formatter, "{content}, written nowhere")
            }
            Found::Content { content, written_to: Some(to) }
                if to.process == *process && to.offset_bytes == *offset_bytes =>
            {
                write!(formatter, "{content}, written here before: a later write is lost")
            }
            Found::Content { content, written_to: Some(to) } => {
                write!(
                    formatter,
                    "{content}, written to byte {} of process {}",
                    to.offset_bytes, to.process
                )
            }
            Found::Torn { intact_sectors, sectors, other } => {
                write!(
                    formatter,
                    "a torn block: {intact_sectors} of {sectors} sectors as expected"
                )?;
                other.as_ref().map_or(Ok(()), |other| write!(formatter, ", others of {other}"))
            }
            Found::Garbage { first_difference, different_bytes } => {
                write!(
                    formatter,
                    "garbage: {different_bytes} bytes differ, the first at {first_difference}"
                )
            }
        }
    }
}
