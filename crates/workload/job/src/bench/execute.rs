//! Runs jobs one after the other.
//!
//! A job continues with the files of the job before it if both have the same target, layout and
//! contents, and it does not populate them. A file can thus be written, rewritten and read. In all
//! other cases the earlier files are removed, or kept, first.

use super::error::ExecuteError;
use super::resolve::{JobInput, ResolvedJob};
use super::{BenchRun, SCHEMA};
use crate::{JobEnvironment, OutputFile};
use gemelo_content::ContentSpec;
use gemelo_load::{Contents, History, Job, Populate, RunResult};
use gemelo_target::{PlaceLayout, Target, TargetUri};
use std::fmt::Write as _;
use std::io::{BufWriter, IntoInnerError, Write};
use std::ops::ControlFlow;

/// The places that a job leaves to the next one.
struct Open {
    target: Box<dyn Target>,
    layout: PlaceLayout,
    uri: TargetUri,
    content: ContentSpec,
    contents: Contents,
    history: Option<History>,
    keep: bool,
}

/// The end of a job.
struct Ended {
    result: RunResult,
    place: Open,
    /// An error if the logs of the job were not written.
    logged: Result<(), ExecuteError>,
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
            && self.uri == next.input.target
            && self.content == next.input.content
            && self.history.is_some()
            && !next.says_populate
    }

    fn finish(mut self) -> Result<(), ExecuteError> {
        self.target.finish(self.keep).map_err(ExecuteError::Finish)
    }
}

/// Checks the targets of all jobs before the first one runs, as far as that is possible.
///
/// # Errors
/// Fails if a target cannot carry its job. Nothing was touched.
pub fn check(jobs: &[ResolvedJob]) -> Result<(), ExecuteError> {
    let mut before: Option<&ResolvedJob> = None;
    for job in jobs {
        // A job on the target of the job before it uses the files that the earlier one leaves.
        if before.is_none_or(|before| before.input.target != job.input.target) {
            job.storage.plan(&job.job.layout(job.force)).map_err(|error| job.refused(error))?;
        }
        before = Some(job);
    }
    Ok(())
}

/// Runs the jobs in order, until one fails, the user stops them, or `each` breaks. Calls `each`
/// with every result when it is complete. A later failure does not discard earlier measurements.
pub fn run(
    jobs: Vec<ResolvedJob>,
    environment: &JobEnvironment<'_>,
    each: impl FnMut(&JobInput, &RunResult) -> ControlFlow<()>,
) -> BenchRun {
    run_telling(jobs, environment, |_, _| {}, each)
}

/// Runs as [`run`] does. Calls `begins` before a job writes to files that keep data, with all jobs
/// up to this one and the history of the files, which [`crate::verify`] can check if the run is
/// killed.
pub fn run_telling(
    jobs: Vec<ResolvedJob>,
    environment: &JobEnvironment<'_>,
    mut begins: impl FnMut(Vec<JobInput>, History),
    mut each: impl FnMut(&JobInput, &RunResult) -> ControlFlow<()>,
) -> BenchRun {
    let mut open: Option<Open> = None;
    let count = jobs.len();
    let first = jobs.first().map(|job| &job.input);
    let mut ran = BenchRun {
        input: Vec::new(),
        result: Vec::new(),
        warnings: Vec::new(),
        errors: Vec::new(),
        is_success: false,
        schema: SCHEMA,
        target: first.map(|input| input.target.to_string()),
        seed: first.map(|input| input.job.seed),
    };
    for mut job in jobs {
        let run = job.place_after(open.take()).and_then(|place| {
            if let Some(history) = job.begun(&place) {
                begins(ran.input.iter().chain([&job.input]).cloned().collect(), history);
            }
            job.run_at(place, environment)
        });
        let Ended { result, place, logged } = match run {
            Ok(run) => run,
            Err(error) => {
                ran.errors.push(error);
                break;
            }
        };
        let shown = each(&job.input, &result);
        let go_on = result.failure.is_none()
            && !environment.stop.is_raised()
            && shown.is_continue()
            && logged.is_ok();
        ran.errors.extend(logged.err());
        ran.warnings.extend(job.warning().filter(|warning| !ran.warnings.contains(warning)));
        ran.input.push(job.input);
        ran.result.push(result);
        open = Some(place);
        if !go_on {
            break;
        }
    }
    ran.errors.extend(open.and_then(|place| place.finish().err()));
    ran.is_success = ran.result.len() == count && ran.result.iter().all(RunResult::is_success);
    ran.warnings.extend(ran.result.iter().flat_map(|result| result.warnings.clone()));
    ran
}

