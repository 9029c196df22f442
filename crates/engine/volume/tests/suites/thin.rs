//! Thin data disks, which have no space at any moment although the file system promised it: what
//! was acknowledged stays, nothing stops, and whatever frees space works.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, Fault, METADATA, Nature, Simulation};
use crate::common::{
    BLOCK, content, flush, open, options_with, read, trim, tuning, write, write_now,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, Tuning, VolumeError};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Blocks of the volume `old`, which is stored before the disk is full.
const OLD: u64 = 200;

/// A pool whose volume `old` is full and durable. The volume `a` is empty.
struct World {
    simulation: Simulation,
    pool: Pool,
}

fn world(policy: Policy, max_journal_data_bytes: Option<u64>) -> World {
    world_with(policy, max_journal_data_bytes, 1 << 20)
}

fn world_with(policy: Policy, max_journal_data_bytes: Option<u64>, journal_bytes: u64) -> World {
    let simulation = Simulation::new(1);
    let options = PoolOptions { journal_bytes: Some(journal_bytes), ..options_with(policy, 2000) };
    Pool::format(&simulation.disks(), &options).unwrap();
    simulation.thin_out();
    let tuning =
        Tuning { max_journal_data_bytes, write_buffer_bytes: 64 * BLOCK as u64, ..tuning() };
    let pool = open(&simulation.disks(), tuning).unwrap();
    for name in ["old", "a"] {
        pool.create_volume(name, OLD * BLOCK as u64, DedupMode::Inline).unwrap();
    }
    let old = pool.volume("old").unwrap();
    for lbn in 0..OLD {
        write(&old, lbn * BLOCK as u64, &content(1000 + lbn, BLOCK)).unwrap();
    }
    pool.checkpoint().unwrap();
    World { simulation, pool }
}

/// All pools: with each policy, and with and without journal data.
fn worlds() -> impl Iterator<Item = (Policy, Option<u64>)> {
    Policy::ALL.into_iter().flat_map(|policy| [(policy, Some(0)), (policy, None)])
}

