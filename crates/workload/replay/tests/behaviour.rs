//! Tests replays against real files, targets that lose writes, and a clock that moves only when
//! told.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use gemelo_base::random::Random;
use gemelo_base::{Clock, ManualClock, Recorder, Silent, StopFlag, SystemClock};
use gemelo_content::{ContentSpec, Distribution};
use gemelo_load::Environment;
use gemelo_replay::{
    Capacity, MapRule, PlanOptions, ReplayContents, ReplayOptions, ReplayPlan, ReplayResult,
    SecondStats, Speed, replay,
};
use gemelo_target::{
    AtStart, Completion, Engine, FileStorage, IoFailure, PlaceAccess, PlaceLayout, Queue,
    QueueOptions, Storage, Target, TargetError, TargetOperation, TargetRequest, Wait,
};
use gemelo_trace::{ContentHash, Names, Record, RecordSource, TraceError, TraceOperation};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

const BLOCK: u64 = 4096;

/// A trace in memory.
#[derive(Clone)]
struct Listed {
    records: Vec<Record>,
    next: usize,
    names: Names,
}

impl Listed {
    fn new(records: Vec<Record>) -> Self {
        Self { records, next: 0, names: Names::default() }
    }
}

impl RecordSource for Listed {
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let Some(next) = self.records.get(self.next) else { return Ok(false) };
        self.next += 1;
        record.clone_from(next);
        Ok(true)
    }

    fn names(&self) -> &Names {
        &self.names
    }
}

fn record(time_ms: u64, operation: TraceOperation, block: u64, hashes: &[u128]) -> Record {
    Record {
        time_ns: time_ms * 1_000_000,
        operation,
        offset_bytes: block * BLOCK,
        length_bytes: hashes.len() as u64 * BLOCK,
        hashes: hashes.iter().copied().map(ContentHash).collect(),
        hash_bytes: 4096,
        ..Record::new()
    }
}

/// A trace of writes and reads that share a few blocks. The hashes of reads are those written last.
fn entangled(seed: u64, count: u64, blocks: u64) -> Vec<Record> {
    let mut random = Random::new(seed);
    let mut holds: HashMap<u64, u128> =
        (0..blocks).map(|block| (block, 1000 + u128::from(block))).collect();
    let mut records = Vec::new();
    for time in 0..count {
        let length = 1 + random.below(6);
        let first = random.below(blocks - length);
        let is_write = random.below(3) > 0;
        let hashes: Vec<u128> = (first..first + length)
            .map(|block| {
                if is_write {
                    holds.insert(block, u128::from(random.below(20)));
                }
                holds[&block]
            })
            .collect();
        let operation = if is_write { TraceOperation::Write } else { TraceOperation::Read };
        records.push(record(time, operation, first, &hashes));
        if random.below(300) == 0 {
            records.push(record(time, TraceOperation::Flush, 0, &[]));
        }
    }
    records
}

fn options(processes: u32, queue_depth: usize, engine: Engine) -> ReplayOptions {
    ReplayOptions { speed: Speed::Unlimited, processes, queue_depth, engine, verify: true }
}

fn plan(records: &[Record], map: MapRule) -> ReplayPlan {
    let options = PlanOptions { block_bytes: BLOCK, map, capacity: Capacity::AsNeeded };
    ReplayPlan::new(&mut Listed::new(records.to_vec()), options, &StopFlag::new()).unwrap()
}

fn file(path: &Path, plan: &ReplayPlan) -> Box<dyn Target> {
    let layout = PlaceLayout {
        others: gemelo_target::OtherPlaces::default(),
        processes: 1,
        place_bytes: plan.target_bytes(),
        block_bytes: BLOCK as usize,
        direct: false,
        access: PlaceAccess::Create,
        force: false,
        preallocate: false,
    };
    FileStorage::new(path).plan(&layout).unwrap().prepare().unwrap()
}

fn run(
    records: &[Record],
    plan: &ReplayPlan,
    target: &dyn Target,
    options: &ReplayOptions,
    clock: &dyn Clock,
) -> ReplayResult {
    let spec = ContentSpec::new(Distribution::parse("0 1\n").unwrap(), BLOCK as usize, 1);
    let contents = ReplayContents::new(&spec, plan.drawn_blocks()).unwrap();
    let environment = Environment {
        clock,
        monitor: &Silent,
        stop: &StopFlag::new(),
        start: &gemelo_base::AtOnce,
    };
    replay(&mut Listed::new(records.to_vec()), plan, &contents, target, options, &environment)
        .unwrap()
}

