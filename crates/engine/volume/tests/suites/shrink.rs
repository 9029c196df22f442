//! A data store that becomes smaller: what lies at its end is moved with all references to it.

use crate::common::simulated::{DATA, Fault, Simulation};
use crate::common::{BLOCK, Kind, content, flush, kinds, open, options_of, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, ShrinkOptions, ShrinkReport, Tuning, VolumeError};

/// Blocks of the store, before it becomes smaller and afterwards.
const BLOCKS: u64 = 900;
const SMALLER: u64 = 500;
/// LBNs of a volume.
const LBNS: u64 = 700;
/// An LBN in so many has a content of its own; the others have one of all.
const UNIQUE_ONE_IN: u64 = 2;

fn shrink(pool: &Pool, blocks: u64) -> Result<ShrinkReport, VolumeError> {
    let options = ShrinkOptions::default();
    pool.shrink(blocks * BLOCK as u64, options, (&Silent, &StopFlag::new()))
}

/// Blocks of the store, its headers included.
fn size_of(pool: &Pool) -> u64 {
    let stat = pool.stat().unwrap();
    stat.capacity_blocks + stat.reserved_blocks
}

fn assert_clean(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// The id of a content that a volume has since this round.
const fn id_of(lbn: u64, round: u64) -> u64 {
    if lbn.is_multiple_of(UNIQUE_ONE_IN) { 1 + lbn + (round << 20) } else { u64::MAX >> 1 }
}

fn fill(pool: &Pool, name: &str, lbns: impl Iterator<Item = u64>, round: u64) {
    let volume = pool.volume(name).unwrap();
    for lbn in lbns {
        write(&volume, lbn * BLOCK as u64, &content(id_of(lbn, round), BLOCK)).unwrap();
    }
    flush(&volume).unwrap();
}

fn assert_has(pool: &Pool, name: &str, lbns: impl Iterator<Item = u64>, round: u64, what: &str) {
    let volume = pool.volume(name).unwrap();
    for lbn in lbns {
        let right = content(id_of(lbn, round), BLOCK);
        let found = read(&volume, lbn * BLOCK as u64, BLOCK).unwrap();
        assert!(found == right, "{what}: block {lbn} of {name}");
    }
}

/// A pool whose end is in use: by a content with hundreds of references, by a snapshot and a clone
/// that share most of their maps with their volume, and by what was written since. The first
/// contents were freed.
fn world(kind: Kind, tuning: Tuning) -> (Simulation, Pool) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_of(kind, BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("filler", LBNS * BLOCK as u64, DedupMode::Off).unwrap();
    let filler = pool.volume("filler").unwrap();
    let mut filled = 0;
    while pool.stat().unwrap().used_blocks < SMALLER - 50 {
        write(&filler, filled * BLOCK as u64, &content((1 << 40) + filled, BLOCK)).unwrap();
        filled += 1;
    }
    pool.create_volume("a", LBNS * BLOCK as u64, DedupMode::Inline).unwrap();
    fill(&pool, "a", 0..LBNS, 0);
    pool.checkpoint().unwrap();
    pool.snapshot_volume("a", "s").unwrap();
    pool.clone_volume("a", "c").unwrap();
    fill(&pool, "c", 0..20, 1);
    drop(filler);
    pool.remove_volume("filler").unwrap();
    pool.flush().unwrap();
    (simulation, pool)
}

fn assert_intact(pool: &Pool, what: &str) {
    assert_has(pool, "a", 0..LBNS, 0, what);
    assert_has(pool, "s", 0..LBNS, 0, what);
    assert_has(pool, "c", 0..20, 1, what);
    assert_has(pool, "c", 20..LBNS, 0, what);
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{what}");
}

#[test]
fn contents_at_the_end_move_with_all_references() {
    for kind in kinds() {
        let what = format!("{kind:?}");
        let (simulation, pool) = world(kind, tuning());
        let before = pool.stat().unwrap();
        let report = shrink(&pool, SMALLER).unwrap();
        assert!(report.moved_contents > 100 && report.estimated_s.is_none(), "{what}: {report:?}");
        assert_intact(&pool, &what);
        let stat = pool.stat().unwrap();
        assert_eq!(size_of(&pool), SMALLER, "{what}");
        assert_eq!(stat.logical_blocks, before.logical_blocks, "{what}");
        assert_eq!(stat.physical_blocks, before.physical_blocks, "{what}: none is stored twice");
        assert_eq!(simulation.images()[DATA].len() as u64, SMALLER * BLOCK as u64, "{what}");
        // What is written from now on, and a store that grows again, leave all as it is.
        fill(&pool, "c", 0..20, 2);
        pool.grow(BLOCKS * BLOCK as u64).unwrap();
        pool.create_volume("d", 200 * BLOCK as u64, DedupMode::Off).unwrap();
        fill(&pool, "d", 0..200, 3);
        fill(&pool, "c", 0..20, 1);
        assert_intact(&pool, &what);
        pool.close().unwrap();
        assert_clean(&simulation);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_intact(&pool, &what);
        assert_has(&pool, "d", 0..200, 3, &what);
        shrink(&pool, SMALLER + 100).unwrap();
        assert_intact(&pool, &what);
        pool.close().unwrap();
        assert_clean(&simulation);
    }
}

/// The power is cut at each call of a shrink in turn, and what is written afterwards goes to blocks
/// that were free.
#[test]
fn a_crash_leaves_every_content_where_its_maps_find_it() {
    for (policy, is_killed) in
        [(Policy::Compact, true), (Policy::Compact, false), (Policy::Cbt, false)]
    {
        let (mut call, mut is_done, mut cut) = (0, false, 0);
        while !is_done {
            call += 1;
            let (simulation, pool) = world((policy, None), tuning());
            simulation.set_fault(Fault::CrashAt(call));
            is_done = shrink(&pool, SMALLER).is_ok();
            drop(pool);
            let simulation =
                if is_killed { simulation.after_kill() } else { simulation.after_crash(call) };
            assert_clean(&simulation);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let what = format!("{policy:?}, call {call}");
            cut += u64::from(size_of(&pool) == SMALLER);
            pool.create_volume("d", LBNS * BLOCK as u64, DedupMode::Off).unwrap();
            let volume = pool.volume("d").unwrap();
            for lbn in 0..LBNS {
                // Until the store is full.
                if write(&volume, lbn * BLOCK as u64, &content((5 << 40) + lbn, BLOCK)).is_err() {
                    break;
                }
            }
            drop(volume);
            assert_intact(&pool, &what);
            pool.close().unwrap();
            assert_clean(&simulation);
        }
        assert!(call > 10 && cut > 1, "{policy:?}: {call} calls, {cut} after the cut");
    }
}

#[test]
fn what_has_no_room_is_refused_and_a_shrink_that_is_stopped_changes_nothing() {
    for kind in kinds() {
        let (simulation, pool) = world(kind, tuning());
        let refused = |blocks| shrink(&pool, blocks).unwrap_err().to_string();
        assert!(refused(BLOCKS + 1).contains("pool grow"), "{kind:?}");
        assert!(refused(1).contains("at least"), "{kind:?}");
        assert!(refused(50).contains("are in use"), "{kind:?}: {}", refused(50));
        let before = pool.stat().unwrap();
        let stop = StopFlag::new();
        stop.raise();
        let stopped =
            pool.shrink(SMALLER * BLOCK as u64, ShrinkOptions::default(), (&Silent, &stop));
        assert!(matches!(stopped, Err(VolumeError::Interrupted)), "{stopped:?}");
        let dry = ShrinkOptions { is_dry: true, max_bytes_per_s: Some(BLOCK as u64) };
        let going = StopFlag::new();
        let report = pool.shrink(SMALLER * BLOCK as u64, dry, (&Silent, &going)).unwrap();
        assert!(report.used_blocks > 100, "{kind:?}: {report:?}");
        assert!(report.estimated_s >= Some(report.used_blocks), "a block a second: {report:?}");
        assert_eq!(report.moved_contents, 0, "{kind:?}");
        let after = pool.stat().unwrap();
        let space = |stat: &gemelo_volume::PoolStat| {
            (stat.capacity_blocks, stat.free_blocks, stat.physical_blocks)
        };
        assert_eq!(space(&after), space(&before), "{kind:?}");
        assert_intact(&pool, "after the stop");
        pool.close().unwrap();
        assert_clean(&simulation);
    }
}

/// The second half of the moves is stopped: both halves of the maps are right, and every block is
/// given out again.
#[test]
fn a_shrink_that_is_stopped_halfway_gives_all_blocks_out_again() {
    struct StopAfter(std::sync::atomic::AtomicU64, StopFlag);
    impl gemelo_base::Monitor for StopAfter {
        fn begin(&self, _: &str, _: gemelo_base::Unit, _: Option<u64>) {}
        fn set_total(&self, _: u64) {}
        fn advance(&self, done: u64) {
            if self.0.fetch_add(done, std::sync::atomic::Ordering::Relaxed) + done > 0 {
                self.1.raise();
            }
        }
        fn warn(&self, _: &str) {}
        fn log(&self, _: &str) {}
        fn finish(&self) {}
    }
    for kind in kinds() {
        let (simulation, pool) = world(kind, tuning());
        let before = pool.stat().unwrap();
        let stop = StopFlag::new();
        let monitor = StopAfter(0.into(), stop.clone());
        let options = ShrinkOptions::default();
        let stopped = pool.shrink(SMALLER * BLOCK as u64, options, (&monitor, &stop));
        assert!(matches!(stopped, Err(VolumeError::Interrupted)), "{stopped:?}");
        assert!(monitor.0.into_inner() > 0, "{kind:?}: something was moved");
        pool.flush().unwrap();
        let after = pool.stat().unwrap();
        assert_eq!(after.capacity_blocks, before.capacity_blocks, "{kind:?}");
        assert_eq!(after.physical_blocks, before.physical_blocks, "{kind:?}");
        pool.create_volume("d", 2 * BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
        let volume = pool.volume("d").unwrap();
        let mut written = 0;
        while write(&volume, written * BLOCK as u64, &content((5 << 40) + written, BLOCK)).is_ok() {
            written += 1;
        }
        assert!(written >= before.free_blocks - 20, "{kind:?}: {written} of {before:?}");
        assert_intact(&pool, "the pool is full");
        drop(volume);
        pool.close().unwrap();
        assert_clean(&simulation);
    }
}

#[test]
fn damage_at_the_end_is_named_and_the_pool_keeps_its_size() {
    let (simulation, pool) = world((Policy::Compact, None), tuning());
    pool.close().unwrap();
    let images = simulation.images();
    let mut data = images[DATA].clone();
    let first = SMALLER as usize * BLOCK;
    let at = (first..data.len() - BLOCK).find(|at| data[*at] != 0).unwrap();
    data[at] ^= 1;
    let simulation = Simulation::of_images(2, [data, images[1 - DATA].clone()]);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let refused = shrink(&pool, SMALLER).unwrap_err().to_string();
    assert!(refused.contains("1 contents beyond it are damaged"), "{refused}");
    assert_eq!(size_of(&pool), BLOCKS);
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
    // A write of the same content heals it.
    fill(&pool, "a", 0..LBNS, 0);
    fill(&pool, "c", 0..20, 1);
    shrink(&pool, SMALLER).unwrap();
    assert_intact(&pool, "healed");
}

#[test]
fn the_copy_of_the_header_follows_the_end() {
    let (simulation, pool) = world((Policy::Compact, None), tuning());
    shrink(&pool, SMALLER).unwrap();
    shrink(&pool, SMALLER - 30).unwrap();
    pool.close().unwrap();
    let images = simulation.images();
    let mut data = images[DATA].clone();
    data[..BLOCK].fill(0);
    let simulation = Simulation::of_images(3, [data, images[1 - DATA].clone()]);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    assert_eq!(pool.damage().len(), 1, "{:?}", pool.damage());
    assert_eq!(size_of(&pool), SMALLER - 30);
    assert_intact(&pool, "without block 0");
}
