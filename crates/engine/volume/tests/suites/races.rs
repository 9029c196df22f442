//! Races that are the same in every run: a call to a disk is held while others overtake it.

use crate::common::collide::Collider;
use crate::common::hold::{Call, Hold};
use crate::common::shape::{first_slots, short_rings};
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{
    BLOCK, content, flush, open, options, read, trim, tuning, tuning_on_disk, write,
};
use gemelo_device::DeviceError;
use gemelo_format::{DedupMode, FingerprintKind, Policy, Root};
use gemelo_volume::{FinderTuning, Pool, PoolOptions, Tuning, Volume};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The time for which a call is held if other threads may have to wait for it.
const PATIENCE: Duration = Duration::from_millis(400);
/// Blocks of the volumes.
const BLOCKS: u64 = 64;

/// A pool with a volume "a" and one with off-line deduplication, "b".
struct World {
    simulation: Simulation,
    pool: Pool,
    a: Volume,
    b: Volume,
}

impl World {
    fn new(options: &PoolOptions) -> Self {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), options).unwrap();
        // The finder reads every block, so that its reads can be held.
        let finder = FinderTuning { memory_bytes: 0, ..FinderTuning::default() };
        // Contents that were flushed are read from the disk, so that reads can be held.
        let tuning = Tuning { finder, content_cache_bytes: Some(0), ..tuning_on_disk() };
        let pool = open(&simulation.disks(), tuning).unwrap();
        pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
        pool.create_volume("b", BLOCKS * BLOCK as u64, DedupMode::Offline).unwrap();
        let (a, b) = (pool.volume("a").unwrap(), pool.volume("b").unwrap());
        Self { simulation, pool, a, b }
    }

    /// The range of the data disk that has this content first.
    fn place_of(&self, content: &[u8]) -> Range<u64> {
        let [data, _] = self.simulation.images();
        let at = data.chunks(BLOCK).position(|block| block == content).unwrap() * BLOCK;
        at as u64..(at + BLOCK) as u64
    }

    /// Returns whether the data disk has this content in that range.
    fn has_at(&self, place: &Range<u64>, content: &[u8]) -> bool {
        let [data, _] = self.simulation.images();
        data[place.start as usize..place.end as usize] == *content
    }

    /// Returns the contents of the volume "a" after a power cut that leaves no unsynced write.
    fn after_power_cut(self) -> Vec<u8> {
        let Self { simulation, pool, a, b } = self;
        drop((pool, a, b));
        let simulation = simulation.after_worst_crash();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        read(&pool.volume("a").unwrap(), 0, BLOCKS as usize * BLOCK).unwrap()
    }
}

fn at(lbn: u64) -> u64 {
    lbn * BLOCK as u64
}

fn fresh(id: u64) -> Vec<u8> {
    content(1_000_000 + id, BLOCK)
}

fn block(bytes: &[u8], lbn: u64) -> &[u8] {
    &bytes[at(lbn) as usize..at(lbn + 1) as usize]
}

/// Writes contents from an LBN on until the store is full. Returns whether it got full.
fn fill(volume: &Volume, from: u64, content: impl Fn(u64) -> Vec<u8>) -> bool {
    (from..BLOCKS).any(|lbn| match write(volume, at(lbn), &content(lbn)) {
        Ok(()) => false,
        Err(DeviceError::NoSpace) => true,
        Err(error) => panic!("{error}"),
    })
}

/// Waits for a thread, which may itself wait for the held call, and lets the call go on.
fn release_after<T>(hold: Hold, thread: &ScopedJoinHandle<'_, T>) {
    let until = Instant::now() + PATIENCE;
    while !thread.is_finished() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    hold.release();
}

fn collisions() -> PoolOptions {
    PoolOptions { fingerprint: FingerprintKind::Xxh3Compare, ..options(24) }
}

