//! Resolves the options of a job: fills in defaults and refuses contradictions.

use super::effect::{self, GivenOption};
use super::error::ResolveError;
use crate::engine::choose;
use crate::options::{JobOptions, LoadOptions};
use crate::small;
use crate::{JobEnvironment, contents};
use gemelo_content::ContentSpec;
use gemelo_load::{Contents, HostPart, Job, JobOperation, JobSpec, Pace, Populate};
use gemelo_pattern::Pattern;
use gemelo_target::{Engine, Storage, TargetUri};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Size in bytes of each process's file if the job sets none.
const USUAL_FILE_BYTES: u64 = 1 << 30;
/// Length of an interval if the job sets none.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// A resolved job, as a result file keeps it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct JobInput {
    /// Name of the job in the output.
    pub name: String,
    /// Target of the load.
    pub target: TargetUri,
    /// Name or file of the distribution.
    pub distribution: String,
    /// The load, checked and ready to run.
    pub job: JobSpec,
    /// Contents that are written.
    pub content: ContentSpec,
    /// Number of blocks of the data set that carries the distribution.
    pub data_set_blocks: u64,
}

/// A job that is ready to run.
pub struct ResolvedJob {
    /// The job as the result keeps it.
    pub input: JobInput,
    pub(super) storage: Arc<dyn Storage>,
    pub(super) job: Job,
    pub(super) contents: Contents,
    pub(super) force: bool,
    pub(super) access_log: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
    /// `true` if the user set the data of the files before the run.
    pub(super) says_populate: bool,
    /// Given options that may have no effect.
    pub(super) given: Vec<GivenOption>,
}

/// The storage of a job, and its name.
#[derive(Clone, Copy)]
struct Destination<'a> {
    uri: &'a TargetUri,
    storage: &'a dyn Storage,
}

impl ResolvedJob {
    /// Returns a warning if the data set of the job is too small for its distribution.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let JobInput { distribution, content, data_set_blocks, .. } = &self.input;
        small::warning(distribution, content, *data_set_blocks)
    }

    /// Returns the files that the job writes in addition to its result.
    pub fn outputs(&self) -> impl Iterator<Item = &Path> {
        [&self.access_log, &self.log].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// The hosts that run a job together, and the one of them that resolves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfHosts {
    pub(super) hosts: u32,
    pub(super) part: Option<HostPart>,
}

impl OfHosts {
    /// The job runs here alone.
    pub(super) const ONE: Self = Self { hosts: 1, part: None };

    /// Returns the number of hosts that use the target.
    fn of_target(self) -> u32 {
        if self.part.is_some_and(|part| part.shares_target) { self.hosts } else { 1 }
    }
}

/// Resolves a job, the `index`-th of the run.
pub(super) fn resolve(
    options: JobOptions,
    index: usize,
    of: OfHosts,
    environment: &JobEnvironment<'_>,
) -> Result<ResolvedJob, ResolveError> {
    let distribution = contents::distribution_name(&options.content).to_owned();
    let content = contents::settled(options.spec, &options.content, environment.monitor)?;
    let (load, name) = (options.load, options.name);
    if content.private_share > 0.0 && of.hosts == 1 {
        let (option, purpose) = ("--private-share", "runs on several --hosts");
        return Err(ResolveError::NoEffect { option, purpose });
    }
    let monitor = environment.monitor;
    let uri = load.target.clone().ok_or(ResolveError::NoTarget)?;
    let storage = environment.targets.storage(&uri)?;
    let destination = Destination { uri: &uri, storage: storage.as_ref() };
    let spec = job_spec(&load, &content, destination, of)?;
    let operation = match spec.operation {
        JobOperation::Write => "write",
        JobOperation::Read => "read",
        JobOperation::Mixed => "mixed",
    };
    let name =
        name.unwrap_or_else(|| format!("{}-{operation}-{}", index + 1, kind_of(spec.pattern)));
    let in_job = |source| ResolveError::InJob { name: name.clone(), source: Box::new(source) };
    let job = Job::new(spec.clone()).map_err(|error| in_job(error.into()))?;
    let contents = Contents::new(&content, &job).map_err(|error| in_job(error.into()))?;
    for shortfall in contents.generator.shortfalls() {
        monitor.warn(&shortfall);
    }
    let given = effect::given(&load, &job, storage.as_ref());
    Ok(ResolvedJob {
        input: JobInput {
            name,
            target: uri,
            distribution,
            job: spec,
            content,
            data_set_blocks: job.data_set_blocks(),
        },
        storage,
        job,
        contents,
        force: load.force.unwrap_or(false),
        says_populate: load.populate.is_some(),
        access_log: load.access_log,
        log: load.log,
        given,
    })
}

