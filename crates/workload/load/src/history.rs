//! The order of writes to a target, from which the expected content of each place is computed.
//!
//! The block and the content of a process's n-th write follow from seed, process and n alone
//! (`operations`, [`Assignment`]). The history therefore stores only the number of writes. Reads,
//! timing and queue depth do not matter, because writes to the same block never overlap. Writes
//! that failed or whose outcome is unknown are listed one by one. A failure ends the run, so the
//! list is no longer than the number of writes in flight.

use crate::job::{Job, Populate};
use crate::operations::Places;
use gemelo_base::Classified;
use gemelo_content::{Assignment, BlockContent};
use gemelo_pattern::Pattern;
use gemelo_target::AtStart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::TryReserveError;
use thiserror::Error;

/// All writes to the places of a target, job by job.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct History {
    /// Block size in bytes.
    pub block_bytes: usize,
    /// Blocks in each place.
    pub place_blocks: u64,
    /// Number of processes; each has one place.
    pub processes: u32,
    /// Number of the first of these processes among those of all hosts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_process: u32,
    /// Number of processes on each host; 0 if there is one host.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub of_host: u32,
    /// State of the places before the first job.
    pub at_start: AtStart,
    /// The jobs, in the order in which they ran.
    pub segments: Vec<Segment>,
    /// The last job, if its end is not known because it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenEnd>,
}

/// The bounds of a job that was killed. The number of its writes is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct OpenEnd {
    /// Most writes of each process that were in flight at any time.
    pub in_flight: u64,
    /// Most writes of each process, if the job has a limit.
    pub most_writes: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The writes of one job.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Segment {
    /// Content written to all blocks before the run.
    pub populate: Populate,
    /// Pattern that chose the blocks to write.
    pub pattern: Pattern,
    /// Seed of the pattern.
    pub seed: u64,
    /// Blocks of each write.
    pub request_blocks: u64,
    /// Number of writes started by each process.
    pub writes: Vec<u64>,
    /// Writes whose outcome is unknown, because they or the engine failed.
    pub uncertain: Vec<UncertainWrite>,
}

impl Segment {
    /// Returns the segment of a job that has written nothing yet.
    pub(crate) fn of(job: &Job) -> Self {
        let spec = job.spec();
        Self {
            populate: spec.populate,
            pattern: spec.pattern,
            seed: spec.seed,
            request_blocks: spec.request_blocks,
            writes: vec![0; spec.processes as usize],
            uncertain: Vec::new(),
        }
    }
}

/// A write whose outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct UncertainWrite {
    /// Number of the process that wrote, counted from 0.
    pub process: u32,
    /// Number of the write among the process's writes in this segment, counted from 0.
    pub write: u64,
}

/// Another number of processes, place size or block size than that of the history. A job with such
/// a layout cannot continue the history.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
#[error(
    "the files were written by a job with another number of processes, file size \
     or block size: use the same values, or write the files anew"
)]
pub struct OtherLayout;

/// The expected content of a block, encoded in 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Unknown,
    Content(BlockContent),
}

/// The word of an unknown content.
const UNKNOWN: u64 = u64::MAX;

impl Expected {
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        match bits {
            UNKNOWN => Self::Unknown,
            bits => Self::Content(BlockContent::from_bits(bits)),
        }
    }

    pub(crate) const fn to_bits(self) -> u64 {
        match self {
            Self::Unknown => UNKNOWN,
            Self::Content(content) => content.to_bits(),
        }
    }
}

/// One write: a block and the content it should hold afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteTo {
    pub(crate) block: u64,
    pub(crate) expected: Expected,
}

impl History {
    /// Creates the history of places to which no job has written yet.
    #[must_use]
    pub fn new(job: &Job, at_start: AtStart) -> Self {
        Self {
            block_bytes: job.spec().block_bytes,
            place_blocks: job.place_blocks(),
            processes: job.spec().processes,
            first_process: job.spec().numbers().first,
            of_host: if job.spec().hosts > 1 { job.spec().numbers().of_host } else { 0 },
            at_start,
            segments: Vec::new(),
            open: None,
        }
    }

    /// Returns the history of places on which a job begins, for a check after it was killed.
    /// `before` lists the writes of earlier jobs.
    #[must_use]
    pub fn begun(job: &Job, at_start: AtStart, before: Option<&Self>) -> Self {
        let spec = job.spec();
        let mut history = before.cloned().unwrap_or_else(|| Self::new(job, at_start));
        history.segments.push(Segment::of(job));
        history.open = Some(OpenEnd {
            in_flight: spec.queue_depth as u64,
            most_writes: spec
                .process_bytes
                .map(|bytes| bytes.div_ceil(spec.request_bytes() as u64)),
        });
        history
    }

    /// Returns the history without its last job, and that job.
    pub(crate) fn split_last(&self) -> (Self, Option<&Segment>) {
        let mut before = Self { segments: self.segments.clone(), open: None, ..self.clone() };
        before.segments.pop();
        (before, self.segments.last())
    }

