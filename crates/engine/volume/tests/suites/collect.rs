//! The collector as a command gives back what was freed, once.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options_with, trim, tuning, write};
use gemelo_base::{Monitor, Recorder, Silent, StopFlag, SystemClock};
use gemelo_disk::FileDisk;
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, VolumeError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn collect(pool: &Pool) -> u64 {
    pool.gc(None, &Silent, &StopFlag::new()).unwrap().discarded_blocks
}

#[test]
fn what_was_freed_is_given_back_once_and_what_was_never_used_not_at_all() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 5000)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_eq!((collect(&pool), simulation.discarded_bytes()), (0, 0), "a fresh pool");
        pool.create_volume("a", 1000 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        for lbn in 0..1000 {
            write(&volume, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
        }
        assert_eq!((collect(&pool), simulation.discarded_bytes()), (0, 0), "nothing is freed");
        trim(&volume, 100 * BLOCK as u64, 300 * BLOCK as u64).unwrap();
        assert_eq!(collect(&pool), 300);
        assert_eq!(simulation.discarded_bytes(), 300 * BLOCK as u64);
        assert_eq!(collect(&pool), 0, "it was given back before");
        // A block that was used again and freed again is given back again.
        write(&volume, 100 * BLOCK as u64, &content(5000, BLOCK)).unwrap();
        write(&volume, 100 * BLOCK as u64, &content(5001, BLOCK)).unwrap();
        assert_eq!(collect(&pool), 1);
        assert_eq!(simulation.discarded_bytes(), 301 * BLOCK as u64);
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    }
}

/// After an opening it is not known which free blocks were used before: all are looked at once.
#[test]
fn what_was_freed_before_an_opening_is_given_back_by_the_first_pass() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, 5000)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 1000 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for lbn in 0..1000 {
        write(&volume, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
    }
    trim(&volume, 0, 1000 * BLOCK as u64).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    // Stopped after the first piece, it goes on from there.
    let stop = StopFlag::new();
    stop.raise();
    assert!(matches!(pool.gc(None, &Silent, &stop), Err(VolumeError::Interrupted)));
    let first = simulation.discarded_bytes();
    assert!(first > 0);
    collect(&pool);
    assert!(simulation.discarded_bytes() >= 1000 * BLOCK as u64);
    let all = simulation.discarded_bytes();
    assert_eq!((collect(&pool), simulation.discarded_bytes()), (0, all));
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

fn open_files(directory: &Path) -> Pool {
    let disk = |name| {
        let access = gemelo_disk::DiskAccess::Exclusive;
        Arc::new(FileDisk::open(&directory.join(name), access).unwrap())
    };
    let tuning = Tuning { background: false, ..Tuning::default() };
    let disks = PoolDisks::new(disk("data"), disk("metadata"));
    Pool::open_disks(disks, tuning, Arc::new(SystemClock::new())).unwrap()
}

/// A file tells which of its parts hold data, so each process gives back only what it finds.
#[test]
fn a_file_is_asked_what_it_holds() {
    const BYTES: u64 = 4096;
    let directory = tempfile::tempdir().unwrap();
    let options = PoolOptions { capacity_bytes: 256 << 20, ..PoolOptions::default() };
    let disk = |name| Arc::new(FileDisk::create(&directory.path().join(name)).unwrap());
    Pool::format(&PoolDisks::new(disk("data"), disk("metadata")), &options).unwrap();
    let pool = open_files(directory.path());
    assert_eq!(collect(&pool), 0);
    pool.create_volume("a", 8 << 20, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for lbn in 0..1000 {
        write(&volume, lbn * BYTES, &content(1 + lbn, BYTES as usize)).unwrap();
    }
    flush(&volume).unwrap();
    trim(&volume, 0, 8 << 20).unwrap();
    drop(volume);
    pool.close().unwrap();
    let pool = open_files(directory.path());
    assert!(collect(&pool) >= 1000);
    pool.close().unwrap();
    let pool = open_files(directory.path());
    assert_eq!(collect(&pool), 0, "another process has given it back");
}

/// Writers that free blocks all the time do not keep the collector: it gives back as many blocks as
/// were free when it began.
#[test]
fn it_ends_under_load() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, 4000)).unwrap();
    let tuning = Tuning { background: true, write_buffer_bytes: 1 << 20, ..tuning() };
    let clock = Arc::new(SystemClock::new());
    let pool = Pool::open_disks(simulation.disks(), tuning, clock).unwrap();
    pool.create_volume("a", 1000 * BLOCK as u64, DedupMode::Off).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let (volume, is_over) = (pool.volume("a").unwrap(), &is_over);
                scope.spawn(move || {
                    let mut number = thread;
                    while !is_over.load(Ordering::Relaxed) {
                        number += 2;
                        let offset = number * 7 % 1000 * BLOCK as u64;
                        write(&volume, offset, &content(number, BLOCK)).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let recorder = Recorder::default();
            let report = pool.gc(None, &recorder as &dyn Monitor, &StopFlag::new()).unwrap();
            assert!(report.discarded_blocks <= 4000, "no more than the store has");
        }
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}