#[test]
fn a_block_is_not_written_again_while_a_slow_disk_reads_it() {
    let world = World::new(&options(24));
    write(&world.a, 0, &fresh(1)).unwrap();
    flush(&world.a).unwrap();
    let hold = world.simulation.hold(DATA, Call::Read);
    let bytes = thread::scope(|scope| {
        let reader = scope.spawn(|| read(&world.a, 0, BLOCK));
        hold.wait();
        write(&world.a, 0, &fresh(2)).unwrap();
        flush(&world.a).unwrap();
        let writer = scope.spawn(|| assert!(fill(&world.a, 1, |lbn| fresh(10 + lbn))));
        release_after(hold, &writer);
        reader.join().unwrap()
    });
    assert!(bytes.unwrap() == fresh(1), "the read shows what was written later");
}

#[test]
fn a_patch_of_a_block_that_was_overwritten_meanwhile_keeps_both_writes() {
    for fills in [false, true] {
        let world = World::new(&options(24));
        write(&world.a, 0, &fresh(1)).unwrap();
        flush(&world.a).unwrap();
        let hold = world.simulation.hold(DATA, Call::Read);
        thread::scope(|scope| {
            let patcher = scope.spawn(|| write(&world.a, 100, b"patch"));
            hold.wait();
            write(&world.a, 0, &fresh(2)).unwrap();
            flush(&world.a).unwrap();
            // The patched block is overwritten unless the engine keeps it.
            let filler =
                scope.spawn(|| assert!(!fills || fill(&world.a, 1, |lbn| fresh(10 + lbn))));
            release_after(hold, &filler);
            filler.join().unwrap();
            let patched = patcher.join().unwrap();
            assert!(
                patched.is_ok() || fills && matches!(patched, Err(DeviceError::NoSpace)),
                "{patched:?}"
            );
            let mut expected = fresh(2);
            if patched.is_ok() {
                expected[100..105].copy_from_slice(b"patch");
            }
            assert!(read(&world.a, 0, BLOCK).unwrap() == expected, "a write is lost");
        });
        assert_eq!(world.pool.damaged_blocks(), [], "a reused block is not damaged");
    }
}

#[test]
fn a_writer_keeps_the_block_that_it_has_compared_with() {
    let world = World::new(&collisions());
    let collider = Collider::of(&world.simulation.disks());
    let bytes = [collider.content(1, 1), collider.content(2, 1)].concat();
    // A block between both, so that they are read by two calls.
    for (lbn, block) in [(0, &bytes[..BLOCK]), (2, &[9; BLOCK]), (1, &bytes[BLOCK..])] {
        write(&world.a, at(lbn), block).unwrap();
    }
    flush(&world.a).unwrap();
    // The first block was compared when the call for the second one begins.
    let offsets = world.place_of(&collider.content(2, 1));
    let hold = world.simulation.hold_at(DATA, Call::Read, offsets);
    thread::scope(|scope| {
        let sharer = scope.spawn(|| write(&world.a, at(3), &bytes));
        hold.wait();
        write(&world.a, 0, &[7; BLOCK]).unwrap();
        flush(&world.a).unwrap();
        let filler = scope.spawn(|| fill(&world.a, 5, |lbn| collider.content(1, lbn as u32)));
        release_after(hold, &filler);
        filler.join().unwrap();
        match sharer.join().unwrap() {
            Ok(()) => {
                assert!(read(&world.a, at(3), 2 * BLOCK).unwrap() == bytes, "another's content");
            }
            Err(error) => assert!(matches!(error, DeviceError::NoSpace), "{error}"),
        }
    });
}

