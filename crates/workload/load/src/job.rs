//! Jobs: descriptions of load, validated before the target is touched.

use crate::host_part::HostPart;
use gemelo_base::Classified;
use gemelo_content::{ContentId, ContentSpec, Processes};
use gemelo_pattern::Pattern;
use gemelo_target::{Engine, OtherPlaces, PlaceAccess, PlaceLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The kinds of operations in a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOperation {
    /// All operations write.
    #[default]
    Write,
    /// All operations read, and nothing is written but populated blocks.
    Read,
    /// Operations read or write, by a share of writes or by separate rates.
    Mixed,
}

/// The path that writes take to storage, and when they are made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// Writes end in the page cache.
    #[default]
    None,
    /// Reads and writes bypass the page cache (`O_DIRECT`).
    Direct,
    /// Each process calls `fdatasync` after every [`JobSpec::fsync_every`] writes.
    Fsync,
    /// `Direct` and `Fsync` together.
    Both,
}

impl SyncPolicy {
    /// Returns whether reads and writes bypass the page cache.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Direct | Self::Both)
    }

    /// Returns whether writes are followed by `fdatasync`.
    #[must_use]
    pub const fn is_synced(self) -> bool {
        matches!(self, Self::Fsync | Self::Both)
    }
}

/// Data written to all places before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Populate {
    /// Nothing is written: files, regions and volumes keep what they hold.
    #[default]
    None,
    /// Zeros are written to every block.
    Zero,
    /// Contents of the distribution are written: one data set.
    Content,
}

/// The time at which data that was read is compared with the expected content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// Data is never compared.
    #[default]
    None,
    /// Every read of the run is compared.
    Online,
    /// All blocks are read back and compared after the run.
    Final,
    /// `Online` and `Final` together.
    Both,
}

impl Verify {
    /// Returns whether reads of the run are compared.
    #[must_use]
    pub const fn is_online(self) -> bool {
        matches!(self, Self::Online | Self::Both)
    }

    /// Returns whether all blocks are read back and compared after the run.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Final | Self::Both)
    }
}

/// The rule that decides when operations start.
#[derive(Debug, Clone, Copy, PartialEq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Closed loop: an operation starts as soon as an earlier one has ended.
    #[default]
    Peak,
    /// Open loop: operations start at a fixed rate, whether earlier ones have ended or not.
    Rate {
        /// Operations a second for each process.
        ops_per_s: f64,
    },
    /// Open loop with separate rates for reads and writes; only for mixed jobs.
    Rates {
        /// Reads a second for each process.
        reads_per_s: f64,
        /// Writes a second for each process.
        writes_per_s: f64,
    },
}

/// A description of load. Sizes are in bytes and times in nanoseconds. All figures are for one
/// process.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct JobSpec {
    /// The kinds of operations: reads, writes, or both.
    pub operation: JobOperation,
    /// Share of writes among the operations of a mixed job, from 0 to 1. It is unused if reads and
    /// writes have separate rates.
    pub write_share: f64,
    /// Pattern that chooses the blocks to read and write.
    pub pattern: Pattern,
    /// Bytes of a block, the unit of duplicates.
    pub block_bytes: usize,
    /// Blocks of each operation.
    pub request_blocks: u64,
    /// Size of each process's file or region.
    pub file_bytes: u64,
    /// Number of processes. Each is a thread with a file or region of its own.
    pub processes: u32,
    /// Operations that each process keeps in flight.
    pub queue_depth: usize,
    /// Way in which operations are submitted to the system.
    pub engine: Engine,
    /// Path that writes take to storage.
    pub sync: SyncPolicy,
    /// Number of writes after which a process calls `fdatasync`.
    pub fsync_every: u64,
    /// Rule that decides when operations start.
    pub pace: Pace,
    /// Duration of the run, ramp-up and cool-down included. `None` sets no limit.
    pub time_ns: Option<u64>,
    /// Bytes that each process reads and writes before it ends. `None` sets no limit.
    pub process_bytes: Option<u64>,
    /// Data written before the run.
    pub populate: Populate,
    /// Duration of the unmeasured start of the run.
    pub ramp_up_ns: u64,
    /// Duration of the unmeasured end of the run; it requires a time limit.
    pub cool_down_ns: u64,
    /// Length of the intervals whose throughput and latency are recorded; 0 records none.
    pub interval_ns: u64,
    /// `true` if files that the run created stay after it.
    pub keep: bool,
    /// `true` if files get all their space before the run; see [`PlaceLayout::preallocate`].
    pub preallocate: bool,
    /// Time at which data that was read is compared with the expected content.
    pub verify: Verify,
    /// Seed of the access pattern. Contents have their own seeds in [`ContentSpec`].
    pub seed: u64,
    /// Number of hosts that run the job together.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub hosts: u32,
    /// The part of one of these hosts. `None` if the processes are those of all hosts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<HostPart>,
}