impl World {
    /// Writes blocks of `a` that the disk has no space for. They are acknowledged.
    fn write_without_space(&self, blocks: u64) {
        self.simulation.set_full(true);
        let volume = self.pool.volume("a").unwrap();
        for lbn in 0..blocks {
            write(&volume, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
        }
    }

    fn check_sound(&self) {
        assert_eq!(self.pool.stopped(), None);
        assert_eq!(self.pool.prove(10).unwrap(), Vec::<String>::new());
    }

    /// The pool after a power cut that leaves nothing unsynced.
    fn after_power_cut(self) -> Self {
        let Self { simulation, pool } = self;
        let is_full = simulation.is_full();
        simulation.pull_plug();
        drop(pool);
        let next = simulation.after_worst_crash();
        next.thin_out();
        next.set_full(is_full);
        let report =
            check(&next.disks(), CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
        let pool = open(&next.disks(), tuning()).unwrap();
        Self { simulation: next, pool }
    }
}

/// The user trims what has no space, or something else, or removes a volume. Each of these works,
/// is durable, and makes room.
#[test]
fn whatever_frees_space_works_on_a_full_disk() {
    for (policy, max_journal_data_bytes) in worlds() {
        for way in 0..4 {
            let world = world(policy, max_journal_data_bytes);
            world.write_without_space(9);
            let pool = &world.pool;
            let (old, a) = (pool.volume("old").unwrap(), pool.volume("a").unwrap());
            // A flush may have made the writes durable before.
            if way % 2 == 0 {
                flush(&a).unwrap();
            }
            match way {
                0 => trim(&old, 0, 100 * BLOCK as u64).unwrap(),
                1 | 2 => trim(&a, 0, OLD * BLOCK as u64).unwrap(),
                _ => {
                    drop((old, a));
                    pool.remove_volume("old").unwrap();
                }
            }
            pool.flush().unwrap_or_else(|error| {
                panic!("{policy:?} {max_journal_data_bytes:?} {way}: {error}")
            });
            if way == 1 && max_journal_data_bytes.is_some() {
                // A commit that carries contents does not even try to write them out.
                let held_bytes = pool.stat().unwrap().write_buffer.held_bytes;
                assert_eq!(held_bytes, 0, "contents that were given up take memory");
            }
            let collected = pool.gc(None, &Silent, &StopFlag::new()).unwrap_or_else(|error| {
                panic!("gc {policy:?} {max_journal_data_bytes:?} {way}: {error}")
            });
            assert!(way == 1 || collected.discarded_blocks > 0, "{policy:?} {way}");
            assert_eq!(world.simulation.is_full(), way == 1 || way == 2, "{policy:?} {way}");
            world.simulation.set_full(false);
            pool.checkpoint().unwrap();
            world.check_sound();
            let world = world.after_power_cut();
            let a = world.pool.volume("a").unwrap();
            for lbn in 0..9 {
                let expected = if way == 1 || way == 2 { 0 } else { 1 + lbn };
                let found = read(&a, lbn * BLOCK as u64, BLOCK).unwrap();
                assert!(found == content(expected, BLOCK), "{policy:?} {way} {lbn}");
            }
            world.check_sound();
        }
    }
}

/// More contents have no space than the journal takes, so their commit waits. When they are
/// trimmed, they are needed no more; but no power cut may leave the commit without the trim.
#[test]
fn a_power_cut_never_finds_references_to_contents_that_were_given_up() {
    for policy in Policy::ALL {
        for call in 1.. {
            let world = world_with(policy, Some(0), 64 << 10);
            world.write_without_space(40);
            let a = world.pool.volume("a").unwrap();
            assert!(matches!(flush(&a), Err(DeviceError::NoSpace)), "{policy:?}");
            trim(&a, 0, OLD * BLOCK as u64).unwrap();
            world.simulation.set_fault(Fault::CrashAt(call));
            let flushed = flush(&a);
            drop(a);
            if flushed.is_ok() {
                assert!(call > 2, "{policy:?}: a flush writes and syncs");
                world.simulation.set_fault(Fault::Never);
                world.after_power_cut().check_sound();
                break;
            }
            assert!(world.simulation.is_down(), "{policy:?} {call}: {flushed:?}");
            for seed in 0..4 {
                let after = world.simulation.after_crash(seed);
                let options = CheckOptions { data: true };
                let report = check(&after.disks(), options, &Silent, &StopFlag::new()).unwrap();
                assert!(report.is_clean(), "{policy:?} {call}: {:?}", report.problems);
                let pool = open(&after.disks(), tuning()).unwrap();
                assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
            }
        }
    }
}

/// Contents that a flush has put into the journal for lack of space survive power cuts, on a disk
/// that is still full, and again after further commits and power cuts.
#[test]
fn contents_without_space_survive_power_cuts_on_a_full_disk() {
    for (policy, max_journal_data_bytes) in worlds() {
        let mut world = world(policy, max_journal_data_bytes);
        world.write_without_space(12);
        world.pool.flush().unwrap();
        for round in 0..4 {
            world = world.after_power_cut();
            let (old, a) = (world.pool.volume("old").unwrap(), world.pool.volume("a").unwrap());
            for lbn in 0..12 {
                let found = read(&a, lbn * BLOCK as u64, BLOCK).unwrap();
                assert!(found == content(1 + lbn, BLOCK), "{policy:?}, {round}, {lbn}");
            }
            if round % 2 == 0 {
                world.pool.checkpoint().unwrap();
            }
            // A write finds no space once others have failed; shares and trims need none.
            let fresh = write(&a, 50 * BLOCK as u64, &content(777 + round, BLOCK));
            let is_refused = matches!(fresh, Err(DeviceError::NoSpace));
            assert!(is_refused || round % 2 == 1, "{policy:?} {fresh:?}");
            write(&a, 60 * BLOCK as u64, &content(1000 + round, BLOCK)).unwrap();
            trim(&old, round * BLOCK as u64, BLOCK as u64).unwrap();
            world.pool.flush().unwrap();
            world.check_sound();
        }
        world.simulation.set_full(false);
        world.pool.checkpoint().unwrap();
        world = world.after_power_cut();
        let a = world.pool.volume("a").unwrap();
        for lbn in 0..12 {
            assert!(read(&a, lbn * BLOCK as u64, BLOCK).unwrap() == content(1 + lbn, BLOCK));
        }
        world.check_sound();
    }
}

/// A commit that does not carry all of its contents proves a sync of everything before it, so it
/// carries again what still has no space.
#[test]
fn a_commit_of_others_carries_again_what_has_no_space() {
    for (policy, max_journal_data_bytes) in worlds() {
        let world = world(policy, max_journal_data_bytes);
        let a = world.pool.volume("a").unwrap();
        // The first commit has one content without space.
        world.simulation.set_full(true);
        write(&a, 0, &content(1, BLOCK)).unwrap();
        world.pool.flush().unwrap();
        // The next one has many contents with space, which the journal does not carry, and the
        // one without is tried and fails once more.
        world.simulation.set_full(false);
        for lbn in 1..60 {
            write(&a, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
        }
        world.pool.flush().unwrap();
        let world = world.after_power_cut();
        let a = world.pool.volume("a").unwrap();
        for lbn in 0..60 {
            let found = read(&a, lbn * BLOCK as u64, BLOCK).unwrap();
            assert!(
                found == content(1 + lbn, BLOCK),
                "{policy:?} {max_journal_data_bytes:?} {lbn}"
            );
        }
    }
}

/// The journal is given up by checkpoints although contents wait for space, so that flushes of
/// changes that need none go on for ever.
#[test]
fn a_short_journal_goes_round_while_contents_wait_for_space() {
    for policy in Policy::ALL {
        let world = world_with(policy, Some(0), 64 << 10);
        world.write_without_space(3);
        let (old, a) = (world.pool.volume("old").unwrap(), world.pool.volume("a").unwrap());
        for round in 0..OLD {
            // The content is known, and the block that is replaced is none of those that wait.
            let lbn = 10 + round % 50;
            write(&a, lbn * BLOCK as u64, &content(1000 + round, BLOCK)).unwrap();
            flush(&a).unwrap_or_else(|error| panic!("{policy:?} {round}: {error}"));
        }
        drop((old, a));
        let world = world.after_power_cut();
        let a = world.pool.volume("a").unwrap();
        for lbn in 0..3 {
            assert!(read(&a, lbn * BLOCK as u64, BLOCK).unwrap() == content(1 + lbn, BLOCK));
        }
        world.check_sound();
    }
}

/// A commit is longer than the journal, so that only a checkpoint makes it durable. Contents
/// without space that it frees are in the journal, which the checkpoint gives up, and need no space
/// any more.
#[test]
fn a_checkpoint_gives_up_what_a_commit_without_room_frees() {
    for policy in Policy::ALL {
        let world = world_with(policy, Some(0), 64 << 10);
        world.write_without_space(3);
        world.pool.flush().unwrap();
        let generation = world.pool.stat().unwrap().generation;
        let a = world.pool.volume("a").unwrap();
        trim(&a, 0, 3 * BLOCK as u64).unwrap();
        for round in 0..6000 {
            let lbn = 10 + round % 50;
            write(&a, lbn * BLOCK as u64, &content(1000 + round % OLD, BLOCK)).unwrap();
        }
        let activity = world.pool.stat().unwrap().activity;
        flush(&a).unwrap_or_else(|error| panic!("{policy:?}: {error}"));
        let stat = world.pool.stat().unwrap();
        assert_eq!(stat.activity.commits, activity.commits, "{policy:?}: it had no room");
        assert_eq!(stat.generation, generation + 1, "{policy:?}");
        drop(a);
        let world = world.after_power_cut();
        let a = world.pool.volume("a").unwrap();
        assert!(read(&a, 0, 3 * BLOCK).unwrap() == content(0, 3 * BLOCK), "{policy:?}");
        world.check_sound();
    }
}

/// An opening holds the contents of commits in memory, also those without space.
#[test]
fn no_commit_takes_more_than_16_mib_of_contents_without_space() {
    const MOST: u64 = (16 << 20) / BLOCK as u64;
    let simulation = Simulation::new(1);
    let options =
        PoolOptions { journal_bytes: Some(160 << 20), ..options_with(Policy::Compact, 50_000) };
    Pool::format(&simulation.disks(), &options).unwrap();
    simulation.thin_out();
    let tuning = Tuning {
        max_journal_data_bytes: Some(0),
        write_buffer_bytes: 32 << 20,
        cache_bytes: Some(64 << 20),
        ..tuning()
    };
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", 40_000 * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let a = pool.volume("a").unwrap();
    simulation.set_full(true);
    for lbn in 0..MOST + 1 {
        write(&a, lbn * BLOCK as u64, &content(1 + lbn, BLOCK)).unwrap();
    }
    assert!(matches!(flush(&a), Err(DeviceError::NoSpace)));
    assert_eq!(pool.stat().unwrap().activity.journal_data_bytes, 0);
    trim(&a, 0, BLOCK as u64).unwrap();
    flush(&a).unwrap();
    assert_eq!(pool.stat().unwrap().activity.journal_data_bytes, MOST * BLOCK as u64);
    assert_eq!(pool.stopped(), None);
}

/// A request that looked a block up before it was trimmed reads its content, although the buffer
/// does not need it any more.
#[test]
fn a_reader_finds_a_content_that_was_given_up() {
    let world = world(Policy::Compact, Some(0));
    world.write_without_space(1);
    let (old, a) = (world.pool.volume("old").unwrap(), world.pool.volume("a").unwrap());
    // The read of both volumes' blocks is held at the disk after its look-up.
    flush(&a).unwrap();
    write(&a, BLOCK as u64, &content(1000, BLOCK)).unwrap();
    let hold = world.simulation.hold(DATA, Call::Read);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&a, 0, 2 * BLOCK));
        hold.wait();
        trim(&a, 0, BLOCK as u64).unwrap();
        world.pool.flush().unwrap();
        hold.release();
        let found = reader.join().unwrap().unwrap();
        assert!(found[..BLOCK] == content(1, BLOCK) && found[BLOCK..] == content(1000, BLOCK));
    });
    assert!(read(&a, 0, BLOCK).unwrap() == content(0, BLOCK));
    drop(old);
    world.check_sound();
}

