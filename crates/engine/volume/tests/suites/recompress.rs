//! The compression of a volume that is changed while it has contents: new contents follow it, and
//! earlier ones are stored again by a command.

use crate::common::simulated::{Fault, Simulation};
use crate::common::{flush, open, options_with, read, write};
use gemelo_base::random::Random;
use gemelo_base::{Monitor, Silent, StopFlag, Unit};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, RecompressReport, Tuning, Volume, VolumeError};
use std::sync::atomic::{AtomicU64, Ordering};

const BYTES: usize = 4096;
const CONTENTS: u64 = 200;
/// LBNs of the volume: several stretches.
const LBNS: u64 = 1024;
const ZSTD: Compression = Compression::Zstd(9);

/// Makes a content of half a block of text in eight letters, which Zstandard shrinks to less than
/// half of what LZ4 needs, and half a block of one byte.
fn content(id: u64) -> Vec<u8> {
    let mut random = Random::new(id);
    let mut content: Vec<u8> = (0..BYTES / 2).map(|_| b'a' + random.below(8) as u8).collect();
    content.resize(BYTES, id as u8);
    content
}

fn packed(policy: Policy, blocks: u64) -> PoolOptions {
    PoolOptions {
        compression: Some(Compression::Lz4),
        block_bytes: BYTES as u32,
        capacity_bytes: blocks * BYTES as u64,
        journal_bytes: Some(1 << 20),
        ..options_with(policy, blocks)
    }
}

fn tuning() -> Tuning {
    Tuning { write_buffer_bytes: 64 << 20, ..crate::common::tuning() }
}

/// A pool that compresses, with a volume "a".
struct World {
    simulation: Simulation,
    pool: Pool,
    volume: Volume,
}

impl World {
    /// The volume is filled with this compression.
    fn new(options: &PoolOptions, compression: Compression, contents: u64) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), options).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", LBNS * BYTES as u64, DedupMode::Inline).unwrap();
        pool.set_compression("a", compression).unwrap();
        let volume = pool.volume("a").unwrap();
        let world = Self { simulation, pool, volume };
        for first in (0..contents).step_by(16) {
            world.write(first..contents.min(first + 16));
        }
        flush(&world.volume).unwrap();
        world
    }

    fn write(&self, lbns: std::ops::Range<u64>) {
        let at = lbns.start * BYTES as u64;
        let run: Vec<u8> = lbns.flat_map(|lbn| content(lbn + 1)).collect();
        write(&self.volume, at, &run).unwrap();
    }

    fn recompress(&self) -> RecompressReport {
        self.pool.recompress(None, &Silent, &StopFlag::new()).unwrap()
    }

    /// Blocks in use, once freed ones are usable.
    fn used(&self) -> u64 {
        self.pool.gc(None, &Silent, &StopFlag::new()).unwrap();
        self.pool.stat().unwrap().used_blocks
    }

    fn assert_intact(&self, contents: u64) {
        for lbn in 0..contents {
            let found = read(&self.volume, lbn * BYTES as u64, BYTES).unwrap();
            assert!(found == content(lbn + 1), "block {lbn}");
        }
        assert_eq!(self.pool.prove(9).unwrap(), Vec::<String>::new());
    }

    fn close(self) -> Simulation {
        let Self { simulation, pool, volume } = self;
        drop(volume);
        pool.close().unwrap();
        assert_clean(&simulation);
        simulation
    }
}

