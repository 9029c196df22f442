//! Jobs: descriptions of load, checked before anything is touched.

use crate::pattern::Pattern;
use gemelo_content::{ContentId, ContentSpec};
use gemelo_target::{Access, Engine, Layout};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a job does with blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOperation {
    /// Writes only.
    #[default]
    Write,
    /// Reads only.
    Read,
    /// Both.
    Mixed,
}

/// How writes reach storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Into the page cache, as any program writes.
    #[default]
    None,
    /// Past the page cache (`O_DIRECT`), reads too.
    Direct,
    /// `fdatasync` after every few writes.
    Fsync,
    /// Both of these.
    Both,
}

impl SyncPolicy {
    /// Whether blocks go past the page cache.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Both)
    }

    /// Whether writes are followed by `fdatasync`.
    #[must_use]
    pub const fn is_synced(self) -> bool {
        matches!(self, Self::Fsync | Self::Both)
    }
}

/// What is written to places before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Populate {
    /// Nothing.
    #[default]
    None,
    /// Zeros.
    Zero,
    /// Contents of the distribution: one data set.
    Content,
}

/// When what is read is checked against what its place should hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Never.
    #[default]
    None,
    /// Every read of the run.
    Online,
    /// All blocks, after the run.
    Final,
    /// Both of these.
    Both,
}

impl Verify {
    /// Whether reads of the run are checked.
    #[must_use]
    pub const fn is_online(self) -> bool {
        matches!(self, Self::Online | Self::Both)
    }

    /// Whether all blocks are read back after the run.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Final | Self::Both)
    }
}

/// When operations start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Closed loop: as soon as an earlier one has ended.
    #[default]
    Peak,
    /// Open loop: so many a second and process, whether the earlier ones have ended or not.
    Rate {
        /// Operations a second and process.
        ops_per_s: f64,
    },
    /// Open loop, reads and writes each at a rate of their own; for mixed jobs.
    Rates {
        /// Reads a second and process.
        reads_per_s: f64,
        /// Writes a second and process.
        writes_per_s: f64,
    },
}

/// A description of load. Sizes are bytes, times nanoseconds; every figure is for each process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// What is done.
    pub operation: JobOperation,
    /// Of a mixed job's operations, the share that writes, 0 to 1; no meaning where reads and writes have rates.
    pub write_share: f64,
    /// Which blocks are read and written.
    pub pattern: Pattern,
    /// Size of a block.
    pub block_bytes: usize,
    /// Size of each process's file or region.
    pub file_bytes: u64,
    /// Processes.
    pub processes: u32,
    /// Operations that each process keeps in flight.
    pub queue_depth: usize,
    /// How storage is driven.
    pub engine: Engine,
    /// How writes reach storage.
    pub sync: SyncPolicy,
    /// Writes between two `fdatasync`s.
    pub fsync_every: u64,
    /// When operations start.
    pub pace: Pace,
    /// The run ends after this time, ramp-up and cool-down included.
    pub time_ns: Option<u64>,
    /// The run ends after each process has read and written so much.
    pub process_bytes: Option<u64>,
    /// What is written before the run.
    pub populate: Populate,
    /// The start of the run that is not measured.
    pub ramp_up_ns: u64,
    /// The end of the run that is not measured; needs a time limit.
    pub cool_down_ns: u64,
    /// Length of the intervals in which throughput and latency are measured too; 0 for none.
    pub interval_ns: u64,
    /// Whether files stay after the run.
    pub keep: bool,
    /// Whether files get all their space before the run; see [`Layout::preallocate`].
    pub preallocate: bool,
    /// When reads are checked.
    pub verify: Verify,
    /// Decides where the job goes. Contents have a seed of their own in [`ContentSpec`].
    pub seed: u64,
}