#[test]
fn operations_on_the_same_blocks_keep_their_order() {
    // The blocks also span stripes of 4 MiB, which belong to different processes.
    for (seed, blocks) in [(1, 40), (2, 3000)] {
        let records = entangled(seed, 2000, blocks);
        for (processes, depth, engine) in [
            (1, 1, Engine::Psync),
            (3, 1, Engine::Psync),
            (1, 16, Engine::IoUring),
            (3, 8, Engine::IoUring),
        ] {
            for map in [MapRule::Refuse, MapRule::Dense] {
                let plan = plan(&records, map);
                let directory = tempfile::tempdir().unwrap();
                let target = file(&directory.path().join("disk"), &plan);
                let result = run(
                    &records,
                    &plan,
                    target.as_ref(),
                    &options(processes, depth, engine),
                    &SystemClock::new(),
                );
                let found = &result.verification;
                assert_eq!(
                    (found.wrong, found.contradictions),
                    (0, 0),
                    "seed {seed}, {engine}: {found:?}"
                );
                assert!(found.checked > 500 && result.is_complete && result.flushes > 0);
                assert_eq!(result.failure, None);
            }
        }
    }
}

/// The fault of a target.
#[derive(Clone)]
enum Lie {
    /// Every operation takes `ns` nanoseconds of this clock.
    Takes(Arc<ManualClock>, u64),
    /// The target loses every write of this block after the first.
    Loses(u64),
    /// The target fails to write this block.
    Fails(u64),
}

struct Lying<'a>(&'a dyn Target, Lie);

struct LyingQueue {
    inner: Box<dyn Queue>,
    lie: Lie,
    seen: bool,
    faked: Vec<Completion>,
}

impl Target for Lying<'_> {
    fn place(&self, process: u32) -> String {
        self.0.place(process)
    }
    fn holds_data(&self) -> bool {
        true
    }
    fn at_start(&self) -> AtStart {
        AtStart::Zeros
    }
    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        let inner = self.0.open(process, options)?;
        Ok(Box::new(LyingQueue { inner, lie: self.1.clone(), seen: false, faked: Vec::new() }))
    }
    fn finish(&mut self, _keep: bool) -> Result<(), TargetError> {
        Ok(())
    }
}

impl Queue for LyingQueue {
    fn depth(&self) -> usize {
        self.inner.depth()
    }
    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.inner.buffer(slot)
    }
    fn submit(&mut self, slot: usize, request: TargetRequest) -> Result<(), Box<IoFailure>> {
        let TargetRequest { operation, offset, bytes } = request;
        let is_of = |block| operation == TargetOperation::Write && offset == block * BLOCK;
        match &self.lie {
            Lie::Takes(clock, time_ns) => {
                clock.advance_ns(*time_ns);
                self.inner.submit(slot, request)?;
            }
            Lie::Loses(block) if is_of(*block) && std::mem::replace(&mut self.seen, true) => {
                self.faked.push(Completion { slot, outcome: Ok(()) });
            }
            Lie::Fails(block) if is_of(*block) => {
                let source = std::io::Error::other("worn out");
                let failure = IoFailure { operation, place: "disk".into(), offset, bytes, source };
                self.faked.push(Completion { slot, outcome: Err(Box::new(failure)) });
            }
            _ => self.inner.submit(slot, request)?,
        }
        Ok(())
    }
    fn reap(&mut self, wait: Wait, done: &mut Vec<Completion>) -> Result<(), Box<IoFailure>> {
        let wait = if self.faked.is_empty() { wait } else { Wait::Not };
        done.append(&mut self.faked);
        self.inner.reap(wait, done)
    }
}

#[test]
fn a_target_that_loses_writes_is_found_out() {
    let records = [
        record(0, TraceOperation::Write, 3, &[1]),
        record(1, TraceOperation::Write, 3, &[2]),
        record(2, TraceOperation::Read, 2, &[7, 2]),
    ];
    let plan = plan(&records, MapRule::Refuse);
    assert_eq!((plan.populated_blocks(), plan.target_blocks()), (1, 4));
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let lying = Lying(target.as_ref(), Lie::Loses(3));
    let result = run(&records, &plan, &lying, &options(1, 1, Engine::Psync), &SystemClock::new());
    assert_eq!((result.verification.checked, result.verification.wrong), (2, 1));
    let wrong = &result.verification.mismatches[0];
    assert!(wrong.block == 3 && wrong.found.starts_with("another content"), "{wrong:?}");
}

