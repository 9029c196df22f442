//! The background of an open pool, on a clock that moves by hand: commits, checkpoints, and giving
//! the space of freed blocks back.

use crate::common::hold::{Call, Hold};
use crate::common::shape::first_slots_of;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{
    BLOCK, content, flush, open, options, options_with, read, trim, tuning, write,
};
use gemelo_base::ManualClock;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolActivity, PoolOptions, Tuning, Volume};
use std::sync::Arc;
use std::time::Duration;

const BLOCKS: u64 = 200;
const SECOND_NS: u64 = 1_000_000_000;
/// The background looks for work several times within it.
const PAUSE: Duration = Duration::from_millis(300);

struct World {
    simulation: Simulation,
    clock: Arc<ManualClock>,
    pool: Pool,
    volume: Volume,
}

impl World {
    fn new(tuning: Tuning) -> Self {
        Self::with(&options(2 * BLOCKS), tuning)
    }

    fn with(options: &PoolOptions, tuning: Tuning) -> Self {
        let (simulation, clock) = (Simulation::new(1), Arc::new(ManualClock::new()));
        Pool::format(&simulation.disks(), options).unwrap();
        let tuning = Tuning { background: true, ..tuning };
        let pool = Pool::open_disks(simulation.disks(), tuning, clock.clone()).unwrap();
        pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Off).unwrap();
        let volume = pool.volume("a").unwrap();
        Self { simulation, clock, pool, volume }
    }

    fn activity(&self) -> PoolActivity {
        self.pool.stat().unwrap().activity
    }

    /// Waits at most ten seconds until a figure has this value. Returns whether it has.
    fn reaches(&self, figure: impl Fn(&PoolActivity) -> u64, value: u64) -> bool {
        (0..400).any(|_| {
            let is_reached = figure(&self.activity()) == value;
            if !is_reached {
                std::thread::sleep(Duration::from_millis(25));
            }
            is_reached
        })
    }

    /// Waits until a figure has this value, and then whether it keeps it.
    fn settles(&self, figure: impl Fn(&PoolActivity) -> u64, value: u64) {
        self.reaches(&figure, value);
        std::thread::sleep(PAUSE);
        assert_eq!(figure(&self.activity()), value);
    }

    fn write(&self, lbn: u64, id: u64) {
        write(&self.volume, lbn * BLOCK as u64, &content(id, BLOCK)).unwrap();
    }
}

#[test]
fn a_change_is_made_durable_at_the_interval_without_a_flush() {
    let world = World::new(Tuning { commit_interval: Duration::from_secs(30), ..tuning() });
    let before = world.activity().commits;
    world.write(0, 1);
    world.clock.advance_ns(29 * SECOND_NS);
    world.settles(|activity| activity.commits, before);
    // The interval begins when the thread does.
    world.clock.advance_ns(30 * SECOND_NS);
    world.settles(|activity| activity.commits, before + 1);
    world.write(1, 2);
    world.clock.advance_ns(29 * SECOND_NS);
    world.settles(|activity| activity.commits, before + 1);
    let World { simulation, pool, volume, .. } = world;
    drop((pool, volume));
    let pool = open(&simulation.after_worst_crash().disks(), tuning()).unwrap();
    let bytes = read(&pool.volume("a").unwrap(), 0, 2 * BLOCK).unwrap();
    assert!(bytes[..BLOCK] == content(1, BLOCK) && bytes[BLOCK..] == [0; BLOCK]);
}

/// A commit of a few changes takes 8 KiB of the 64 KiB.
#[test]
fn a_checkpoint_is_written_when_half_of_the_journal_is_used() {
    let world = World::new(Tuning { commit_interval: Duration::from_secs(3600), ..tuning() });
    for lbn in 0..3 {
        world.write(lbn, 1 + lbn);
        flush(&world.volume).unwrap();
    }
    world.settles(|activity| activity.checkpoints, 0);
    world.write(3, 4);
    flush(&world.volume).unwrap();
    world.settles(|activity| activity.checkpoints, 1);
}

const CHANGES: u64 = 1500;

