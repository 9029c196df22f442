//! Running jobs one after the other.
//!
//! A job goes on with the files of the one before it if it has the same target, layout and contents and does not
//! populate them: so a file can be written, rewritten and read. Otherwise the files before are removed, or kept, first.

use super::resolve::{JobInput, ResolvedJob};
use crate::context::Context;
use crate::exit::{Failures, OrBadInput};
use crate::files::{self, NewFile};
use anyhow::Context as _;
use gemelo_base::SystemClock;
use gemelo_content::ContentSpec;
use gemelo_load::{Contents, Environment, History, Populate, RunResult};
use gemelo_target::{Layout, Target};
use std::fmt::Write as _;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// What was run, and what came of it.
pub(crate) struct Ran {
    pub(crate) inputs: Vec<JobInput>,
    pub(crate) results: Vec<RunResult>,
}

/// Places that a job left for the next one.
struct Open {
    target: Box<dyn Target>,
    layout: Layout,
    name: String,
    content: ContentSpec,
    contents: Contents,
    history: Option<History>,
    keep: bool,
}

impl Open {
    fn fits(&self, next: &ResolvedJob) -> bool {
        let layout = next.job.layout(next.force);
        let same_places = (layout.processes, layout.place_bytes, layout.block_bytes, layout.direct)
            == (
                self.layout.processes,
                self.layout.place_bytes,
                self.layout.block_bytes,
                self.layout.direct,
            );
        same_places
            && self.name == next.input.target
            && self.content == next.input.content
            && self.history.is_some()
            && !next.says_populate
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.target.finish(self.keep).context("cannot remove the files of the run")
    }
}

/// Checks all jobs as far as that is possible before the first one runs: nothing was touched if this fails.
pub(crate) fn check(jobs: &[ResolvedJob], json: Option<&Path>) -> anyhow::Result<()> {
    let outputs =
        jobs.iter().flat_map(|job| [&job.access_log, &job.log]).flatten().map(PathBuf::as_path);
    let force = jobs.iter().any(|job| job.force);
    files::check_all_new(outputs.chain(json), force)?;
    let mut before: Option<&ResolvedJob> = None;
    for job in jobs {
        // A job on the target of the one before it finds what that one leaves.
        if before.is_none_or(|before| before.input.target != job.input.target) {
            let name = &job.input.name;
            job.storage
                .plan(&job.job.layout(job.force))
                .with_context(|| format!("job {name}"))
                .or_bad_input()?;
        }
        before = Some(job);
    }
    Ok(())
}

/// Runs the jobs in order, until one fails or the user stops them. `each` gets every result as it comes. What was
/// measured comes back whatever fails after it.
pub(crate) fn run(
    jobs: Vec<ResolvedJob>,
    context: &Context,
    mut each: impl FnMut(&JobInput, &RunResult) -> anyhow::Result<()>,
) -> (Ran, Failures) {
    let monitor = context.monitor.as_ref();
    let mut failures = Failures::default();
    let mut open: Option<Open> = None;
    let mut ran = Ran { inputs: Vec::new(), results: Vec::new() };
    for mut job in jobs {
        let run = job.place_after(open.take()).and_then(|place| job.run_at(place, context));
        let (result, place, logged) = match run {
            Ok(run) => run,
            Err(error) => {
                failures.note(Err(error), monitor);
                break;
            }
        };
        let printed = each(&job.input, &result);
        let go_on = result.failure.is_none()
            && !context.stop.is_raised()
            && printed.is_ok()
            && logged.is_ok();
        failures.note(printed, monitor);
        failures.note(logged, monitor);
        ran.inputs.push(job.input);
        ran.results.push(result);
        open = Some(place);
        if !go_on {
            break;
        }
    }
    failures.note(open.map_or(Ok(()), Open::finish), monitor);
    (ran, failures)
}

impl ResolvedJob {
    /// The places of the job before, if they fit, or its own.
    fn place_after(&mut self, before: Option<Open>) -> anyhow::Result<Open> {
        match before {
            Some(before) if before.fits(self) => {
                self.go_on_with(&before)?;
                Ok(before)
            }
            Some(before) => {
                before.finish()?;
                self.open()
            }
            None => self.open(),
        }
    }

    fn open(&self) -> anyhow::Result<Open> {
        let name = &self.input.name;
        let layout = self.job.layout(self.force);
        let plan =
            self.storage.plan(&layout).with_context(|| format!("job {name}")).or_bad_input()?;
        let target = plan.prepare().with_context(|| format!("job {name}"))?;
        Ok(Open {
            target,
            layout,
            name: self.input.target.clone(),
            content: self.input.content.clone(),
            contents: self.contents.clone(),
            history: None,
            keep: self.input.job.keep,
        })
    }

    /// Takes the files as they are, with the contents that they were written with.
    fn go_on_with(&mut self, before: &Open) -> anyhow::Result<()> {
        self.input.job.populate = Populate::None;
        self.job = gemelo_load::Job::new(self.input.job.clone()).or_bad_input()?;
        self.contents = before.contents.clone();
        Ok(())
    }

    /// Runs the job. The last of the results is whether its logs were written.
    fn run_at(
        &self,
        mut place: Open,
        context: &Context,
    ) -> anyhow::Result<(RunResult, Open, anyhow::Result<()>)> {
        let clock = SystemClock::new();
        let environment =
            Environment { clock: &clock, monitor: context.monitor.as_ref(), stop: &context.stop };
        let mut log_file = self.open_log()?;
        let log = log_file.as_mut().map(|file| file as &mut (dyn std::io::Write + Send));
        let before = place.history.take();
        let result = gemelo_load::run(
            &self.job,
            &self.contents,
            place.target.as_ref(),
            before.as_ref(),
            &environment,
            log,
        )
        .with_context(|| format!("job {}", self.input.name))
        .or_bad_input()?;
        // The run has told of a log that it could not write: what there is of it is not kept.
        let log_file = log_file.filter(|_| result.log_failure.is_none());
        let logged = log_file.map_or(Ok(()), finish_log).and(self.write_access_log(&result));
        place.history.clone_from(&result.history);
        place.keep = self.input.job.keep;
        Ok((result, place, logged))
    }

    fn open_log(&self) -> anyhow::Result<Option<BufWriter<NewFile>>> {
        let Some(path) = &self.log else { return Ok(None) };
        Ok(Some(BufWriter::new(NewFile::create(path, self.force)?)))
    }

    /// `<block> <accesses>` a line; blocks of the second process come after those of the first, and so on.
    fn write_access_log(&self, result: &RunResult) -> anyhow::Result<()> {
        let Some(path) = &self.access_log else { return Ok(()) };
        let Some(history) = &result.history else { return Ok(()) };
        let mut text = String::new();
        for process in &result.processes {
            let first = u64::from(process.process) * history.place_blocks;
            let accesses = history
                .accesses(process.process, process.reads)
                .with_context(|| format!("no memory for {}", path.display()))?;
            for (block, accesses) in (first..).zip(accesses) {
                // A string takes whatever is written to it.
                let _ = writeln!(text, "{block} {accesses}");
            }
        }
        files::write_whole(path, self.force, text.as_bytes())
    }
}

/// Puts a complete log into its place.
fn finish_log(log: BufWriter<NewFile>) -> anyhow::Result<()> {
    let file = log.into_inner().map_err(std::io::IntoInnerError::into_error);
    file.context("cannot write the log of operations")?.finish()
}
