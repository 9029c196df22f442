//! A scrub by the schedule of a pool whose metadata disk does not answer for ten minutes.

use super::*;
use gemelo_base::background::FailureLog;
use gemelo_base::{ManualClock, Recorder, Silent};
use gemelo_device::{BlockDevice as _, Durability, Operation, Request};
use gemelo_disk::testing::{DiskLayer, MemoryDisk};
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::DedupMode;
use gemelo_store::PoolDisks;
use gemelo_volume::{PoolOptions, Tuning};
use std::io;
use std::sync::atomic::AtomicBool;

const SECOND_NS: u64 = 1_000_000_000;
/// Tries in ten minutes: after 1, 2, 4, ..., 32 and then every 60 seconds.
const MAX_TRIES: u64 = 16;

#[derive(Default)]
struct Breakable {
    below: MemoryDisk,
    is_broken: AtomicBool,
    failed: AtomicU64,
}

impl DiskLayer for Breakable {
    fn below(&self) -> &dyn Disk {
        &self.below
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        if !self.is_broken.load(Ordering::Relaxed) {
            return self.below.read_many(reads);
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        reads.iter_mut().for_each(|read| read.outcome = Err(io::Error::other("no answer")));
    }
}

/// A pool whose scrub has to read a map from the metadata disk.
fn pool_on(metadata: &Arc<Breakable>, clock: &Arc<ManualClock>) -> Pool {
    let metadata: Arc<dyn Disk> = Arc::clone(metadata) as Arc<dyn Disk>;
    let disks = PoolDisks::new(Arc::new(MemoryDisk::default()), metadata);
    let options = PoolOptions { capacity_bytes: 64 << 20, ..PoolOptions::default() };
    Pool::format(&disks, &options).unwrap();
    let tuning = Tuning { background: false, ..Tuning::default() };
    let open = || Pool::open_disks(disks.clone(), tuning, clock.clone()).unwrap();
    let pool = open();
    pool.create_imported_volume("v", 8 << 20, DedupMode::Inline).unwrap();
    let volume = pool.volume("v").unwrap();
    let data: Vec<u8> = (0..2_u32 << 20).flat_map(|at| (at ^ at >> 10).to_le_bytes()).collect();
    let write = Operation::Write { offset: 0, data: &data, durability: Durability::Flushed };
    let mut batch = [Request { operation: write, outcome: Ok(()) }];
    volume.execute(&mut batch);
    batch[0].outcome.as_ref().unwrap();
    drop(volume);
    pool.close().unwrap();
    open()
}

#[test]
fn a_scrub_that_fails_for_ten_minutes_is_tried_a_few_times_and_told_once() {
    let directory = tempfile::tempdir().unwrap();
    let (metadata, clock) = (Arc::new(Breakable::default()), Arc::new(ManualClock::new()));
    let pool = pool_on(&metadata, &clock);
    let kept = KeptText::File(directory.path().join(FILE));
    let scrubs = Scrubs::keeping(kept, Arc::clone(&clock) as Arc<dyn Clock>);
    let (recorder, mut log, mut tries) = (Recorder::new(), FailureLog::default(), 0);
    let options = ScrubOptions { max_bytes_per_s: None, heals: true };
    let began_utc_s = SystemClock::new().utc_s().unwrap();
    let mut pass = |seconds: u64| {
        for _ in 0..seconds {
            clock.advance_ns(SECOND_NS);
            let now_utc_s = began_utc_s + clock.now_ns() / SECOND_NS;
            scrubs.turn(Duration::from_secs(86_400), now_utc_s, || {
                tries += 1;
                scrubs.run(&pool, options, &Silent, &StopFlag::new()).map(drop)
            });
            log.look(&[scrubs.task().stat()], &recorder);
        }
        tries
    };
    metadata.is_broken.store(true, Ordering::Relaxed);
    let bytes = metadata.below.image().len();
    let tried = pass(600);
    assert!((5..=MAX_TRIES).contains(&tried), "{tried} tries");
    let failed = metadata.failed.load(Ordering::Relaxed);
    // A try ends with the first of the chunks of 1024 blocks.
    assert!(failed <= 3 * 1024 * tried, "{failed} calls of the disk");
    assert_eq!(metadata.below.image().len(), bytes);
    let stat = scrubs.task().stat();
    assert_eq!(stat.failure.as_ref().unwrap().tries, tried, "{stat:?}");
    assert!(stat.warning().unwrap().contains("no answer"), "{stat:?}");
    metadata.is_broken.store(false, Ordering::Relaxed);
    let after = pass(120);
    assert_eq!(after, tried + 1, "one try succeeds, and the next scrub is a day later");
    assert_eq!(scrubs.task().stat().failure, None);
    assert!(scrubs.stat().last.unwrap().checked_contents > 0);
    assert_eq!((recorder.warnings().len(), recorder.logged().len()), (1, 1));
}

#[test]
fn a_scrub_that_took_long_and_failed_is_not_begun_again_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new());
    let kept = || KeptText::File(directory.path().join(FILE));
    // A scrub of an hour that fails. It rests for 32 hours, or until the schedule wants one.
    for (interval_h, rest_h) in [(100, 32), (24, 24)] {
        let scrubs = Scrubs::keeping(kept(), Arc::clone(&clock) as Arc<dyn Clock>);
        let interval = Duration::from_secs(interval_h * 3600);
        scrubs.turn(interval, 0, || {
            clock.advance_ns(3600 * SECOND_NS);
            Err(RequestFailure::refused("no"))
        });
        assert_eq!(scrubs.task().wait(), Duration::from_secs(rest_h * 3600));
        scrubs.turn(interval, 0, || panic!("it is not due"));
    }
}

#[test]
fn a_schedule_that_is_due_during_a_scrub_by_a_command_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let kept = KeptText::File(directory.path().join(FILE));
    let scrubs = Scrubs::keeping(kept, Arc::new(ManualClock::new()));
    let running = Running::begin(&scrubs, &Arc::default()).unwrap();
    scrubs.turn(Duration::from_secs(1), 0, || panic!("another one runs"));
    drop(running);
    assert_eq!(scrubs.task().stat().failures, 0);
}
