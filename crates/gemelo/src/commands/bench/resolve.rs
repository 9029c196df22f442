//! From the options of a job to what the libraries run: defaults filled in, contradictions refused.

use super::effect::{self, Given};
use super::options::{JobOptions, LoadOptions};
use crate::contents;
use crate::exit::{OrBadInput, bad_input};
use anyhow::{Context as _, anyhow};
use gemelo_base::Monitor;
use gemelo_content::ContentSpec;
use gemelo_load::{Contents, Job, JobOperation, JobSpec, Pace, Populate};
use gemelo_pattern::Pattern;
use gemelo_target::{Engine, Storage, TargetUri, Targets};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Size of each process's file where nothing says it.
const USUAL_FILE_BYTES: u64 = 1 << 30;
/// Operations under way with io_uring where nothing says it.
const USUAL_URING_DEPTH: u32 = 32;
/// Length of an interval where nothing says it.
const USUAL_INTERVAL: Duration = Duration::from_secs(1);

/// A job as it was resolved: what a result file keeps of the input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct JobInput {
    /// Its name in the output.
    pub(crate) name: String,
    /// What it runs against.
    pub(crate) target: String,
    /// The distribution, as it was named.
    pub(crate) distribution: String,
    /// The load.
    pub(crate) job: JobSpec,
    /// What is written.
    pub(crate) content: ContentSpec,
    /// Blocks of the data set that carries the distribution.
    pub(crate) data_set_blocks: u64,
}

/// A job that is ready to run.
pub(crate) struct ResolvedJob {
    pub(crate) input: JobInput,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) job: Job,
    pub(crate) contents: Contents,
    pub(crate) force: bool,
    pub(crate) access_log: Option<PathBuf>,
    pub(crate) log: Option<PathBuf>,
    /// Whether the user said what files hold before the run.
    pub(crate) says_populate: bool,
    /// Options that may have no effect.
    pub(super) given: Vec<Given>,
}

/// The storage of a job, and its name.
#[derive(Clone, Copy)]
struct Destination<'a> {
    uri: &'a TargetUri,
    storage: &'a dyn Storage,
}

/// The job that the options describe, the `index`-th of the run.
///
/// # Errors
/// All are bad input.
pub(crate) fn resolve(
    options: JobOptions,
    index: usize,
    targets: &Targets,
    monitor: &dyn Monitor,
) -> anyhow::Result<ResolvedJob> {
    let content = contents::resolve(&options.content, monitor)?;
    let uri =
        options.load.target.clone().context(
        "say where load goes: --target DIRECTORY, FILE, DEVICE, pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT or null:",
    );
    let uri = uri.or_bad_input()?;
    let storage = targets.storage(&uri).or_bad_input()?;
    let destination = Destination { uri: &uri, storage: storage.as_ref() };
    let spec = job_spec(&options.load, &content, destination)?;
    let operation = match spec.operation {
        JobOperation::Write => "write",
        JobOperation::Read => "read",
        JobOperation::Mixed => "mixed",
    };
    let name = options
        .name
        .unwrap_or_else(|| format!("{}-{operation}-{}", index + 1, kind_of(spec.pattern)));
    let job = Job::new(spec.clone()).with_context(|| format!("job {name}")).or_bad_input()?;
    let contents =
        Contents::new(&content, &job).with_context(|| format!("job {name}")).or_bad_input()?;
    for shortfall in contents.generator.shortfalls() {
        monitor.warn(&shortfall);
    }
    warn_of_cut_contents(&contents, monitor);
    let given = effect::given(&options.load, &job, storage.as_ref());
    Ok(ResolvedJob {
        input: JobInput {
            name,
            target: uri.to_string(),
            distribution: contents::distribution_name(&options.content).to_owned(),
            job: spec,
            content,
            data_set_blocks: job.data_set_blocks(),
        },
        storage,
        job,
        contents,
        force: options.load.force.unwrap_or(false),
        access_log: options.load.access_log,
        log: options.load.log,
        says_populate: options.load.populate.is_some(),
        given,
    })
}

/// The pattern without its figures.
fn kind_of(pattern: Pattern) -> String {
    let text = pattern.to_string();
    text.split(':').next().unwrap_or(&text).to_owned()
}

/// Of all blocks, the share in contents that were cut short above which the user should know.
const WORTH_TELLING: f64 = 0.001;

