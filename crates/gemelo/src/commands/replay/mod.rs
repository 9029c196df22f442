//! `gemelo replay`: a recorded trace, with its content, against storage.

mod text;

use super::bench::options::ContentOptions;
use super::trace::input::{TraceInput, failed};
use crate::context::Context;
use crate::exit::{Failures, OrBadInput, Outcome, bad_input};
use crate::values::Size;
use crate::{contents, files};
use anyhow::{Context as _, anyhow};
use clap::Args;
use gemelo_base::SystemClock;
use gemelo_load::Environment;
use gemelo_replay::{
    Capacity, MapRule, Plan, PlanError, PlanOptions, ReplayContents, ReplayError, ReplayOptions,
    ReplayResult, Speed,
};
use gemelo_report::{Provenance, ResultFile};
use gemelo_target::{Access, Engine, Layout, Storage, TargetError, TargetUri};
use serde::Serialize;
use std::path::PathBuf;

/// The layout of the result in JSON.
const SCHEMA: &str = "gemelo.replay/1";
const USUAL_BLOCK_BYTES: u64 = 4096;
const MOST_QUEUE_DEPTH: u32 = 1024;

/// Replays recorded block I/O with its content: equal hashes become equal blocks. Traces without hashes get contents from
/// --distribution.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceInput,
    /// A file, a block device, pool:DIRECTORY/VOLUME, nbd://HOST/EXPORT, nbd+unix:///EXPORT?socket=PATH or null:
    #[arg(long, value_name = "URI", help_heading = "Target")]
    target: TargetUri,
    /// Size of the target [default: that of the device, volume or export, or what the trace needs]
    #[arg(long, value_name = "SIZE", help_heading = "Target")]
    size: Option<Size>,
    /// Places beyond the target's end: refuse; fold them back to its beginning; or lay all places out dense, one after the
    /// other
    #[arg(long, value_name = "HOW", default_value = "refuse", help_heading = "Target")]
    map: MapRule,
    /// Go past the page cache (O_DIRECT)
    #[arg(long, help_heading = "Target")]
    direct: bool,
    /// Keep the file after the replay
    #[arg(long, help_heading = "Target")]
    keep: bool,
    /// Overwrite existing files, and devices, volumes and exports that hold data
    #[arg(long, help_heading = "Target")]
    force: bool,
    /// With the recorded gaps, so many times as fast, such as 1, 40 or 640; or max
    #[arg(long, value_name = "FACTOR", default_value = "1", help_heading = "Load")]
    speed: Speed,
    /// Threads, each with a part of the target
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Load")]
    processes: u32,
    /// Operations under way in each process; for pool: the length of its batches [default: 32 with io-uring, else 1]
    #[arg(long, value_name = "N", help_heading = "Load")]
    queue_depth: Option<u32>,
    /// For files and devices: psync or io-uring [default: io-uring with --queue-depth above 1, else psync]
    #[arg(long, value_name = "HOW", help_heading = "Load")]
    engine: Option<Engine>,
    /// Check every block that is read
    #[arg(long, help_heading = "Load")]
    verify: bool,
    /// Say what would be done, and end
    #[arg(long, conflicts_with = "json")]
    dry_run: bool,
    /// Write the result as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    content: ContentOptions,
}

/// What was replayed, and how, as the result repeats it.
#[derive(Debug, Serialize)]
struct Input {
    traces: Vec<PathBuf>,
    options: ReplayOptions,
    map: MapRule,
    block_bytes: u64,
    target_bytes: u64,
    direct: bool,
}

/// A replay that came to an end.
struct Replayed<'a> {
    plan: &'a Plan,
    options: &'a ReplayOptions,
    result: &'a ReplayResult,
    warnings: &'a [String],
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> anyhow::Result<Outcome> {
    let storage = context.targets.storage(&arguments.target).map_err(not_ready)?;
    let options = arguments.options(storage.as_ref())?;
    if let Some(path) = &arguments.json {
        files::check_new(path, arguments.force)?;
    }
    let plan = arguments.plan(storage.as_ref(), context)?;
    let layout = arguments.layout(&plan)?;
    let target = storage.plan(&layout).map_err(not_ready)?;
    if arguments.content.distribution.is_some() && plan.drawn_blocks() == 0 {
        return Err(bad_input(anyhow!(
            "--distribution has no effect here: the trace says the content of every block"
        )));
    }
    let spec = contents::resolve(&arguments.content, context.monitor.as_ref())?;
    let contents = ReplayContents::new(&spec, plan.drawn_blocks()).or_bad_input()?;
    let quiet = files::is_some_standard_output(arguments.json.as_deref());
    if !quiet {
        context.print(&text::plan(&plan, &options, &arguments.target))?;
    }
    if arguments.dry_run {
        return Ok(Outcome::Done);
    }
    let mut target = target.prepare().map_err(not_ready)?;
    let clock = SystemClock::new();
    let monitor = context.monitor.as_ref();
    let environment = Environment { clock: &clock, monitor, stop: &context.stop };
    let mut trace = arguments.trace.open()?;
    let result = gemelo_replay::replay(
        &mut trace,
        &plan,
        &contents,
        target.as_ref(),
        &options,
        &environment,
    )
    .map_err(not_replayed)?;
    let finished = target.finish(arguments.keep).context("cannot remove the file of the replay");
    let warnings = text::advice(&result);
    let replayed = Replayed {
        plan: &plan,
        options: &options,
        result: &result,
        warnings: &warnings,
        seed: spec.seed,
    };
    let mut failures = Failures::default();
    if !quiet {
        failures.note(context.print(&text::result(&result)), monitor);
        warnings.iter().for_each(|warning| monitor.warn(warning));
    }
    failures.note(arguments.write_json(context, &replayed), monitor);
    failures.note(finished, monitor);
    let is_sound = result.is_complete && result.verification.wrong == 0;
    failures.or(if is_sound { Outcome::Done } else { Outcome::Partial })
}

