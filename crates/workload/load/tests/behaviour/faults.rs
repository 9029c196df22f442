//! Tests storage that fails, returns wrong data or is told to stop. Every fault is found and named,
//! and earlier measurements are kept.

use super::memory::{Event, Memory, Shared};
use super::{blocks, job, operations, run_by, run_on, verify_on};
use gemelo_base::{ManualClock, StopFlag};
use gemelo_load::{
    Ended, FoundContent, Job, JobOperation, JobSpec, Populate, ProcessBlock, RunResult, SyncPolicy,
    Verify,
};
use gemelo_target::Engine;
use std::sync::atomic::Ordering;

const PLACE_BLOCKS: u64 = 64;

/// Two processes write their places twice, in order, and everything is read back.
fn rewrite() -> JobSpec {
    JobSpec {
        processes: 2,
        file_bytes: blocks(PLACE_BLOCKS),
        process_bytes: Some(blocks(2 * PLACE_BLOCKS)),
        verify: Verify::Final,
        ..JobSpec::default()
    }
}

fn storage(spec: &JobSpec) -> Shared {
    Shared::new(spec.processes, spec.file_bytes)
}

/// Returns the only mismatch of a run in which one write of process 1 went wrong.
fn only_mismatch(write: u64, event: Event) -> (FoundContent, u64) {
    let target = storage(&rewrite()).with(1, write, event).target();
    let result = run_on(&job(rewrite()), &target);
    assert!(!result.is_success());
    assert_eq!((result.ended, result.failure), (Ended::Bytes, None));
    let verification = result.verification.unwrap();
    assert_eq!((verification.checked_blocks, verification.wrong_blocks), (2 * PLACE_BLOCKS, 1));
    let mismatch = verification.mismatches[0].clone();
    assert_eq!((mismatch.process, mismatch.place.as_str()), (1, "memory 1"));
    (mismatch.found, mismatch.offset_bytes)
}

#[test]
fn nothing_wrong_is_found_where_nothing_is() {
    let target = storage(&rewrite()).target();
    let result = run_on(&job(rewrite()), &target);
    assert!(result.is_success(), "{result:?}");
    assert_eq!(operations(&result), (0, 4 * PLACE_BLOCKS));
}

#[test]
fn a_lost_rewrite_shows_the_content_written_here_before() {
    let (found, offset) = only_mismatch(PLACE_BLOCKS + 5, Event::Lose);
    let FoundContent::Content { written_to, .. } = found else { panic!("{found:?}") };
    assert_eq!(written_to, Some(ProcessBlock { process: 1, offset_bytes: blocks(5) }));
    assert_eq!(offset, blocks(5));
}

#[test]
fn a_lost_first_write_shows_zeros() {
    let spec = JobSpec { process_bytes: Some(blocks(PLACE_BLOCKS)), ..rewrite() };
    let target = storage(&spec).with(0, 7, Event::Lose).target();
    let verification = run_on(&job(spec), &target).verification.unwrap();
    let found: Vec<_> =
        verification.mismatches.iter().map(|one| (one.offset_bytes, &one.found)).collect();
    assert_eq!(found, [(blocks(7), &FoundContent::Zeros)]);
}

#[test]
fn a_torn_write_shows_how_much_came_through() {
    let (found, offset) = only_mismatch(PLACE_BLOCKS + 9, Event::Tear { bytes: 1536 });
    assert!(matches!(found, FoundContent::Torn { intact_sectors: 3, sectors: 8, .. }), "{found:?}");
    assert_eq!(offset, blocks(9));
}

#[test]
fn a_misdirected_write_shows_in_both_places() {
    let spec = rewrite();
    let target =
        storage(&spec).with(1, 2 * PLACE_BLOCKS - 1, Event::Misdirect { to_block: 3 }).target();
    let verification = run_on(&job(spec), &target).verification.unwrap();
    let found: Vec<_> =
        verification.mismatches.iter().map(|one| (one.offset_bytes, &one.found)).collect();
    let last = blocks(PLACE_BLOCKS - 1);
    assert_eq!(found.len(), 2, "{found:?}");
    let written_to = |found: &FoundContent| match found {
        FoundContent::Content { written_to, .. } => written_to.map(|place| place.offset_bytes),
        _ => None,
    };
    assert_eq!((found[0].0, written_to(found[0].1)), (blocks(3), Some(last)));
    assert_eq!((found[1].0, written_to(found[1].1)), (last, Some(last)));
    let text = verification.mismatches[0].to_string();
    assert!(
        text.contains("process 1, memory 1, byte 12288: expected ")
            && text.contains("written to byte"),
        "{text}"
    );
}