#[test]
fn a_failure_keeps_what_was_measured() {
    let records: Vec<Record> =
        (0..100).map(|n| record(n, TraceOperation::Write, n, &[u128::from(n)])).collect();
    let plan = plan(&records, MapRule::Refuse);
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let lying = Lying(target.as_ref(), Lie::Fails(60));
    let result = run(&records, &plan, &lying, &options(1, 1, Engine::Psync), &SystemClock::new());
    assert_eq!((result.writes.operations, result.is_complete), (60, false));
    let failure = result.failure.unwrap();
    assert!(
        failure.contains("cannot write 4096 bytes of disk at byte 245760: worn out"),
        "{failure}"
    );
}

#[test]
fn gaps_are_those_of_the_trace_divided_by_the_speed() {
    let records: Vec<Record> =
        (0..50).map(|n| record(n * 400, TraceOperation::Write, n % 7, &[u128::from(n)])).collect();
    let plan = plan(&records, MapRule::Refuse);
    for (speed, expected_ms) in [(1.0, 49 * 400), (40.0, 490)] {
        let directory = tempfile::tempdir().unwrap();
        let target = file(&directory.path().join("disk"), &plan);
        let options = ReplayOptions { speed: Speed::Times(speed), ..options(1, 1, Engine::Psync) };
        let result = run(&records, &plan, target.as_ref(), &options, &ManualClock::new());
        assert_eq!(result.duration_ns / 1_000_000, expected_ms, "{speed}");
        assert_eq!(result.writes.operations, 50);
        check_seconds(&result);
        assert!(result.lateness.is_some());
    }
}

/// The seconds cover the whole replay and have all of its writes.
fn check_seconds(result: &ReplayResult) {
    let mut end_ns = 0;
    for second in &result.seconds {
        assert_eq!(second.start_ns, end_ns);
        end_ns += second.length_ns;
    }
    assert_eq!(end_ns, result.duration_ns);
    let sum = |of: fn(&SecondStats) -> u64| -> u64 {
        result.seconds.iter().map(|second| of(&second.writes)).sum()
    };
    assert_eq!(sum(|writes| writes.operations), result.writes.operations);
    assert_eq!(sum(|writes| writes.data_bytes), result.writes.data_bytes);
    assert_eq!(sum(|writes| writes.response_sum_ns), result.writes.response_ns.sum_ns);
}

/// Operation n is due after n milliseconds and starts after 3 n. All but the first are late, the
/// last one by 98 ms.
#[test]
fn late_operations_are_counted_with_by_how_much() {
    let records: Vec<Record> =
        (0..50).map(|n| record(n, TraceOperation::Write, n % 7, &[u128::from(n)])).collect();
    let plan = plan(&records, MapRule::Refuse);
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let clock = Arc::new(ManualClock::new());
    let slow = Lying(target.as_ref(), Lie::Takes(Arc::clone(&clock), 3_000_000));
    let options = ReplayOptions { speed: Speed::Times(1.0), ..options(1, 1, Engine::Psync) };
    let result = run(&records, &plan, &slow, &options, clock.as_ref());
    let lateness = result.lateness.unwrap();
    let summary = lateness.summary.unwrap();
    assert_eq!((lateness.late, lateness.late_after_ns), (49, 100_000));
    assert!((97_900_000..=98_100_000).contains(&summary.max_ns), "{summary:?}");
    assert!((summary.mean_ns - 50e6).abs() < 1e5, "{summary:?}");
    // Response counts from the due time, service from the actual start.
    let response = result.writes.response_summary.unwrap();
    assert!((100_900_000..=101_100_000).contains(&response.max_ns), "{response:?}");
}

/// A trace whose reading takes time on the clock.
struct Slow<'a>(Listed, &'a ManualClock);

impl RecordSource for Slow<'_> {
    fn next_record(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        self.1.advance_ns(5_000_000);
        self.0.next_record(record)
    }

    fn names(&self) -> &Names {
        self.0.names()
    }
}

