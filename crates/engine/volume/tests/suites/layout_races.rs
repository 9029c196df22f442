//! Races of the arranger that are the same in every run: its read is held while others overtake it.

use crate::common::hold::{Call, Hold};
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{BLOCK, content, flush, open, options, read, trim, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_device::DeviceError;
use gemelo_format::{DedupMode, FingerprintKind, Policy};
use gemelo_volume::{ArrangeReport, Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The time for which a call is held if other threads may have to wait for it.
const PATIENCE: Duration = Duration::from_millis(400);
/// Blocks of the volumes.
const BLOCKS: u64 = 64;
/// Blocks of the volume "a" that the arranger has to bring together.
const SCATTERED: u64 = 32;

/// A pool with a volume "a" whose first blocks are scattered.
struct World {
    simulation: Simulation,
    pool: Pool,
    a: Volume,
    /// The contents of the scattered blocks.
    expected: Vec<u8>,
}

impl World {
    fn new(options: &PoolOptions) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), options).unwrap();
        // Contents that were flushed are read from the disk, so that reads can be held.
        let tuning = Tuning { content_cache_bytes: Some(0), ..tuning() };
        let pool = open(&simulation.disks(), tuning).unwrap();
        pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
        let a = pool.volume("a").unwrap();
        for lbn in (0..SCATTERED).rev() {
            write(&a, at(lbn), &fresh(lbn)).unwrap();
        }
        flush(&a).unwrap();
        Self { simulation, pool, a, expected: (0..SCATTERED).flat_map(fresh).collect() }
    }

    fn expect(&mut self, lbn: u64, content: &[u8]) {
        self.expected[at(lbn) as usize..at(lbn + 1) as usize].copy_from_slice(content);
    }

    /// Runs the arranger, and `meanwhile` between its look-up and its changes of the map.
    fn while_arranging<T: Send>(&self, meanwhile: impl FnOnce() -> T + Send) -> (ArrangeReport, T) {
        let hold = self.simulation.hold(DATA, Call::Read);
        thread::scope(|scope| {
            let arranger = scope.spawn(|| arrange(&self.pool));
            hold.wait();
            let other = scope.spawn(meanwhile);
            release_after(hold, &other);
            (arranger.join().unwrap(), other.join().unwrap())
        })
    }

    /// Runs the arranger. Between its look-up and its changes of the map, a change of a volume is
    /// made, and is not durable until the arranger waits for a checkpoint.
    fn while_changing(&self, change: impl FnOnce(&Pool) + Send) -> ArrangeReport {
        let look_up = self.simulation.hold(DATA, Call::Read);
        thread::scope(|scope| {
            let arranger = scope.spawn(|| arrange(&self.pool));
            look_up.wait();
            let sync = self.simulation.hold(METADATA, Call::Sync);
            let changing = scope.spawn(|| change(&self.pool));
            sync.wait();
            look_up.release();
            release_after(sync, &arranger);
            let report = arranger.join().unwrap();
            changing.join().unwrap();
            report
        })
    }

    fn assert_intact(&self) {
        let length = self.expected.len();
        assert!(read(&self.a, 0, length).unwrap() == self.expected, "a change is undone");
        assert_eq!(self.pool.prove(10).unwrap(), Vec::<String>::new());
    }
}

fn at(lbn: u64) -> u64 {
    lbn * BLOCK as u64
}

fn fresh(id: u64) -> Vec<u8> {
    content(1_000_000 + id, BLOCK)
}

fn arrange(pool: &Pool) -> ArrangeReport {
    pool.arrange(None, &Silent, &StopFlag::new()).unwrap()
}

/// Waits for a thread, which may itself wait for the held call, and lets the call go on.
fn release_after<T>(hold: Hold, thread: &ScopedJoinHandle<'_, T>) {
    let until = Instant::now() + PATIENCE;
    while !thread.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    hold.release();
}

#[test]
fn what_was_changed_meanwhile_is_left_alone() {
    for policy in Policy::ALL {
        let mut world = World::new(&PoolOptions { policy, ..options(300) });
        let (report, ()) = world.while_arranging(|| {
            write(&world.a, at(3), &fresh(100)).unwrap();
            trim(&world.a, at(5), BLOCK as u64).unwrap();
            write(&world.a, at(7) + 10, b"patched").unwrap();
            // This block gets its old content again, and another PBN.
            write(&world.a, at(9), &fresh(101)).unwrap();
            write(&world.a, at(9), &fresh(9)).unwrap();
            // This one is shared, so it must stay for the other LBN.
            write(&world.a, at(40), &fresh(11)).unwrap();
            // The old block of this one has one reference, which is that of another LBN.
            write(&world.a, at(41), &fresh(13)).unwrap();
            write(&world.a, at(13), &fresh(102)).unwrap();
            flush(&world.a).unwrap();
        });
        let mut patched = fresh(7);
        patched[10..17].copy_from_slice(b"patched");
        world.expect(3, &fresh(100));
        world.expect(5, &[0; BLOCK]);
        world.expect(7, &patched);
        world.expect(13, &fresh(102));
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (SCATTERED - 6, 6));
        world.assert_intact();
        let shared = [fresh(11), fresh(13)].concat();
        assert!(read(&world.a, at(40), 2 * BLOCK).unwrap() == shared);
        assert_eq!(world.pool.stat().unwrap().physical_blocks, SCATTERED, "{policy:?}");
        flush(&world.a).unwrap();
        let World { simulation, pool, a, expected } = world;
        drop((pool, a));
        let simulation = simulation.after_worst_crash();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let a = pool.volume("a").unwrap();
        World { simulation, pool, a, expected }.assert_intact();
    }
}

