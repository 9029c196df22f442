//! Runs a job against a target: populates it, runs all processes, verifies, and assembles the
//! result.

use crate::barrier::StartBarrier;
use crate::check::Checker;
use crate::contents::Contents;
use crate::drive::{Cause, DriveContext, drive};
use crate::environment::Environment;
use crate::history::{History, OtherLayout, Segment, UncertainWrite};
use crate::job::{Job, Pace};
use crate::log::{LogSender, LogWriter};
use crate::measure::{Accumulator, Recorder, Timeline, Usage, forget_peak_memory};
use crate::operations::Kind;
use crate::populate::populate;
use crate::process::{Online, Process, ProcessOutcome, ProcessParts};
use crate::result::{OperationFailure, RunResult};
use crate::summary::{self, RunOutcomes};
use crate::verify::check_all;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use gemelo_base::live::{LiveStats, TotalProgress};
use gemelo_base::threads::joined;
use gemelo_base::{Classified, StopFlag, Unit};
use gemelo_target::{Queue, QueueOptions, Target};
use std::io::Write;
use std::time::Duration;
use thiserror::Error;

/// The reason why a run did not begin.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum RunError {
    /// The job continues with places of another layout.
    #[error(transparent)]
    OtherLayout(#[from] OtherLayout),
    /// The job verifies a target that holds no data.
    #[kind(BadInput, remedy = VerifyNothing)]
    #[error("this target holds no data, so it cannot be verified")]
    NothingToVerify,
}

/// Interval between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a job. `before` lists the writes of earlier jobs to the same places. Without it, the target
/// tells the state of its places. Every operation is written to `log` if there is one
/// ([`crate::read_log`]).
///
/// A failure during the run does not lose earlier measurements; the result contains both.
///
/// # Errors
/// Fails if the run cannot begin. Nothing was written in this case.
pub fn run(
    job: &Job,
    contents: &Contents,
    target: &dyn Target,
    before: Option<&History>,
    environment: &Environment<'_>,
    log: Option<&mut (dyn Write + Send)>,
) -> Result<RunResult, RunError> {
    let before = before.cloned().unwrap_or_else(|| History::new(job, target.at_start()));
    before.check(job)?;
    if job.spec().verify != crate::job::Verify::None && !target.holds_data() {
        return Err(RunError::NothingToVerify);
    }
    forget_peak_memory();
    let pool_before = target.pool_figures();
    let populated = match populate(job, contents, target, &before, environment) {
        Ok(populated) => populated,
        Err(unfinished) => {
            environment.monitor.finish();
            return Ok(summary::unpopulated(job, unfinished));
        }
    };
    let mut history = before;
    history.segments.push(Segment::of(job));
    let run = Run { job, contents, target, history: &history, environment };
    let used_before = Usage::of_this_program();
    let mut ran = run.all_processes(log);
    ran.used = Usage::of_this_program().since(used_before);
    ran.populated = populated;
    ran.pool_before = pool_before;
    if let Some(last) = history.segments.last_mut() {
        last.writes = ran.processes.iter().map(|process| process.writes).collect();
        last.uncertain = std::mem::take(&mut ran.uncertain);
    }
    if pool_before.is_some() && !environment.stop.is_raised() {
        let settled = target.settle(environment.monitor, environment.stop);
        ran.failure = ran
            .failure
            .or(settled.err().map(|error| OperationFailure::of_settling(&target.place(0), &error)));
    }
    if job.spec().verify.is_final() {
        let can_read_back = ran.failure.is_none() && !environment.stop.is_raised();
        ran.findings.verification.is_complete = can_read_back;
        if can_read_back {
            ran.failure = check_all(&mut ran.findings, &history, contents, target, environment);
        }
    }
    environment.monitor.finish();
    Ok(summary::result(job, contents, target, history, ran))
}

/// The context of all processes of a run.
struct Run<'a> {
    job: &'a Job,
    contents: &'a Contents,
    target: &'a dyn Target,
    history: &'a History,
    environment: &'a Environment<'a>,
}