impl ResolvedJob {
    fn refused(&self, source: gemelo_target::TargetError) -> ExecuteError {
        ExecuteError::Plan { job: self.input.name.clone(), source }
    }

    /// Returns the places of the job before if they fit, or else opens new ones.
    fn place_after(&mut self, before: Option<Open>) -> Result<Open, ExecuteError> {
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

    fn open(&self) -> Result<Open, ExecuteError> {
        let layout = self.job.layout(self.force);
        let plan = self.storage.plan(&layout).map_err(|error| self.refused(error))?;
        let target = plan
            .prepare()
            .map_err(|source| ExecuteError::Prepare { job: self.input.name.clone(), source })?;
        Ok(Open {
            target,
            layout,
            uri: self.input.target.clone(),
            content: self.input.content.clone(),
            contents: self.contents.clone(),
            history: None,
            keep: self.input.job.keep,
        })
    }

    /// Takes the files as they are, with the contents that were written to them.
    fn go_on_with(&mut self, before: &Open) -> Result<(), ExecuteError> {
        self.input.job.populate = Populate::None;
        self.job = Job::new(self.input.job.clone())
            .map_err(|source| ExecuteError::Continue { job: self.input.name.clone(), source })?;
        self.contents = before.contents.clone();
        Ok(())
    }

    /// Returns the history of the files before the job begins, if they keep data.
    fn begun(&self, place: &Open) -> Option<History> {
        let at_start = place.target.at_start();
        let holds_data = place.target.holds_data();
        holds_data.then(|| History::begun(&self.job, at_start, place.history.as_ref()))
    }

    /// Runs the job.
    fn run_at(
        &self,
        mut place: Open,
        environment: &JobEnvironment<'_>,
    ) -> Result<Ended, ExecuteError> {
        let mut log_file = self.open_log(environment)?;
        let log = log_file.as_mut().map(|file| file as &mut (dyn Write + Send));
        let before = place.history.take();
        let result = gemelo_load::run(
            &self.job,
            &self.contents,
            place.target.as_ref(),
            before.as_ref(),
            &environment.of_load(),
            log,
        )
        .map_err(|source| ExecuteError::Begin { job: self.input.name.clone(), source })?;
        // The result reports a log that could not be written. The incomplete log is dropped.
        let log_file = log_file.filter(|_| result.log_failure.is_none());
        // If one output cannot be written, the other one still is.
        let logged = log_file.map_or(Ok(()), finish_log);
        let logged = logged.and(self.write_access_log(&result, environment));
        place.history.clone_from(&result.history);
        place.keep = self.input.job.keep;
        Ok(Ended { result, place, logged })
    }

    fn open_log(
        &self,
        environment: &JobEnvironment<'_>,
    ) -> Result<Option<BufWriter<Box<dyn OutputFile>>>, ExecuteError> {
        let Some(path) = &self.log else { return Ok(None) };
        let file = environment.outputs.create(path, self.force).map_err(ExecuteError::Output)?;
        Ok(Some(BufWriter::new(file)))
    }

    /// Writes a line `<block> <accesses>` for each block. Blocks of the second process come after
    /// those of the first, and so on.
    fn write_access_log(
        &self,
        result: &RunResult,
        environment: &JobEnvironment<'_>,
    ) -> Result<(), ExecuteError> {
        let Some(path) = &self.access_log else { return Ok(()) };
        let Some(history) = &result.history else { return Ok(()) };
        let mut text = String::new();
        for process in &result.processes {
            let first = u64::from(process.process) * history.place_blocks;
            let accesses = history
                .accesses(process.process, process.reads)
                .map_err(|source| ExecuteError::Memory { path: path.clone(), source })?;
            for (block, accesses) in (first..).zip(accesses) {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "{block} {accesses}");
            }
        }
        let mut file =
            environment.outputs.create(path, self.force).map_err(ExecuteError::Output)?;
        file.write_all(text.as_bytes())
            .map_err(|source| ExecuteError::Write { path: path.clone(), source })?;
        file.finish().map_err(ExecuteError::Output)
    }
}

/// Completes a log of operations.
fn finish_log(log: BufWriter<Box<dyn OutputFile>>) -> Result<(), ExecuteError> {
    let file = log.into_inner().map_err(IntoInnerError::into_error).map_err(ExecuteError::Log)?;
    file.finish().map_err(ExecuteError::Output)
}