fn warn_of_cut_contents(contents: &Contents, monitor: &dyn Monitor) {
    let Some(scaled) = contents.assignment.scaled() else { return };
    let cut_blocks: u64 = scaled.cut_short().map(|class| class.copies * class.contents).sum();
    let share = cut_blocks as f64 / scaled.blocks() as f64;
    if share > WORTH_TELLING {
        monitor.warn(&format!(
            "{:.2} % of blocks are in contents with fewer copies than the distribution has: {} blocks have no room for more",
            share * 100.0,
            scaled.blocks()
        ));
    }
}

fn job_spec(
    options: &LoadOptions,
    content: &ContentSpec,
    target: Destination<'_>,
) -> anyhow::Result<JobSpec> {
    let block_bytes = content.block_bytes as u64;
    let processes = options.processes.unwrap_or(1);
    let file_bytes = match options.file_size {
        Some(size) => size.0,
        None => usual_file_bytes(target, processes, block_bytes)?,
    };
    let operation: JobOperation = options.operation.map_or(JobOperation::Write, Into::into);
    let usual_populate =
        if operation == JobOperation::Write { Populate::None } else { Populate::Content };
    let (engine, queue_depth) = engine(options, target)?;
    let whole_blocks = |bytes: u64| bytes.div_ceil(block_bytes).saturating_mul(block_bytes);
    let bytes_each =
        options.bytes.map(|size| whole_blocks(size.0.div_ceil(u64::from(processes.max(1)))));
    let time_ns = options.time.map(|span| nanoseconds(span.0)).transpose()?;
    Ok(JobSpec {
        operation,
        write_share: options.write_share.map_or(0.5, |percent| percent.0),
        pattern: options.pattern.unwrap_or(Pattern::Sequential),
        block_bytes: content.block_bytes,
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
        seed: content.seed,
    })
}

fn nanoseconds(duration: Duration) -> anyhow::Result<u64> {
    u64::try_from(duration.as_nanos()).context("a duration is above 584 years").or_bad_input()
}

fn engine(options: &LoadOptions, target: Destination<'_>) -> anyhow::Result<(Engine, usize)> {
    let depth = options.queue_depth;
    let uri = target.uri;
    if !target.storage.has_engines() {
        if options.engine.is_some() {
            return Err(bad_input(anyhow!(
                "--engine is for files and devices: leave it out for {uri}, and say --queue-depth"
            )));
        }
        return Ok((Engine::Native, depth.unwrap_or(1) as usize));
    }
    let usual = if depth.is_some_and(|depth| depth > 1) { Engine::IoUring } else { Engine::Psync };
    let engine = options.engine.map_or(usual, Into::into);
    let usual_depth = if engine == Engine::IoUring { USUAL_URING_DEPTH } else { 1 };
    Ok((engine, depth.unwrap_or(usual_depth) as usize))
}

fn pace(options: &LoadOptions) -> anyhow::Result<Pace> {
    let peak = options.peak == Some(true);
    match (options.rate, options.read_rate, options.write_rate) {
        (None, None, None) => Ok(Pace::Peak),
        _ if peak => {
            Err(bad_input(anyhow!("--peak is as fast as possible, a rate is not: say one of them")))
        }
        (Some(ops_per_s), None, None) => Ok(Pace::Rate { ops_per_s }),
        (None, Some(reads_per_s), Some(writes_per_s)) => {
            Ok(Pace::Rates { reads_per_s, writes_per_s })
        }
        (None, _, _) => Err(bad_input(anyhow!(
            "--read-rate and --write-rate go together, or say --rate for both"
        ))),
        (Some(_), _, _) => Err(bad_input(anyhow!(
            "--rate is for all operations: leave out --read-rate and --write-rate"
        ))),
    }
}

/// A device, volume, export or existing file is used as a whole; other files have a size of their own.
fn usual_file_bytes(
    target: Destination<'_>,
    processes: u32,
    block_bytes: u64,
) -> anyhow::Result<u64> {
    let Some(bytes) = target.storage.current_bytes().or_bad_input()? else {
        return Ok(USUAL_FILE_BYTES);
    };
    let uri = target.uri;
    let share = bytes / u64::from(processes.max(1)) / block_bytes * block_bytes;
    if share == 0 {
        return Err(bad_input(anyhow!("{uri} is too small for a block for each process")));
    }
    Ok(share)
}
