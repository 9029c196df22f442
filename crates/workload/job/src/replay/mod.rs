//! Replays of traces: resolved, planned and run.

mod error;
pub mod hosts;
mod options;

pub use error::ReplayJobError;
pub use options::ReplayJobOptions;

use crate::distributions::USUAL_BLOCK_BYTES;
use crate::engine::choose;
use crate::{FleetJob as _, JobEnvironment, Ran, TraceInput, contents};
use error::MAX_QUEUE_DEPTH;
use gemelo_base::Unit;
use gemelo_base::units::format_counted;
use gemelo_record::ResultFile;
use gemelo_replay::{
    Capacity, MapRule, PlanOptions, ReplayContents, ReplayOptions, ReplayPlan, ReplayResult, Speed,
};
use gemelo_target::{
    Engine, OtherPlaces, PlaceAccess, PlaceLayout, PlannedTarget, Storage, TargetUri,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Schema name of a [`ReplayFile`].
pub const SCHEMA: &str = "gemelo.replay/1";

/// The result of a replay, as a file keeps it.
pub type ReplayFile = ResultFile<ReplayInput, ReplayResult>;

/// A resolved replay, as a result file keeps it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ReplayInput {
    /// The trace files, which are replayed in this order.
    #[serde(with = "gemelo_base::names::paths")]
    #[schemars(with = "Vec<String>")]
    pub traces: Vec<PathBuf>,
    /// Speed, processes and engine.
    pub options: ReplayOptions,
    /// The rule for places beyond the end of the target.
    pub map: MapRule,
    /// Size of a block in bytes.
    pub block_bytes: u64,
    /// Size of the target in bytes.
    pub target_bytes: u64,
    /// `true` if reads and writes bypass the page cache.
    pub direct: bool,
}

/// A replay that is ready to run.
pub struct ResolvedReplay {
    /// The result of the first reading of the trace.
    pub plan: ReplayPlan,
    /// Speed, processes and engine.
    pub options: ReplayOptions,
    /// Target of the replay.
    pub target: TargetUri,
    trace: TraceInput,
    contents: ReplayContents,
    planned: Box<dyn PlannedTarget>,
    direct: bool,
    keep: bool,
    seed: u64,
}

/// A replay that ran. Its warnings are advice, and its error that the target could not be closed.
pub type ReplayRun = Ran<ReplayInput, ReplayResult, ReplayJobError>;

/// Resolves the options of a replay: reads the trace for the first time and checks the target.
///
/// # Errors
/// Fails if options contradict each other, if the trace is malformed, or if the target cannot carry
/// it. Nothing was touched.
pub fn resolve(
    job: &ReplayJobOptions,
    environment: &JobEnvironment<'_>,
) -> Result<ResolvedReplay, ReplayJobError> {
    let spec = contents::settled(job.spec.clone(), &job.content, environment.monitor)?;
    let storage = environment.targets.storage(&job.target)?;
    let options = replay_options(job, storage.as_ref())?;
    let plan = plan(job, storage.as_ref(), environment)?;
    check_duration(plan.duration_ns, options.speed)?;
    let layout = PlaceLayout {
        processes: 1,
        others: OtherPlaces::default(),
        place_bytes: plan.target_bytes(),
        block_bytes: plan.block_bytes() as usize,
        direct: job.direct,
        access: PlaceAccess::Create,
        force: job.force,
        preallocate: false,
    };
    let planned = storage.plan(&layout)?;
    if job.content.distribution.is_some() && plan.drawn_blocks() == 0 {
        return Err(ReplayJobError::NoDrawnBlocks);
    }
    Ok(ResolvedReplay {
        contents: ReplayContents::new(&spec, plan.drawn_blocks())?,
        plan,
        options,
        target: job.target.clone(),
        trace: job.trace.clone(),
        planned,
        direct: job.direct,
        keep: job.keep,
        seed: spec.assignment_seed,
    })
}

fn replay_options(
    job: &ReplayJobOptions,
    storage: &dyn Storage,
) -> Result<ReplayOptions, ReplayJobError> {
    if job.processes == 0 || job.processes > ReplayOptions::MAX_PROCESSES {
        return Err(ReplayJobError::Processes(job.processes));
    }
    let (engine, queue_depth) = choose(job.engine, job.queue_depth, storage)
        .map_err(|_| ReplayJobError::NoEngines { target: job.target.clone() })?;
    if queue_depth == 0 || queue_depth > MAX_QUEUE_DEPTH as usize {
        return Err(ReplayJobError::QueueDepth(queue_depth));
    }
    if engine == Engine::Psync && queue_depth > 1 {
        return Err(ReplayJobError::SynchronousDepth(queue_depth));
    }
    let (speed, processes, verify) = (job.speed, job.processes, job.verify);
    Ok(ReplayOptions { speed, processes, queue_depth, engine, verify })
}

