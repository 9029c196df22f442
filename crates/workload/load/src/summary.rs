//! Makes a result from the measurements of all processes.

use crate::contents::Contents;
use crate::drive::Cause;
use crate::history::{History, UncertainWrite};
use crate::job::{Job, Pace};
use crate::measure::{Accumulator, IntervalPart, LatencyHistogram, Side, Timeline, Usage};
use crate::populate::Unfinished;
use crate::process::ProcessOutcome;
use crate::result::{
    Ended, Interval, IntervalStats, Measured, OperationFailure, OperationStats, Populated,
    ProcessResult, RunResult, Timing,
};
use crate::verify::Findings;
use crate::{stored, written};
use gemelo_base::series::{MAX_PARTS, TimeSeries};
use gemelo_target::{PoolStats, Target};

/// The collected outcomes of a run.
#[derive(Default)]
pub(crate) struct RunOutcomes {
    pub(crate) processes: Vec<ProcessOutcome>,
    pub(crate) uncertain: Vec<UncertainWrite>,
    pub(crate) findings: Findings,
    pub(crate) failure: Option<OperationFailure>,
    pub(crate) populated: Option<Populated>,
    pub(crate) pool_before: Option<PoolStats>,
    pub(crate) used: Usage,
    pub(crate) log_error: Option<String>,
}

/// Returns the result of a run that ended while populating.
pub(crate) fn unpopulated(job: &Job, unfinished: Unfinished) -> RunResult {
    let (ended, failure) = match unfinished {
        Unfinished::Stopped => (Ended::Stopped, None),
        Unfinished::Failed(failure) => (Ended::Failed, Some(*failure)),
    };
    let ran = RunOutcomes { failure, ..RunOutcomes::default() };
    let figures = Stats { job, measured_ns: 0, elapsed_ns: 0 };
    RunResult {
        ended,
        failure: ran.failure,
        elapsed_ns: 0,
        measured_ns: 0,
        total: figures.measured(&Accumulator::new(false), 0, 0),
        processes: Vec::new(),
        intervals: Vec::new(),
        interval_parts: Vec::new(),
        populated: None,
        written: None,
        stored: None,
        verification: None,
        usage: Usage::default(),
        history: None,
        log_failure: None,
        warnings: Vec::new(),
    }
}

/// Returns the result of a run.
pub(crate) fn result(
    job: &Job,
    contents: &Contents,
    target: &dyn Target,
    history: History,
    ran: RunOutcomes,
) -> RunResult {
    let elapsed_ns = ran.processes.iter().map(|process| process.ended_ns).max().unwrap_or(0);
    let measured_ns = Timeline::new(job.spec()).measured_ns(elapsed_ns);
    let figures = Stats { job, measured_ns, elapsed_ns };
    let mut all = Accumulator::new(job.spec().pace != Pace::Peak);
    for process in &ran.processes {
        all.add(&process.measured);
    }
    let busy_ns = ran.processes.iter().map(|process| figures.busy_ns(process.ended_ns)).sum();
    let missed = ran.processes.iter().map(|process| process.missed).sum();
    let total = figures.measured(&all, busy_ns, missed);
    let is_verified = job.spec().verify != crate::job::Verify::None;
    let mut result = RunResult {
        ended: ended(&ran),
        elapsed_ns,
        measured_ns,
        total,
        processes: ran.processes.iter().map(|process| figures.process(process, target)).collect(),
        intervals: figures.intervals(ran.processes.iter().flat_map(|one| &one.intervals)),
        interval_parts: parts(job, &ran.processes),
        populated: ran.populated,
        written: written::count(&history, &contents.assignment),
        stored: stored::compare(&history, contents, ran.pool_before, target.pool_figures()),
        verification: is_verified.then(|| ran.findings.finish(&history, contents, target)),
        usage: ran.used,
        history: target.holds_data().then_some(history),
        failure: ran.failure,
        log_failure: ran.log_error,
        warnings: Vec::new(),
    };
    result.warnings = warnings(job, &result);
    result
}

fn ended(ran: &RunOutcomes) -> Ended {
    let is_any = |cause| ran.processes.iter().any(|process| process.cause == cause);
    if ran.failure.is_some() {
        Ended::Failed
    } else if is_any(Cause::Stopped) || is_any(Cause::Halted) {
        Ended::Stopped
    } else if is_any(Cause::Time) {
        Ended::Time
    } else {
        Ended::Bytes
    }
}

/// Adds up the intervals of the processes of a host, for the merging with those of other hosts.
fn parts(job: &Job, processes: &[ProcessOutcome]) -> Vec<IntervalPart> {
    if job.spec().part.is_none() {
        return Vec::new();
    }
    TimeSeries::together(processes.iter().flat_map(|process| &process.intervals)).into_parts()
}

/// The context in which all figures of a run are computed.
#[derive(Clone, Copy)]
pub(crate) struct Stats<'a> {
    pub(crate) job: &'a Job,
    pub(crate) measured_ns: u64,
    pub(crate) elapsed_ns: u64,
}