#[test]
fn the_finder_keeps_the_block_that_it_has_compared_with() {
    let world = World::new(&collisions());
    let collider = Collider::of(&world.simulation.disks());
    let bytes = [collider.content(1, 1), collider.content(2, 1)].concat();
    // A block lies between both, so that they are read by two calls.
    for (lbn, block) in [(0, &bytes[..BLOCK]), (2, &[9; BLOCK]), (1, &bytes[BLOCK..])] {
        write(&world.a, at(lbn), block).unwrap();
    }
    write(&world.b, 0, &bytes).unwrap();
    flush(&world.a).unwrap();
    let compared = world.place_of(&collider.content(1, 1));
    // The call for the second block is held, so the first was read for the comparison by then.
    let offsets = world.place_of(&collider.content(2, 1));
    let hold = world.simulation.hold_at(DATA, Call::Read, offsets);
    thread::scope(|scope| {
        let finder =
            scope.spawn(|| world.pool.find(&gemelo_base::Silent, &gemelo_base::StopFlag::new()));
        hold.wait();
        write(&world.a, 0, &[7; BLOCK]).unwrap();
        flush(&world.a).unwrap();
        let filler = scope.spawn(|| {
            fill(&world.a, 2, fresh);
            // A reused block gets another content with the same fingerprint.
            if let Some(lbn) = (2..BLOCKS).find(|lbn| world.has_at(&compared, &fresh(*lbn))) {
                trim(&world.a, at(lbn), BLOCK as u64).unwrap();
                flush(&world.a).unwrap();
                write(&world.a, at(lbn), &collider.content(1, 2)).unwrap();
            }
        });
        release_after(hold, &filler);
        filler.join().unwrap();
        finder.join().unwrap().unwrap();
    });
    assert!(read(&world.b, 0, 2 * BLOCK).unwrap() == bytes, "the finder shared another content");
}

#[test]
fn the_finder_leaves_alone_what_was_written_meanwhile() {
    for is_known in [false, true] {
        let world = World::new(&options(24));
        if is_known {
            write(&world.a, 0, &fresh(1)).unwrap();
        }
        write(&world.b, 0, &fresh(1)).unwrap();
        // Contents in the write buffer are not read from the disk.
        flush(&world.b).unwrap();
        let hold = world.simulation.hold(DATA, Call::Read);
        thread::scope(|scope| {
            let finder = scope
                .spawn(|| world.pool.find(&gemelo_base::Silent, &gemelo_base::StopFlag::new()));
            hold.wait();
            write(&world.b, 0, &fresh(2)).unwrap();
            hold.release();
            finder.join().unwrap().unwrap();
        });
        assert!(read(&world.b, 0, BLOCK).unwrap() == fresh(2), "the finder has undone a write");
        assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn the_finder_shares_what_became_known_since_its_look_up() {
    let world = World::new(&collisions());
    write(&world.a, 0, &fresh(2)).unwrap();
    write(&world.b, 0, &[fresh(1), fresh(2)].concat()).unwrap();
    flush(&world.b).unwrap();
    // Both were looked up when the block is read that the second one is compared with.
    let hold = world.simulation.hold_at(DATA, Call::Read, world.place_of(&fresh(2)));
    thread::scope(|scope| {
        let finder =
            scope.spawn(|| world.pool.find(&gemelo_base::Silent, &gemelo_base::StopFlag::new()));
        hold.wait();
        write(&world.a, at(1), &fresh(1)).unwrap();
        hold.release();
        finder.join().unwrap().unwrap();
    });
    assert_eq!(world.pool.stat().unwrap().physical_blocks, 2, "each content is stored once");
}

#[test]
fn a_writer_shares_what_became_known_since_its_look_up() {
    let world = World::new(&collisions());
    write(&world.a, 0, &fresh(2)).unwrap();
    flush(&world.a).unwrap();
    // Both were looked up when the block is read that the second one is compared with.
    let hold = world.simulation.hold_at(DATA, Call::Read, world.place_of(&fresh(2)));
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(&world.a, at(1), &[fresh(1), fresh(2)].concat()));
        hold.wait();
        write(&world.a, at(5), &fresh(1)).unwrap();
        hold.release();
        writer.join().unwrap().unwrap();
    });
    assert_eq!(world.pool.stat().unwrap().physical_blocks, 2, "each content is stored once");
}

#[test]
fn colliding_contents_are_told_apart() {
    let world = World::new(&collisions());
    let collider = Collider::of(&world.simulation.disks());
    let contents: Vec<u8> = (1..5).flat_map(|member| collider.content(1, member)).collect();
    for volume in [&world.a, &world.b] {
        write(volume, 0, &contents[..2 * BLOCK]).unwrap();
        write(volume, at(2), &contents[2 * BLOCK..]).unwrap();
    }
    world.pool.find(&gemelo_base::Silent, &gemelo_base::StopFlag::new()).unwrap();
    for volume in [&world.a, &world.b] {
        assert!(read(volume, 0, contents.len()).unwrap() == contents);
    }
}