/// The report of one thread: its outcome, the writes whose outcome is unknown, and the blocks it
/// checked.
struct Report<'a> {
    outcome: ProcessOutcome,
    uncertain: Vec<u64>,
    checker: Option<Checker<'a>>,
}

impl Run<'_> {
    fn all_processes(&self, log: Option<&mut (dyn Write + Send)>) -> RunOutcomes {
        let spec = self.job.spec();
        let (halt, progress) = (StopFlag::new(), TotalProgress::default());
        let context = DriveContext {
            clock: self.environment.clock,
            stop: self.environment.stop,
            halt: &halt,
            progress: &progress,
        };
        let (start, starter) = StartBarrier::new();
        let writer = log.is_some().then(LogWriter::new);
        let (reports, received) = unbounded();
        let start = &start;
        std::thread::scope(|scope| {
            let mut spawned = Ok(());
            for number in 0..spec.processes {
                let sender = writer.as_ref().map(|writer| writer.sender(number));
                let reports: Sender<Report<'_>> = reports.clone();
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || {
                    let report = self.one_process(context, start, number, sender);
                    // The receiver lives until every process has reported, so sending cannot fail.
                    let _ = reports.send(report);
                });
                spawned = spawned.and(thread.map(drop).map_err(|error| (number, error)));
            }
            drop(reports);
            let writing = log.zip(writer).map(|(out, writer)| {
                let write = move || writer.write(out, spec.request_bytes(), spec.processes);
                std::thread::Builder::new().spawn_scoped(scope, write)
            });
            let writing = writing.transpose().unwrap_or_else(|error| {
                // The senders of the processes fail, and none of them begins.
                spawned = std::mem::replace(&mut spawned, Ok(())).and(Err((0, error)));
                None
            });
            if spawned.is_err() {
                halt.raise();
            } else {
                starter.wait_for(spec.processes);
                if !halt.is_raised() {
                    self.environment.start.wait();
                }
            }
            start.open(starter, self.environment.clock);
            let mut ran = self.gather(&received, start, &progress);
            let written = writing.map_or(Ok(()), joined);
            ran.log_error = written.err().map(|error| error.to_string());
            if let Err((number, error)) = spawned {
                ran.failure = Some(OperationFailure::of_thread(number, &error));
            }
            ran
        })
    }

    /// Waits for all processes and reports progress meanwhile.
    fn gather(
        &self,
        received: &Receiver<Report<'_>>,
        start: &StartBarrier,
        progress: &TotalProgress,
    ) -> RunOutcomes {
        let spec = self.job.spec();
        let (unit, total) = match (spec.time_ns, spec.process_bytes) {
            (_, Some(bytes)) => {
                (Unit::Bytes, Some(bytes.saturating_mul(u64::from(spec.processes))))
            }
            (time_ns, None) => (Unit::Nanoseconds, time_ns),
        };
        self.environment.monitor.begin("running", unit, total);
        let mut ran = RunOutcomes::default();
        let mut told = 0;
        let mut live = LiveStats::new(self.environment.clock.now_ns());
        loop {
            match received.recv_timeout(PROGRESS_INTERVAL) {
                Ok(report) => ran.add(report),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now = match unit {
                        Unit::Bytes => progress.so_far().operations * spec.request_bytes() as u64,
                        _ => start.origin_ns().map_or(0, |origin_ns| {
                            self.environment.clock.now_ns().saturating_sub(origin_ns)
                        }),
                    };
                    self.environment.monitor.advance(now.saturating_sub(told));
                    told = now.max(told);
                    if let Some(text) =
                        live.next(self.environment.clock.now_ns(), || progress.so_far())
                    {
                        self.environment.monitor.show(&text);
                    }
                }
            }
        }
        ran.processes.sort_unstable_by_key(|process| process.number);
        ran
    }

    fn one_process<'a>(
        &'a self,
        context: DriveContext<'_>,
        start: &StartBarrier,
        number: u32,
        log: Option<LogSender>,
    ) -> Report<'a> {
        let spec = self.job.spec();
        let options = QueueOptions {
            engine: spec.engine,
            depth: spec.queue_depth,
            buffer_bytes: spec.request_bytes(),
        };
        // Each thread opens its own queue, because an io_uring ring belongs to one thread.
        let opened = self.target.open(number, &options);
        let opened = opened
            .map_err(|error| OperationFailure::of_open(number, &self.target.place(number), &error));
        let online = self.online(number);
        let ready = opened.and_then(|queue| online.map(|online| (queue, online)));
        if ready.is_err() {
            context.halt.raise();
        }
        let origin_ns = start.together();
        match ready {
            Err(failure) => Report::of_failure(failure, number),
            Ok((queue, online)) => {
                self.process(number, online, log).run_and_report(context, queue, origin_ns)
            }
        }
    }

    /// Returns the table of expected contents, if the job checks reads during the run.
    fn online(&self, number: u32) -> Result<Option<Online<'_>>, OperationFailure> {
        if !self.job.spec().verify.is_online() {
            return Ok(None);
        }
        let table = self.history.table(number, &self.contents.assignment);
        let table = table.map_err(|error| {
            OperationFailure::of_memory(number, &self.target.place(number), &error)
        })?;
        Ok(Some(Online { checker: Checker::new(self.contents), table }))
    }

    fn process<'a>(
        &'a self,
        number: u32,
        online: Option<Online<'a>>,
        log: Option<LogSender>,
    ) -> Process<'a> {
        let spec = self.job.spec();
        let is_open_loop = spec.pace != Pace::Peak;
        Process::new(ProcessParts {
            job: self.job,
            contents: self.contents,
            number,
            recorder: Recorder::new(Timeline::new(spec), is_open_loop, spec.interval_ns > 0),
            online,
            log,
            // The last segment of the history is this run, which has no writes yet.
            first_sequence: self.history.next_sequence(number),
        })
    }
}

