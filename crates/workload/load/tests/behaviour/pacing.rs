//! Tests of time limits, rates, ramp-up, cool-down and intervals, on a clock that moves only with
//! the storage.

use super::memory::{Event, Shared};
use super::{BLOCK, blocks, job, operations, run_by};
use gemelo_base::{ManualClock, StopFlag};
use gemelo_load::{Ended, JobOperation, JobSpec, Pace, Phase, RunResult};
use gemelo_pattern::Pattern;
use gemelo_target::Engine;
use std::sync::Arc;

const MS: u64 = 1_000_000;

/// A job of one second on storage where every operation takes a millisecond.
fn second() -> JobSpec {
    JobSpec {
        file_bytes: blocks(64),
        process_bytes: None,
        time_ns: Some(1000 * MS),
        interval_ns: 100 * MS,
        ..JobSpec::default()
    }
}

fn run_timed(spec: JobSpec, operation_ns: u64, events: &[(u64, Event)]) -> RunResult {
    let clock = Arc::new(ManualClock::new());
    let storage = Shared::new(spec.processes, spec.file_bytes).timed(&clock, operation_ns);
    let storage =
        events.iter().fold(storage, |storage, (at, event)| storage.with(0, *at, event.clone()));
    run_by(&clock, &StopFlag::new(), &job(spec), &storage.target())
}

#[test]
fn the_first_limit_reached_ends_the_run() {
    let by_time = run_timed(second(), MS, &[]);
    assert_eq!((by_time.ended, operations(&by_time)), (Ended::Time, (0, 1000)));
    assert_eq!((by_time.elapsed_ns, by_time.measured_ns), (1000 * MS, 1000 * MS));
    let both = JobSpec { process_bytes: Some(blocks(300) + 17), ..second() };
    let by_bytes = run_timed(both, MS, &[]);
    assert_eq!((by_bytes.ended, operations(&by_bytes)), (Ended::Bytes, (0, 300)));
    assert_eq!(by_bytes.elapsed_ns, 300 * MS);
    let rate = by_bytes.total.writes.unwrap();
    assert!((rate.operations_per_s - 1000.0).abs() < 1e-6 && rate.data_bytes == blocks(300));
}

#[test]
fn ramp_up_and_cool_down_are_run_and_not_measured() {
    let spec = JobSpec { ramp_up_ns: 250 * MS, cool_down_ns: 100 * MS, ..second() };
    let result = run_timed(spec, MS, &[]);
    // The operations counted end between 250 ms and just below 900 ms.
    assert_eq!(operations(&result), (0, 650));
    assert_eq!(result.measured_ns, 650 * MS);
    assert_eq!(result.processes[0].writes, 1000);
    let of = |phase| -> u64 {
        let intervals = result.intervals.iter().filter(|interval| interval.phase == phase);
        intervals.filter_map(|interval| interval.writes).map(|writes| writes.operations).sum()
    };
    // The operation that ends at the very end counts as cool-down.
    assert_eq!((of(Phase::RampUp), of(Phase::Measured), of(Phase::CoolDown)), (249, 650, 101));
    let lengths: u64 = result.intervals.iter().map(|interval| interval.length_ns).sum();
    assert_eq!(lengths, result.elapsed_ns);
}

#[test]
fn intervals_add_up_to_the_total_and_show_a_stall() {
    let result = run_timed(second(), MS, &[(350, Event::Stall { ns: 250 * MS })]);
    let writes = |index: usize| result.intervals[index].writes;
    let counts: u64 =
        (0..result.intervals.len()).filter_map(writes).map(|writes| writes.operations).sum();
    assert_eq!((0, counts), operations(&result));
    assert_eq!(counts, 750);
    assert!(writes(4).is_none() && writes(5).is_none(), "nothing was completed from 400 to 600 ms");
    assert!(writes(6).unwrap().max_ns >= 250 * MS);
    let latency = &result.total.writes.as_ref().unwrap().latency;
    assert_eq!(latency.histogram.count(), 750);
    assert_eq!(latency.histogram.sum_ns, 1000 * MS);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let spec = JobSpec { pace: Pace::Rate { ops_per_s: 400.0 }, ..second() };
    let result = run_timed(spec, MS, &[]);
    assert_eq!(operations(&result), (0, 400));
    assert_eq!((result.total.late_operations, result.total.missed_operations), (0, 0));
    let writes = result.total.writes.unwrap();
    assert_eq!(writes.latency.histogram, writes.service.unwrap().histogram);
    assert_eq!(result.elapsed_ns, 1000 * MS);
}