impl Default for JobSpec {
    /// One process writes 1 GiB once, in order, in blocks of 4 KiB.
    fn default() -> Self {
        const FILE_BYTES: u64 = 1 << 30;
        Self {
            operation: JobOperation::Write,
            write_share: 0.5,
            pattern: Pattern::Sequential,
            block_bytes: 4096,
            file_bytes: FILE_BYTES,
            processes: 1,
            queue_depth: 1,
            engine: Engine::Psync,
            sync: SyncPolicy::None,
            fsync_every: 1,
            pace: Pace::Peak,
            time_ns: None,
            process_bytes: Some(FILE_BYTES),
            populate: Populate::None,
            ramp_up_ns: 0,
            cool_down_ns: 0,
            interval_ns: 1_000_000_000,
            keep: false,
            preallocate: true,
            verify: Verify::None,
            seed: 1,
        }
    }
}

/// Why a description is no job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JobError {
    /// A figure out of its range.
    #[error("{what} is {value}, it has to be {range}")]
    Range {
        /// Which figure.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// Two settings that contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
}

fn range(what: &'static str, value: impl std::fmt::Display, range: &'static str) -> JobError {
    JobError::Range { what, value: format!("{value}"), range }
}

/// A job that makes sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    spec: JobSpec,
}

/// More processes than this are more threads than a machine has use for.
const MOST_PROCESSES: u32 = 4096;
/// io_uring takes no longer rings; nothing has use for more.
const MOST_QUEUE_DEPTH: usize = 4096;
/// Blocks of one place: what access counts and tables of contents are kept for. 4 PiB of 4 KiB blocks.
const MOST_PLACE_BLOCKS: u64 = 1 << 40;
/// Operations a second that a clock of nanoseconds can tell apart.
const MOST_RATE: f64 = 1e8;

impl Job {
    /// Checks a description.
    ///
    /// # Errors
    /// With the first figure out of its range, or the first contradiction.
    pub fn new(spec: JobSpec) -> Result<Self, JobError> {
        check_sizes(&spec)?;
        check_pace(&spec)?;
        check_times(&spec)?;
        check_combinations(&spec)?;
        Ok(Self { spec })
    }

    /// The description.
    #[must_use]
    pub const fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Blocks of each process's place.
    #[must_use]
    pub const fn place_blocks(&self) -> u64 {
        self.spec.file_bytes / self.spec.block_bytes as u64
    }

    /// Operations after which a process has reached its bytes; `None` without that limit.
    #[must_use]
    pub fn process_operations(&self) -> Option<u64> {
        self.spec.process_bytes.map(|bytes| bytes / self.spec.block_bytes as u64)
    }

    /// Blocks of the data set that carries the distribution: all places, or what a run writes if that is less.
    #[must_use]
    pub fn data_set_blocks(&self) -> u64 {
        let all = self.place_blocks();
        let written = match self.process_operations() {
            Some(operations) if self.spec.populate != Populate::Content && !self.may_read() => {
                operations.min(all)
            }
            _ => all,
        };
        written * u64::from(self.spec.processes)
    }

    /// Whether the run reads blocks.
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.spec.operation != JobOperation::Write
    }

    /// Whether the run writes blocks.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.spec.operation != JobOperation::Read
    }

    /// What the job asks of its target. A job that neither writes nor populates takes places as they are.
    #[must_use]
    pub fn layout(&self, force: bool) -> Layout {
        let is_reader = !self.may_write() && self.spec.populate == Populate::None;
        self.layout_with(if is_reader { Access::Read } else { Access::Create }, force)
    }

    /// What the job asks of a target with this access: [`Access::Update`] for a job that goes on with the files of one
    /// before it.
    #[must_use]
    pub fn layout_with(&self, access: Access, force: bool) -> Layout {
        Layout {
            processes: self.spec.processes,
            place_bytes: self.spec.file_bytes,
            block_bytes: self.spec.block_bytes,
            direct: self.spec.sync.is_direct(),
            access,
            force,
            preallocate: self.spec.preallocate,
        }
    }
}