/// A shared block moves with the references that it has when it moves, not with those that it had
/// when it was looked at.
#[test]
fn references_that_come_and_go_meanwhile_follow_a_shared_block() {
    for policy in Policy::ALL {
        let world = World::new(&PoolOptions { policy, ..options(300) });
        world.pool.create_volume("b", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
        let b = world.pool.volume("b").unwrap();
        write(&b, 0, &world.expected).unwrap();
        let (report, ()) = world.while_arranging(|| {
            write(&b, at(40), &fresh(5)).unwrap();
            write(&b, at(5), &fresh(200)).unwrap();
            write(&b, at(41), &fresh(7)).unwrap();
            trim(&b, at(7), BLOCK as u64).unwrap();
            write(&world.a, at(42), &fresh(9)).unwrap();
        });
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (SCATTERED, 0));
        world.assert_intact();
        let mut of_b = world.expected.clone();
        of_b[at(5) as usize..at(6) as usize].copy_from_slice(&fresh(200));
        of_b[at(7) as usize..at(8) as usize].fill(0);
        assert!(read(&b, 0, of_b.len()).unwrap() == of_b, "{policy:?}: a change is undone");
        assert!(read(&b, at(40), 2 * BLOCK).unwrap() == [fresh(5), fresh(7)].concat());
        assert!(read(&world.a, at(42), BLOCK).unwrap() == fresh(9));
    }
}

#[test]
fn the_blocks_that_it_reads_are_not_reused() {
    let mut world = World::new(&options(100));
    let (report, ()) = world.while_arranging(|| {
        for lbn in 0..8 {
            write(&world.a, at(lbn), &fresh(200 + lbn)).unwrap();
        }
        flush(&world.a).unwrap();
        // More contents than fit, in a volume of their own.
        world.pool.create_volume("b", at(200), DedupMode::Inline).unwrap();
        let b = world.pool.volume("b").unwrap();
        let is_full = (0..200).any(|lbn| match write(&b, at(lbn), &fresh(300 + lbn)) {
            Ok(()) => false,
            Err(DeviceError::NoSpace) => true,
            Err(error) => panic!("{error}"),
        });
        assert!(is_full);
    });
    for lbn in 0..8 {
        world.expect(lbn, &fresh(200 + lbn));
    }
    let damaged = world.pool.stat().unwrap().activity.damaged_blocks;
    assert_eq!(damaged, 0, "the content of a reused block was read");
    assert!(report.moved_blocks + report.overtaken_blocks <= SCATTERED);
    world.assert_intact();
}

#[test]
fn changes_of_a_whole_volume_wait_for_a_chunk() {
    type Change = fn(&Pool) -> Result<(), VolumeError>;
    let changes: [(&str, Change); 5] = [
        ("snapshot", |pool| pool.snapshot_volume("a", "copy")),
        ("clone", |pool| pool.clone_volume("a", "copy")),
        ("resize", |pool| pool.resize_volume("a", at(20))),
        ("mode", |pool| pool.set_mode("a", DedupMode::Offline)),
        ("remove", |pool| pool.remove_volume("a")),
    ];
    for policy in Policy::ALL {
        for (what, change) in changes {
            let world = World::new(&PoolOptions { policy, ..options(300) });
            let (_, changed) = world.while_arranging(|| change(&world.pool));
            changed.unwrap();
            assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new(), "{what}");
            let physical = world.pool.stat().unwrap().physical_blocks;
            assert!(physical <= SCATTERED, "{policy:?} {what}: {physical} blocks are stored");
            assert_eq!(physical == 0, what == "remove", "{policy:?} {what}");
            for name in ["a", "copy"] {
                let Ok(volume) = world.pool.volume(name) else { continue };
                let blocks = if what == "resize" { 20 } else { SCATTERED };
                let length = at(blocks) as usize;
                let found = read(&volume, 0, length).unwrap();
                assert!(found == world.expected[..length], "{policy:?} {what} {name}");
            }
        }
    }
}

