//! What has been written to a target, in order: enough to work out afterwards what each place holds.
//!
//! The n-th write of a process goes to a block, and has a content, that follow from seed, process and n alone
//! (`operations`, [`Assignment`]). So the number of writes says all, whatever was read between, however long it took,
//! and however many were in flight: writes to the same block never overlap. Writes that failed, and those of which
//! nobody knows whether they came through, are listed; a failure ends a run, so there are no more than were in flight.

use crate::job::{Job, Populate};
use crate::operations;
use crate::pattern::Pattern;
use gemelo_content::{Assignment, ContentId};
use gemelo_target::AtStart;
use serde::{Deserialize, Serialize};
use std::collections::TryReserveError;
use thiserror::Error;

/// Everything written to a target's places, job by job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Size of a block in bytes.
    pub block_bytes: usize,
    /// Blocks of each place.
    pub place_blocks: u64,
    /// Processes, each with a place.
    pub processes: u32,
    /// What the places held before.
    pub at_start: AtStart,
    /// The jobs, in order.
    pub segments: Vec<Segment>,
}

/// What one job wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// What was written to all blocks first.
    pub populate: Populate,
    /// Where the writes went.
    pub pattern: Pattern,
    /// The seed of the pattern.
    pub seed: u64,
    /// Writes started, for each process.
    pub writes: Vec<u64>,
    /// The writes that may not have come through.
    pub uncertain: Vec<UncertainWrite>,
}

/// A write that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UncertainWrite {
    /// Whose.
    pub process: u32,
    /// Which of its writes in this segment, counted from 0.
    pub write: u64,
}

/// Why a job cannot go on where another one ended.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the files were written by a job with other processes, file size or block size: use the same, or populate anew"
)]
pub struct OtherLayout;

/// What a block should hold, in 8 bytes. The two highest words are content ids that no process can make, there are not
/// so many processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Unknown,
    Zeros,
    Content(ContentId),
}

const UNKNOWN: u64 = u64::MAX;
const ZEROS: u64 = u64::MAX - 1;

impl Expected {
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        match bits {
            UNKNOWN => Self::Unknown,
            ZEROS => Self::Zeros,
            bits => Self::Content(ContentId::from_bits(bits)),
        }
    }

    pub(crate) const fn to_bits(self) -> u64 {
        match self {
            Self::Unknown => UNKNOWN,
            Self::Zeros => ZEROS,
            Self::Content(id) => id.to_bits(),
        }
    }
}

/// A content's way to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteTo {
    pub(crate) block: u64,
    pub(crate) expected: Expected,
}

impl History {
    /// The history of fresh places for a job.
    #[must_use]
    pub fn new(job: &Job, at_start: AtStart) -> Self {
        Self {
            block_bytes: job.spec().block_bytes,
            place_blocks: job.place_blocks(),
            processes: job.spec().processes,
            at_start,
            segments: Vec::new(),
        }
    }

    /// # Errors
    /// If the job's places are not those of this history.
    pub(crate) fn check(&self, job: &Job) -> Result<(), OtherLayout> {
        let own = (self.block_bytes, self.place_blocks, self.processes);
        let jobs = (job.spec().block_bytes, job.place_blocks(), job.spec().processes);
        if own == jobs { Ok(()) } else { Err(OtherLayout) }
    }

    /// How many contents a process has taken so far: the number of its next one.
    #[must_use]
    pub fn next_sequence(&self, process: u32) -> u64 {
        self.segments.iter().map(|segment| self.sequences_of(segment, process)).sum()
    }

    fn sequences_of(&self, segment: &Segment, process: u32) -> u64 {
        let populated = if segment.populate == Populate::Content { self.place_blocks } else { 0 };
        populated + segment.writes.get(process as usize).copied().unwrap_or(0)
    }

    /// The contents that the last job took, for each process: first and number.
    pub(crate) fn last_sequences(&self, process: u32) -> (u64, u64) {
        let count = self.segments.last().map_or(0, |last| self.sequences_of(last, process));
        (self.next_sequence(process) - count, count)
    }

    /// Calls back for every write of a process, in order.
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
                        Expected::Zeros
                    } else {
                        sequence += 1;
                        Expected::Content(assignment.content(process, sequence - 1))
                    };
                    each(WriteTo { block, expected });
                }
            }
            let uncertain = segment.uncertain.iter().filter(|write| write.process == process);
            let uncertain: Vec<u64> = uncertain.map(|write| write.write).collect();
            let mut blocks =
                operations::writes(segment.pattern, self.place_blocks, segment.seed, process);
            for write in 0..segment.writes.get(process as usize).copied().unwrap_or(0) {
                let content = Expected::Content(assignment.content(process, sequence));
                let expected = if uncertain.contains(&write) { Expected::Unknown } else { content };
                each(WriteTo { block: blocks.next_block(), expected });
                sequence += 1;
            }
        }
    }

    /// What each block of a process's place should hold: 8 bytes a block.
    ///
    /// # Errors
    /// If there is not so much memory.
    pub(crate) fn table(
        &self,
        process: u32,
        assignment: &Assignment,
    ) -> Result<Vec<u64>, TryReserveError> {
        let at_start = match self.at_start {
            AtStart::Zeros => Expected::Zeros,
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

    /// How often the last job's run wrote and read each block of a process's place, which populating does not count as.
    ///
    /// # Errors
    /// If there is not so much memory: 4 bytes a block.
    pub fn accesses(&self, process: u32, reads: u64) -> Result<Vec<u32>, TryReserveError> {
        let mut counts = filled(self.place_blocks, 0u32)?;
        let Some(last) = self.segments.last() else { return Ok(counts) };
        let writes = last.writes.get(process as usize).copied().unwrap_or(0);
        let written = operations::writes(last.pattern, self.place_blocks, last.seed, process);
        let read = operations::reads(last.pattern, self.place_blocks, last.seed, process);
        for (mut blocks, count) in [(written, writes), (read, reads)] {
            for _ in 0..count {
                if let Some(accesses) = counts.get_mut(blocks.next_block() as usize) {
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
