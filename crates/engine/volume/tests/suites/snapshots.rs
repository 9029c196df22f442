//! A snapshot waits for nobody's long work: not for a checkpoint, not for writers that wait for it,
//! and not for the pages of a checkpoint in a sync.

use crate::common::hold::Call;
use crate::common::shape::first_slots_of;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_disk::testing::{DiskLayer, MemoryDisk};
use gemelo_disk::{Disk, DiskWrite};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCKS: u64 = 4000;
/// A test that fails ends after this time.
const PATIENCE: Duration = Duration::from_secs(10);
/// Far more than a write takes.
const STANDSTILL: Duration = Duration::from_millis(200);

/// Overwrites block after block until `is_over`, and counts.
fn overwrite(volume: &Volume, written: &AtomicU64, is_over: &AtomicBool) {
    for number in 0..4 * BLOCKS {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        write(volume, number % BLOCKS * BLOCK as u64, &content(9000 + number, BLOCK)).unwrap();
        written.store(number + 1, Ordering::Relaxed);
    }
}

/// Waits until a count stands still, or is high.
fn wait_for_standstill(count: &AtomicU64) -> u64 {
    let (mut last, mut since) = (count.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < STANDSTILL && last < 3 * BLOCKS {
        let now = count.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::yield_now();
    }
    last
}

/// The checkpoint is held at a page that it writes. A writer goes on until the policy's memory is
/// full, and waits.
#[test]
fn a_snapshot_waits_neither_for_a_checkpoint_nor_for_writers_that_do() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        let options = options_with(policy, 30_000);
        let options = PoolOptions { journal_bytes: Some(4 << 20), ..options };
        Pool::format(&simulation.disks(), &options).unwrap();
        let tuning = Tuning { cache_bytes: Some(64 << 10), ..tuning() };
        let pool = open(&simulation.disks(), tuning).unwrap();
        pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        write(&volume, 0, &content(1, BLOCK)).unwrap();
        let (written, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let copied = std::thread::scope(|scope| {
            let hold = simulation.hold_at(METADATA, Call::Write, first_slots_of(&simulation));
            let checkpoint = scope.spawn(|| pool.checkpoint());
            hold.wait();
            scope.spawn(|| overwrite(&volume, &written, &is_over));
            let before = wait_for_standstill(&written);
            let (done, ended) = std::sync::mpsc::channel();
            let pool = &pool;
            scope.spawn(move || done.send(pool.snapshot_volume("a", "s")));
            let ended = ended.recv_timeout(PATIENCE);
            let after = written.load(Ordering::Relaxed);
            is_over.store(true, Ordering::Relaxed);
            hold.release();
            checkpoint.join().unwrap().unwrap();
            ended.unwrap_or_else(|_| panic!("{policy:?}: the snapshot waited")).unwrap();
            before..=after
        });
        let snapshot = pool.volume("s").unwrap();
        let first = read(&snapshot, 0, BLOCK).unwrap();
        let may_be = copied.map(|number| number.saturating_sub(1) / BLOCKS * BLOCKS);
        assert!(may_be.into_iter().any(|id| first == content(9000 + id, BLOCK)), "{policy:?}");
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{policy:?}");
        drop((volume, snapshot));
        pool.close().unwrap();
        let report =
            check(&simulation.disks(), CheckOptions { data: true }, &Silent, &StopFlag::new());
        assert!(report.as_ref().is_ok_and(CheckReport::is_clean), "{policy:?}: {report:?}");
    }
}

/// Counts the bytes that a sync would have to write out.
#[derive(Default)]
struct CachedDisk {
    below: MemoryDisk,
    cached: AtomicU64,
    most_cached: AtomicU64,
    written: AtomicU64,
}

impl DiskLayer for CachedDisk {
    fn below(&self) -> &dyn Disk {
        &self.below
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let bytes: usize = writes.iter().map(|write| write.bytes.len()).sum();
        let cached = self.cached.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        self.most_cached.fetch_max(cached, Ordering::Relaxed);
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        self.below.write_many(writes);
    }

    fn start_write_back(&self) {
        self.cached.store(0, Ordering::Relaxed);
    }

    fn sync(&self) -> io::Result<()> {
        self.cached.store(0, Ordering::Relaxed);
        self.below.sync()
    }
}

/// The sync of a commit writes out what a checkpoint has left in the system's cache.
#[test]
fn a_checkpoint_leaves_little_to_the_sync_of_a_commit() {
    const LEAVES: u64 = 1000;
    const LEAF_LBNS: u64 = 512;
    for (policy, most) in [(Policy::Compact, 2 << 20), (Policy::Dtb, 2 << 20)] {
        let disk = Arc::new(CachedDisk::default());
        let disks = PoolDisks::new(Arc::<MemoryDisk>::default(), Arc::clone(&disk) as _);
        let options = options_with(policy, 30_000);
        // Long enough for all changes.
        let options = PoolOptions { journal_bytes: Some(64 << 20), ..options };
        Pool::format(&disks, &options).unwrap();
        let tuning = Tuning { cache_bytes: Some(64 << 20), ..tuning() };
        let pool = open(&disks, tuning).unwrap();
        let bytes = LEAVES * LEAF_LBNS * BLOCK as u64;
        pool.create_volume("a", bytes, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        let blocks = content(1, BLOCK).repeat(128);
        for leaf in 0..LEAVES {
            write(&volume, leaf * LEAF_LBNS * BLOCK as u64, &blocks).unwrap();
        }
        pool.flush().unwrap();
        [&disk.most_cached, &disk.written]
            .iter()
            .for_each(|count| count.store(0, Ordering::Relaxed));
        pool.checkpoint().unwrap();
        let [cached, written] =
            [&disk.most_cached, &disk.written].map(|count| count.load(Ordering::Relaxed));
        assert!(written > 3 * most, "{policy:?}: {written} bytes");
        assert!(cached <= most, "{policy:?}: {cached} of {written} bytes");
    }
}

/// Devices and clients of a volume know it by its identity: after a rollback it is another one.
#[test]
fn a_volume_that_was_rolled_back_has_another_identity_for_good() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.snapshot_volume("a", "s").unwrap();
    let identity = |pool: &Pool, name| pool.volume(name).unwrap().identity();
    let first = identity(&pool, "a");
    pool.roll_back_volume("a", "s").unwrap();
    let second = identity(&pool, "a");
    pool.roll_back_volume("a", "s").unwrap();
    let third = identity(&pool, "a");
    assert!(first != second && second != third && first != third, "{first} {second} {third}");
    pool.close().unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    assert_eq!(identity(&pool, "a"), third);
}