fn assert_clean(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

fn compression_of_a(pool: &Pool) -> Compression {
    let volume = pool.volumes().into_iter().find(|volume| volume.record.name == "a");
    volume.unwrap().record.compression
}

#[test]
fn contents_get_the_form_of_each_compression_in_turn() {
    for policy in Policy::ALL {
        let world = World::new(&packed(policy, 600), Compression::Off, CONTENTS);
        assert_eq!(world.used(), CONTENTS, "{policy:?}");
        let mut used = Vec::new();
        for compression in [Compression::Lz4, ZSTD, Compression::Off, ZSTD] {
            world.pool.set_compression("a", compression).unwrap();
            let report = world.recompress();
            assert_eq!(report.examined_blocks, CONTENTS);
            assert_eq!((report.moved_blocks, report.left_blocks), (CONTENTS, 0), "{report:?}");
            assert_eq!(report.fixed_blocks, 0);
            world.assert_intact(CONTENTS);
            used.push(world.used());
            // All is in this form now.
            let again = world.recompress();
            assert_eq!((again.examined_blocks, again.moved_blocks), (CONTENTS, 0));
        }
        let [lz4, zstd, off, zstd_again] = used[..] else { panic!("{used:?}") };
        assert!(zstd < lz4 && lz4 < CONTENTS * 3 / 4 && off == CONTENTS, "{used:?}");
        assert!(zstd_again <= zstd + 2, "{used:?}");
        world.close();
    }
}

#[test]
fn new_contents_follow_a_change_also_after_a_reopening_and_in_a_clone() {
    for policy in Policy::ALL {
        let world = World::new(&packed(policy, 600), Compression::Lz4, 0);
        assert_eq!(compression_of_a(&world.pool), Compression::Lz4);
        world.pool.set_compression("a", Compression::Off).unwrap();
        world.write(0..10);
        assert_eq!(world.used(), 10, "{policy:?}");
        world.pool.clone_volume("a", "b").unwrap();
        let simulation = world.close();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_eq!(compression_of_a(&pool), Compression::Off);
        for (number, name) in (0..).zip(["a", "b"]) {
            let volume = pool.volume(name).unwrap();
            for lbn in 0..10 {
                let id = 1000 * (number + 1) + lbn;
                write(&volume, (100 + lbn) * BYTES as u64, &content(id)).unwrap();
            }
            assert_eq!(pool.stat().unwrap().used_blocks, 10 * (number + 2), "{policy:?}, {name}");
        }
        pool.create_volume("c", 1 << 20, DedupMode::Off).unwrap();
        let volume = pool.volume("c").unwrap();
        let run: Vec<u8> = (0..10).flat_map(|id| content(5000 + id)).collect();
        write(&volume, 0, &run).unwrap();
        assert!(pool.stat().unwrap().used_blocks < 38, "a new volume follows the pool");
        pool.close().unwrap();
        assert_clean(&simulation);
    }
}

/// Raises a flag after some work.
struct StopAfter<'s> {
    total: u64,
    left: AtomicU64,
    stop: &'s StopFlag,
}

impl Monitor for StopAfter<'_> {
    fn begin(&self, _: &str, _: Unit, total: Option<u64>) {
        assert_eq!(total, Some(self.total));
    }
    fn set_total(&self, _: u64) {}
    fn advance(&self, amount: u64) {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(amount);
        self.left.store(left, Ordering::Relaxed);
        if left == 0 {
            self.stop.raise();
        }
    }
    fn warn(&self, _: &str) {}
    fn log(&self, _: &str) {}
    fn finish(&self) {}
}

#[test]
fn a_run_that_was_stopped_is_continued_by_the_next_one() {
    let world = World::new(&packed(Policy::Dtb, 1200), Compression::Off, LBNS);
    world.pool.set_compression("a", ZSTD).unwrap();
    let stop = StopFlag::new();
    let monitor = StopAfter { total: LBNS, left: AtomicU64::new(LBNS / 2), stop: &stop };
    let stopped = world.pool.recompress(None, &monitor, &stop);
    assert!(matches!(stopped, Err(VolumeError::Interrupted)), "{stopped:?}");
    let used = world.used();
    assert!(used < LBNS * 3 / 4, "{used}: what was moved until then stays moved");
    let report = world.recompress();
    assert_eq!((report.examined_blocks, report.moved_blocks), (LBNS, LBNS / 2), "{report:?}");
    world.assert_intact(LBNS);
    world.close();
}

/// Shared by two LBNs, by many, and all of them with a snapshot.
#[test]
fn shared_contents_move_with_all_references_also_those_of_snapshots() {
    for policy in Policy::ALL {
        let world = World::new(&packed(policy, 600), Compression::Off, 60);
        for lbn in 60..120 {
            write(&world.volume, lbn * BYTES as u64, &content(lbn - 59)).unwrap();
        }
        let many = content(7777);
        for lbn in 120..140 {
            write(&world.volume, lbn * BYTES as u64, &many).unwrap();
        }
        world.pool.snapshot_volume("a", "s").unwrap();
        flush(&world.volume).unwrap();
        assert_eq!(world.used(), 61);
        world.pool.set_compression("a", ZSTD).unwrap();
        let report = world.recompress();
        let found = (report.moved_blocks, report.left_blocks, report.fixed_blocks);
        assert_eq!(found, (61, 0, 0), "{policy:?}: {report:?}");
        let assert_intact = |pool: &Pool| {
            for name in ["a", "s"] {
                let volume = pool.volume(name).unwrap();
                for lbn in 0..140 {
                    let right = if lbn < 120 { content(lbn % 60 + 1) } else { many.clone() };
                    let found = read(&volume, lbn * BYTES as u64, BYTES).unwrap();
                    assert!(found == right, "{policy:?} {name} {lbn}");
                }
            }
            assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        };
        assert_intact(&world.pool);
        let stat = world.pool.stat().unwrap();
        assert_eq!((stat.logical_blocks, stat.physical_blocks), (280, 61));
        assert!(world.used() < 30, "{policy:?}: no old place is left");
        assert_eq!(world.recompress().moved_blocks, 0, "{policy:?}");
        let simulation = world.close();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_intact(&pool);
        pool.close().unwrap();
    }
}

