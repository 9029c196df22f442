//! Executes the steps of a program in order.

use super::engine::{Running, StartInputs};
use super::error::WorkloadError;
use super::fileset::Fileset;
use super::live::LiveRun;
use super::options::{Console, Options};
use super::populate::{Filled, populate};
use super::result::{FilesetResult, WorkloadResult};
use super::shared::End;
use super::text;
use crate::model::{FilesetSpec, Step, WorkloadPlan};
use crate::script::Program;
use crate::script::syntax::QuitMode;
use crate::sources::{Distributions, SourceSpec, Surroundings, find, open};
use gemelo_base::ShowPath as _;
use gemelo_base::random::mix_pair;
use gemelo_base::{Clock, Monitor, StartLine, StopFlag, SystemClock};
use std::path::{Component, Path};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

/// Directories whose handles are kept open, over all filesets.
const MAX_HANDLES: u64 = 4096;
/// Interval at which a sleep checks the stop flag.
const SLEEP_INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of a program.
#[derive(Debug)]
pub struct Outcome {
    /// Results of all runs, in order.
    pub runs: Vec<WorkloadResult>,
    /// Failure during the program. `runs` contains the measurements before it.
    pub error: Option<WorkloadError>,
    /// `true` if the stop flag was raised.
    pub interrupted: bool,
}

/// Starts a stopwatch: the function returns the seconds since now.
fn stopwatch() -> impl Fn() -> f64 {
    let clock = SystemClock::new();
    move || clock.now_ns() as f64 / 1e9
}

struct Executor<'a> {
    console: Arc<dyn Console>,
    options: &'a Options,
    monitor: &'a dyn Monitor,
    stop: &'a StopFlag,
    /// Holds the processes back until all hosts have made their files.
    start: &'a dyn StartLine,
    distributions: Distributions<'a>,
    filesets: Option<Arc<Vec<Fileset>>>,
    made: Vec<FilesetResult>,
    used_before: Option<i64>,
    running: Option<(Running, Arc<WorkloadPlan>)>,
    current: Option<WorkloadResult>,
    runs: Vec<WorkloadResult>,
}

/// Runs a program. Invalid filesets and data sources are refused before any file is touched.
///
/// # Errors
/// Fails if a fileset is in a place that must not be touched, or a data source cannot be opened.
/// Later failures are in the outcome.
pub fn execute(
    program: &Program,
    options: &Options,
    console: &Arc<dyn Console>,
    monitor: &dyn Monitor,
    (stop, start): (&StopFlag, &dyn StartLine),
    distributions: Distributions<'_>,
) -> Result<Outcome, WorkloadError> {
    check(&program.plan, options, distributions)?;
    let mut executor = Executor {
        console: Arc::clone(console),
        options,
        monitor,
        stop,
        start,
        distributions,
        filesets: None,
        made: Vec::new(),
        used_before: None,
        running: None,
        current: None,
        runs: Vec::new(),
    };
    let mut error = executor.steps(&program.steps).err();
    executor.shut_down(&mut error);
    let cleaned = executor.clean_up();
    let error = error.or(cleaned.err());
    Ok(Outcome { runs: executor.runs, error, interrupted: stop.is_raised() })
}

/// Refuses filesets that must not be touched, and data sources that cannot be opened.
fn check(
    plan: &WorkloadPlan,
    options: &Options,
    distributions: Distributions<'_>,
) -> Result<(), WorkloadError> {
    for spec in &plan.filesets {
        let path = spec.path.join(&spec.name);
        if let Some(dir) = &options.dir {
            let climbs = path.components().any(|part| part == Component::ParentDir);
            if climbs || !path.starts_with(dir) {
                return Err(WorkloadError::Outside {
                    fileset: spec.name.clone(),
                    path,
                    dir: dir.clone(),
                });
            }
        }
        Fileset::look(spec, options.force)?;
        open_source(spec, 1, options, distributions)?;
    }
    Ok(())
}

/// Returns the data source of a fileset: its own, or that of the options. An attribute set by the
/// options is applied.
fn source_of(spec: &FilesetSpec, options: &Options) -> Option<SourceSpec> {
    let source = spec.source.clone().or_else(|| options.source.clone())?;
    let Some((attribute, value)) = &options.source_attribute else { return Some(source) };
    let has = find(&source.name)
        .is_some_and(|found| found.attributes.iter().any(|(name, _)| name == attribute));
    Some(if has { source.with(attribute, value) } else { source })
}

type OpenSource = Option<Box<dyn crate::sources::DataSource>>;

fn open_source(
    spec: &FilesetSpec,
    data_bytes: u64,
    options: &Options,
    distributions: Distributions<'_>,
) -> Result<OpenSource, WorkloadError> {
    let Some(source) = source_of(spec, options) else { return Ok(None) };
    let around =
        Surroundings { seed: options.seed, run_id: options.run_id, data_bytes, distributions };
    open(&source, &around)
        .map(Some)
        .map_err(|error| WorkloadError::Source { fileset: spec.name.clone(), source: error })
}

