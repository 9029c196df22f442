//! Commits that carry their contents: a flush of few blocks syncs one disk, and after a power cut
//! the journal gives the contents to the data store.

use crate::common::hold::Call;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{BLOCK, content, flush, open, options_with, read, trim, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairOptions, Tuning, Volume, VolumeError, repair,
    repair_outlook,
};

/// Blocks of the volume.
const BLOCKS: u64 = 64;

struct World {
    simulation: Simulation,
    pool: Pool,
    volume: Volume,
}

/// A pool whose data store has room for this many contents.
fn world_of(options: &PoolOptions, tuning: Tuning) -> World {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), options).unwrap();
    let pool = open(&simulation.disks(), tuning).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    pool.checkpoint().unwrap();
    let volume = pool.volume("a").unwrap();
    World { simulation, pool, volume }
}

fn world(policy: Policy, contents: u64) -> World {
    // Two blocks of the store hold headers.
    world_of(&options_with(policy, contents + 2), tuning())
}

impl World {
    fn put(&self, lbn: u64, id: u64) {
        write(&self.volume, lbn * BLOCK as u64, &content(id, BLOCK)).unwrap();
    }

    /// Writes a content and flushes it.
    fn put_now(&self, lbn: u64, id: u64) {
        self.put(lbn, id);
        flush(&self.volume).unwrap();
    }
}

/// The content of a block.
fn block(pool: &Pool, lbn: u64) -> Vec<u8> {
    read(&pool.volume("a").unwrap(), lbn * BLOCK as u64, BLOCK).unwrap()
}

/// Returns whether the data disk of a simulation has a content.
fn has(simulation: &Simulation, id: u64) -> bool {
    let [data, _] = simulation.images();
    data.chunks(BLOCK).any(|block| *block == content(id, BLOCK))
}

fn check_data(simulation: &Simulation) -> CheckReport {
    check(&simulation.disks(), CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

#[test]
fn a_flush_of_few_blocks_syncs_the_journal_alone_and_survives_a_power_cut() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        for id in 1..4 {
            let syncs = world.simulation.syncs();
            world.put_now(id, id);
            assert_eq!(world.simulation.syncs() - syncs, 1, "{policy:?}");
        }
        let activity = world.pool.stat().unwrap().activity;
        assert_eq!(
            (activity.journal_data_commits, activity.journal_data_bytes),
            (3, 3 * BLOCK as u64)
        );
        let after = world.simulation.after_worst_crash();
        assert!(!has(&after, 1), "{policy:?}: nothing of it is in the data store");
        let pool = open(&after.disks(), tuning()).unwrap();
        assert_eq!(pool.damage(), Vec::<String>::new());
        (1..4).for_each(|id| assert!(block(&pool, id) == content(id, BLOCK), "{policy:?}"));
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        // From here on the data store has it, whatever happens to the journal.
        let synced = after.after_worst_crash();
        assert!((1..4).all(|id| has(&synced, id)), "{policy:?}: the opening wrote it and synced");
    }
}

#[test]
fn a_flush_of_many_blocks_or_with_the_bound_0_syncs_both_disks() {
    let limited = |max_journal_data_bytes| Tuning {
        max_journal_data_bytes: Some(max_journal_data_bytes),
        ..tuning()
    };
    for (bound, blocks) in [(0, 1), (4 * BLOCK as u64, 5)] {
        let world = world_of(&options_with(Policy::Compact, 100), limited(bound));
        (0..blocks).for_each(|lbn| world.put(lbn, 1 + lbn));
        let syncs = world.simulation.syncs();
        flush(&world.volume).unwrap();
        assert_eq!(world.simulation.syncs() - syncs, 2, "{blocks} blocks");
        assert_eq!(world.pool.stat().unwrap().activity.journal_data_commits, 0);
    }
    let world = world_of(&options_with(Policy::Compact, 100), limited(4 * BLOCK as u64));
    (0..4).for_each(|lbn| world.put(lbn, 1 + lbn));
    flush(&world.volume).unwrap();
    assert_eq!(world.pool.stat().unwrap().activity.journal_data_bytes, 4 * BLOCK as u64);
}