/// Writers, trims and flushes on a disk that is full now and then: nothing else fails, and nothing
/// stops. With the threads of the background and without.
#[test]
fn full_now_and_then_stops_nothing() {
    for (policy, max_journal_data_bytes) in worlds() {
        for seed in 0..4 {
            let simulation = Simulation::new(seed);
            Pool::format(&simulation.disks(), &options_with(policy, 400)).unwrap();
            let background = seed % 2 == 1;
            let tuning = Tuning { max_journal_data_bytes, background, ..tuning() };
            let pool = open(&simulation.disks(), tuning).unwrap();
            pool.create_volume("a", 300 * BLOCK as u64, DedupMode::Inline).unwrap();
            let nature = Nature { full_one_in: 3, ..Nature::default() };
            simulation.set_nature(nature, &Arc::new(AtomicU64::new(1)));
            let work = |thread: u64| {
                let (volume, mut random) =
                    (pool.volume("a").unwrap(), Random::new(seed * 9 + thread));
                for _ in 0..300 {
                    let offset = random.below(300) * BLOCK as u64;
                    let outcome = match random.below(8) {
                        0 => trim(&volume, offset, BLOCK as u64),
                        1 => flush(&volume),
                        _ => write(&volume, offset, &content(random.next_u64(), BLOCK)),
                    };
                    assert!(matches!(outcome, Ok(()) | Err(DeviceError::NoSpace)), "{outcome:?}");
                }
            };
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let work = &work;
                    scope.spawn(move || work(thread));
                }
            });
            simulation.set_nature(Nature::default(), &Arc::new(AtomicU64::new(1)));
            simulation.set_full(false);
            assert_eq!(pool.stopped(), None, "{policy:?} {max_journal_data_bytes:?} {seed}");
            pool.checkpoint().unwrap();
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        }
    }
}

