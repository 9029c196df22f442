//! Merges the results of hosts that ran the parts of one job: histograms by their buckets, counts
//! by their sums, intervals by their starts. All hosts started at the same moment.

use crate::check::MAX_MISMATCHES;
use crate::contents::Contents;
use crate::history::{History, Segment, UncertainWrite};
use crate::job::Job;
use crate::measure::{LatencyHistogram, Usage};
use crate::result::{
    Ended, Measured, OperationFailure, OperationStats, Populated, ProcessResult, RunResult, Timing,
    Verification,
};
use crate::summary::{self, Stats};
use crate::written;
use gemelo_target::AtStart;

/// The result of the part of one host.
#[derive(Debug, Clone, Copy)]
pub struct PartResult<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// Number of the host.
    pub index: u32,
    /// Result of the processes of this host alone.
    pub result: &'a RunResult,
}

/// Returns the result of all hosts together. `job` and `contents` are those of all hosts; parts may
/// be missing, whose processes are then absent.
#[must_use]
pub fn merge(job: &Job, contents: &Contents, parts: &[PartResult<'_>]) -> RunResult {
    let results = || parts.iter().map(|part| part.result);
    let elapsed_ns = results().map(|result| result.elapsed_ns).max().unwrap_or(0);
    let mut figures = Stats { job, measured_ns: 0, elapsed_ns };
    figures.measured_ns = figures.busy_ns(elapsed_ns);
    let history = history(job, parts);
    let mut merged = RunResult {
        ended: ended(results().map(|result| result.ended)),
        failure: parts.iter().find_map(|part| failure(job, part)),
        elapsed_ns,
        measured_ns: figures.measured_ns,
        total: total(figures, parts),
        processes: parts.iter().flat_map(|part| processes(job, part)).collect(),
        intervals: figures.intervals(results().flat_map(|result| &result.interval_parts)),
        interval_parts: Vec::new(),
        populated: results().filter_map(|result| result.populated).reduce(both_populated),
        written: history.as_ref().and_then(|all| written::count(all, &contents.assignment)),
        stored: None,
        verification: verification(job, parts),
        usage: results().map(|result| result.usage).fold(Usage::default(), Usage::with),
        history,
        log_failure: None,
        warnings: Vec::new(),
    };
    merged.warnings = summary::warnings(job, &merged);
    merged
}

/// The number of a process among those of all hosts.
fn number(job: &Job, part: &PartResult<'_>, process: u32) -> u32 {
    part.index * job.spec().numbers().of_host + process
}

fn at_host(part: &PartResult<'_>, place: &str) -> String {
    format!("{}:{place}", part.host)
}

fn ended(all: impl Iterator<Item = Ended>) -> Ended {
    let rank = |ended: &Ended| match ended {
        Ended::Failed => 3,
        Ended::Stopped => 2,
        Ended::Time => 1,
        Ended::Bytes => 0,
    };
    all.max_by_key(rank).unwrap_or(Ended::Stopped)
}

fn failure(job: &Job, part: &PartResult<'_>) -> Option<OperationFailure> {
    let failure = part.result.failure.clone()?;
    Some(OperationFailure {
        process: number(job, part, failure.process),
        place: at_host(part, &failure.place),
        ..failure
    })
}

fn processes(job: &Job, part: &PartResult<'_>) -> Vec<ProcessResult> {
    let all = part.result.processes.iter().cloned();
    all.map(|process| ProcessResult {
        process: number(job, part, process.process),
        place: at_host(part, &process.place),
        ..process
    })
    .collect()
}

fn total(figures: Stats<'_>, parts: &[PartResult<'_>]) -> Measured {
    let totals = || parts.iter().map(|part| &part.result.total);
    let processes = parts.iter().flat_map(|part| &part.result.processes);
    let busy_ns: u64 = processes.map(|process| figures.busy_ns(process.ended_ns)).sum();
    let sum = |figure: fn(&Measured) -> u64| totals().map(figure).sum::<u64>();
    let generating_ns = sum(|total| total.generating_ns);
    Measured {
        reads: side(figures, totals().filter_map(|total| total.reads.as_ref())),
        writes: side(figures, totals().filter_map(|total| total.writes.as_ref())),
        syncs: Timing::of(together(totals().filter_map(|total| total.syncs.as_ref()))),
        generating_ns,
        checking_ns: sum(|total| total.checking_ns),
        generating_share: generating_ns as f64 / busy_ns.max(1) as f64,
        late_operations: sum(|total| total.late_operations),
        missed_operations: sum(|total| total.missed_operations),
    }
}

fn side<'a>(
    figures: Stats<'_>,
    sides: impl Iterator<Item = &'a OperationStats> + Clone,
) -> Option<OperationStats> {
    let service = together(sides.clone().filter_map(|side| side.service.as_ref()));
    let latency = together(sides.map(|side| &side.latency));
    figures.side(latency, (service.count() > 0).then_some(service))
}

fn together<'a>(timings: impl Iterator<Item = &'a Timing>) -> LatencyHistogram {
    let mut all = LatencyHistogram::default();
    timings.for_each(|timing| all.merge(&timing.histogram));
    all
}

fn both_populated(one: Populated, other: Populated) -> Populated {
    Populated {
        data_bytes: one.data_bytes + other.data_bytes,
        elapsed_ns: one.elapsed_ns.max(other.elapsed_ns),
    }
}

fn verification(job: &Job, parts: &[PartResult<'_>]) -> Option<Verification> {
    let mut found =
        parts.iter().filter_map(|part| Some((part, part.result.verification.as_ref()?)));
    let (part, first) = found.next()?;
    let mut all = of_host(job, part, first);
    all.is_complete &= parts.len() as u32 == job.spec().hosts;
    for (part, verification) in found {
        let more = of_host(job, part, verification);
        all.checked_blocks += more.checked_blocks;
        all.unknown_blocks += more.unknown_blocks;
        all.wrong_blocks += more.wrong_blocks;
        all.is_complete &= more.is_complete;
        all.mismatches.extend(more.mismatches);
    }
    all.mismatches.truncate(MAX_MISMATCHES);
    Some(all)
}

fn of_host(job: &Job, part: &PartResult<'_>, found: &Verification) -> Verification {
    let mut found = found.clone();
    for mismatch in &mut found.mismatches {
        mismatch.process = number(job, part, mismatch.process);
        mismatch.place = at_host(part, &mismatch.place);
    }
    found
}

/// Returns the writes of all hosts; `None` if those of a host are unknown.
fn history(job: &Job, parts: &[PartResult<'_>]) -> Option<History> {
    if parts.len() as u32 != job.spec().hosts {
        return None;
    }
    let histories = || parts.iter().map(|part| part.result.history.as_ref());
    let own: Vec<&History> = histories().collect::<Option<_>>()?;
    let is_zeros = own.iter().all(|history| history.at_start == AtStart::Zeros);
    let mut all = History::new(job, if is_zeros { AtStart::Zeros } else { AtStart::Unknown });
    for (number, first) in own.first()?.segments.iter().enumerate() {
        let mut segment = Segment { writes: Vec::new(), uncertain: Vec::new(), ..first.clone() };
        for (part, history) in parts.iter().zip(&own) {
            let other = history.segments.get(number)?;
            segment.writes.extend(&other.writes);
            segment.uncertain.extend(other.uncertain.iter().map(|write| UncertainWrite {
                process: part.index * history.processes + write.process,
                write: write.write,
            }));
        }
        all.segments.push(segment);
    }
    Some(all)
}