#[test]
fn a_stall_counts_for_all_who_should_have_started_in_it() {
    let spec = JobSpec { pace: Pace::Rate { ops_per_s: 400.0 }, ..second() };
    let result = run_timed(spec, MS, &[(100, Event::Stall { ns: 100 * MS })]);
    assert_eq!(operations(&result), (0, 400));
    let writes = result.total.writes.unwrap();
    let slow = |timing: &gemelo_load::Timing| -> u64 {
        let counts = timing.histogram.counts.iter().filter(|[latency_ns, _]| *latency_ns > 2 * MS);
        counts.map(|[_, count]| count).sum()
    };
    // After 101 ms of stall, operations start every 2.5 ms and take 1 ms: 40 waited, and 26 more
    // while catching up.
    assert_eq!(slow(&writes.service.unwrap()), 1, "service sees one slow operation");
    let waited = slow(&writes.latency);
    assert!((60..=68).contains(&waited), "{waited}");
    assert!((60..=68).contains(&result.total.late_operations), "{}", result.total.late_operations);
    assert!(
        result.warnings.iter().any(|warning| warning.contains("started late")),
        "{:?}",
        result.warnings
    );
}

#[test]
fn what_should_have_started_and_did_not_is_told() {
    let spec = JobSpec { pace: Pace::Rate { ops_per_s: 2000.0 }, ..second() };
    let result = run_timed(spec, MS, &[]);
    assert_eq!(operations(&result), (0, 1000));
    assert_eq!(result.total.missed_operations, 1000);
    assert!(
        result.warnings.iter().any(|warning| warning.contains("did not")),
        "{:?}",
        result.warnings
    );
}

/// Two operations on the same block never overlap. One is prepared and waits for the other; it is
/// left over when the time is up.
#[test]
fn a_closed_loop_misses_nothing() {
    let spec =
        JobSpec { file_bytes: blocks(1), queue_depth: 4, engine: Engine::IoUring, ..second() };
    let result = run_timed(spec, 300 * MS, &[]);
    assert_eq!((result.total.late_operations, result.total.missed_operations), (0, 0));
    assert_eq!(result.warnings, [""; 0]);
}

#[test]
fn bytes_that_are_done_leave_nothing_that_was_missed() {
    let pace = Pace::Rate { ops_per_s: 2000.0 };
    let result = run_timed(JobSpec { pace, process_bytes: Some(blocks(300)), ..second() }, MS, &[]);
    assert_eq!((result.ended, result.total.missed_operations), (Ended::Bytes, 0));
}

#[test]
fn reads_and_writes_have_rates_of_their_own() {
    let spec = JobSpec {
        operation: JobOperation::Mixed,
        pattern: Pattern::Uniform,
        pace: Pace::Rates { reads_per_s: 300.0, writes_per_s: 100.0 },
        ..second()
    };
    let result = run_timed(spec, MS, &[]);
    assert_eq!(operations(&result), (300, 100));
}

#[test]
fn manual_time_repeats_exactly() {
    let spec = JobSpec {
        operation: JobOperation::Mixed,
        pattern: Pattern::NuRand { a: None },
        ..second()
    };
    let one = run_timed(spec.clone(), MS, &[]);
    let other = run_timed(spec, MS, &[]);
    assert_eq!(
        (one.total, one.intervals, one.history),
        (other.total, other.intervals, other.history)
    );
    assert_eq!(one.elapsed_ns, 1000 * MS);
    assert_eq!(blocks(1), BLOCK as u64);
}