    /// Checks that a job can continue this history.
    ///
    /// # Errors
    /// Fails if the layout of the job differs from the layout of this history.
    pub fn check(&self, job: &Job) -> Result<(), OtherLayout> {
        let layout = |of: &Self| {
            (of.block_bytes, of.place_blocks, of.processes, of.first_process, of.of_host)
        };
        let is_whole = |segment: &Segment| {
            segment.request_blocks > 0 && self.place_blocks.is_multiple_of(segment.request_blocks)
        };
        let is_same = layout(self) == layout(&Self::new(job, self.at_start));
        if is_same && self.segments.iter().all(is_whole) { Ok(()) } else { Err(OtherLayout) }
    }

    /// Returns the number of the next content of a process: the count of contents it has used so
    /// far.
    #[must_use]
    pub fn next_sequence(&self, process: u32) -> u64 {
        self.segments.iter().map(|segment| self.sequences_of(segment, process)).sum()
    }

    fn sequences_of(&self, segment: &Segment, process: u32) -> u64 {
        let populated = if segment.populate == Populate::Content { self.place_blocks } else { 0 };
        let writes = segment.writes.get(process as usize).copied().unwrap_or(0);
        populated.saturating_add(writes.saturating_mul(segment.request_blocks))
    }

    /// Returns the places that a process reads and writes in a segment.
    pub(crate) fn places(&self, segment: &Segment, process: u32) -> Places {
        Places {
            pattern: segment.pattern,
            requests: self.place_blocks / segment.request_blocks.max(1),
            seed: segment.seed,
            process: self.first_process + process,
            of_host: self.of_host,
        }
    }

    /// Returns the first number and the count of the contents that the last job used for a process.
    pub(crate) fn last_sequences(&self, process: u32) -> (u64, u64) {
        let count = self.segments.last().map_or(0, |last| self.sequences_of(last, process));
        (self.next_sequence(process) - count, count)
    }

    /// Calls `each` for every write of a process, in order.
    pub(crate) fn replay(
        &self,
        process: u32,
        assignment: &Assignment,
        mut each: impl FnMut(WriteTo),
    ) {
        let mut sequence = 0;
        for segment in &self.segments {
            if segment.populate != Populate::None {
                for block in 0..self.place_blocks {
                    let expected = if segment.populate == Populate::Zero {
                        Expected::Content(BlockContent::Zeros)
                    } else {
                        sequence += 1;
                        Expected::Content(assignment.content(process, sequence - 1))
                    };
                    each(WriteTo { block, expected });
                }
            }
            let uncertain = segment.uncertain.iter().filter(|write| write.process == process);
            let uncertain: Vec<u64> = uncertain.map(|write| write.write).collect();
            let mut requests = self.places(segment, process).writes();
            for write in 0..segment.writes.get(process as usize).copied().unwrap_or(0) {
                let is_uncertain = uncertain.contains(&write);
                let first = requests.next_block() * segment.request_blocks;
                for block in first..first + segment.request_blocks {
                    let content = Expected::Content(assignment.content(process, sequence));
                    let expected = if is_uncertain { Expected::Unknown } else { content };
                    each(WriteTo { block, expected });
                    sequence += 1;
                }
            }
        }
    }

    /// Returns the expected content of each block of a process's place, in 8 bytes a block.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the table.
    pub(crate) fn table(
        &self,
        process: u32,
        assignment: &Assignment,
    ) -> Result<Vec<u64>, TryReserveError> {
        let at_start = match self.at_start {
            AtStart::Zeros => Expected::Content(BlockContent::Zeros),
            AtStart::Unknown => Expected::Unknown,
        };
        let mut table = filled(self.place_blocks, at_start.to_bits())?;
        self.replay(process, assignment, |write| {
            if let Some(entry) = table.get_mut(write.block as usize) {
                *entry = write.expected.to_bits();
            }
        });
        Ok(table)
    }

    /// Counts the reads and writes of each block of a process's place by the last job. Populating
    /// is not counted.
    ///
    /// # Errors
    /// Fails if there is not enough memory for the table of 4 bytes a block.
    pub fn accesses(&self, process: u32, reads: u64) -> Result<Vec<u32>, TryReserveError> {
        let mut counts = filled(self.place_blocks, 0u32)?;
        let Some(last) = self.segments.last() else { return Ok(counts) };
        let writes = last.writes.get(process as usize).copied().unwrap_or(0);
        let places = self.places(last, process);
        for (mut requests, count) in [(places.writes(), writes), (places.reads(), reads)] {
            for _ in 0..count {
                let first = (requests.next_block() * last.request_blocks) as usize;
                let accessed = counts.get_mut(first..first + last.request_blocks as usize);
                for accesses in accessed.unwrap_or_default() {
                    *accesses = accesses.saturating_add(1);
                }
            }
        }
        Ok(counts)
    }
}

fn filled<T: Clone>(length: u64, value: T) -> Result<Vec<T>, TryReserveError> {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut table = Vec::new();
    table.try_reserve_exact(length)?;
    table.resize(length, value);
    Ok(table)
}