const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_one(hosts: &u32) -> bool {
    *hosts == 1
}

impl JobSpec {
    /// Returns the bytes of each operation. A valid description has at most 16 MiB.
    #[must_use]
    pub const fn request_bytes(&self) -> usize {
        self.block_bytes.saturating_mul(self.request_blocks as usize)
    }

    /// Returns the numbers of the processes among those of all hosts.
    #[must_use]
    pub const fn numbers(&self) -> Processes {
        match self.part {
            Some(part) => Processes {
                first: part.index * self.processes,
                of_host: self.processes,
                all: self.hosts * self.processes,
            },
            None => {
                Processes { first: 0, of_host: self.processes / self.hosts, all: self.processes }
            }
        }
    }
}

impl Default for JobSpec {
    /// One process writes 1 GiB once, sequentially, in blocks of 4 KiB.
    fn default() -> Self {
        const FILE_BYTES: u64 = 1 << 30;
        Self {
            operation: JobOperation::Write,
            write_share: 0.5,
            pattern: Pattern::Sequential,
            block_bytes: 4096,
            request_blocks: 1,
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
            hosts: 1,
            part: None,
        }
    }
}

/// The reason why a description of load is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
pub enum JobError {
    /// A figure is outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Name of the figure.
        what: &'static str,
        /// Value that was given, as text.
        value: String,
        /// Range of the values that are permitted, in words.
        range: &'static str,
    },
    /// Two settings that contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The engine does one operation at a time, but the queue is deeper.
    #[kind(BadInput, remedy = UseIoUring)]
    #[error("psync does one operation at a time, so its queue depth must be 1")]
    SynchronousDepth,
    /// Reads are to be verified, but the job does none.
    #[kind(BadInput, remedy = VerifyFinal)]
    #[error("a job that only writes reads nothing to verify")]
    NothingRead,
}

fn range(what: &'static str, value: impl std::fmt::Display, range: &'static str) -> JobError {
    JobError::Range { what, value: format!("{value}"), range }
}

/// A valid description of load.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    spec: JobSpec,
}

/// Most processes of a job. Each is a thread, and no machine benefits from more threads.
const MAX_PROCESSES: u32 = 4096;
/// Most hosts of a job: as many as the numbers of private contents tell apart.
const MAX_HOSTS: u32 = 1022;
/// Most operations in flight of one process. Storage does not benefit from more.
const MAX_QUEUE_DEPTH: usize = 4096;
/// Most blocks in one place, as access counts and expected contents are held in tables. This is 4
/// PiB of 4 KiB blocks.
const MAX_PLACE_BLOCKS: u64 = 1 << 40;
/// Most operations a second: their due times differ by 10 ns, which a clock of nanoseconds
/// resolves.
const MAX_RATE: f64 = 1e8;

impl Job {
    /// Validates a description.
    ///
    /// # Errors
    /// Names the first figure outside its range, or the first contradiction.
    pub fn new(spec: JobSpec) -> Result<Self, JobError> {
        check_sizes(&spec)?;
        check_pace(&spec)?;
        check_times(&spec)?;
        check_combinations(&spec)?;
        Ok(Self { spec })
    }

    /// Returns the description.
    #[must_use]
    pub const fn spec(&self) -> &JobSpec {
        &self.spec
    }

    /// Returns the number of blocks in each process's place.
    #[must_use]
    pub const fn place_blocks(&self) -> u64 {
        self.spec.file_bytes / self.spec.block_bytes as u64
    }

    /// Returns the number of places of an operation in each process's place.
    #[must_use]
    pub const fn place_requests(&self) -> u64 {
        self.place_blocks() / self.spec.request_blocks
    }

    /// Returns the number of operations after which a process has reached its byte limit, or `None`
    /// without that limit.
    #[must_use]
    pub fn process_operations(&self) -> Option<u64> {
        self.spec.process_bytes.map(|bytes| bytes / self.spec.request_bytes() as u64)
    }

    /// Returns the number of blocks in the data set that carries the distribution: the blocks of
    /// all places, or those that the run writes if they are fewer.
    #[must_use]
    pub fn data_set_blocks(&self) -> u64 {
        let all = self.place_blocks();
        let written = match self.process_operations() {
            Some(operations) if self.spec.populate != Populate::Content && !self.may_read() => {
                operations.saturating_mul(self.spec.request_blocks).min(all)
            }
            _ => all,
        };
        written * u64::from(self.spec.numbers().all)
    }

    /// Returns whether the run reads blocks.
    #[must_use]
    pub fn may_read(&self) -> bool {
        self.spec.operation != JobOperation::Write
    }

