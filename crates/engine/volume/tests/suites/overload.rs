//! In-line volumes while the write buffer is full: by the policy `defer`, blocks are stored without
//! a look-up, and the finder shares them later.

use crate::common::simulated::Simulation;
use crate::common::{BLOCK, content, flush, open, options_with, read, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{InlineOverload, Pool, Tuning};
use std::sync::Arc;
use std::time::Duration;

/// Blocks of the volume, and distinct contents that are written to it.
const BLOCKS: u64 = 400;
const DISTINCT: u64 = 60;

fn with_overload(inline_overload: InlineOverload) -> Tuning {
    Tuning { inline_overload, ..tuning() }
}

/// Writes all blocks, in lists of some blocks. The write buffer of [`tuning`] is full now and then.
fn written(policy: Policy, tuning: Tuning) -> (Simulation, Pool, Vec<u8>) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 1000)).unwrap();
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let mut random = Random::new(5);
    let bytes: Vec<u8> =
        (0..BLOCKS).flat_map(|_| content(1 + random.below(DISTINCT), BLOCK)).collect();
    let volume = pool.volume("a").unwrap();
    for (number, some) in bytes.chunks(7 * BLOCK).enumerate() {
        write(&volume, (number * 7 * BLOCK) as u64, some).unwrap();
    }
    (simulation, pool, bytes)
}

fn deferred(pool: &Pool) -> u64 {
    pool.volume("a").unwrap().stat().deferred_blocks
}

fn physical(pool: &Pool) -> u64 {
    pool.stat().unwrap().physical_blocks
}

#[test]
fn savings_end_equal_to_those_of_in_line_where_no_volume_is_off_line() {
    for policy in Policy::ALL {
        let (_simulation, pool, bytes) = written(policy, with_overload(InlineOverload::Wait));
        assert_eq!((deferred(&pool), physical(&pool)), (0, DISTINCT), "{policy:?}");
        assert_eq!(pool.find(&Silent, &StopFlag::new()).unwrap().examined_blocks, 0);
        drop(pool);
        let (_simulation, pool, same) = written(policy, with_overload(InlineOverload::Defer));
        assert!(bytes == same);
        let count = deferred(&pool);
        assert!(count > 0 && count < BLOCKS, "{policy:?}: {count} deferred");
        assert!(physical(&pool) > DISTINCT, "{policy:?}: duplicates were stored");
        assert_eq!(pool.volumes()[0].backlog_blocks, count, "{policy:?}");
        let report = pool.find(&Silent, &StopFlag::new()).unwrap();
        assert_eq!(report.examined_blocks, count, "{policy:?}");
        assert_eq!(physical(&pool), DISTINCT, "{policy:?}");
        assert!(read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap() == bytes);
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
    }
}

/// The marks are in memory only, and a block without a fingerprint is the durable mark.
#[test]
fn after_a_power_cut_the_finder_of_the_background_shares_what_was_deferred() {
    let (simulation, pool, bytes) = written(Policy::Compact, with_overload(InlineOverload::Defer));
    flush(&pool.volume("a").unwrap()).unwrap();
    let stored = physical(&pool);
    let simulation = simulation.after_worst_crash();
    drop(pool);
    // With the policy `wait`, the finder leaves in-line volumes alone.
    let pool = open(&simulation.disks(), with_overload(InlineOverload::Wait)).unwrap();
    assert_eq!(pool.find(&Silent, &StopFlag::new()).unwrap().examined_blocks, 0);
    assert_eq!(physical(&pool), stored);
    pool.close().unwrap();
    let tuning = Tuning { background: true, ..with_overload(InlineOverload::Defer) };
    let clock = Arc::new(ManualClock::new());
    let pool = Pool::open_disks(simulation.disks(), tuning, clock).unwrap();
    for _ in 0..400 {
        if physical(&pool) == DISTINCT {
            break;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    assert_eq!(physical(&pool), DISTINCT, "after ten seconds");
    assert!(read(&pool.volume("a").unwrap(), 0, bytes.len()).unwrap() == bytes);
}

#[test]
fn only_blocks_of_in_line_volumes_are_deferred() {
    for mode in [DedupMode::Off, DedupMode::Offline] {
        let (_simulation, pool, bytes) =
            written(Policy::Compact, with_overload(InlineOverload::Defer));
        let before = deferred(&pool);
        assert!(before > 0);
        pool.set_mode("a", mode).unwrap();
        write(&pool.volume("a").unwrap(), 0, &bytes).unwrap();
        assert_eq!(deferred(&pool), before, "{mode:?}");
    }
}
