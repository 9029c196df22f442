//! Several threads at the same blocks: no read returns a content that was never written there, no
//! write is lost, and a crash in between loses no flushed write.

use crate::common::repeat::Repeat;
use crate::common::simulated::Simulation;
use crate::common::{
    BLOCK, content, first_seed, flush, open, options_with, read, rounds, trim, tuning, write,
    write_now,
};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskWrite, FileDisk};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const THREADS: u64 = 4;
/// Blocks that all threads write.
const COMMON_BLOCKS: u64 = 24;
/// Blocks that only one thread writes, for each thread.
const OWN_BLOCKS: u64 = 8;
/// Bytes that each thread has in a patched block.
const LANE: usize = 100;

/// Makes a content whose first bytes identify it.
fn tagged(id: u64) -> Vec<u8> {
    let mut bytes = content(id, BLOCK);
    bytes[..8].copy_from_slice(&id.to_le_bytes());
    bytes
}

/// The contents that any thread has begun to write to each block.
struct History {
    written: Vec<Mutex<HashSet<u64>>>,
}

impl History {
    fn check(&self, block: u64, bytes: &[u8]) {
        let id = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        if id == 0 {
            assert!(bytes.iter().all(|byte| *byte == 0), "block {block} is torn");
            return;
        }
        assert!(bytes == tagged(id), "block {block} is torn");
        let held = self.written[block as usize].lock().unwrap();
        assert!(held.contains(&id), "block {block} shows {id}, which was never written there");
    }
}

fn own_offset(thread: u64, block: u64) -> u64 {
    (COMMON_BLOCKS + 1 + thread * OWN_BLOCKS + block) * BLOCK as u64
}

struct Worker<'a> {
    thread: u64,
    random: Random,
    volume: Volume,
    history: &'a History,
    fresh: &'a AtomicU64,
    own: Vec<Vec<u8>>,
    lane: Vec<u8>,
}

impl Worker<'_> {
    fn step(&mut self) -> Result<(), DeviceError> {
        let block = self.random.below(COMMON_BLOCKS);
        let offset = block * BLOCK as u64;
        match self.random.below(12) {
            0..4 => {
                let id = if self.random.below(2) == 0 {
                    1 + self.random.below(6)
                } else {
                    self.fresh.fetch_add(1, Ordering::Relaxed)
                };
                self.history.written[block as usize].lock().unwrap().insert(id);
                write(&self.volume, offset, &tagged(id))
            }
            4 => trim(&self.volume, offset, BLOCK as u64),
            5..7 => {
                let bytes = read(&self.volume, 0, COMMON_BLOCKS as usize * BLOCK)?;
                bytes
                    .chunks(BLOCK)
                    .zip(0..)
                    .for_each(|(bytes, block)| self.history.check(block, bytes));
                Ok(())
            }
            7..9 => self.write_own(),
            9 => self.patch(),
            10 => self.check_own(),
            _ => flush(&self.volume),
        }
    }

    fn write_own(&mut self) -> Result<(), DeviceError> {
        let number = self.random.below(OWN_BLOCKS);
        let bytes = tagged(self.random.below(9));
        let bytes = if bytes[..8] == [0; 8] { vec![0; BLOCK] } else { bytes };
        write(&self.volume, own_offset(self.thread, number), &bytes)?;
        self.own[number as usize] = bytes;
        Ok(())
    }

    /// Patches this thread's bytes of a block that all threads patch.
    fn patch(&mut self) -> Result<(), DeviceError> {
        let lane: Vec<u8> = (0..LANE).map(|_| self.random.below(256) as u8).collect();
        let offset = COMMON_BLOCKS * BLOCK as u64 + self.thread * LANE as u64;
        write(&self.volume, offset, &lane)?;
        self.lane = lane;
        assert!(read(&self.volume, offset, LANE)? == self.lane, "a patch is lost");
        Ok(())
    }

    fn check_own(&self) -> Result<(), DeviceError> {
        for (number, expected) in (0..).zip(&self.own) {
            let bytes = read(&self.volume, own_offset(self.thread, number), BLOCK)?;
            assert!(bytes == *expected, "block {number} of thread {} lost a write", self.thread);
        }
        let lane =
            read(&self.volume, COMMON_BLOCKS * BLOCK as u64 + self.thread * LANE as u64, LANE)?;
        assert!(lane == self.lane, "a patch of thread {} is lost", self.thread);
        Ok(())
    }
}

/// Runs the threads until there is an error or their steps are done. Checks the contents of each
/// thread's own blocks.
fn work(pool: &Pool, seed: u64, steps: u64, history: &History, fresh: &AtomicU64) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut worker = Worker {
                    thread,
                    random: Random::new(seed * THREADS + thread),
                    volume: pool.volume("a").unwrap(),
                    history,
                    fresh,
                    own: vec![vec![0; BLOCK]; OWN_BLOCKS as usize],
                    lane: vec![0; LANE],
                };
                scope.spawn(move || {
                    for _ in 0..steps {
                        match worker.step() {
                            Ok(()) | Err(DeviceError::NoSpace) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                    worker.check_own().unwrap();
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                pool.checkpoint().unwrap();
                pool.snapshot_volume("a", "s").unwrap();
                pool.gc(None, &Silent, &StopFlag::new()).unwrap();
                pool.remove_volume("s").unwrap();
            }
        });
        let results: Vec<_> =
            workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "seed {seed}");
    });
}

fn history() -> History {
    History { written: (0..COMMON_BLOCKS).map(|_| Mutex::default()).collect() }
}