#[test]
fn a_flipped_bit_of_a_read_is_found_while_it_runs() {
    let spec = JobSpec {
        operation: JobOperation::Read,
        populate: Populate::Content,
        verify: Verify::Online,
        process_bytes: Some(blocks(PLACE_BLOCKS)),
        ..rewrite()
    };
    let target = storage(&spec).with(0, 11, Event::Flip { byte: 100 }).target();
    let result = run_on(&job(spec), &target);
    let verification = result.verification.clone().unwrap();
    assert_eq!((verification.checked_blocks, verification.wrong_blocks), (2 * PLACE_BLOCKS, 1));
    let mismatch = &verification.mismatches[0];
    assert_eq!(mismatch.found, FoundContent::Garbage { first_difference: 100, different_bytes: 1 });
    assert_eq!((mismatch.process, mismatch.offset_bytes), (0, blocks(11)));
    assert!(!result.is_success() && result.ended == Ended::Bytes);
}

#[test]
fn populated_zeros_are_checked_too() {
    let spec = JobSpec {
        operation: JobOperation::Mixed,
        pattern: "uniform".parse().unwrap(),
        populate: Populate::Zero,
        verify: Verify::Both,
        ..rewrite()
    };
    let target = storage(&spec).target();
    let result = run_on(&job(spec.clone()), &target);
    assert!(result.is_success(), "{result:?}");
    let wrong =
        storage(&spec).with(0, 0, Event::Flip { byte: 0 }).with(0, 1, Event::Flip { byte: 0 });
    let wrong = (2..100).fold(wrong, |wrong, at| wrong.with(0, at, Event::Flip { byte: 9 }));
    assert!(!run_on(&job(spec), &wrong.target()).is_success());
}

/// Checks that a run that failed or was stopped keeps its figures, and that its history is still
/// exact.
fn check_partial(spec: JobSpec, storage: Shared, stop: &StopFlag) -> (Job, RunResult) {
    check_partial_on(spec, &storage.target(), stop)
}

fn check_partial_on(spec: JobSpec, target: &Memory, stop: &StopFlag) -> (Job, RunResult) {
    let job = job(spec);
    let result = run_by(&ManualClock::new(), stop, &job, target);
    assert!(!result.is_success());
    let verification = verify_on(&job, target, &result);
    assert_eq!(verification.wrong_blocks, 0, "{verification:?}");
    assert_eq!(verification.checked_blocks + verification.unknown_blocks, 2 * PLACE_BLOCKS);
    (job, result)
}

#[test]
fn a_failed_write_ends_the_run_and_is_named() {
    let (_, result) =
        check_partial(rewrite(), storage(&rewrite()).with(1, 70, Event::Fail), &StopFlag::new());
    assert_eq!(result.ended, Ended::Failed);
    let failure = result.failure.as_ref().unwrap();
    assert_eq!(
        (failure.process, failure.place.as_str(), failure.offset_bytes),
        (1, "memory 1", blocks(6))
    );
    assert_eq!((failure.operation.as_str(), failure.reason.as_str()), ("write", "injected"));
    let history = result.history.as_ref().unwrap();
    assert_eq!(history.segments[0].uncertain.len(), 1);
    assert_eq!(history.segments[0].writes[1], 71);
    assert!(operations(&result).1 >= 70, "what was measured before is kept");
}

#[test]
fn a_failed_sync_makes_its_write_uncertain() {
    let spec = JobSpec { sync: SyncPolicy::Fsync, fsync_every: 4, ..rewrite() };
    // Operations count writes and syncs, so the fifth one is the first sync.
    let (_, result) =
        check_partial(spec.clone(), storage(&spec).with(0, 4, Event::FailSync), &StopFlag::new());
    assert_eq!(result.failure.unwrap().operation, "sync");
    assert_eq!(result.history.unwrap().segments[0].uncertain[0].write, 3);
}