/// The compression of the first volume applies, and the next one does not undo it.
#[test]
fn a_content_of_two_volumes_is_compressed_as_the_first_one_asks_for() {
    let world = World::new(&packed(Policy::Compact, 600), Compression::Off, 60);
    world.pool.clone_volume("a", "0").unwrap();
    world.pool.set_compression("a", ZSTD).unwrap();
    world.pool.set_compression("0", Compression::Lz4).unwrap();
    assert_eq!(world.recompress().moved_blocks, 60);
    let used = world.used();
    for _ in 0..2 {
        assert_eq!(world.recompress().moved_blocks, 0);
    }
    assert!(used < 30, "{used} blocks by Zstandard");
    world.assert_intact(60);
    world.close();
}

/// The old places of shared contents are free after a checkpoint, for which a write waits.
#[test]
fn a_write_finds_the_old_places_of_shared_contents() {
    let world = World::new(&packed(Policy::Compact, 160), Compression::Off, 100);
    world.pool.snapshot_volume("a", "s").unwrap();
    flush(&world.volume).unwrap();
    world.pool.set_compression("a", ZSTD).unwrap();
    let stop = StopFlag::new();
    let monitor = StopAfter { total: 200, left: AtomicU64::new(100), stop: &stop };
    let stopped = world.pool.recompress(None, &monitor, &stop);
    assert!(matches!(stopped, Err(VolumeError::Interrupted)), "{stopped:?}");
    world.pool.set_compression("a", Compression::Off).unwrap();
    for lbn in 100..160 {
        write(&world.volume, lbn * BYTES as u64, &content(lbn + 1)).unwrap();
    }
    world.assert_intact(160);
    world.close();
}

#[test]
fn a_full_pool_has_room_for_it() {
    let world = World::new(&packed(Policy::Compact, 64), Compression::Off, 0);
    let mut written = 0;
    while write(&world.volume, written * BYTES as u64, &content(written + 1)).is_ok() {
        written += 1;
    }
    flush(&world.volume).unwrap();
    let before = world.pool.stat().unwrap();
    assert!(written > 50 && before.free_blocks < 10, "{written} contents: {before:?}");
    world.pool.set_compression("a", ZSTD).unwrap();
    let report = world.recompress();
    assert_eq!((report.moved_blocks, report.is_short_of_room), (written, false), "{report:?}");
    world.assert_intact(written);
    for lbn in written..written + 40 {
        write(&world.volume, lbn * BYTES as u64, &content(lbn + 1)).unwrap();
    }
    world.assert_intact(written + 40);
    world.close();
}

#[test]
fn a_pool_that_does_not_compress_refuses() {
    let simulation = Simulation::new(1);
    let options = PoolOptions { compression: None, ..packed(Policy::Compact, 64) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", LBNS * BYTES as u64, DedupMode::Inline).unwrap();
    let set = pool.set_compression("a", Compression::Lz4);
    assert!(matches!(set, Err(VolumeError::BadOption { .. })), "{set:?}");
    let done = pool.recompress(None, &Silent, &StopFlag::new());
    assert!(matches!(done, Err(VolumeError::BadOption { .. })), "{done:?}");
    assert!(matches!(
        pool.set_compression("b", Compression::Lz4),
        Err(VolumeError::NoSuchVolume { .. })
    ));
    assert_eq!(compression_of_a(&pool), Compression::Off);
}

/// The power is cut at each call of a run in turn.
#[test]
fn a_crash_leaves_each_content_in_one_form() {
    for policy in Policy::ALL {
        let mut call = 0;
        loop {
            call += 1;
            let world = World::new(&packed(policy, 300), Compression::Off, 60);
            world.pool.set_compression("a", Compression::Lz4).unwrap();
            world.simulation.set_fault(Fault::CrashAt(call));
            let done = world.pool.recompress(None, &Silent, &StopFlag::new());
            let done = done.is_ok() && world.pool.flush().is_ok();
            let World { simulation, pool, volume } = world;
            drop((pool, volume));
            let simulation = simulation.after_crash(call);
            assert_clean(&simulation);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let volume = pool.volume("a").unwrap();
            assert_eq!(compression_of_a(&pool), Compression::Lz4);
            let world = World { simulation, pool, volume };
            world.assert_intact(60);
            let report = world.recompress();
            assert!(!done || report.moved_blocks == 0, "call {call}: {report:?}");
            assert_eq!(report.left_blocks, 0, "call {call}");
            world.assert_intact(60);
            world.close();
            if done {
                break;
            }
        }
        assert!(call > 2, "{policy:?}: the power was cut {call} times");
    }
}