#[test]
fn the_first_record_is_not_late_because_it_has_to_be_read() {
    let records = [record(7, TraceOperation::Write, 0, &[1])];
    let plan = plan(&records, MapRule::Refuse);
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let clock = ManualClock::new();
    let options = ReplayOptions { speed: Speed::Times(1.0), ..options(1, 1, Engine::Psync) };
    let spec = ContentSpec::new(Distribution::parse("0 1\n").unwrap(), BLOCK as usize, 1);
    let contents = ReplayContents::new(&spec, plan.drawn_blocks()).unwrap();
    let environment = Environment {
        clock: &clock,
        monitor: &Silent,
        stop: &StopFlag::new(),
        start: &gemelo_base::AtOnce,
    };
    let mut trace = Slow(Listed::new(records.to_vec()), &clock);
    let result =
        replay(&mut trace, &plan, &contents, target.as_ref(), &options, &environment).unwrap();
    assert_eq!((result.writes.operations, result.lateness.unwrap().late), (1, 0));
}

#[test]
fn a_paced_replay_shows_its_operations_of_each_second() {
    let write = |number| record(20 * number, TraceOperation::Write, number, &[1]);
    let records: Vec<Record> = (0..80).map(write).collect();
    let plan = plan(&records, MapRule::Refuse);
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let options = ReplayOptions { speed: Speed::Times(1.0), ..options(1, 1, Engine::Psync) };
    let spec = ContentSpec::new(Distribution::parse("0 1\n").unwrap(), BLOCK as usize, 1);
    let contents = ReplayContents::new(&spec, plan.drawn_blocks()).unwrap();
    let shown = Recorder::new();
    let environment = Environment {
        clock: &SystemClock::new(),
        monitor: &shown,
        stop: &StopFlag::new(),
        start: &gemelo_base::AtOnce,
    };
    let mut trace = Listed::new(records.clone());
    replay(&mut trace, &plan, &contents, target.as_ref(), &options, &environment).unwrap();
    let texts = shown.shown();
    let rate = |text: &String| -> u32 {
        text.split_once(" operations/s, mean latency ").unwrap().0.parse().unwrap()
    };
    // A busy machine shows fewer operations in a second, and never more than there are.
    assert!(texts.iter().any(|text| rate(text) > 0), "{texts:?}");
    assert!(texts.iter().all(|text| rate(text) <= 80), "{texts:?}");
}

/// Reads find the content that the trace wrote, not earlier content of the target.
#[test]
fn a_read_before_any_write_finds_the_hash_that_the_trace_says() {
    // The first read of a place populates it. A write in between changes what later reads find.
    let records = [
        record(0, TraceOperation::Read, 4, &[5, 6]),
        record(1, TraceOperation::Write, 4, &[6]),
        record(2, TraceOperation::Read, 4, &[6, 6]),
        record(3, TraceOperation::Read, 9, &[5]),
    ];
    let plan = plan(&records, MapRule::Dense);
    assert_eq!((plan.populated_blocks(), plan.target_blocks()), (3, 3));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    let target = file(&path, &plan);
    let result =
        run(&records, &plan, target.as_ref(), &options(1, 1, Engine::Psync), &SystemClock::new());
    let found = &result.verification;
    assert_eq!((found.checked, found.wrong, found.contradictions), (5, 0, 0), "{found:?}");
    let bytes = std::fs::read(&path).unwrap();
    let blocks: Vec<&[u8]> = bytes.chunks(BLOCK as usize).collect();
    // The places are in the order of first touch: 4, 5, 9. Place 9 is populated with the content 5,
    // which place 4 held, too.
    assert!(blocks[0] == blocks[1] && blocks[1] != blocks[2]);
}

#[test]
fn a_trace_that_contradicts_itself_is_no_fault_of_the_target() {
    let records =
        [record(0, TraceOperation::Write, 0, &[1]), record(1, TraceOperation::Read, 0, &[2])];
    let plan = plan(&records, MapRule::Refuse);
    let directory = tempfile::tempdir().unwrap();
    let target = file(&directory.path().join("disk"), &plan);
    let result =
        run(&records, &plan, target.as_ref(), &options(1, 1, Engine::Psync), &SystemClock::new());
    assert_eq!((result.verification.contradictions, result.verification.wrong), (1, 0));
}

#[test]
fn several_devices_lie_one_after_the_other() {
    let second = Record { device: 1, ..record(1, TraceOperation::Write, 5, &[2]) };
    let records = [record(0, TraceOperation::Write, 9, &[1]), second];
    assert_eq!(plan(&records, MapRule::Refuse).target_blocks(), 16);
    assert_eq!(plan(&records, MapRule::Dense).target_blocks(), 2);
}
