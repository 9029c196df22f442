//! Snapshots and clones: they cost what differs, before and after a
//! restart, and removals end in the background.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;
use std::time::Duration;

const BLOCKS: u64 = 4000;
const PAGE: u64 = 4096;

/// Bytes that a page in the cache takes.
const CACHED_PAGE: u64 = 4096 + 64;

fn bytes(first: u64, blocks: u64) -> Vec<u8> {
    (first..first + blocks).flat_map(|id| content(id, BLOCK)).collect()
}

/// A pool with a full volume `a`.
fn pool_of(policy: Policy, simulation: &Simulation, tuning: Tuning) -> Pool {
    let options = options_with(policy, 20_000);
    let options = PoolOptions { journal_bytes: Some(1 << 20), ..options };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("a").unwrap(), 0, &bytes(1, BLOCKS)).unwrap();
    pool.checkpoint().unwrap();
    pool
}

fn check_all(disks: &PoolDisks) -> CheckReport {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

#[test]
fn a_hundred_snapshots_cost_their_records_before_and_after_a_restart() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        let pool = pool_of(policy, &simulation, tuning());
        let before = pool.stat().unwrap();
        for number in 0..100 {
            pool.snapshot_volume("a", &format!("s{number}")).unwrap();
        }
        pool.checkpoint().unwrap();
        let with = pool.stat().unwrap();
        // A few pages of the map may come into a cache.
        let most = 8 * CACHED_PAGE + 100 * 100;
        let more = with.metadata_memory_bytes.saturating_sub(before.metadata_memory_bytes);
        assert!(more <= most, "{policy:?}: {more} bytes");
        // A record has less than 100 bytes and is in the table, whose pages are kept twice.
        let added = with.metadata_used_bytes - before.metadata_used_bytes;
        assert!(added <= 2 * (100 * 100 + PAGE), "{policy:?}: {added} bytes");
        pool.close().unwrap();

        let pool = open(&simulation.disks(), tuning()).unwrap();
        let opened = pool.stat().unwrap();
        assert_eq!(opened.logical_blocks, 101 * BLOCKS);
        // A stop leaves the index of these blocks beside the records.
        let kept = opened.metadata_used_bytes - with.metadata_used_bytes;
        assert!(kept <= if policy == Policy::Compact { 8 * 2 * PAGE } else { 0 }, "{policy:?}");
        // The index may have another capacity when it is filled at once.
        let most = before.metadata_memory_bytes + before.metadata_memory_bytes / 4;
        assert!(opened.metadata_memory_bytes <= most, "{policy:?}: {opened:?}");
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        pool.remove_volume("a").unwrap();
        assert_eq!(read(&pool.volume("s50").unwrap(), 0, BLOCK).unwrap(), content(1, BLOCK));
        (0..100).for_each(|number| pool.remove_volume(&format!("s{number}")).unwrap());
        assert_eq!(pool.stat().unwrap().physical_blocks, 0);
        pool.close().unwrap();
        let report = check_all(&simulation.disks());
        assert!(report.is_clean(), "{policy:?}: {report:?}");
    }
}

#[test]
fn a_large_volume_is_cleared_in_the_background() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        let options = options_with(policy, 80_000);
        let options = PoolOptions { journal_bytes: Some(4 << 20), ..options };
        Pool::format(&simulation.disks(), &options).unwrap();
        let clock = || Arc::new(SystemClock::new());
        let tuning = Tuning { background: true, ..tuning() };
        let pool = Pool::open_disks(simulation.disks(), tuning, clock()).unwrap();
        pool.create_volume("a", 40_000 * BLOCK as u64, DedupMode::Inline).unwrap();
        for part in 0..10 {
            let at = part * 4000 * BLOCK as u64;
            write(&pool.volume("a").unwrap(), at, &bytes(1 + part * 4000, 4000)).unwrap();
        }
        pool.clone_volume("a", "b").unwrap();
        write(&pool.volume("a").unwrap(), 0, &bytes(90_000, 20_000)).unwrap();
        pool.remove_volume("a").unwrap();
        let is_cleared = || pool.stat().unwrap().physical_blocks == 40_000;
        (0..500).take_while(|_| !is_cleared()).for_each(|_| {
            gemelo_base::pause(Duration::from_millis(20));
        });
        assert!(is_cleared(), "{policy:?}: {:?}", pool.stat());
        assert_eq!(read(&pool.volume("b").unwrap(), 0, BLOCK).unwrap(), content(1, BLOCK));
        // A removal just before the end is carried out.
        write(&pool.volume("b").unwrap(), 0, &bytes(90_000, 20_000)).unwrap();
        pool.remove_volume("b").unwrap();
        pool.close().unwrap();
        let report = check_all(&simulation.disks());
        assert!(report.is_clean(), "{policy:?}: {report:?}");
        assert_eq!((report.volumes, report.physical_blocks), (0, 0), "{policy:?}");
    }
}

#[test]
fn check_counts_the_references_of_many_clones() {
    Policy::ALL.into_iter().for_each(check_counts);
}

fn check_counts(policy: Policy) {
    let simulation = Simulation::new(1);
    let pool = pool_of(policy, &simulation, tuning());
    for number in 0..500 {
        pool.clone_volume("a", &format!("c{number}")).unwrap();
    }
    pool.checkpoint().unwrap();
    for number in (0..500).step_by(50) {
        let volume = pool.volume(&format!("c{number}")).unwrap();
        write(&volume, number * BLOCK as u64, &content(50_000 + number, BLOCK)).unwrap();
    }
    pool.close().unwrap();
    let report = check_all(&simulation.disks());
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.references, report.physical_blocks), (501 * BLOCKS, BLOCKS + 10));
}