/// The writes of process 0 whose outcome is unknown after its engine has failed, by their numbers.
fn uncertain_after_break(spec: JobSpec, target: &Memory) -> Vec<u64> {
    let (_, result) = check_partial_on(spec, target, &StopFlag::new());
    assert_eq!(result.ended, Ended::Failed);
    assert_eq!(result.failure.unwrap().process, 0);
    let uncertain = &result.history.unwrap().segments[0].uncertain;
    let of_first = uncertain.iter().filter(|write| write.process == 0);
    of_first.map(|write| write.write).collect()
}

#[test]
fn an_engine_that_refuses_a_request_is_not_asked_again_and_all_in_flight_is_uncertain() {
    let spec = JobSpec { engine: Engine::IoUring, queue_depth: 8, ..rewrite() };
    for seed in 0..10 {
        let storage = Shared { scrambled: Some(seed), ..storage(&spec) };
        let target = storage.with(0, 50, Event::Break).target();
        let uncertain = uncertain_after_break(spec.clone(), &target);
        assert!(uncertain.contains(&50), "seed {seed}: the write that was refused: {uncertain:?}");
        let in_flight = target.0.broken_with.load(Ordering::Relaxed);
        assert_eq!(uncertain.len() as u64, in_flight, "seed {seed}: {uncertain:?}");
    }
}

#[test]
fn an_engine_that_refuses_a_sync_is_not_asked_for_the_next_one() {
    let (engine, sync) = (Engine::IoUring, SyncPolicy::Fsync);
    let spec = JobSpec { engine, queue_depth: 8, sync, fsync_every: 4, ..rewrite() };
    // Eight writes have ended. A sync follows the fourth of them, and one would follow the eighth.
    let target = storage(&spec).with(0, 8, Event::Break).target();
    assert_eq!(uncertain_after_break(spec, &target), [3, 7]);
}

#[test]
fn a_raised_flag_stops_all_processes() {
    let stop = StopFlag::new();
    let spec = JobSpec { process_bytes: None, time_ns: Some(u64::MAX), ..rewrite() };
    let (_, result) =
        check_partial(spec.clone(), storage(&spec).with(0, 90, Event::Stop(stop.clone())), &stop);
    assert_eq!((result.ended, result.failure.as_ref()), (Ended::Stopped, None));
    assert!(operations(&result).1 >= 91);
    assert_eq!(result.processes.len(), 2);
    assert!(!result.verification.unwrap().is_complete, "nothing was read back");
}

#[test]
fn populating_that_fails_or_stops_is_told() {
    let spec = JobSpec { operation: JobOperation::Read, populate: Populate::Content, ..rewrite() };
    let failed = run_on(&job(spec.clone()), &storage(&spec).with(1, 0, Event::Fail).target());
    assert_eq!((failed.ended, failed.failure.unwrap().process), (Ended::Failed, 1));
    let stop = StopFlag::new();
    stop.raise();
    let stopped = run_by(&ManualClock::new(), &stop, &job(spec.clone()), &storage(&spec).target());
    assert_eq!((stopped.ended, stopped.history), (Ended::Stopped, None));
}

#[test]
fn any_order_of_completions_leaves_what_the_history_says() {
    for seed in 0..40 {
        let spec = JobSpec {
            operation: JobOperation::Mixed,
            pattern: ["uniform", "zipf:1.2", "sequential"][seed as usize % 3].parse().unwrap(),
            engine: Engine::IoUring,
            queue_depth: 16,
            sync: SyncPolicy::Fsync,
            fsync_every: 7,
            populate: if seed % 2 == 0 { Populate::Content } else { Populate::None },
            verify: Verify::Both,
            process_bytes: Some(blocks(10 * PLACE_BLOCKS)),
            seed,
            ..rewrite()
        };
        let target = Shared { scrambled: Some(seed), ..storage(&spec) }.target();
        let result = run_on(&job(spec), &target);
        assert!(result.is_success(), "seed {seed}: {result:?}");
        let (reads, writes) = operations(&result);
        assert_eq!(reads + writes, 20 * PLACE_BLOCKS, "seed {seed}");
        assert!(target.0.max_in_flight.load(Ordering::Relaxed) > 4);
    }
}