fn check_sizes(spec: &JobSpec) -> Result<(), JobError> {
    let sizes = ContentSpec::LEAST_BLOCK_BYTES..=ContentSpec::MOST_BLOCK_BYTES;
    if !sizes.contains(&spec.block_bytes) {
        return Err(range("the block size", spec.block_bytes, "from 64 bytes to 16 MiB"));
    }
    let block_bytes = spec.block_bytes as u64;
    if spec.file_bytes == 0 || !spec.file_bytes.is_multiple_of(block_bytes) {
        return Err(range(
            "the file size",
            spec.file_bytes,
            "a multiple of the block size, and not 0",
        ));
    }
    if spec.file_bytes / block_bytes > MOST_PLACE_BLOCKS {
        return Err(range("the file size", spec.file_bytes, "at most 2^40 blocks"));
    }
    if spec.processes == 0 || spec.processes > MOST_PROCESSES.min(ContentId::PROCESSES) {
        return Err(range("the number of processes", spec.processes, "from 1 to 4096"));
    }
    if spec.queue_depth == 0 || spec.queue_depth > MOST_QUEUE_DEPTH {
        return Err(range("the queue depth", spec.queue_depth, "from 1 to 4096"));
    }
    if spec.process_bytes.is_some_and(|bytes| bytes < block_bytes) {
        return Err(range(
            "the bytes to read and write",
            spec.process_bytes.unwrap_or(0),
            "at least a block",
        ));
    }
    if spec.fsync_every == 0 {
        return Err(range("the number of writes between fsyncs", 0, "at least 1"));
    }
    if !(0.0..=1.0).contains(&spec.write_share) {
        return Err(range("the write share", spec.write_share * 100.0, "from 0 to 100 %"));
    }
    Ok(())
}

fn check_pace(spec: &JobSpec) -> Result<(), JobError> {
    let check = |what, rate: f64| {
        let is_sane = rate > 0.0 && rate <= MOST_RATE;
        if is_sane {
            Ok(())
        } else {
            Err(range(what, rate, "above 0, at most 100,000,000 a second"))
        }
    };
    match spec.pace {
        Pace::Peak => Ok(()),
        Pace::Rate { ops_per_s } => check("the rate", ops_per_s),
        Pace::Rates { .. } if spec.operation != JobOperation::Mixed => {
            Err(JobError::Contradiction("rates for reads and writes apart are for mixed operation"))
        }
        Pace::Rates { reads_per_s, writes_per_s } => {
            check("the read rate", reads_per_s).and_then(|()| check("the write rate", writes_per_s))
        }
    }
}

fn check_times(spec: &JobSpec) -> Result<(), JobError> {
    if spec.time_ns.is_none() && spec.process_bytes.is_none() {
        return Err(JobError::Contradiction(
            "the run would never end: give a time, bytes, or both",
        ));
    }
    if spec.time_ns == Some(0) {
        return Err(range("the time", "0", "above 0"));
    }
    if spec.cool_down_ns > 0 && spec.time_ns.is_none() {
        return Err(JobError::Contradiction(
            "a cool-down needs a time, from whose end it counts back",
        ));
    }
    let unmeasured_ns = spec.ramp_up_ns.saturating_add(spec.cool_down_ns);
    if spec.time_ns.is_some_and(|time_ns| unmeasured_ns >= time_ns) {
        return Err(JobError::Contradiction("ramp-up and cool-down leave no time to measure"));
    }
    Ok(())
}

fn check_combinations(spec: &JobSpec) -> Result<(), JobError> {
    if spec.engine == Engine::Psync && spec.queue_depth > 1 {
        return Err(JobError::Contradiction(
            "psync does one operation at a time: use --engine io-uring for a queue depth above 1",
        ));
    }
    if spec.verify.is_online() && spec.operation == JobOperation::Write {
        return Err(JobError::Contradiction(
            "a job that only writes reads nothing to verify: use --verify final",
        ));
    }
    Ok(())
}