/// A pool whose thread of checkpoints is held at a page that it writes. The memory of the policy
/// is half full, and takes as many changes as came before.
fn in_a_checkpoint(commit_interval: Duration) -> (World, Hold) {
    let options = options_with(Policy::Compact, 20 * CHANGES);
    let options = PoolOptions { journal_bytes: Some(4 << 20), ..options };
    let world =
        World::with(&options, Tuning { cache_bytes: Some(512 << 10), commit_interval, ..tuning() });
    let hold = world.simulation.hold_at(METADATA, Call::Write, first_slots_of(&world.simulation));
    (0..2 * CHANGES).for_each(|number| world.write(number % BLOCKS, number));
    hold.wait();
    world.settles(|activity| activity.checkpoints, 0);
    (world, hold)
}

/// One more commit is made, and the checkpoint is written then.
fn assert_commits_meanwhile(world: &World, hold: Hold, commits: u64) {
    assert!(world.reaches(|activity| activity.commits.min(commits), commits));
    assert_eq!(world.activity().checkpoints, 0, "it is being written");
    hold.release();
    world.reaches(|activity| activity.checkpoints.min(1), 1);
}

#[test]
fn what_gathers_becomes_durable_while_a_checkpoint_is_written() {
    let (world, hold) = in_a_checkpoint(Duration::from_secs(3600));
    let before = world.activity().commits;
    (0..CHANGES).for_each(|number| world.write(number % BLOCKS, 2 * CHANGES + number));
    assert_commits_meanwhile(&world, hold, before + 1);
}

#[test]
fn the_commit_interval_is_kept_while_a_checkpoint_is_written() {
    let (world, hold) = in_a_checkpoint(Duration::from_secs(30));
    world.clock.advance_ns(30 * SECOND_NS);
    std::thread::sleep(PAUSE);
    let before = world.activity().commits;
    world.write(0, 2 * CHANGES);
    world.settles(|activity| activity.commits, before);
    world.clock.advance_ns(30 * SECOND_NS);
    assert_commits_meanwhile(&world, hold, before + 1);
}

#[test]
fn the_space_of_freed_blocks_is_given_back_within_the_rate() {
    const RATE_BLOCKS: u64 = 32;
    let collect_bytes_per_s = RATE_BLOCKS * BLOCK as u64;
    let world = World::new(Tuning {
        collect_bytes_per_s,
        commit_interval: Duration::from_secs(3600),
        ..tuning()
    });
    let discarded = |activity: &PoolActivity| activity.discarded_blocks;
    let free = |first: u64, count: u64| {
        trim(&world.volume, first * BLOCK as u64, count * BLOCK as u64).unwrap();
        flush(&world.volume).unwrap();
    };
    (0..BLOCKS).for_each(|lbn| world.write(lbn, 1 + lbn));
    flush(&world.volume).unwrap();
    world.clock.advance_ns(60 * SECOND_NS);
    world.settles(discarded, 0);
    free(64, 128);
    // The unused allowance of one second is saved up.
    world.clock.advance_ns(1);
    if !world.reaches(discarded, RATE_BLOCKS) {
        // A search that was late met the blocks between the trim and the flush, and rests.
        world.clock.advance_ns(11 * SECOND_NS);
    }
    world.settles(discarded, RATE_BLOCKS);
    world.clock.advance_ns(SECOND_NS);
    world.settles(discarded, 2 * RATE_BLOCKS);
    world.clock.advance_ns(60 * SECOND_NS);
    world.settles(discarded, 3 * RATE_BLOCKS);
    world.clock.advance_ns(SECOND_NS);
    world.settles(discarded, 128);
    // These lie before those, and the search goes on to the end first. Then it rests for 10 s.
    free(0, 32);
    world.clock.advance_ns(SECOND_NS);
    world.settles(discarded, 128);
    world.clock.advance_ns(9 * SECOND_NS);
    world.settles(discarded, 128);
    world.clock.advance_ns(2 * SECOND_NS);
    world.settles(discarded, 160);
    for lbn in (32..64).chain(192..BLOCKS) {
        let bytes = read(&world.volume, lbn * BLOCK as u64, BLOCK).unwrap();
        assert!(bytes == content(1 + lbn, BLOCK), "block {lbn}");
    }
    assert_eq!(world.pool.prove(10).unwrap(), Vec::<String>::new());
}
