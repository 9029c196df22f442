//! The index of a pool that was opened: every duplicate of an older content is found, with an index
//! on disk and with one that is computed from the records.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Clock, ManualClock};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{IndexSampling, Pool, Tuning};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Contents of the pool: several parts of the reading of records.
const BLOCKS: u64 = 5000;

/// A clock that is two seconds further at each look, so an opening is late at once.
#[derive(Default)]
struct LateClock(AtomicU64);

impl Clock for LateClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(2_000_000_000, Ordering::Relaxed)
    }

    fn sleep_until_ns(&self, _deadline_ns: u64) {}
}

fn bytes() -> Vec<u8> {
    (1..=BLOCKS).flat_map(|id| content(id, BLOCK)).collect()
}

/// A pool with a volume of unique contents, closed and opened again.
fn reopened(policy: Policy, background: bool, clock: Arc<dyn Clock>) -> Pool {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, BLOCKS + 100)).unwrap();
    let pool =
        Pool::open_disks(simulation.disks(), tuning(), Arc::new(ManualClock::new())).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("a").unwrap(), 0, &bytes()).unwrap();
    pool.close().unwrap();
    Pool::open_disks(simulation.disks(), Tuning { background, ..tuning() }, clock).unwrap()
}

/// A content that the index does not have, and that is not found beside one that it has, is stored
/// again.
#[test]
fn a_sampled_index_finds_what_comes_in_order_again() {
    let simulation = Simulation::new(1);
    let options = options_with(Policy::Compact, 3 * BLOCKS);
    Pool::format(&simulation.disks(), &options).unwrap();
    let index_sampling = IndexSampling::one_in(32).unwrap();
    let tuning = Tuning { index_sampling, cache_bytes: Some(4 << 20), ..tuning() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    for name in ["a", "b"] {
        pool.create_volume(name, BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
        write(&pool.volume(name).unwrap(), 0, &bytes()).unwrap();
        pool.checkpoint().unwrap();
    }
    let stat = pool.stat().unwrap();
    assert!((BLOCKS..BLOCKS * 21 / 20).contains(&stat.physical_blocks), "{stat:?}");
    assert!(stat.index_entries < BLOCKS / 25, "{stat:?}");
    for name in ["a", "b"] {
        assert!(read(&pool.volume(name).unwrap(), 0, BLOCKS as usize * BLOCK).unwrap() == bytes());
    }
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

fn assert_finds_all(pool: &Pool, what: &str) {
    pool.create_volume("b", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("b").unwrap(), 0, &bytes()).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.physical_blocks, stat.logical_blocks), (BLOCKS, 2 * BLOCKS), "{what}");
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
}

#[test]
fn every_duplicate_of_an_older_content_is_found_after_an_opening() {
    for policy in Policy::ALL {
        let pool = reopened(policy, false, Arc::new(ManualClock::new()));
        assert_eq!(pool.stat().unwrap().index_entries, BLOCKS, "{policy:?}");
        assert_finds_all(&pool, policy.name());
    }
}

/// An opening that takes too long leaves the rest of the index to a thread.
#[test]
fn a_served_pool_completes_its_index() {
    let pool = reopened(Policy::Compact, true, Arc::new(LateClock::default()));
    let is_complete = || pool.stat().unwrap().index_entries == BLOCKS;
    (0..500).take_while(|_| !is_complete()).for_each(|_| {
        gemelo_base::pause(Duration::from_millis(20));
    });
    assert!(is_complete(), "{} entries", pool.stat().unwrap().index_entries);
    assert_finds_all(&pool, "served");
}