fn not_ready(error: TargetError) -> anyhow::Error {
    if error.is_bad_input() { bad_input(error.into()) } else { error.into() }
}

fn not_replayed(error: ReplayError) -> anyhow::Error {
    match error {
        ReplayError::Trace(error) => failed(error),
        ReplayError::NothingToVerify | ReplayError::OneQueue => bad_input(error.into()),
        ReplayError::Target(error) => not_ready(error),
        _ => error.into(),
    }
}

impl Arguments {
    fn options(&self, storage: &dyn Storage) -> anyhow::Result<ReplayOptions> {
        if self.processes == 0 || self.processes > ReplayOptions::MOST_PROCESSES {
            let most = ReplayOptions::MOST_PROCESSES;
            return Err(bad_input(anyhow!(
                "--processes is {}, it has to be from 1 to {most}",
                self.processes
            )));
        }
        const USUAL_DEPTH: u32 = 32;
        let asked = self.engine;
        if asked.is_some() && !storage.has_engines() {
            let target = &self.target;
            return Err(bad_input(anyhow!(
                "--engine is for files and devices: leave it out for {target}, and say --queue-depth"
            )));
        }
        let depth = self.queue_depth.unwrap_or(if asked == Some(Engine::IoUring) {
            USUAL_DEPTH
        } else {
            1
        });
        if depth == 0 || depth > MOST_QUEUE_DEPTH {
            return Err(bad_input(anyhow!(
                "--queue-depth is {depth}, it has to be from 1 to {MOST_QUEUE_DEPTH}"
            )));
        }
        if asked == Some(Engine::Psync) && depth > 1 {
            return Err(bad_input(anyhow!(
                "--engine psync does one operation at a time: use io-uring for --queue-depth {depth}"
            )));
        }
        let usual = match depth {
            _ if !storage.has_engines() => Engine::Native,
            1 => Engine::Psync,
            _ => Engine::IoUring,
        };
        Ok(ReplayOptions {
            speed: self.speed,
            processes: self.processes,
            queue_depth: depth as usize,
            engine: asked.unwrap_or(usual),
            verify: self.verify,
        })
    }

    fn block_bytes(&self) -> u64 {
        self.content.block_size.map_or(USUAL_BLOCK_BYTES, |size| size.0)
    }

    fn plan(&self, storage: &dyn Storage, context: &Context) -> anyhow::Result<Plan> {
        if self.trace.traces.iter().any(|path| path.as_os_str() == "-") {
            return Err(bad_input(anyhow!(
                "a replay reads its trace twice: standard input cannot be"
            )));
        }
        let block_bytes = self.block_bytes();
        if !(512..=1 << 20).contains(&block_bytes) {
            return Err(bad_input(anyhow!(
                "--block-size is {block_bytes}, it has to be from 512 to 1m"
            )));
        }
        let mut trace = self.trace.open()?;
        context.monitor.begin("planning", gemelo_base::Unit::Items, self.trace.limit);
        let options = PlanOptions { block_bytes, map: self.map, capacity: self.capacity(storage)? };
        let plan = Plan::new(&mut trace, options, &context.stop).map_err(|error| match error {
            PlanError::Stopped => error.into(),
            PlanError::Trace(error) => failed(error),
            _ => bad_input(error.into()),
        })?;
        context.monitor.finish();
        trace.source().check_devices().map_err(failed)?;
        for remark in TraceInput::remarks(trace.source()) {
            context.monitor.warn(&remark);
        }
        Ok(plan)
    }

    fn capacity(&self, storage: &dyn Storage) -> anyhow::Result<Capacity> {
        if let Some(size) = self.size {
            return Ok(Capacity::Bytes(size.0));
        }
        let bytes = storage.capacity().map_err(not_ready)?;
        Ok(bytes.map_or(Capacity::AsNeeded, Capacity::Bytes))
    }

    fn layout(&self, plan: &Plan) -> anyhow::Result<Layout> {
        Ok(Layout {
            processes: 1,
            place_bytes: plan.target_bytes(),
            block_bytes: usize::try_from(plan.block_bytes()).or_bad_input()?,
            direct: self.direct,
            access: Access::Create,
            force: self.force,
            preallocate: false,
        })
    }

    fn write_json(&self, context: &Context, replayed: &Replayed<'_>) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let Replayed { plan, options, result, warnings, seed } = *replayed;
        let mut provenance = Provenance::of_this_process(context.started_at);
        provenance.target = Some(self.target.to_string());
        provenance.seed = Some(seed);
        let input = Input {
            traces: self.trace.traces.clone(),
            options: *options,
            map: plan.map(),
            block_bytes: plan.block_bytes(),
            target_bytes: plan.target_bytes(),
            direct: self.direct,
        };
        let file = ResultFile {
            schema: SCHEMA.to_owned(),
            provenance,
            input,
            result,
            warnings: warnings.to_vec(),
        };
        files::write_json(path, self.force, &file)
    }
}