/// A PBN is carried, freed, and given to a content that was synced and is not in the journal.
#[test]
fn a_replay_writes_no_carried_content_over_a_newer_one() {
    for policy in Policy::ALL {
        let world = world(policy, 30);
        world.put_now(0, 1);
        trim(&world.volume, 0, BLOCK as u64).unwrap();
        flush(&world.volume).unwrap();
        // More than a commit carries, so that all blocks of the store are taken.
        (0..30).for_each(|lbn| world.put(lbn, 100 + lbn));
        let before = world.pool.stat().unwrap().activity.journal_data_commits;
        flush(&world.volume).unwrap();
        assert_eq!(world.pool.stat().unwrap().activity.journal_data_commits, before);
        let after = world.simulation.after_worst_crash();
        assert!(check_data(&after).is_clean(), "{policy:?}");
        let pool = open(&after.disks(), tuning()).unwrap();
        (0..30).for_each(|lbn| assert!(block(&pool, lbn) == content(100 + lbn, BLOCK)));
    }
}

/// A PBN is carried, freed, and carried again with another content; or written with one that no
/// commit names.
#[test]
fn a_block_that_is_carried_twice_has_the_newer_content() {
    for policy in Policy::ALL {
        let world = world(policy, 3);
        world.put_now(0, 1);
        world.put_now(1, 2);
        world.put_now(0, 0);
        world.put_now(2, 3);
        world.put_now(1, 0);
        world.put(3, 4);
        world.put(4, 5);
        let after = world.simulation.after_kill();
        let pool = open(&after.disks(), tuning()).unwrap();
        assert!(block(&pool, 2) == content(3, BLOCK), "{policy:?}");
        assert!([0, 1, 3, 4].iter().all(|lbn| block(&pool, *lbn) == vec![0; BLOCK]));
        assert!(!has(&after, 2), "{policy:?}: a free block is not written");
        assert!(check_data(&after).is_clean());
    }
}

#[test]
fn a_checkpoint_syncs_the_data_store_before_it_gives_the_journal_up() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        world.put_now(0, 1);
        world.pool.checkpoint().unwrap();
        assert_eq!(world.pool.stat().unwrap().journal_used_bytes, 0);
        let after = world.simulation.durable();
        assert!(block(&open(&after.disks(), tuning()).unwrap(), 0) == content(1, BLOCK));
        // The same after an opening that has replayed it.
        world.put_now(1, 2);
        let after = world.simulation.after_worst_crash();
        let pool = open(&after.disks(), tuning()).unwrap();
        pool.checkpoint().unwrap();
        let again = open(&after.after_worst_crash().disks(), tuning()).unwrap();
        assert!(block(&again, 1) == content(2, BLOCK), "{policy:?}");
    }
}

/// The sync of a checkpoint fails: the checkpoint must not count, and the pool stops.
#[test]
fn a_checkpoint_whose_data_sync_fails_leaves_the_journal() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        world.put_now(0, 1);
        world.simulation.fail_next(DATA, Call::Sync, 0..u64::MAX);
        assert!(world.pool.checkpoint().is_err());
        assert!(matches!(world.pool.flush(), Err(VolumeError::Stopped { .. })), "{policy:?}");
        assert!(block(&world.pool, 0) == content(1, BLOCK), "it is readable");
        let after = world.simulation.after_kill();
        let pool = open(&after.disks(), tuning()).unwrap();
        assert!(block(&pool, 0) == content(1, BLOCK), "{policy:?}");
        pool.checkpoint().unwrap();
        let again = open(&after.after_worst_crash().disks(), tuning()).unwrap();
        assert!(block(&again, 0) == content(1, BLOCK), "{policy:?}");
    }
}

#[test]
fn a_carried_content_that_cannot_be_written_stops_the_pool_and_is_not_lost() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        world.put_now(0, 1);
        // All tries fail: two before the sync, and two of the sync itself.
        (0..4).for_each(|_| world.simulation.fail_next(DATA, Call::Write, 0..u64::MAX));
        assert!(world.pool.checkpoint().is_err());
        assert!(block(&world.pool, 0) == content(1, BLOCK), "{policy:?}: it is readable");
        assert!(write(&world.volume, 0, &content(2, BLOCK)).is_err());
        let after = world.simulation.after_kill();
        let pool = open(&after.disks(), tuning()).unwrap();
        assert!(block(&pool, 0) == content(1, BLOCK), "{policy:?}");
    }
}

/// The length of a file may not be durable although the journal is.
#[test]
fn a_data_store_that_ends_before_journal_data_is_whole() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        world.put(0, 1);
        world.pool.checkpoint().unwrap();
        world.put_now(1, 2);
        let [data, metadata] = world.simulation.after_worst_crash().images();
        // Block 0 and the first content are left.
        for (blocks, is_whole) in [(2, true), (1, false)] {
            let short = data[..blocks * BLOCK].to_vec();
            let simulation = Simulation::of_images(1, [short, metadata.clone()]);
            let report = check_data(&simulation);
            let has_lost = report.problems.iter().any(|problem| problem.loses_data);
            assert_eq!(has_lost, !is_whole, "{policy:?}: {:?}", report.problems);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            assert_eq!(pool.is_read_only(), !is_whole, "{:?}", pool.damage());
            assert!(block(&pool, 1) == content(2, BLOCK), "{policy:?}, {blocks} blocks");
            assert!(!is_whole || block(&pool, 0) == content(1, BLOCK));
        }
    }
}