/// Returns the name of the pattern without its figures.
fn kind_of(pattern: Pattern) -> String {
    let text = pattern.to_string();
    text.split(':').next().unwrap_or(&text).to_owned()
}

fn job_spec(
    options: &LoadOptions,
    content: &ContentSpec,
    target: Destination<'_>,
    of: OfHosts,
) -> Result<JobSpec, ResolveError> {
    let block_bytes = content.block_bytes as u64;
    let request_bytes = options.request_size.map_or(block_bytes, |size| size.0);
    if request_bytes == 0 || !request_bytes.is_multiple_of(block_bytes) {
        return Err(ResolveError::RequestSize { request_bytes, block_bytes });
    }
    let processes = options.processes.unwrap_or(1);
    let file_bytes = match options.file_size {
        Some(size) => size.0,
        None => usual_file_bytes(target, processes.saturating_mul(of.of_target()), request_bytes)?,
    };
    let operation: JobOperation = options.operation.map_or(JobOperation::Write, Into::into);
    let usual_populate =
        if operation == JobOperation::Write { Populate::None } else { Populate::Content };
    let (engine, queue_depth) = engine(options, target)?;
    let whole = |bytes: u64| bytes.div_ceil(request_bytes).saturating_mul(request_bytes);
    let everywhere = u64::from(processes.saturating_mul(of.hosts).max(1));
    let bytes_each = options.bytes.map(|size| whole(size.0.div_ceil(everywhere)));
    let time_ns = options.time.map(|span| nanoseconds(span.0)).transpose()?;
    Ok(JobSpec {
        operation,
        write_share: options.write_share.map_or(0.5, |percent| percent.0),
        pattern: options.pattern.unwrap_or(Pattern::Sequential),
        block_bytes: content.block_bytes,
        request_blocks: request_bytes / block_bytes,
        file_bytes,
        processes,
        queue_depth,
        engine,
        sync: options.sync.map(Into::into).unwrap_or_default(),
        fsync_every: options.fsync_every.unwrap_or(1),
        pace: pace(options)?,
        time_ns,
        process_bytes: bytes_each.or(if time_ns.is_none() { Some(file_bytes) } else { None }),
        populate: options.populate.map_or(usual_populate, Into::into),
        ramp_up_ns: options.ramp_up.map_or(Ok(0), |span| nanoseconds(span.0))?,
        cool_down_ns: options.cool_down.map_or(Ok(0), |span| nanoseconds(span.0))?,
        interval_ns: nanoseconds(options.interval.map_or(USUAL_INTERVAL, |span| span.0))?,
        keep: options.keep.unwrap_or(false),
        preallocate: true,
        verify: options.verify.map(Into::into).unwrap_or_default(),
        seed: content.assignment_seed,
        hosts: of.hosts,
        part: of.part,
    })
}

fn nanoseconds(duration: Duration) -> Result<u64, ResolveError> {
    u64::try_from(duration.as_nanos()).map_err(|_| ResolveError::Duration)
}

fn engine(options: &LoadOptions, target: Destination<'_>) -> Result<(Engine, usize), ResolveError> {
    let engine = options.engine.map(Into::into);
    choose(engine, options.queue_depth, target.storage)
        .map_err(|_| ResolveError::NoEngines { target: target.uri.clone() })
}

fn pace(options: &LoadOptions) -> Result<Pace, ResolveError> {
    let peak = options.peak == Some(true);
    match (options.rate, options.read_rate, options.write_rate) {
        (None, None, None) => Ok(Pace::Peak),
        _ if peak => Err(ResolveError::PeakAndRate),
        (Some(ops_per_s), None, None) => Ok(Pace::Rate { ops_per_s }),
        (None, Some(reads_per_s), Some(writes_per_s)) => {
            Ok(Pace::Rates { reads_per_s, writes_per_s })
        }
        (None, _, _) => Err(ResolveError::OneRate),
        (Some(_), _, _) => Err(ResolveError::RateForAll),
    }
}

/// Returns the size of each process's file or region if the job sets none. A device, volume, export
/// or existing file is used as a whole, in units of an operation.
fn usual_file_bytes(
    target: Destination<'_>,
    processes: u32,
    request_bytes: u64,
) -> Result<u64, ResolveError> {
    let Some(bytes) = target.storage.current_bytes()? else {
        return Ok(USUAL_FILE_BYTES.next_multiple_of(request_bytes));
    };
    let share = bytes / u64::from(processes.max(1)) / request_bytes * request_bytes;
    if share == 0 {
        return Err(ResolveError::NoRoom { target: target.uri.clone() });
    }
    Ok(share)
}