/// A commit that names a block has to be written after a sync of that block's content.
#[test]
fn what_is_written_during_the_sync_of_a_flush_is_not_in_its_commit() {
    let world = World::new(&options(100));
    write(&world.a, 0, &fresh(1)).unwrap();
    let hold = world.simulation.hold(DATA, Call::Sync);
    thread::scope(|scope| {
        let flusher = scope.spawn(|| flush(&world.a));
        hold.wait();
        write(&world.a, at(1), &fresh(2)).unwrap();
        hold.release();
        flusher.join().unwrap().unwrap();
    });
    let bytes = world.after_power_cut();
    assert!(block(&bytes, 0) == fresh(1), "what was flushed is lost");
    assert!([vec![0; BLOCK], fresh(2)].contains(&block(&bytes, 1).to_vec()), "neither old nor new");
}

#[test]
fn commits_during_a_checkpoint_stay_in_the_journal_until_the_next_one() {
    for more in 0..10 {
        let world = World::new(&options(100));
        write(&world.a, 0, &fresh(0)).unwrap();
        let hold = world.simulation.hold_at(METADATA, Call::Write, first_slots());
        thread::scope(|scope| {
            let checkpoint = scope.spawn(|| world.pool.checkpoint());
            hold.wait();
            for lbn in 1..3 {
                write(&world.a, at(lbn), &fresh(lbn)).unwrap();
                flush(&world.a).unwrap();
            }
            hold.release();
            checkpoint.join().unwrap().unwrap();
        });
        for lbn in 3..3 + more {
            write(&world.a, at(lbn), &fresh(lbn)).unwrap();
            flush(&world.a).unwrap();
        }
        let bytes = world.after_power_cut();
        for lbn in 0..3 + more {
            assert!(
                block(&bytes, lbn) == fresh(lbn),
                "block {lbn} is lost, with {more} more commits"
            );
        }
    }
}

/// The checkpoint has the changes of a commit that could not be written, and a root with the number
/// of the next commit. No commit may be written in between.
#[test]
fn a_flush_during_a_checkpoint_whose_commit_failed_waits_for_it() {
    let world = World::new(&options(100));
    write(&world.a, 0, &fresh(0)).unwrap();
    world.simulation.fail_next(METADATA, Call::Write, short_rings()[0].clone());
    let hold = world.simulation.hold_at(METADATA, Call::Write, first_slots());
    thread::scope(|scope| {
        let checkpoint = scope.spawn(|| world.pool.checkpoint());
        hold.wait();
        let flusher = scope.spawn(|| {
            write(&world.a, at(1), &fresh(1)).unwrap();
            flush(&world.a)
        });
        release_after(hold, &flusher);
        checkpoint.join().unwrap().unwrap();
        flusher.join().unwrap().unwrap();
    });
    let bytes = world.after_power_cut();
    assert!(
        block(&bytes, 0) == fresh(0) && block(&bytes, 1) == fresh(1),
        "what was flushed is lost"
    );
}

/// A checkpoint without room for its commit drops the commit when the root is durable, and frees
/// its blocks. A commit that came meanwhile must not be dropped with it.
#[test]
fn a_checkpoint_without_room_forgets_no_commit_that_came_meanwhile() {
    for (before, parity) in (0..9).flat_map(|before| [(before, 0), (before, 1)]) {
        let world = World::new(&options(24));
        for number in 0..before {
            write(&world.a, at(1), &fresh(10 + number)).unwrap();
            flush(&world.a).unwrap();
        }
        write(&world.a, 0, &fresh(0)).unwrap();
        let hold = world.simulation.hold_at(METADATA, Call::Write, first_slots());
        let [root, _] = Root::offsets(parity);
        let next_root = world.simulation.hold_at(METADATA, Call::Write, root..root + 1);
        let after = thread::scope(|scope| {
            let first = scope.spawn(|| world.pool.checkpoint());
            hold.wait();
            let second =
                scope.spawn(|| write(&world.a, 0, &fresh(1)).and_then(|()| flush(&world.a)));
            release_after(hold, &second);
            // The held root is that of this checkpoint, or of one that the flush needs, or there is
            // none.
            let is_held = next_root.is_held_within(PATIENCE / 4) && first.is_finished();
            let filler = is_held.then(|| scope.spawn(|| fill(&world.a, 2, fresh)));
            if is_held {
                thread::sleep(PATIENCE / 4);
            } else {
                next_root.release();
                first.join().unwrap().unwrap();
                second.join().unwrap().unwrap();
                return world.simulation.after_worst_crash();
            }
            let after = world.simulation.after_worst_crash();
            next_root.release();
            drop((first.join(), second.join(), filler.map(ScopedJoinHandle::join)));
            after
        });
        let pool = open(&after.disks(), tuning()).unwrap();
        let bytes = read(&pool.volume("a").unwrap(), 0, BLOCK).unwrap();
        assert!(bytes == fresh(0) || bytes == fresh(1), "after {before} commits");
    }
}

