//! Commands on a pool whose metadata pages have to be read from the disk: no request of another
//! volume waits for these reads.

use crate::common::hold::Call;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, read, trim, tuning, write};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, Tuning, Volume};
use std::thread;
use std::time::{Duration, Instant};

/// Blocks of the volume "a". Its map and its counts have several pages, and it is copied in pieces.
const BLOCKS: u64 = 8000;
/// LBNs next to each other are this many blocks apart on the data disk, so that their counts are in
/// different pages.
const APART: u64 = 1000;
/// Blocks of the volume "b" that have contents, and their distance: each is in a map page of its
/// own. Reading them all takes the cache.
const FAR_BLOCKS: u64 = 200;
const FAR: u64 = 1024;
/// A read of another volume that takes longer waits for the held one.
const PATIENCE: Duration = Duration::from_secs(5);

/// A pool whose cache has pages of the volume "b" alone.
fn cold_pool(policy: Policy) -> (Simulation, Pool, Volume) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 2 * BLOCKS)).unwrap();
    let tuning = Tuning { cache_bytes: Some(256 << 10), ..tuning() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    for (name, blocks) in [("a", BLOCKS), ("b", FAR_BLOCKS * FAR)] {
        pool.create_volume(name, blocks * BLOCK as u64, DedupMode::Inline).unwrap();
    }
    let (a, b) = (pool.volume("a").unwrap(), pool.volume("b").unwrap());
    let groups = BLOCKS / APART;
    for first in 0..groups {
        for lbn in (first..BLOCKS).step_by(groups as usize) {
            write(&a, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
        }
    }
    for far in 0..FAR_BLOCKS {
        write(&b, far * FAR * BLOCK as u64, &content(7, BLOCK)).unwrap();
    }
    drop((a, b));
    pool.close().unwrap();
    let pool = open(&simulation.disks(), tuning).unwrap();
    let b = pool.volume("b").unwrap();
    for far in (0..FAR_BLOCKS).rev() {
        assert!(read(&b, far * FAR * BLOCK as u64, BLOCK).unwrap() == content(7, BLOCK));
    }
    (simulation, pool, b)
}

/// Does some work and holds each of its reads of metadata. Returns their number, and the number of
/// those during which a read of the volume "b" did not wait.
fn held_reads(simulation: &Simulation, b: &Volume, work: impl FnOnce() + Send) -> (u64, u64) {
    let (mut held, mut passed) = (0, 0);
    thread::scope(|scope| {
        let mut hold = simulation.hold(METADATA, Call::Read);
        let worker = scope.spawn(work);
        while held == passed {
            if !hold.is_held_within(Duration::from_millis(5)) {
                if worker.is_finished() {
                    break;
                }
                continue;
            }
            held += 1;
            let reader = scope.spawn(|| drop(read(b, 0, BLOCK)));
            let until = Instant::now() + PATIENCE;
            while !reader.is_finished() && Instant::now() < until {
                thread::yield_now();
            }
            passed += u64::from(reader.is_finished());
            hold = simulation.hold(METADATA, Call::Read);
        }
    });
    (held, passed)
}

#[test]
fn nobody_waits_for_the_pages_that_a_command_reads() {
    type Work = fn(&Pool, &Volume);
    let works: [(&str, Work); 5] = [
        ("first trim of a shared part", |pool, a| {
            pool.snapshot_volume("a", "s").unwrap();
            trim(a, 100 * BLOCK as u64, 64 * BLOCK as u64).unwrap();
        }),
        ("trim", |_, a| trim(a, 100 * BLOCK as u64, 64 * BLOCK as u64).unwrap()),
        ("snapshot", |pool, _| pool.snapshot_volume("a", "s").unwrap()),
        ("resize", |pool, _| pool.resize_volume("a", 64 * BLOCK as u64).unwrap()),
        ("remove", |pool, _| pool.remove_volume("a").unwrap()),
    ];
    for policy in [Policy::Dtb, Policy::Cbt, Policy::Compact] {
        for (name, work) in works {
            let (simulation, pool, b) = cold_pool(policy);
            let a = pool.volume("a").unwrap();
            let (held, passed) = held_reads(&simulation, &b, || work(&pool, &a));
            // A snapshot that shares the map of its source reads nothing.
            let reads = name != "snapshot";
            assert_eq!(held > 0, reads, "{policy:?}: reads in a {name}");
            assert_eq!(passed, held, "{policy:?}: a read waited for one of a {name}");
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        }
    }
}