    /// Returns whether the run writes blocks.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.spec.operation != JobOperation::Read
    }

    /// Returns the layout that the job needs of its target. A job that neither writes nor populates
    /// only reads existing places.
    #[must_use]
    pub fn layout(&self, force: bool) -> PlaceLayout {
        let is_reader = !self.may_write() && self.spec.populate == Populate::None;
        self.layout_with(if is_reader { PlaceAccess::Read } else { PlaceAccess::Create }, force)
    }

    /// Returns the layout that the job needs of its target, with this access. A job that continues
    /// with the files of an earlier job uses [`PlaceAccess::Update`].
    #[must_use]
    pub fn layout_with(&self, access: PlaceAccess, force: bool) -> PlaceLayout {
        let numbers = self.spec.numbers();
        let shares = self.spec.part.is_some_and(|part| part.shares_target);
        let before = if shares { numbers.first } else { 0 };
        let others = if shares { numbers.all - self.spec.processes } else { 0 };
        PlaceLayout {
            processes: self.spec.processes,
            others: OtherPlaces { before, after: others - before },
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
    let sizes = ContentSpec::MIN_BLOCK_BYTES..=ContentSpec::MAX_BLOCK_BYTES;
    if !sizes.contains(&spec.block_bytes) {
        return Err(range("the block size", spec.block_bytes, "from 64 bytes to 16 MiB"));
    }
    let block_bytes = spec.block_bytes as u64;
    let most = (ContentSpec::MAX_BLOCK_BYTES / spec.block_bytes) as u64;
    if spec.request_blocks == 0 || spec.request_blocks > most {
        let bytes = block_bytes.saturating_mul(spec.request_blocks);
        return Err(range("the request size", bytes, "from one block to 16 MiB"));
    }
    let request_bytes = spec.request_bytes() as u64;
    if spec.file_bytes == 0 || !spec.file_bytes.is_multiple_of(request_bytes) {
        return Err(range(
            "the file size",
            spec.file_bytes,
            "a multiple of the block size and of the request size, and not 0",
        ));
    }
    if spec.file_bytes / block_bytes > MAX_PLACE_BLOCKS {
        return Err(range("the file size", spec.file_bytes, "at most 2^40 blocks"));
    }
    check_processes(spec)?;
    if spec.queue_depth == 0 || spec.queue_depth > MAX_QUEUE_DEPTH {
        return Err(range("the queue depth", spec.queue_depth, "from 1 to 4096"));
    }
    if spec.process_bytes.is_some_and(|bytes| bytes < request_bytes) {
        return Err(range(
            "the bytes to read and write",
            spec.process_bytes.unwrap_or(0),
            "at least an operation for each process",
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

fn check_processes(spec: &JobSpec) -> Result<(), JobError> {
    if spec.hosts == 0 || spec.hosts > MAX_HOSTS {
        return Err(range("the number of hosts", spec.hosts, "from 1 to 1022"));
    }
    let of_host = if spec.part.is_some() { spec.processes } else { spec.processes / spec.hosts };
    if of_host == 0 || of_host > MAX_PROCESSES {
        return Err(range("the number of processes", of_host, "from 1 to 4096"));
    }
    if of_host.saturating_mul(spec.hosts) > ContentId::PROCESSES {
        return Err(range(
            "the number of processes of all hosts",
            of_host.saturating_mul(spec.hosts),
            "at most 32768",
        ));
    }
    if spec.part.is_some_and(|part| part.index >= spec.hosts) {
        return Err(JobError::Contradiction("the number of the host is above that of all hosts"));
    }
    Ok(())
}

fn check_pace(spec: &JobSpec) -> Result<(), JobError> {
    let check = |what, rate: f64| {
        let is_sane = rate > 0.0 && rate <= MAX_RATE;
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
            Err(JobError::Contradiction(
                "separate rates for reads and writes need a job of mixed operation",
            ))
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
            "a cool-down needs a time, as it is the last part of that time: give a time, too",
        ));
    }
    let unmeasured_ns = spec.ramp_up_ns.saturating_add(spec.cool_down_ns);
    if spec.time_ns.is_some_and(|time_ns| unmeasured_ns >= time_ns) {
        return Err(JobError::Contradiction(
            "ramp-up and cool-down leave no time to measure: make them shorter, or the time longer",
        ));
    }
    Ok(())
}

fn check_combinations(spec: &JobSpec) -> Result<(), JobError> {
    if spec.engine == Engine::Psync && spec.queue_depth > 1 {
        return Err(JobError::SynchronousDepth);
    }
    if spec.verify.is_online() && spec.operation == JobOperation::Write {
        return Err(JobError::NothingRead);
    }
    Ok(())
}
