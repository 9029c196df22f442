//! Tests of the measurements besides latency: duplicates written, accesses, syncs, the log, shares
//! of time.

use super::memory::Shared;
use super::{blocks, contents, job, operations, run_on};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_load::{
    Environment, JobOperation, JobSpec, Populate, RunError, RunResult, SyncPolicy, Verify,
    read_log, run,
};
use gemelo_target::{NullStorage, Storage};
use std::collections::HashMap;

fn spec() -> JobSpec {
    JobSpec {
        processes: 2,
        file_bytes: blocks(500),
        process_bytes: Some(blocks(500)),
        ..JobSpec::default()
    }
}

#[test]
fn null_takes_everything_and_holds_nothing() {
    let job = job(spec());
    let target = NullStorage.plan(&job.layout(false)).unwrap().prepare().unwrap();
    let result = run_on(&job, target.as_ref());
    assert!(result.is_success());
    assert_eq!(operations(&result), (0, 1000));
    assert_eq!(result.history, None);
    assert!(result.total.generating_ns > 0 && result.total.generating_share <= 1.0);
    assert!(result.usage.peak_memory_bytes > 0);
    let verified = self::job(JobSpec { verify: Verify::Final, ..spec() });
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    let refused = run(&verified, &contents(&verified), target.as_ref(), None, &environment, None);
    assert!(matches!(refused, Err(RunError::NothingToVerify)));
}

#[test]
fn the_distribution_written_is_the_one_asked_for() {
    let target = Shared::new(2, blocks(500)).target();
    let result = run_on(&job(spec()), &target);
    // 1000 blocks hold 700 unique contents and 100 contents with three copies each.
    let written = result.written.unwrap();
    assert_eq!(written.distribution, [[0, 700], [2, 100]]);
    assert_eq!((written.blocks, written.counted_blocks), (1000, 1000));
    let mut copies: HashMap<Vec<u8>, u64> = HashMap::new();
    for place in &target.0.places {
        for block in place.lock().unwrap().chunks(4096) {
            *copies.entry(block.to_vec()).or_default() += 1;
        }
    }
    assert_eq!(copies.len(), 800);
    assert_eq!(copies.values().filter(|copies| **copies == 3).count(), 100);
}

#[test]
fn a_run_shorter_than_its_file_carries_the_distribution_too() {
    let short = JobSpec { file_bytes: blocks(5000), ..spec() };
    let result = run_on(&job(short), &Shared::new(2, blocks(5000)).target());
    assert_eq!(result.written.unwrap().distribution, [[0, 700], [2, 100]]);
}

#[test]
fn accesses_are_those_of_the_run() {
    let spec = JobSpec {
        operation: JobOperation::Mixed,
        pattern: "nurand".parse().unwrap(),
        populate: Populate::Content,
        process_bytes: Some(blocks(20_000)),
        ..spec()
    };
    let result = run_on(&job(spec), &Shared::new(2, blocks(500)).target());
    let history = result.history.unwrap();
    for process in &result.processes {
        let accesses = history.accesses(process.process, process.reads).unwrap();
        assert_eq!(accesses.len(), 500);
        assert_eq!(accesses.iter().map(|count| u64::from(*count)).sum::<u64>(), 20_000);
        let hottest = accesses.iter().max().unwrap();
        assert!(*hottest > 3 * 20_000 / 500, "NURand has hot spots: {hottest}");
    }
}

#[test]
fn writes_are_synced_as_often_as_asked() {
    for (every, expected) in [(1, 500), (7, 71), (1000, 0)] {
        let spec = JobSpec { processes: 1, sync: SyncPolicy::Fsync, fsync_every: every, ..spec() };
        let target = Shared::new(1, blocks(500)).target();
        let result = run_on(&job(spec), &target);
        assert_eq!(target.0.syncs.load(std::sync::atomic::Ordering::Relaxed), expected);
        assert_eq!(result.total.syncs.map_or(0, |syncs| syncs.histogram.count()), expected);
        assert_eq!(result.total.writes.unwrap().operations, 500);
    }
}

#[test]
fn the_log_has_every_operation_once() {
    let job = job(JobSpec {
        operation: JobOperation::Mixed,
        pattern: "uniform".parse().unwrap(),
        process_bytes: Some(blocks(10_000)),
        ..spec()
    });
    let (clock, stop) = (SystemClock::new(), StopFlag::new());
    let environment =
        Environment { clock: &clock, monitor: &Silent, stop: &stop, start: &gemelo_base::AtOnce };
    let target = Shared::new(2, blocks(500)).target();
    let mut log = Vec::new();
    let result = run(&job, &contents(&job), &target, None, &environment, Some(&mut log)).unwrap();
    let mut counts = [[0u64; 2]; 2];
    let mut last_start_ns = [0; 2];
    let header = read_log(&mut log.as_slice(), |record| {
        let process = record.process as usize;
        counts[process][usize::from(record.is_write)] += 1;
        assert!(record.block < 500 && record.start_ns >= last_start_ns[process]);
        last_start_ns[process] = record.start_ns;
    });
    assert_eq!(header.unwrap(), (4096, 2));
    for process in &result.processes {
        assert_eq!(counts[process.process as usize], [process.reads, process.writes]);
    }
    assert!(log.len() < 20_000 * 25, "{} bytes", log.len());
}

#[test]
fn a_result_survives_json() {
    let spec = JobSpec { operation: JobOperation::Mixed, populate: Populate::Zero, ..spec() };
    let result = run_on(&job(spec), &Shared::new(2, blocks(500)).target());
    let text = serde_json::to_string(&result).unwrap();
    let back: RunResult = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), text);
    assert_eq!(back.history, result.history);
}
