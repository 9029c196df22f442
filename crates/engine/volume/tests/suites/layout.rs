//! The arranger: what it moves, what it leaves alone, and what sequential reads cost afterwards.

mod background;
mod near;
mod shared;

use crate::common::hold::Call;
use crate::common::scatter::ScatterStore;
use crate::common::seek::SeekDisk;
use crate::common::simulated::{DATA, Simulation};
use crate::common::{BLOCK, content, flush, open, options_with, read, trim, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{ManualClock, Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::Disk;
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    ArrangeReport, FinderTuning, LayoutTuning, Pool, Tuning, Volume, VolumeLayout,
};
use std::sync::Arc;
use std::time::Duration;

/// Blocks of the volumes.
const BLOCKS: u64 = 600;
/// Blocks of the pools.
const POOL_BLOCKS: u64 = 4000;

/// A pool with one volume, "a", whose blocks are all written and scattered.
struct World {
    simulation: Simulation,
    pool: Pool,
    volume: Volume,
    expected: Vec<u8>,
}

impl World {
    fn new(policy: Policy, mode: DedupMode) -> Self {
        Self::with(Simulation::new(1), policy, mode, tuning())
    }

    fn with(simulation: Simulation, policy: Policy, mode: DedupMode, tuning: Tuning) -> Self {
        let disks = simulation.disks();
        Pool::format(&disks, &options_with(policy, POOL_BLOCKS)).unwrap();
        let pool = open(&disks, tuning).unwrap();
        pool.create_volume("a", BLOCKS * BLOCK as u64, mode).unwrap();
        let volume = pool.volume("a").unwrap();
        let expected = scatter(&volume);
        Self { simulation, pool, volume, expected }
    }

    fn share(&self) -> f64 {
        layout_of_a(&self.pool).sequential_share().unwrap()
    }

    fn arrange(&self) -> ArrangeReport {
        arrange(&self.pool)
    }

    fn assert_intact(&self) {
        assert!(read(&self.volume, 0, self.expected.len()).unwrap() == self.expected);
        assert_eq!(self.pool.prove(10).unwrap(), Vec::<String>::new());
    }

    /// Closes the pool and checks it from outside.
    fn check(self) {
        let Self { simulation, pool, volume, .. } = self;
        drop(volume);
        pool.close().unwrap();
        let options = CheckOptions { data: true };
        let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

fn arrange(pool: &Pool) -> ArrangeReport {
    pool.arrange(None, &Silent, &StopFlag::new()).unwrap()
}

fn layout_of_a(pool: &Pool) -> VolumeLayout {
    pool.volumes().into_iter().find(|volume| volume.record.name == "a").unwrap().layout
}

fn at(lbn: u64) -> u64 {
    lbn * BLOCK as u64
}

/// Fills a volume in order, and overwrites each block once in random order. Returns the contents.
fn scatter(volume: &Volume) -> Vec<u8> {
    for lbn in 0..BLOCKS {
        write(volume, at(lbn), &content(10_000 + lbn, BLOCK)).unwrap();
    }
    flush(volume).unwrap();
    let mut random = Random::new(3);
    let mut left: Vec<u64> = (0..BLOCKS).collect();
    while !left.is_empty() {
        let lbn = left.swap_remove(random.below(left.len() as u64) as usize);
        write(volume, at(lbn), &content(20_000 + lbn, BLOCK)).unwrap();
    }
    flush(volume).unwrap();
    (0..BLOCKS).flat_map(|lbn| content(20_000 + lbn, BLOCK)).collect()
}

#[test]
fn a_scattered_volume_becomes_sequential_again() {
    for policy in Policy::ALL {
        for mode in [DedupMode::Off, DedupMode::Inline, DedupMode::Offline] {
            let world = World::new(policy, mode);
            world.pool.find(&Silent, &StopFlag::new()).unwrap();
            let before = world.pool.stat().unwrap();
            assert!(world.share() < 0.05, "{policy:?} {mode:?}: {}", world.share());
            let report = world.arrange();
            assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS, 0));
            assert!(report.runs_before > 500 && report.runs_after < 6, "{report:?}");
            assert!(world.share() > 0.95, "{policy:?} {mode:?}: {}", world.share());
            world.assert_intact();
            flush(&world.volume).unwrap();
            let after = world.pool.stat().unwrap();
            assert_eq!(before.physical_blocks, after.physical_blocks);
            assert_eq!(after.activity.arranged_blocks, BLOCKS);
            assert_eq!(world.arrange().moved_blocks, 0, "it is in order");
            world.check();
        }
    }
}

#[test]
fn the_index_leads_to_the_moved_blocks() {
    for policy in Policy::ALL {
        for has_checkpoint in [false, true] {
            let world = World::new(policy, DedupMode::Inline);
            world.pool.create_volume("b", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
            if has_checkpoint {
                world.pool.checkpoint().unwrap();
            }
            assert_eq!(world.arrange().moved_blocks, BLOCKS);
            if has_checkpoint {
                world.pool.checkpoint().unwrap();
            }
            let physical = world.pool.stat().unwrap().physical_blocks;
            let other = world.pool.volume("b").unwrap();
            write(&other, 0, &world.expected).unwrap();
            assert_eq!(other.stat().duplicate_blocks, BLOCKS, "{policy:?} {has_checkpoint}");
            assert_eq!(world.pool.stat().unwrap().physical_blocks, physical);
            assert!(read(&other, 0, world.expected.len()).unwrap() == world.expected);
            world.assert_intact();
            drop(other);
            world.check();
        }
    }
}

#[test]
fn what_was_moved_survives_a_power_cut_after_a_flush() {
    for policy in Policy::ALL {
        for is_flushed in [false, true] {
            let world = World::new(policy, DedupMode::Inline);
            world.arrange();
            if is_flushed {
                flush(&world.volume).unwrap();
            }
            let World { simulation, pool, volume, expected } = world;
            drop((pool, volume));
            let simulation = simulation.after_worst_crash();
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let volume = pool.volume("a").unwrap();
            let world = World { simulation, pool, volume, expected };
            world.assert_intact();
            assert!(!is_flushed || world.share() > 0.95);
            world.check();
        }
    }
}

/// The contents of a store that scatters them get PBNs in a row as well.
#[test]
fn another_store_is_arranged_by_pbns() {
    let simulation = Simulation::new(1).with_store(ScatterStore::open);
    let world = World::with(simulation, Policy::Compact, DedupMode::Off, tuning());
    world.arrange();
    assert!(world.share() > 0.95);
    world.assert_intact();
    world.check();
}

#[test]
fn sequential_reads_seek_a_hundredth_as_often_afterwards() {
    let simulation = Simulation::new(1);
    let PoolDisks { data, metadata, .. } = simulation.disks();
    let data = Arc::new(SeekDisk::new(data));
    let disks = PoolDisks::new(Arc::clone(&data) as Arc<dyn Disk>, metadata);
    Pool::format(&disks, &options_with(Policy::Compact, POOL_BLOCKS)).unwrap();
    let pool = open(&disks, tuning()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    let expected = scatter(&volume);
    let cost = || {
        data.take();
        for part in 0..BLOCKS / 100 {
            let bytes = read(&volume, at(part * 100), 100 * BLOCK).unwrap();
            assert!(bytes == expected[at(part * 100) as usize..at(part * 100 + 100) as usize]);
        }
        data.take()
    };
    let before = cost();
    arrange(&pool);
    flush(&volume).unwrap();
    let after = cost();
    eprintln!(
        "seeks {} and {}, {:.0} and {:.0} ms on a hard disk",
        before.seeks,
        after.seeks,
        before.cost_ns() as f64 / 1e6,
        after.cost_ns() as f64 / 1e6
    );
    assert!(before.seeks > 200 && after.seeks * 100 <= before.seeks, "{before:?} {after:?}");
}

#[test]
fn blocks_that_the_finder_has_not_examined_are_left_to_it() {
    let world = World::new(Policy::Compact, DedupMode::Offline);
    assert_eq!(world.arrange().moved_blocks, 0);
    let waiting = layout_of_a(&world.pool).waiting_stretches;
    assert!(waiting > 0, "they are looked at again");
    let found = world.pool.find(&Silent, &StopFlag::new()).unwrap();
    assert_eq!((found.examined_blocks, found.aborted_blocks), (BLOCKS, 0));
    assert_eq!(world.arrange().moved_blocks, BLOCKS);
    assert_eq!(layout_of_a(&world.pool).waiting_stretches, 0);
    world.assert_intact();
    world.check();
}

#[test]
fn damaged_blocks_are_never_moved() {
    let world = World::new(Policy::Compact, DedupMode::Inline);
    let World { simulation, pool, volume, expected } = world;
    drop(volume);
    pool.close().unwrap();
    let [mut data, metadata] = simulation.images();
    let damaged = [5u64, 300];
    for lbn in damaged {
        let content = &expected[at(lbn) as usize..at(lbn + 1) as usize];
        let place = data.chunks(BLOCK).position(|block| block == content).unwrap() * BLOCK;
        data[place + 7] ^= 1;
    }
    let simulation = Simulation::of_images(1, [data, metadata]);
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let report = arrange(&pool);
    assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS - 2, 2));
    let mut found: Vec<u64> = pool.damaged_blocks().iter().map(|block| block.lbn).collect();
    found.sort_unstable();
    assert_eq!(found, damaged, "they are where they were");
    let volume = pool.volume("a").unwrap();
    for lbn in 0..BLOCKS {
        let found = read(&volume, at(lbn), BLOCK);
        assert_eq!(found.is_err(), damaged.contains(&lbn), "block {lbn}");
    }
    // A write of a lost content mends the block, and then it may be moved.
    for lbn in damaged {
        let content = &expected[at(lbn) as usize..at(lbn + 1) as usize];
        write(&volume, at(lbn), content).unwrap();
    }
    assert_eq!(pool.stat().unwrap().activity.healed_blocks, 2);
    assert!(read(&volume, 0, expected.len()).unwrap() == expected);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

/// A block can be read again after it was found damaged. It stays suspect where it is.
#[test]
fn suspect_blocks_are_never_moved() {
    let world = World::new(Policy::Compact, DedupMode::Inline);
    let [data, _] = world.simulation.images();
    let content = &world.expected[at(5) as usize..at(6) as usize];
    let place = data.chunks(BLOCK).position(|block| block == content).unwrap() * BLOCK;
    let offsets = place as u64..(place + BLOCK) as u64;
    for _ in 0..2 {
        world.simulation.fail_next(DATA, Call::Read, offsets.clone());
    }
    assert!(read(&world.volume, at(5), BLOCK).is_err(), "both reads fail");
    assert!(read(&world.volume, at(5), BLOCK).unwrap() == content);
    let report = world.arrange();
    assert_eq!((report.moved_blocks, report.overtaken_blocks), (BLOCKS - 1, 0));
    world.assert_intact();
}

/// The last free blocks are for writes, even if they lie in a row.
#[test]
fn the_last_free_blocks_are_left_to_writes() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, 500)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    for name in ["a", "full"] {
        pool.create_volume(name, BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
    }
    let (volume, other) = (pool.volume("a").unwrap(), pool.volume("full").unwrap());
    for lbn in (0..32).rev() {
        write(&volume, at(lbn), &content(1 + lbn, BLOCK)).unwrap();
    }
    // A sixteenth of the store is 31 blocks; 40 and 80 blocks are left free.
    let free = |pool: &Pool| pool.stat().unwrap().free_blocks;
    let mut lbn = 0;
    for (left, moved) in [(80, 32), (40, 0)] {
        while free(&pool) > left {
            write(&other, at(lbn), &content(1000 + lbn, BLOCK)).unwrap();
            lbn += 1;
        }
        assert_eq!(arrange(&pool).moved_blocks, moved, "{left} blocks are free");
        flush(&volume).unwrap();
        for lbn in (0..32).rev() {
            write(&volume, at(lbn), &content(5000 + left + lbn, BLOCK)).unwrap();
            flush(&volume).unwrap();
        }
    }
}

/// A pool in which few blocks are free, all of them scattered, is left alone, and its last blocks
/// are there for writes.
#[test]
fn a_pool_without_room_is_left_alone() {
    let simulation = Simulation::new(1);
    let blocks = 500;
    let options = options_with(Policy::Compact, blocks);
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut random = Random::new(5);
    let mut lbns: Vec<u64> = (0..480).collect();
    let mut live = vec![0; 480];
    while !lbns.is_empty() {
        let lbn = lbns.swap_remove(random.below(lbns.len() as u64) as usize);
        live[lbn as usize] = 1 + lbn;
        write(&volume, at(lbn), &content(1 + lbn, BLOCK)).unwrap();
    }
    flush(&volume).unwrap();
    let report = arrange(&pool);
    assert!(report.is_short_of_room && report.moved_blocks == 0, "{report:?}");
    let free = pool.stat().unwrap().free_blocks;
    for lbn in 480..480 + free {
        write(&volume, at(lbn), &content(1 + lbn, BLOCK)).unwrap();
    }
    // Trims at random leave holes, and the arranger fills the long ones only.
    for lbn in (0..480).filter(|lbn| lbn % 3 != 0) {
        trim(&volume, at(lbn), BLOCK as u64).unwrap();
        live[lbn as usize] = 0;
    }
    flush(&volume).unwrap();
    let report = arrange(&pool);
    assert!(report.runs_after <= report.runs_before, "{report:?}");
    for (lbn, id) in (0..).zip(&live) {
        assert!(read(&volume, at(lbn), BLOCK).unwrap() == content(*id, BLOCK), "block {lbn}");
    }
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn a_volume_that_is_written_in_order_is_left_alone() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(Policy::Compact, POOL_BLOCKS)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    assert_eq!(layout_of_a(&pool).sequential_share(), None);
    for lbn in 0..BLOCKS {
        write(&volume, at(lbn), &content(1 + lbn, BLOCK)).unwrap();
    }
    // A few overwrites here and there are not worth it.
    for lbn in (0..BLOCKS).step_by(40) {
        write(&volume, at(lbn), &content(9000 + lbn, BLOCK)).unwrap();
    }
    let report = arrange(&pool);
    assert_eq!((report.examined_blocks, report.moved_blocks), (BLOCKS, 0));
    let share = layout_of_a(&pool).sequential_share().unwrap();
    assert!((0.9..1.0).contains(&share), "{share}");
}