/// Longest replay, 31 days. Longer ones come from times that jump.
const MAX_REPLAY_NS: u64 = 31 * 86_400_000_000_000;

/// Refuses a replay that nobody can mean.
fn check_duration(trace_ns: u64, speed: Speed) -> Result<(), ReplayJobError> {
    let Speed::Times(factor) = speed else { return Ok(()) };
    let duration_ns = (trace_ns as f64 / factor) as u64;
    if duration_ns > MAX_REPLAY_NS {
        return Err(ReplayJobError::Endless { duration_ns, speed });
    }
    Ok(())
}

/// Reads the trace for the first time.
fn plan(
    job: &ReplayJobOptions,
    storage: &dyn Storage,
    environment: &JobEnvironment<'_>,
) -> Result<ReplayPlan, ReplayJobError> {
    if job.trace.traces.iter().any(|path| path.as_os_str() == "-") {
        return Err(ReplayJobError::StandardInput);
    }
    let block_bytes = job.content.block_size.map_or(USUAL_BLOCK_BYTES, |size| size.0);
    if !(512..=1 << 20).contains(&block_bytes) {
        return Err(ReplayJobError::BlockSize(block_bytes));
    }
    let mut trace = job.trace.open().map_err(ReplayJobError::Trace)?;
    environment.monitor.begin("planning", Unit::Items, job.trace.limit);
    let capacity = match job.size {
        Some(size) => Some(size.0),
        None => storage.capacity()?,
    };
    let capacity = capacity.map_or(Capacity::AsNeeded, Capacity::Bytes);
    let options = PlanOptions { block_bytes, map: job.map, capacity };
    let plan = ReplayPlan::new(&mut trace, options, environment.stop)?;
    environment.monitor.finish();
    trace.source().check_devices().map_err(ReplayJobError::Trace)?;
    for remark in TraceInput::remarks(trace.source()) {
        environment.monitor.warn(&remark);
    }
    Ok(plan)
}

impl ResolvedReplay {
    /// Runs the replay.
    ///
    /// # Errors
    /// Fails if the replay cannot begin, or if the second reading of the trace fails. A failure
    /// during the replay is part of the result.
    pub fn run(self, environment: &JobEnvironment<'_>) -> Result<ReplayRun, ReplayJobError> {
        let mut target = self.planned.prepare()?;
        let mut trace = self.trace.open().map_err(ReplayJobError::Trace)?;
        let result = gemelo_replay::replay(
            &mut trace,
            &self.plan,
            &self.contents,
            target.as_ref(),
            &self.options,
            &environment.of_load(),
        )?;
        let finished = target.finish(self.keep).map_err(ReplayJobError::Finish);
        Ok(ReplayRun {
            input: ReplayInput {
                traces: self.trace.traces,
                options: self.options,
                map: self.plan.map(),
                block_bytes: self.plan.block_bytes(),
                target_bytes: self.plan.target_bytes(),
                direct: self.direct,
            },
            warnings: advice(&result),
            is_success: hosts::FleetReplay::is_success(&result),
            result,
            errors: finished.err().into_iter().collect(),
            schema: SCHEMA,
            target: Some(self.target.to_string()),
            seed: Some(self.seed),
        })
    }
}

/// Share of late operations from which the target, or this machine, does not keep up.
const MANY_LATE: f64 = 0.01;
/// Fewer late operations than this are caused by the scheduler of this machine rather than by the
/// target.
const FEWEST_LATE: u64 = 10;

/// Returns advice computed from the figures.
fn advice(result: &ReplayResult) -> Vec<String> {
    let mut advice = Vec::new();
    let blocks = result.reads.operations + result.writes.operations;
    let operations = (blocks + result.trims + result.flushes).max(1);
    if let Some(lateness) = &result.lateness
        && lateness.late >= FEWEST_LATE
        && lateness.late as f64 > operations as f64 * MANY_LATE
    {
        let share = (lateness.late as f64 / operations as f64).min(1.0) * 100.0;
        advice.push(format!(
            "{share:.1} % of the operations started late: the target did not keep up; try more \
             --queue-depth or --processes, or a lower --speed"
        ));
    }
    if result.verification.contradictions > 0 {
        advice.push(format!(
            "{} read with a content other than the trace wrote there: the trace lacks some writes",
            format_counted(result.verification.contradictions, "block")
        ));
    }
    advice
}