impl<'a> Process<'a> {
    fn run_and_report(
        mut self,
        context: DriveContext<'_>,
        queue: Box<dyn Queue>,
        origin_ns: u64,
    ) -> Report<'a> {
        let used_before = Usage::of_this_thread();
        let limit_ns = self.parts.job.spec().time_ns;
        let driven = drive(context, queue, (origin_ns, limit_ns), &mut self);
        let used = Usage::of_this_thread().since(used_before);
        let missed = self.missed(&driven);
        let (measured, intervals) = self.parts.recorder.finish();
        let outcome = ProcessOutcome {
            number: self.parts.number,
            cause: driven.cause,
            ended_ns: driven.ended_ns,
            measured,
            intervals,
            reads: self.counts.of(Kind::Read),
            writes: self.counts.of(Kind::Write),
            missed,
            used,
            failure: self.faults.failure,
        };
        let checker = self.parts.online.map(|online| online.checker);
        Report { outcome, uncertain: self.faults.uncertain, checker }
    }
}

impl Report<'_> {
    fn of_failure(failure: OperationFailure, number: u32) -> Self {
        let outcome = ProcessOutcome {
            number,
            cause: Cause::Halted,
            ended_ns: 0,
            measured: Accumulator::new(false),
            intervals: Vec::new(),
            reads: 0,
            writes: 0,
            missed: 0,
            used: Usage::default(),
            failure: Some(failure),
        };
        Self { outcome, uncertain: Vec::new(), checker: None }
    }
}

impl RunOutcomes {
    fn add(&mut self, mut report: Report<'_>) {
        let process = report.outcome.number;
        if let Some(checker) = &report.checker {
            // All reads up to the end of the run are checked, so the check is complete.
            self.findings.verification.is_complete = true;
            self.findings.add(process, checker);
        }
        self.uncertain
            .extend(report.uncertain.into_iter().map(|write| UncertainWrite { process, write }));
        if self.failure.is_none() {
            self.failure = report.outcome.failure.take();
        }
        self.processes.push(report.outcome);
    }
}