/// Linux reports a failed write to only one of the threads that sync a file, and drops the data.
/// The syncs of the other threads succeed, and make nothing durable.
#[test]
fn a_sync_beside_or_after_a_failed_one_acknowledges_nothing() {
    for waits in ["grow", "checkpoint"] {
        let world = World::new(&options(100));
        write(&world.a, 0, &fresh(1)).unwrap();
        let hold = world.simulation.hold(DATA, Call::Sync);
        hold.fail();
        let is_done = thread::scope(|scope| {
            // The sync of the first thread fails; the second thread syncs while it is under way.
            let first = scope.spawn(|| match waits {
                "grow" => world.pool.grow(200 * BLOCK as u64).is_ok(),
                _ => flush(&world.a).is_ok(),
            });
            hold.wait();
            let second = scope.spawn(|| match waits {
                "grow" => flush(&world.a).is_ok(),
                _ => world.pool.checkpoint().is_ok(),
            });
            release_after(hold, &second);
            [first.join().unwrap(), second.join().unwrap()].contains(&true)
        });
        let again = flush(&world.a).is_ok();
        let bytes = world.after_power_cut();
        let is_there = block(&bytes, 0) == fresh(1);
        assert!(is_there || !is_done && !again, "{waits}: what was acknowledged is lost");
        assert!(!is_done && !again, "{waits}: a failed sync stops a pool");
    }
}

/// The writer writes its number to the first block, then to the last one. The volume is large
/// enough for its map to be copied piece by piece, while the writer goes on.
#[test]
fn a_snapshot_is_of_one_moment() {
    for policy in Policy::ALL {
        let blocks = 1500;
        let world = World::new(&PoolOptions { policy, ..options(2 * blocks) });
        world.pool.resize_volume("a", blocks * BLOCK as u64).unwrap();
        for lbn in (0..blocks).step_by(100) {
            write(&world.a, at(lbn), &content(1 + lbn, 100 * BLOCK)).unwrap();
        }
        let (last, is_over, writes) = (at(blocks - 1), AtomicBool::new(false), AtomicU64::new(0));
        let numbered = |number: u64| [number.to_le_bytes().to_vec(), vec![1; BLOCK - 8]].concat();
        let write_both = || {
            let number = writes.fetch_add(1, Ordering::Relaxed) + 1;
            write(&world.a, 0, &numbered(number)).unwrap();
            write(&world.a, last, &numbered(number)).unwrap();
        };
        write_both();
        let wrong = thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    write_both();
                }
            });
            let wrong: Vec<_> = (0..20).filter_map(|_| torn_snapshot(&world.pool, last)).collect();
            is_over.store(true, Ordering::Relaxed);
            wrong
        });
        assert!(wrong.is_empty(), "{policy:?}: the first and the last block are of {wrong:?}");
    }
}

/// The numbers of the first and the last block of a new snapshot, if they are of different moments.
fn torn_snapshot(pool: &Pool, last: u64) -> Option<(u64, u64)> {
    pool.snapshot_volume("a", "s").unwrap();
    let snapshot = pool.volume("s").unwrap();
    let number =
        |offset| u64::from_le_bytes(read(&snapshot, offset, 8).unwrap().try_into().unwrap());
    let seen = (number(0), number(last));
    pool.remove_volume("s").unwrap();
    (seen.0 != seen.1 && seen.0 != seen.1 + 1).then_some(seen)
}