#[test]
fn readers_that_write_nothing_see_journal_data() {
    for policy in Policy::ALL {
        let world = world(policy, 100);
        (0..5).for_each(|lbn| world.put_now(lbn, 1 + lbn));
        let after = world.simulation.after_worst_crash();
        let images = after.images();
        let report = check_data(&after);
        assert!(report.is_clean(), "{policy:?}: {:?}", report.problems);
        assert_eq!(report.checked_contents, 5);
        let outlook = repair_outlook(&after.disks(), true, &Silent, &StopFlag::new()).unwrap();
        assert_eq!(outlook.roll_back.costs, [], "{policy:?}");
        let pool = open(&after.disks(), Tuning { read_only: true, ..tuning() }).unwrap();
        (0..5).for_each(|lbn| assert!(block(&pool, lbn) == content(1 + lbn, BLOCK)));
        drop(pool);
        assert!(after.images() == images, "{policy:?}: nothing was written");
        let options = RepairOptions { data: true, choice: LossChoice::Skip };
        let plan = repair(&after.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert_eq!(plan.costs, []);
        let repaired = after.after_worst_crash();
        assert!(check_data(&repaired).is_clean(), "{policy:?}");
        let pool = open(&repaired.disks(), tuning()).unwrap();
        (0..5).for_each(|lbn| assert!(block(&pool, lbn) == content(1 + lbn, BLOCK)));
    }
}

/// Journal data fill the ring many times over, and no length of a commit leaves it in a state
/// in which something is lost.
#[test]
fn a_ring_that_is_full_again_and_again_loses_nothing() {
    for policy in Policy::ALL {
        for blocks in [1, 3, 6, 7] {
            let world = world(policy, 150);
            let mut next = 1;
            for _ in 0..40 {
                let first = next;
                (0..blocks).for_each(|lbn| world.put(lbn, first + lbn));
                next += blocks;
                flush(&world.volume).unwrap();
                // A copy of the present moment: the world goes on.
                let shot = world.simulation.durable();
                let pool = open(&shot.disks(), tuning()).unwrap();
                for lbn in 0..blocks {
                    assert!(block(&pool, lbn) == content(first + lbn, BLOCK), "{policy:?}");
                }
            }
            let stat = world.pool.stat().unwrap();
            assert!(stat.generation > 3, "{policy:?}: the ring was full now and then");
            assert!(stat.activity.journal_data_commits >= 30, "{policy:?}, {blocks} blocks");
        }
    }
}

/// An opening holds journal data in memory, so they have a bound, however long the journal is.
#[test]
fn commits_carry_16_mib_at_most_between_two_syncs_of_the_data_store() {
    const MAX_BYTES: u64 = 16 << 20;
    let options =
        PoolOptions { journal_bytes: Some(96 << 20), ..options_with(Policy::Compact, 50_000) };
    let tuning = Tuning { write_buffer_bytes: 1 << 20, cache_bytes: Some(64 << 20), ..tuning() };
    let world = world_of(&options, tuning);
    let generation = world.pool.stat().unwrap().generation;
    let (mut carried, mut total) = (0, 0);
    for round in 0..MAX_BYTES / (BLOCKS * BLOCK as u64) + 100 {
        (0..BLOCKS).for_each(|lbn| world.put(lbn, 1 + round * BLOCKS + lbn));
        let syncs = world.simulation.syncs();
        flush(&world.volume).unwrap();
        let bytes = world.pool.stat().unwrap().activity.journal_data_bytes - total;
        total += bytes;
        carried = if world.simulation.syncs() - syncs == 1 { carried + bytes } else { 0 };
        assert!(carried <= MAX_BYTES, "round {round}: {carried} bytes");
    }
    assert!(total > MAX_BYTES, "{total} bytes");
    assert_eq!(world.pool.stat().unwrap().generation, generation, "no checkpoint has synced");
}

/// The commit that is lost, and the pages of the journal that it takes.
fn lose(images: &mut [Vec<u8>; 2], number: u64) {
    const PAGE: usize = 4096;
    let metadata = &mut images[METADATA];
    for page in 0..metadata.len() / PAGE {
        let bytes = &mut metadata[page * PAGE..(page + 1) * PAGE];
        let is_it = bytes.starts_with(b"GEMELOJC")
            && u64::from_le_bytes(bytes[8..16].try_into().unwrap()) == number;
        if is_it {
            bytes[48] ^= 1;
        }
    }
}

/// A block is carried; a commit that is lost frees it; another one stores a content in it that no
/// commit carries. Going back to the first content must not take the place of the last one before
/// the repair is done: the other choice needs it.
#[test]
fn a_repair_that_was_cut_off_has_overwritten_no_content_of_the_other_choice() {
    for policy in Policy::ALL {
        let world = world(policy, 20);
        let number = || world.pool.stat().unwrap().activity.commits;
        let before = number();
        world.put_now(0, 1);
        world.put_now(0, 0);
        assert_eq!(number(), before + 2);
        (0..20).for_each(|lbn| world.put(lbn, 100 + lbn));
        flush(&world.volume).unwrap();
        let mut images = world.simulation.after_worst_crash().images();
        // The pool's first commit has the number 1.
        lose(&mut images, before + 2);
        for call in 1.. {
            let damaged = Simulation::of_images(call, images.clone());
            damaged.set_fault(crate::common::simulated::Fault::CrashAt(call));
            let with = |choice| RepairOptions { data: false, choice };
            let first =
                repair(&damaged.disks(), with(LossChoice::RollBack), &Silent, &StopFlag::new());
            let after = damaged.after_crash(call);
            if open(&after.disks(), tuning()).is_ok() {
                assert!(first.is_ok() || call > 1, "{policy:?}");
                break;
            }
            assert!(first.is_err(), "{policy:?}, call {call}");
            repair(&after.disks(), with(LossChoice::Skip), &Silent, &StopFlag::new()).unwrap();
            let pool = open(&after.disks(), tuning()).unwrap();
            for lbn in 0..20 {
                assert!(block(&pool, lbn) == content(100 + lbn, BLOCK), "{policy:?} {call}");
            }
        }
    }
}

/// A lost commit frees a block, and another one stores a content in it. The first content has a
/// copy, with which going back heals the block: not before that choice is durable, because the
/// other one needs the content that is there.
#[test]
fn a_repair_that_was_cut_off_has_healed_no_block_of_the_other_choice() {
    for policy in Policy::ALL {
        let world = world(policy, 21);
        let pool = &world.pool;
        pool.create_volume("copy", BLOCK as u64, DedupMode::Off).unwrap();
        write(&pool.volume("copy").unwrap(), 0, &content(1, BLOCK)).unwrap();
        world.put(0, 1);
        pool.checkpoint().unwrap();
        let number = || world.pool.stat().unwrap().activity.commits;
        let before = number();
        world.put_now(0, 0);
        assert_eq!(number(), before + 1);
        (0..20).for_each(|lbn| world.put(lbn, 100 + lbn));
        flush(&world.volume).unwrap();
        let mut images = world.simulation.after_worst_crash().images();
        lose(&mut images, before + 1);
        let (mut cut_off, mut healed) = (0, 0);
        for call in 1.. {
            let damaged = Simulation::of_images(call, images.clone());
            assert!(open(&damaged.disks(), tuning()).is_err(), "{policy:?}: a commit is lost");
            damaged.set_fault(crate::common::simulated::Fault::CrashAt(call));
            let with = |choice| RepairOptions { data: false, choice };
            let first =
                repair(&damaged.disks(), with(LossChoice::RollBack), &Silent, &StopFlag::new());
            let after = damaged.after_crash(call);
            if let Ok(pool) = open(&after.disks(), tuning()) {
                // The choice is durable before the block is healed.
                let found = read(&pool.volume("a").unwrap(), 0, BLOCK);
                healed += u64::from(found.is_ok_and(|found| found == content(1, BLOCK)));
                if first.is_ok() {
                    break;
                }
                continue;
            }
            assert!(first.is_err(), "{policy:?}, call {call}");
            cut_off += 1;
            repair(&after.disks(), with(LossChoice::Skip), &Silent, &StopFlag::new()).unwrap();
            let pool = open(&after.disks(), tuning()).unwrap();
            for lbn in 0..20 {
                assert!(block(&pool, lbn) == content(100 + lbn, BLOCK), "{policy:?} {call}");
            }
        }
        assert!(cut_off > 0 && healed > 0, "{policy:?}: {cut_off} cut off, {healed} healed");
    }
}