/// A writer compares its content with the block that the index had, and the arranger moves that
/// block meanwhile.
#[test]
fn a_writer_shares_a_content_whose_block_is_moved_meanwhile() {
    let fingerprint = FingerprintKind::Xxh3Compare;
    let world = World::new(&PoolOptions { fingerprint, ..options(100) });
    world.pool.create_volume("b", at(BLOCKS), DedupMode::Inline).unwrap();
    let b = world.pool.volume("b").unwrap();
    let hold = world.simulation.hold(DATA, Call::Read);
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&b, 0, &fresh(4)));
        hold.wait();
        let arranger = scope.spawn(|| arrange(&world.pool));
        release_after(hold, &arranger);
        writer.join().unwrap().unwrap();
        assert_eq!(arranger.join().unwrap().moved_blocks, SCATTERED);
    });
    assert!(read(&b, 0, BLOCK).unwrap() == fresh(4));
    assert_eq!(b.stat().duplicate_blocks, 1);
    assert_eq!(world.pool.stat().unwrap().physical_blocks, SCATTERED);
    world.assert_intact();
}

/// A volume is removed after blocks were looked at that it shares with others.
#[test]
fn blocks_that_a_removed_volume_had_as_well_move_with_the_others() {
    for policy in Policy::ALL {
        let world = World::new(&PoolOptions { policy, ..options(300) });
        for name in ["b", "gone", "c"] {
            world.pool.create_volume(name, BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
            let volume = world.pool.volume(name).unwrap();
            for lbn in (0..SCATTERED).rev() {
                write(&volume, at(lbn), &fresh(500 + lbn)).unwrap();
            }
            flush(&volume).unwrap();
        }
        let (report, ()) = world.while_arranging(|| world.pool.remove_volume("gone").unwrap());
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (2 * SCATTERED, 0));
        world.assert_intact();
        for name in ["b", "c"] {
            let volume = world.pool.volume(name).unwrap();
            for lbn in 0..SCATTERED {
                let found = read(&volume, at(lbn), BLOCK).unwrap();
                assert!(found == fresh(500 + lbn), "{policy:?} {name} {lbn}");
            }
        }
    }
}

/// A block whose read fails while it is on its way may have lost its content there.
#[test]
fn a_block_that_becomes_suspect_meanwhile_is_left_alone() {
    let world = World::new(&options(300));
    let [data, _] = world.simulation.images();
    let place = data.chunks(BLOCK).position(|block| block == fresh(5)).unwrap() * BLOCK;
    let (report, ()) = world.while_arranging(|| {
        for _ in 0..2 {
            let offsets = place as u64..(place + BLOCK) as u64;
            world.simulation.fail_next(DATA, Call::Read, offsets);
        }
        assert!(read(&world.a, at(5), BLOCK).is_err(), "both reads fail");
    });
    assert_eq!((report.moved_blocks, report.overtaken_blocks), (SCATTERED - 1, 1));
    world.assert_intact();
}

/// Some references are beyond the end of their volume when the blocks move, which are cleared later
/// if they are many.
#[test]
fn references_beyond_the_end_of_a_volume_follow_until_they_are_cleared() {
    for (policy, more) in Policy::ALL.into_iter().flat_map(|policy| [(policy, 0), (policy, 1100)]) {
        let world = World::new(&PoolOptions { policy, ..options(300) });
        world.pool.create_volume("b", at(SCATTERED + more), DedupMode::Inline).unwrap();
        let b = world.pool.volume("b").unwrap();
        write(&b, 0, &world.expected).unwrap();
        write(&b, at(SCATTERED), &fresh(500).repeat(more as usize)).unwrap();
        flush(&b).unwrap();
        let report = world.while_changing(|pool| pool.resize_volume("b", at(20)).unwrap());
        let found = (report.moved_blocks, report.overtaken_blocks);
        assert_eq!(found, (SCATTERED, 0), "{policy:?} {more}");
        world.assert_intact();
        assert!(read(&b, 0, at(20) as usize).unwrap() == world.expected[..at(20) as usize]);
    }
}

/// A clone refers to all blocks of its origin.
#[test]
fn blocks_of_a_volume_that_is_being_cloned_move_with_the_clone() {
    for policy in Policy::ALL {
        let world = World::new(&PoolOptions { policy, ..options(300) });
        world.pool.create_volume("b", at(BLOCKS), DedupMode::Inline).unwrap();
        write(&world.pool.volume("b").unwrap(), 0, &world.expected).unwrap();
        let report = world.while_changing(|pool| pool.clone_volume("b", "copy").unwrap());
        assert_eq!((report.moved_blocks, report.overtaken_blocks), (SCATTERED, 0));
        world.assert_intact();
        let copy = world.pool.volume("copy").unwrap();
        assert!(read(&copy, 0, world.expected.len()).unwrap() == world.expected, "{policy:?}");
    }
}

/// A change that is made and not durable yet keeps no block from being moved.
#[test]
fn a_volume_that_is_being_enlarged_is_brought_together() {
    for policy in Policy::ALL {
        let world = World::new(&PoolOptions { policy, ..options(300) });
        let sync = world.simulation.hold(METADATA, Call::Sync);
        thread::scope(|scope| {
            let enlarging = scope.spawn(|| world.pool.resize_volume("a", at(2 * BLOCKS)));
            sync.wait();
            let report = arrange(&world.pool);
            assert_eq!(report.moved_blocks, SCATTERED, "{policy:?}");
            sync.release();
            enlarging.join().unwrap().unwrap();
        });
        world.assert_intact();
    }
}