/// A failed sync is no failed write: it ends all changes.
#[test]
fn a_failed_sync_of_a_full_disk_stops_the_pool() {
    for which in [DATA, METADATA] {
        let world = world(Policy::Compact, Some(0));
        world.write_without_space(3);
        world.simulation.fail_next(which, Call::Sync, 0..u64::MAX);
        assert!(world.pool.flush().is_err());
        assert!(matches!(world.pool.flush(), Err(VolumeError::Stopped { .. })), "{which}");
        assert!(world.pool.stat().unwrap().stopped.is_some());
    }
}

/// Flushes give contents up while checkpoints are written that refer to them. Images of power cuts
/// are taken meanwhile, some of them between a root and the commit of a flush.
#[test]
fn a_checkpoint_refers_to_nothing_that_a_flush_gives_up_meanwhile() {
    const ROUNDS: u64 = 100;
    let mut images = 0;
    for seed in 0..ROUNDS {
        // A short journal: a commit may be unable to carry what has no space.
        let world = world_with(Policy::Compact, None, 64 << 10);
        let clock = Arc::new(AtomicU64::new(1));
        let max_delay = Duration::from_micros(300);
        let nature = Nature {
            shot_one_in: 6,
            slow_one_in: 3,
            max_delay,
            full_one_in: 4,
            ..Nature::default()
        };
        world.simulation.set_nature(nature, &clock);
        let a = world.pool.volume("a").unwrap();
        std::thread::scope(|scope| {
            for client in 0..3 {
                let (a, mut random) = (&a, Random::new(seed * 3 + client));
                scope.spawn(move || {
                    for step in 0..90 {
                        let offset = random.below(40) * BLOCK as u64;
                        // Whatever has no space fails.
                        let _ = match random.below(3) {
                            0 => flush(a),
                            1 => trim(a, offset, 12 * BLOCK as u64),
                            _ => write_now(a, offset, &content(100 * client + step, 8 * BLOCK)),
                        };
                    }
                });
            }
            (0..30).for_each(|_| drop(world.pool.checkpoint()));
        });
        world.simulation.set_nature(Nature::default(), &clock);
        for shot in world.simulation.take_shots() {
            let cut = Simulation::of_images(1, shot.images);
            let options = CheckOptions { data: true };
            let report = check(&cut.disks(), options, &Silent, &StopFlag::new()).unwrap();
            assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
            images += 1;
        }
        world.check_sound();
    }
    assert!(images > 500, "{images} images");
}
