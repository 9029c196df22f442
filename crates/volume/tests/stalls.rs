//! Commands that run while others work: they neither stop nor disturb each other.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and says why"
)]

mod common;

use common::{BLOCK, content, flush, open, options, options_with, read, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_volume::{BackendKind, DedupMode, Disk, FileDisk, Pool, PoolDisks, Tuning};
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A disk whose syncs take their time, and whose journal fails when told to.
struct TestDisk {
    file: FileDisk,
    sync_ms: u64,
    journal_fails: AtomicBool,
}

/// Where the journal of [`options`] is.
const JOURNAL: std::ops::Range<u64> = 8 * 4096..8 * 4096 + (64 << 10);

impl Disk for TestDisk {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        if self.journal_fails.load(Ordering::Relaxed) && JOURNAL.contains(&offset) {
            return Err(io::Error::other("the journal is broken"));
        }
        self.file.write_at(offset, slices)
    }
    fn sync(&self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(self.sync_ms));
        self.file.sync()
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.file.discard(offset, length)
    }
}

fn disk(folder: &Path, name: &str, sync_ms: u64) -> Arc<TestDisk> {
    let file = FileDisk::create(&folder.join(name)).unwrap();
    Arc::new(TestDisk { file, sync_ms, journal_fails: AtomicBool::new(false) })
}

fn disks(folder: &Path, sync_ms: u64) -> PoolDisks {
    PoolDisks { data: disk(folder, "data", sync_ms), metadata: disk(folder, "metadata", sync_ms) }
}

fn unique(random: &mut Random, blocks: u64) -> Vec<u8> {
    (0..blocks).flat_map(|_| content(random.next_u64() | 1, BLOCK)).collect()
}

#[test]
fn of_two_that_enlarge_the_pool_at_once_none_makes_it_smaller() {
    let folder = tempfile::tempdir().unwrap();
    let disks = disks(folder.path(), 30);
    Pool::format(&disks, &options(100)).unwrap();
    let pool = open(&disks, tuning()).unwrap();
    let block = BLOCK as u64;
    std::thread::scope(|scope| {
        let pool = &pool;
        scope.spawn(move || pool.grow(2000 * block).unwrap());
        std::thread::sleep(Duration::from_millis(10));
        scope.spawn(move || assert!(pool.grow(150 * block).is_err(), "it has 2000 blocks by now"));
    });
    assert!(disks.data.len().unwrap() >= 2000 * block);
    assert_eq!(pool.stat().unwrap().capacity_blocks, 1999);
    pool.create_volume("a", 2000 * block, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let bytes = unique(&mut Random::new(3), 1900);
    write(&volume, 0, &bytes).unwrap();
    assert!(read(&volume, 0, bytes.len()).unwrap() == bytes);
}

/// Counting while commits are written, volumes come and go, and the collector works, finds nothing wrong.
#[test]
fn a_proof_of_a_served_pool_counts_each_block_once() {
    let folder = tempfile::tempdir().unwrap();
    let disks = disks(folder.path(), 1);
    Pool::format(&disks, &options(60_000)).unwrap();
    let tuning = Tuning { commit_interval: Duration::from_millis(1), ..Tuning::default() };
    let pool = Pool::open_disks(disks, tuning, Arc::new(ManualClock::new())).unwrap();
    pool.create_volume("a", 40_000 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &unique(&mut Random::new(9), 40_000)).unwrap();
    let is_done = AtomicBool::new(false);
    let until_done = |work: &mut dyn FnMut()| {
        while !is_done.load(Ordering::Relaxed) {
            work();
        }
    };
    std::thread::scope(|scope| {
        let mut random = Random::new(1);
        scope.spawn(move || {
            until_done(&mut || {
                let offset = random.below(500) * BLOCK as u64;
                write(&volume, offset, &unique(&mut random, 8)).unwrap();
            });
        });
        scope.spawn(|| until_done(&mut || pool.flush().unwrap()));
        scope.spawn(|| {
            until_done(&mut || {
                pool.create_volume("x", BLOCK as u64, DedupMode::Off).unwrap();
                pool.gc(None, &Silent, &StopFlag::new()).unwrap();
                pool.remove_volume("x").unwrap();
            });
        });
        let began = Instant::now();
        let mut wrong = Vec::new();
        while began.elapsed() < Duration::from_secs(2) && wrong.is_empty() {
            wrong = pool.prove_served(10).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        assert_eq!(wrong, Vec::<String>::new());
    });
}

/// Two blocks of one content, of which the index knows the later one, which goes.
#[test]
fn a_proof_does_not_mind_a_second_block_of_a_content() {
    for backend in BackendKind::ALL {
        let folder = tempfile::tempdir().unwrap();
        let disks = disks(folder.path(), 0);
        Pool::format(&disks, &options_with(backend, 100)).unwrap();
        let pool = open(&disks, Tuning { most_references: 1, ..tuning() }).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        let block = BLOCK as u64;
        for lbn in [0, 1] {
            write(&volume, lbn * block, &content(1, BLOCK)).unwrap();
        }
        assert_eq!(pool.stat().unwrap().physical_blocks, 2, "{backend:?}");
        write(&volume, block, &content(2, BLOCK)).unwrap();
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{backend:?}");
        pool.checkpoint().unwrap();
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{backend:?}");
    }
}

/// Writes that need no block, each with a flush that fails, are refused before they have taken much memory.
#[test]
fn a_journal_that_cannot_be_written_bounds_what_waits() {
    const PAIRS: u64 = 3000;
    let folder = tempfile::tempdir().unwrap();
    let metadata = disk(folder.path(), "metadata", 0);
    let disks =
        PoolDisks { data: disk(folder.path(), "data", 0), metadata: Arc::clone(&metadata) as Arc<dyn Disk> };
    Pool::format(&disks, &options(2000)).unwrap();
    let pool = open(&disks, tuning()).unwrap();
    pool.create_volume("a", 1024 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let both = [content(1, BLOCK).repeat(256), content(2, BLOCK).repeat(256)];
    let offset = 512 * BLOCK as u64;
    write(&volume, offset, &both[0]).unwrap();
    write(&volume, 0, &both[1]).unwrap();
    flush(&volume).unwrap();
    metadata.journal_fails.store(true, Ordering::Relaxed);
    let accepted = (0..PAIRS).take_while(|number| {
        let is_accepted = write(&volume, 0, &both[*number as usize % 2]).is_ok();
        assert!(flush(&volume).is_err() || !is_accepted);
        is_accepted
    });
    let accepted = accepted.count() as u64;
    assert!((1..PAIRS).contains(&accepted), "{accepted} pairs");
    metadata.journal_fails.store(false, Ordering::Relaxed);
    write(&volume, 0, &both[0]).unwrap();
    flush(&volume).unwrap();
    drop(pool);
    let pool = open(&disks, tuning()).unwrap();
    assert!(read(&pool.volume("a").unwrap(), 0, both[0].len()).unwrap() == both[0]);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}
