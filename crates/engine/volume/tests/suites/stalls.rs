//! Commands run beside requests and other commands: they do not block or disturb each other.

use crate::common::shape::short_rings;
use crate::common::simulated::{Fault, Simulation};
use crate::common::{
    BLOCK, content, flush, open, options, options_with, read, trim, tuning, tuning_on_disk, write,
};
use gemelo_base::locks::Mutex;
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskWrite, FileDisk};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A disk with slow syncs, whose journal fails when told to.
struct TestDisk {
    file: FileDisk,
    sync_ms: u64,
    journal_fails: AtomicBool,
    /// Syncs that have begun.
    syncs: AtomicU64,
    /// A sync ends when it has had this lock.
    sync_gate: Mutex<()>,
}

/// A test that fails ends after this time.
const PATIENCE: Duration = Duration::from_secs(20);

impl DiskLayer for TestDisk {
    fn below(&self) -> &dyn Disk {
        &self.file
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let fails = self.journal_fails.load(Ordering::Relaxed);
        for write in writes {
            write.outcome =
                if fails && short_rings().iter().any(|ring| ring.contains(&write.offset)) {
                    Err(io::Error::other("the journal is broken"))
                } else {
                    self.file.write_at(write.offset, write.bytes)
                };
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        drop(self.sync_gate.lock());
        std::thread::sleep(Duration::from_millis(self.sync_ms));
        self.file.sync()
    }
}

fn disk(directory: &Path, name: &str, sync_ms: u64) -> Arc<TestDisk> {
    let file = FileDisk::create(&directory.join(name)).unwrap();
    let (journal_fails, syncs) = (AtomicBool::new(false), AtomicU64::new(0));
    Arc::new(TestDisk { file, sync_ms, journal_fails, syncs, sync_gate: Mutex::new(()) })
}

fn disks(directory: &Path, sync_ms: u64) -> PoolDisks {
    PoolDisks::new(disk(directory, "data", sync_ms), disk(directory, "metadata", sync_ms))
}

fn unique(random: &mut Random, blocks: u64) -> Vec<u8> {
    (0..blocks).flat_map(|_| content(random.next_u64() | 1, BLOCK)).collect()
}

#[test]
fn of_two_that_enlarge_the_pool_at_once_none_makes_it_smaller() {
    let directory = tempfile::tempdir().unwrap();
    let disks = disks(directory.path(), 30);
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
    assert_eq!(pool.stat().unwrap().capacity_blocks, 1998);
    pool.create_volume("a", 2000 * block, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let bytes = unique(&mut Random::new(3), 1900);
    write(&volume, 0, &bytes).unwrap();
    assert!(read(&volume, 0, bytes.len()).unwrap() == bytes);
}

/// Work on a pool that ends when the disks let it.
type Held = fn(&Pool) -> Result<(), VolumeError>;

/// Runs `held` until it syncs the disk of this name, and `others` meanwhile. Returns whether
/// `others` ended.
fn ends_during_sync(name: &str, tuning: Tuning, held: Held, others: fn(&Pool, &Volume)) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let (data, metadata) =
        (disk(directory.path(), "data", 0), disk(directory.path(), "metadata", 0));
    let disks = PoolDisks::new(Arc::clone(&data) as _, Arc::clone(&metadata) as _);
    let disk = if name == "data" { data } else { metadata };
    Pool::format(&disks, &options(1000)).unwrap();
    let pool = open(&disks, tuning).unwrap();
    pool.create_volume("a", 100 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &content(1, BLOCK)).unwrap();
    std::thread::scope(|scope| {
        let gate = disk.sync_gate.lock();
        let syncs = disk.syncs.load(Ordering::Relaxed);
        let held = scope.spawn(|| held(&pool));
        let since = Instant::now();
        while disk.syncs.load(Ordering::Relaxed) == syncs && since.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let is_synced = disk.syncs.load(Ordering::Relaxed) > syncs;
        let (done, ended) = std::sync::mpsc::channel();
        let (pool, volume) = (&pool, &volume);
        scope.spawn(move || {
            others(pool, volume);
            done.send(()).unwrap();
        });
        let ended = ended.recv_timeout(PATIENCE);
        drop(gate);
        held.join().unwrap().unwrap();
        is_synced && ended.is_ok()
    })
}

/// While a flush waits for the medium, the figures of the pool are told, and writes go on.
#[test]
fn a_flush_that_waits_for_the_medium_holds_nobody_up_who_asks_for_figures_or_writes() {
    for (name, tuning) in [("data", tuning_on_disk()), ("metadata", tuning())] {
        let is_over = ends_during_sync(name, tuning, Pool::flush, |pool, volume| {
            pool.stat().unwrap();
            assert_eq!(pool.volumes().len(), 1);
            write(volume, BLOCK as u64, &content(2, BLOCK)).unwrap();
        });
        assert!(is_over, "held up by a flush that syncs the {name}");
    }
}

/// A checkpoint syncs what commits carry while further commits are written.
#[test]
fn a_checkpoint_that_syncs_journal_data_holds_no_flush_up() {
    let checkpoint: Held = |pool| pool.flush().and_then(|()| pool.checkpoint());
    let is_over = ends_during_sync("data", tuning(), checkpoint, |pool, volume| {
        write(volume, BLOCK as u64, &content(2, BLOCK)).unwrap();
        pool.flush().unwrap();
    });
    assert!(is_over, "a flush waited for the data sync of a checkpoint");
}

/// A count while commits are written, volumes are made and removed, and the collector works, finds
/// no difference.
#[test]
fn a_proof_of_a_served_pool_counts_each_block_once() {
    let directory = tempfile::tempdir().unwrap();
    let disks = disks(directory.path(), 1);
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

/// Two blocks have one content. The index knows the later one, which is freed.
#[test]
fn a_proof_does_not_mind_a_second_block_of_a_content() {
    for policy in Policy::ALL {
        let directory = tempfile::tempdir().unwrap();
        let disks = disks(directory.path(), 0);
        Pool::format(&disks, &options_with(policy, 100)).unwrap();
        let pool = open(&disks, Tuning { max_references: 1, ..tuning() }).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        let block = BLOCK as u64;
        for lbn in [0, 1] {
            write(&volume, lbn * block, &content(1, BLOCK)).unwrap();
        }
        assert_eq!(pool.stat().unwrap().physical_blocks, 2, "{policy:?}");
        write(&volume, block, &content(2, BLOCK)).unwrap();
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
        pool.checkpoint().unwrap();
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
    }
}

/// Writes that need no block, each with a flush that fails, are refused before they have taken much
/// memory.
#[test]
fn a_journal_that_cannot_be_written_bounds_what_waits() {
    const PAIRS: u64 = 3000;
    let directory = tempfile::tempdir().unwrap();
    let metadata = disk(directory.path(), "metadata", 0);
    let disks =
        PoolDisks::new(disk(directory.path(), "data", 0), Arc::clone(&metadata) as Arc<dyn Disk>);
    Pool::format(&disks, &options(2000)).unwrap();
    let pool = open(&disks, Tuning { cache_bytes: Some(64 << 20), ..tuning() }).unwrap();
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

/// A client that never flushes has its changes made durable before they take much memory.
#[test]
fn an_open_commit_is_bounded() {
    const BLOCKS: u64 = 256;
    let simulation = Simulation::new(1);
    let options = PoolOptions { journal_bytes: Some(8 << 20), ..options(1000) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool =
        open(&simulation.disks(), Tuning { cache_bytes: Some(64 << 20), ..tuning() }).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let both = [content(1, BLOCK).repeat(256), content(2, BLOCK).repeat(256)];
    write(&volume, 0, &both[1]).unwrap();
    flush(&volume).unwrap();
    let before = pool.stat().unwrap().activity;
    let journal = |rounds: u64| {
        (0..rounds).for_each(|round| write(&volume, 0, &both[round as usize % 2]).unwrap());
        let after = pool.stat().unwrap().activity;
        (after.commits - before.commits, after.journal_bytes - before.journal_bytes)
    };
    // Each round makes 256 changes of more than 16 and less than 64 bytes.
    assert_eq!(journal((1 << 20) / (256 * 64)), (0, 0), "less than the bound");
    let (commits, bytes) = journal((6 << 20) / (256 * 16));
    assert!(commits >= 3, "{commits} commits of {bytes} bytes");
    // A commit is written twice.
    assert!(bytes / commits < (2 << 20) + (64 << 10), "{commits} commits of {bytes} bytes");
}

/// Makes a volume of more blocks than a cached policy changes at once. Returns the ids of its
/// contents.
fn large_volume(pool: &Pool, blocks: u64) -> Vec<u64> {
    pool.create_volume("a", blocks * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let ids: Vec<u64> =
        (0..blocks).map(|block| if block % 7 == 3 { 0 } else { 1 + block % 900 }).collect();
    for (first, ids) in (0..).step_by(512).zip(ids.chunks(512)) {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| content(*id, BLOCK)).collect();
        write(&volume, first * BLOCK as u64, &bytes).unwrap();
    }
    ids
}

fn bytes_of(ids: &[u64]) -> Vec<u8> {
    ids.iter().flat_map(|id| content(*id, BLOCK)).collect()
}

/// A copy has the contents of its source at the beginning, whatever is written, trimmed and found
/// meanwhile.
#[test]
fn a_copy_of_a_volume_that_is_written_is_of_one_instant() {
    const BLOCKS: u64 = 6000;
    for policy in Policy::ALL {
        let directory = tempfile::tempdir().unwrap();
        let disks = disks(directory.path(), 0);
        Pool::format(&disks, &options_with(policy, 9000)).unwrap();
        let pool = open(&disks, tuning()).unwrap();
        let mut ids = large_volume(&pool, BLOCKS);
        let volume = pool.volume("a").unwrap();
        let mut random = Random::new(5);
        // Both blocks of a pair get the same number, one after the other, so an instant falls
        // between two writes.
        let (left, right) = (100u64, 5900u64);
        let block = BLOCK as u64;
        let is_done = AtomicBool::new(false);
        let snapshots = std::thread::scope(|scope| {
            let (writer, is_done) = (volume.clone(), &is_done);
            let pair = scope.spawn(move || {
                let mut number = 0;
                while !is_done.load(Ordering::Relaxed) {
                    number += 1;
                    write(&writer, left * block, &content(10_000 + number, BLOCK)).unwrap();
                    write(&writer, right * block, &content(10_000 + number, BLOCK)).unwrap();
                    if random.below(2) == 0 {
                        trim(&writer, (200 + random.below(5000)) * block, 300 * block).unwrap();
                    } else {
                        let bytes = unique(&mut random, 3);
                        write(&writer, (200 + random.below(5600)) * block, &bytes).unwrap();
                    }
                }
                number
            });
            for name in ["s", "t"] {
                std::thread::sleep(Duration::from_millis(3));
                pool.snapshot_volume("a", name).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
            let last = pair.join().unwrap();
            [("s", last), ("t", last)]
        });
        for (name, last) in snapshots {
            let snapshot = pool.volume(name).unwrap();
            let at = |lbn: u64| read(&snapshot, lbn * block, BLOCK).unwrap();
            let number = |bytes: &[u8]| {
                (1..=last).find(|number| *bytes == content(10_000 + number, BLOCK)).unwrap_or(0)
            };
            let (left, right) = (number(&at(left)), number(&at(right)));
            assert!(left == right || left == right + 1, "{policy:?}: {left} and {right}");
        }
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
        // Without writers, a copy equals its source.
        ids[0] = 0;
        trim(&volume, 0, block).unwrap();
        pool.clone_volume("a", "c").unwrap();
        let all =
            |name: &str| read(&pool.volume(name).unwrap(), 0, (BLOCKS * block) as usize).unwrap();
        assert!(all("a") == all("c"), "{policy:?}");
        drop(pool);
        let pool = open(&disks, tuning()).unwrap();
        let all =
            |name: &str| read(&pool.volume(name).unwrap(), 0, (BLOCKS * block) as usize).unwrap();
        assert!(all("a") == all("c"), "{policy:?}");
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
    }
}

/// A crash at any call of the removal of a large volume leaves all of the volume or nothing.
#[test]
fn a_crash_while_a_large_volume_is_removed_leaves_all_or_nothing() {
    const BLOCKS: u64 = 20_000;
    for policy in [Policy::Compact, Policy::Dtb] {
        for call in 1.. {
            let simulation = Simulation::new(call);
            Pool::format(&simulation.disks(), &options_with(policy, 2000)).unwrap();
            let pool =
                open(&simulation.disks(), Tuning { cache_bytes: Some(16 << 20), ..tuning() })
                    .unwrap();
            let ids = large_volume(&pool, BLOCKS);
            pool.checkpoint().unwrap();
            simulation.set_fault(Fault::CrashAt(call));
            let is_removed = pool.remove_volume("a").is_ok();
            let is_over = !simulation.is_down();
            let simulation = simulation.after_crash(call);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            match pool.volume("a") {
                Ok(volume) => {
                    assert!(!is_removed);
                    assert!(read(&volume, 0, BLOCKS as usize * BLOCK).unwrap() == bytes_of(&ids));
                }
                Err(_) => {
                    assert_eq!(pool.stat().unwrap().physical_blocks, 0, "{policy:?}, call {call}");
                }
            }
            assert_eq!(pool.volumes().len() as u64, pool.stat().unwrap().volumes);
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}, call {call}");
            if is_over {
                assert!(call > 2, "the removal makes some calls");
                break;
            }
        }
    }
}

/// While a volume is copied and another one removed, reads, writes and look-ups wait for a short
/// time at most. `GEMELO_TEST_BLOCKS` sets another size of the volume, which can be in millions.
#[test]
fn copies_and_removals_stop_nobody() {
    /// A copy in one go takes a second here; the bound leaves room for a busy machine.
    const BOUND: Duration = Duration::from_millis(500);
    let blocks = std::env::var("GEMELO_TEST_BLOCKS").ok().and_then(|text| text.parse().ok());
    let blocks = blocks.unwrap_or(300_000);
    for policy in [Policy::Dtb, Policy::Cbt, Policy::Compact] {
        let directory = tempfile::tempdir().unwrap();
        let disks = disks(directory.path(), 0);
        Pool::format(&disks, &options_with(policy, 4000)).unwrap();
        let tuning = Tuning { cache_bytes: Some(16 << 20), ..Tuning::default() };
        let pool = Pool::open_disks(disks, tuning, Arc::new(ManualClock::new())).unwrap();
        large_volume(&pool, blocks);
        pool.create_volume("b", 1 << 20, DedupMode::Inline).unwrap();
        let worst = longest_waits(&pool, &format!("{policy:?}, {blocks} blocks"));
        assert!(worst.iter().all(|worst| *worst < BOUND), "{policy:?}: {worst:?}");
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?}");
    }
}

/// Copies the volume "a" and removes the copy. Returns the longest read and write of the source,
/// and the longest look-up of another volume, as a new client makes one, meanwhile.
fn longest_waits(pool: &Pool, what: &str) -> [Duration; 3] {
    let volume = pool.volume("a").unwrap();
    let is_done = AtomicBool::new(false);
    let watch = |work: &dyn Fn()| {
        let mut worst = Duration::ZERO;
        while !is_done.load(Ordering::Relaxed) {
            let began = Instant::now();
            work();
            worst = worst.max(began.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        worst
    };
    std::thread::scope(|scope| {
        let watch = &watch;
        let reads = scope.spawn(|| watch(&|| drop(read(&volume, 0, BLOCK).unwrap())));
        let number = AtomicU64::new(0);
        let writes = scope.spawn(|| {
            let number = number;
            watch(&|| {
                let lbn = number.fetch_add(997, Ordering::Relaxed) % 1000;
                write(&volume, lbn * BLOCK as u64, &content(1 + lbn % 7, BLOCK)).unwrap();
            })
        });
        let look_ups = scope.spawn(|| watch(&|| drop(pool.volume("b").unwrap())));
        let began = Instant::now();
        let copied = pool.snapshot_volume("a", "s");
        let copy = began.elapsed();
        let removed = pool.remove_volume("s");
        let all = began.elapsed();
        is_done.store(true, Ordering::Relaxed);
        let worst = [reads, writes, look_ups].map(|thread| thread.join().unwrap());
        copied.and(removed).unwrap();
        eprintln!(
            "{what}: copy {copy:?}, copy and removal {all:?}, longest read, write and look-up \
             {worst:?}"
        );
        worst
    })
}