impl Stats<'_> {
    /// Returns the measured time of a process that ran until `ended_ns`.
    pub(crate) fn busy_ns(&self, ended_ns: u64) -> u64 {
        Timeline::new(self.job.spec()).measured_ns(ended_ns)
    }

    fn process(&self, process: &ProcessOutcome, target: &dyn Target) -> ProcessResult {
        let busy_ns = self.busy_ns(process.ended_ns);
        let own = Stats { measured_ns: busy_ns, ..*self };
        ProcessResult {
            process: process.number,
            place: target.place(process.number),
            ended_ns: process.ended_ns,
            measured: own.measured(&process.measured, busy_ns, process.missed),
            reads: process.reads,
            writes: process.writes,
            usage: process.used,
        }
    }

    fn measured(&self, figures: &Accumulator, busy_ns: u64, missed: u64) -> Measured {
        Measured {
            reads: self.of_side(&figures.reads),
            writes: self.of_side(&figures.writes),
            syncs: Timing::of(figures.syncs.to_histogram()),
            generating_ns: figures.generating_ns,
            checking_ns: figures.checking_ns,
            generating_share: figures.generating_ns as f64 / busy_ns.max(1) as f64,
            late_operations: figures.late,
            missed_operations: missed,
        }
    }

    fn of_side(&self, side: &Side) -> Option<OperationStats> {
        let service = side.service.as_ref().map(crate::Latencies::to_histogram);
        self.side(side.latency.to_histogram(), service)
    }

    /// Returns the figures of the operations with these latencies; `None` if there were none.
    pub(crate) fn side(
        &self,
        latency: LatencyHistogram,
        service: Option<LatencyHistogram>,
    ) -> Option<OperationStats> {
        let operations = latency.count();
        let latency = Timing::of(latency)?;
        let data_bytes = operations * self.job.spec().request_bytes() as u64;
        Some(OperationStats {
            operations,
            data_bytes,
            operations_per_s: per_s(operations, self.measured_ns),
            bytes_per_s: per_s(data_bytes, self.measured_ns),
            latency,
            service: service.and_then(Timing::of),
        })
    }

    /// Adds up the parts of intervals. The list includes intervals in which no operation completed.
    pub(crate) fn intervals<'a>(
        &self,
        all: impl Iterator<Item = &'a IntervalPart>,
    ) -> Vec<Interval> {
        if self.job.spec().interval_ns == 0 {
            return Vec::new();
        }
        let parts = TimeSeries::together(all);
        let timeline = Timeline::new(self.job.spec());
        let mut intervals = Vec::new();
        let mut start_ns = 0;
        while start_ns <= self.elapsed_ns && intervals.len() < MAX_PARTS {
            let stretch = timeline.at(start_ns);
            let length_ns = stretch.end_ns.min(self.elapsed_ns).saturating_sub(start_ns);
            let part = parts.get(start_ns);
            if length_ns > 0 || part.is_some() {
                intervals.push(Interval {
                    start_ns,
                    length_ns,
                    phase: stretch.phase,
                    reads: part.and_then(|part| self.interval(&part.reads, length_ns)),
                    writes: part.and_then(|part| self.interval(&part.writes, length_ns)),
                });
            }
            start_ns = stretch.end_ns;
        }
        intervals
    }

    fn interval(&self, all: &LatencyHistogram, length_ns: u64) -> Option<IntervalStats> {
        let operations = all.count();
        let max_ns = all.counts.last()?[0];
        Some(IntervalStats {
            operations,
            bytes_per_s: per_s(operations * self.job.spec().request_bytes() as u64, length_ns),
            mean_ns: all.sum_ns as f64 / operations as f64,
            p50_ns: all.percentile_ns(50.0)?,
            p99_ns: all.percentile_ns(99.0)?,
            max_ns,
        })
    }
}

fn per_s(count: u64, time_ns: u64) -> f64 {
    count as f64 * 1e9 / time_ns.max(1) as f64
}

/// Share of the time spent generating from which the load may limit the throughput, rather than the
/// storage.
const MUCH_GENERATING: f64 = 0.5;
/// Share of late operations from which the rate of an open loop was not kept.
const MANY_LATE: f64 = 0.01;
/// Fewer late operations than this are caused by the scheduler of this machine rather than by the
/// storage.
const FEWEST_LATE: u64 = 10;

/// Returns advice computed from the figures.
pub(crate) fn warnings(job: &Job, result: &RunResult) -> Vec<String> {
    let mut warnings = Vec::new();
    let total = &result.total;
    if total.generating_share > MUCH_GENERATING && job.spec().pace == Pace::Peak {
        warnings.push(format!(
            "generating took {:.0} % of the time: the load was the bottleneck, not the storage",
            total.generating_share * 100.0
        ));
    }
    let operations = [&total.reads, &total.writes]
        .into_iter()
        .flatten()
        .map(|side| side.operations)
        .sum::<u64>();
    if total.late_operations >= FEWEST_LATE
        && total.late_operations as f64 > operations as f64 * MANY_LATE
    {
        warnings.push(format!(
            "{} of {operations} operations started late: the storage, or this machine, does not \
             keep up with the rate",
            total.late_operations
        ));
    }
    if total.missed_operations > 0 {
        warnings.push(format!(
            "{} operations should have started by the end of the run and did not: the true \
             latencies are longer",
            total.missed_operations
        ));
    }
    if let Some(error) = &result.log_failure {
        warnings.push(format!("the log of operations could not be written: {error}"));
    }
    if result.intervals.len() >= MAX_PARTS {
        warnings.push(format!("only the first {MAX_PARTS} intervals were kept"));
    }
    if result.ended.is_complete() && result.measured_ns == 0 {
        warnings.push(
            "the run ended before its ramp-up did, so nothing was measured: shorten the ramp-up"
                .to_owned(),
        );
    }
    warnings
}