/// Returns the bytes in use on the file system of a directory, which need not exist yet.
fn used_bytes(path: &Path) -> Option<i64> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    let directory = std::fs::File::open(existing).ok()?;
    // Without this call, data that is not written back yet would not count.
    rustix::fs::syncfs(&directory).ok()?;
    let system = rustix::fs::fstatvfs(&directory).ok()?;
    i64::try_from(system.f_blocks.checked_sub(system.f_bfree)?.checked_mul(system.f_frsize)?).ok()
}

/// Raises the limit on open files to the permitted maximum and returns it.
fn lift_handle_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let before = limit.current;
    limit.current = limit.maximum;
    let lifted = setrlimit(Resource::Nofile, limit).is_ok();
    (if lifted { limit.maximum } else { before }).unwrap_or(1 << 20)
}

impl Executor<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), WorkloadError> {
        for step in steps {
            if self.stop.is_raised() {
                return Ok(());
            }
            match step {
                Step::Say(text) => self.console.line(text),
                Step::System(command) => self.system(command)?,
                Step::CreateFiles(plan) => self.create_files(plan)?,
                Step::CreateProcesses(plan) => self.start(plan)?,
                Step::ShutdownProcesses => self.stop_processes()?,
                Step::Run(plan, seconds) => self.run(plan, *seconds, None, false)?,
                Step::PeriodicRun { plan, period_s, reset, time_s } => {
                    self.run(plan, *time_s, Some(*period_s), *reset)?;
                }
                Step::Sleep(seconds) => self.sleep(*seconds),
                Step::ClearStats => {
                    if let Some((running, _)) = &mut self.running {
                        running.clear();
                    }
                }
                Step::SnapStats => self.snap(),
                Step::Quit => return Ok(()),
            }
        }
        Ok(())
    }

    fn system(&self, command: &str) -> Result<(), WorkloadError> {
        let failed = |source| WorkloadError::System { command: command.to_owned(), source };
        let output = std::process::Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(failed)?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.trim_end().is_empty() {
            self.console.line(text.trim_end());
        }
        Ok(())
    }

    fn create_files(&mut self, plan: &WorkloadPlan) -> Result<(), WorkloadError> {
        if self.filesets.is_some() {
            return Ok(());
        }
        let limit = lift_handle_limit();
        let handles = (limit / 4).min(MAX_HANDLES) / plan.filesets.len().max(1) as u64;
        let first = plan.filesets.first().filter(|_| self.options.measure_stored);
        self.used_before = first.and_then(|spec| used_bytes(&spec.path));
        self.console.line("Populating and pre-allocating filesets");
        let mut filesets = Vec::with_capacity(plan.filesets.len());
        let mut result = Ok(());
        for spec in &plan.filesets {
            let seed = mix_pair(self.options.seed, filesets.len() as u64);
            let mut fileset = Fileset::new(spec, seed);
            result = self.create_fileset(&mut fileset, handles as usize, seed);
            filesets.push(fileset);
            if result.is_err() || self.stop.is_raised() {
                break;
            }
        }
        // The filesets are kept after an error, too, so that the files made so far are removed.
        self.filesets = Some(Arc::new(filesets));
        result?;
        self.console.line("Population and pre-allocation of filesets completed");
        Ok(())
    }

    fn create_fileset(
        &mut self,
        fileset: &mut Fileset,
        handles: usize,
        seed: u64,
    ) -> Result<(), WorkloadError> {
        let data_bytes = fileset.layout.bytes;
        fileset.source = open_source(&fileset.spec, data_bytes, self.options, self.distributions)?;
        for shortfall in fileset.source.iter().flat_map(|source| source.shortfalls()) {
            self.monitor.warn(&shortfall);
        }
        let spec = &fileset.spec;
        self.console.line(&format!(
            "{} populated: {} files, avg. dir. width = {:.0}, avg. dir. depth = {:.1}, {} \
             leafdirs, {:.3}MB total size",
            spec.name,
            spec.entries,
            spec.dir_width.mean(),
            fileset.layout.mean_depth,
            spec.leaf_dirs,
            data_bytes as f64 / 1024.0 / 1024.0
        ));
        fileset.open_tree(self.options.force, handles)?;
        let verb = if fileset.is_ours() { "Pre-allocating files in" } else { "Reusing existing" };
        self.console.line(&format!("{verb} {} tree", fileset.spec.name));
        let filled = populate(fileset, seed, self.monitor, self.stop)?;
        let source = source_of(&fileset.spec, self.options).map(|source| source.to_text());
        self.made.push(fileset_result(fileset, filled, source));
        Ok(())
    }

    fn start(&mut self, plan: &Arc<WorkloadPlan>) -> Result<(), WorkloadError> {
        self.create_files(plan)?;
        self.stop_processes()?;
        if self.stop.is_raised() {
            return Ok(());
        }
        self.start.wait();
        if self.stop.is_raised() {
            return Ok(());
        }
        let stage = StartInputs {
            filesets: self.filesets.clone().unwrap_or_default(),
            console: Arc::clone(&self.console),
            options: self.options.clone(),
            stop: self.stop.clone(),
            handle_limit: lift_handle_limit(),
        };
        for process in &plan.processes {
            self.console
                .line(&format!("Starting {} {} instances", process.instances, process.name));
        }
        self.running = Some((Running::start(plan, &stage)?, Arc::clone(plan)));
        self.current = Some(WorkloadResult {
            filesets: self.made.clone(),
            intervals: Vec::new(),
            seconds: Vec::new(),
            ended_early: None,
            complete: true,
            stored_bytes: None,
        });
        Ok(())
    }

    fn run(
        &mut self,
        plan: &Arc<WorkloadPlan>,
        seconds: f64,
        period_s: Option<f64>,
        reset: bool,
    ) -> Result<(), WorkloadError> {
        self.start(plan)?;
        self.console.line("Running...");
        let seconds = self.options.run_s.unwrap_or(seconds);
        let limit = (seconds > 0.0).then_some(seconds);
        let mut live = LiveRun::new(self.monitor, limit);
        loop {
            let left = limit.map(|limit| (limit - live.elapsed_s()).max(0.0));
            let wait = match (left, period_s) {
                (Some(left), Some(period)) => Some(left.min(period)),
                (left, period) => left.or(period),
            };
            let Some((running, _)) = &mut self.running else { break };
            let timed_out = live.wait(running, wait);
            if !timed_out || left.is_some_and(|left| wait.is_none_or(|wait| left <= wait)) {
                break;
            }
            self.snap();
            if reset && let Some((running, _)) = &mut self.running {
                running.clear();
            }
        }
        self.console.line(&format!("Run took {:.0} seconds...", live.elapsed_s()));
        if let (Some((running, _)), Some(current)) = (&self.running, &mut self.current) {
            current.seconds = live.finish(running);
        }
        self.snap();
        self.stop_processes()
    }

    fn sleep(&self, seconds: f64) {
        let seconds =
            if self.running.is_some() { self.options.run_s.unwrap_or(seconds) } else { seconds };
        let elapsed_s = stopwatch();
        while elapsed_s() < seconds && !self.stop.is_raised() {
            let left = seconds - elapsed_s();
            match &self.running {
                Some((running, _)) => {
                    running.wait(Some(left));
                    return;
                }
                None => {
                    gemelo_base::pause(SLEEP_INTERVAL.min(Duration::from_secs_f64(left.max(0.0))));
                }
            }
        }
    }

    fn snap(&mut self) {
        if let (Some((running, plan)), Some(current)) = (&self.running, &mut self.current) {
            let interval = running.snapshot();
            self.console.line(&text::breakdown(&interval, plan.histogram));
            current.intervals.push(interval);
        }
    }

    fn stop_processes(&mut self) -> Result<(), WorkloadError> {
        let Some((running, plan)) = self.running.take() else { return Ok(()) };
        self.console.line("Shutting down processes");
        let end = running.stop();
        let Some(mut current) = self.current.take() else { return Ok(()) };
        if let (Some(before), Some(spec)) = (self.used_before, plan.filesets.first()) {
            current.stored_bytes = used_bytes(&spec.path).map(|after| after - before);
        }
        let mut failure = None;
        match end {
            Some(End::OutOfFiles(flowop)) => {
                let reason = format!(
                    "the run stopped early: flowop {flowop} could not obtain a file; reduce the \
                     runtime, increase entries, or set mode quit"
                );
                self.monitor.warn(&reason);
                current.ended_early = Some(reason);
                current.complete = plan.quit_mode != QuitMode::Timeout;
            }
            Some(End::Failed(error)) => {
                current.ended_early = Some(error.to_string());
                current.complete = false;
                failure = Some(error);
            }
            Some(End::Finished) => {
                current.ended_early = Some("all threads have finished".to_owned());
            }
            None if self.stop.is_raised() => {
                current.ended_early = Some("interrupted".to_owned());
                current.complete = false;
            }
            None => {}
        }
        self.runs.push(current);
        failure.map_or(Ok(()), Err)
    }

    fn shut_down(&mut self, error: &mut Option<WorkloadError>) {
        if self.running.is_some()
            && self.current.as_ref().is_some_and(|current| current.intervals.is_empty())
        {
            self.snap();
        }
        if let Err(failure) = self.stop_processes() {
            error.get_or_insert(failure);
        }
    }

    fn clean_up(&mut self) -> Result<(), WorkloadError> {
        let Some(filesets) = self.filesets.take().and_then(Arc::into_inner) else { return Ok(()) };
        if self.options.keep {
            return Ok(());
        }
        let mut result = Ok(());
        // Filesets are removed in reverse order, because one may be inside directories that an
        // earlier one made.
        for mut fileset in filesets.into_iter().rev() {
            result = result.and(fileset.clean_up());
        }
        result
    }
}

fn fileset_result(fileset: &Fileset, filled: Filled, source: Option<String>) -> FilesetResult {
    FilesetResult {
        name: fileset.spec.name.clone(),
        path: fileset.root.shown().to_string(),
        entries: fileset.spec.entries,
        files_made: filled.files,
        planned_bytes: fileset.layout.bytes,
        written_bytes: filled.bytes,
        generation_ns: filled.generate_ns,
        source,
    }
}