#[test]
fn no_read_shows_what_was_never_there_and_no_write_is_lost() {
    for seed in first_seed()..first_seed() + rounds(4) {
        let _repeat = Repeat::of(seed);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pool");
        // The store has hardly more blocks than the volume, so blocks are freed and reused all the
        // time.
        Pool::create(
            &path,
            &PoolOptions {
                journal_bytes: Some(64 << 10),
                ..options_with(Policy::ALL[seed as usize % Policy::ALL.len()], 140)
            },
        )
        .unwrap();
        let tuning = Tuning {
            verify_bytes: seed % 2 == 0,
            cache_bytes: Some(64 << 10),
            ..Tuning::default()
        };
        let pool = Pool::open(&path, tuning, Arc::new(ManualClock::new())).unwrap();
        pool.create_volume(
            "a",
            (COMMON_BLOCKS + 1 + THREADS * OWN_BLOCKS) * BLOCK as u64,
            DedupMode::Inline,
        )
        .unwrap();
        work(&pool, seed, 700, &history(), &AtomicU64::new(1000));
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
    }
}

/// The contents that a thread's block may have after a crash.
struct Own {
    allowed: Vec<Vec<Vec<u8>>>,
}

/// Writes to the thread's own blocks until the power is cut.
fn write_until_down(volume: &Volume, thread: u64, seed: u64) -> Own {
    let mut random = Random::new(seed * THREADS + thread);
    let mut own = Own { allowed: vec![vec![vec![0; BLOCK]]; OWN_BLOCKS as usize] };
    loop {
        let number = random.below(OWN_BLOCKS) as usize;
        let bytes = tagged(1 + random.below(40));
        own.allowed[number].push(bytes.clone());
        let offset = own_offset(thread, number as u64);
        let is_immediate = random.below(8) == 0;
        let result = if is_immediate {
            write_now(volume, offset, &bytes)
        } else {
            write(volume, offset, &bytes)
        };
        if result.is_err() {
            return own;
        }
        if random.below(6) == 0 && flush(volume).is_err() {
            return own;
        } else if is_immediate {
            own.allowed[number] = vec![bytes];
        } else if own.allowed[number].len() > 1 && random.below(4) == 0 {
            if flush(volume).is_err() {
                return own;
            }
            own.allowed.iter_mut().for_each(|allowed| drop(allowed.drain(..allowed.len() - 1)));
        }
    }
}

#[test]
fn a_crash_under_many_threads_keeps_what_was_flushed() {
    for seed in first_seed()..first_seed() + rounds(80) {
        let _repeat = Repeat::of(seed);
        let simulation = Simulation::new(seed);
        Pool::format(
            &simulation.disks(),
            &options_with(Policy::ALL[seed as usize % Policy::ALL.len()], 120),
        )
        .unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume(
            "a",
            (COMMON_BLOCKS + 1 + THREADS * OWN_BLOCKS) * BLOCK as u64,
            DedupMode::Inline,
        )
        .unwrap();
        let owns: Vec<Own> = std::thread::scope(|scope| {
            let volume = pool.volume("a").unwrap();
            let writers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let volume = volume.clone();
                    scope.spawn(move || write_until_down(&volume, thread, seed))
                })
                .collect();
            scope.spawn(|| while pool.checkpoint().is_ok() {});
            std::thread::sleep(Duration::from_millis(5 + seed % 40));
            simulation.pull_plug();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let simulation = simulation.after_crash(seed);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let volume = pool.volume("a").unwrap();
        for (thread, own) in (0..).zip(owns) {
            for (number, allowed) in (0..).zip(own.allowed) {
                let bytes = read(&volume, own_offset(thread, number), BLOCK).unwrap();
                assert!(allowed.contains(&bytes), "seed {seed}: block {number} of thread {thread}");
            }
        }
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        pool.close().unwrap();
        let options = CheckOptions { data: true };
        assert!(check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap().is_clean());
    }
}

/// A data store whose writes are so slow that all threads look up their contents before the first
/// write ends.
struct SlowDisk(FileDisk);

impl DiskLayer for SlowDisk {
    fn below(&self) -> &dyn Disk {
        &self.0
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        std::thread::sleep(Duration::from_millis(5));
        self.0.write_many(writes);
    }
}

/// A content that several threads write at the same moment is shared all the same: the pool stores
/// it once.
#[test]
fn contents_that_several_threads_write_at_once_are_stored_once() {
    const CONTENTS: u64 = 256;
    const BATCH: u64 = 16;
    let directory = tempfile::tempdir().unwrap();
    let disk = |name: &str| FileDisk::create(&directory.path().join(name)).unwrap();
    let disks = PoolDisks::new(Arc::new(SlowDisk(disk("data"))), Arc::new(disk("metadata")));
    Pool::format(&disks, &options_with(Policy::Compact, THREADS * CONTENTS + 100)).unwrap();
    let pool = Pool::open_disks(disks, Tuning::default(), Arc::new(ManualClock::new())).unwrap();
    let barrier = std::sync::Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let name = format!("volume {thread}");
            pool.create_volume(&name, CONTENTS * BLOCK as u64, DedupMode::Inline).unwrap();
            let (volume, barrier) = (pool.volume(&name).unwrap(), &barrier);
            scope.spawn(move || {
                for first in (0..CONTENTS).step_by(BATCH as usize) {
                    let bytes: Vec<u8> =
                        (first..first + BATCH).flat_map(|id| tagged(id + 1)).collect();
                    barrier.wait();
                    write(&volume, first * BLOCK as u64, &bytes).unwrap();
                }
            });
        }
    });
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks), (THREADS * CONTENTS, CONTENTS));
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    pool.close().unwrap();
}
