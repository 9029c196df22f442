//! Crashes between the writes of a root and of its copy: this damages nothing, and no damage is
//! reported.

use crate::common::hold::Call;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, flush, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    COPIES, DedupMode, Policy, PoolSeed, Root, RootSearch, find_roots, read_superblock,
};
use gemelo_volume::{Pool, Volume};

/// The number of checkpoints: enough to write each place of a root, and later ones over older ones.
const CHECKPOINTS: u64 = 4;
const PAGE: usize = 4096;

fn check_all(simulation: &Simulation) -> CheckReport {
    let options = CheckOptions { data: true };
    check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap()
}

fn roots(simulation: &Simulation) -> RootSearch {
    let disks = simulation.disks();
    let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
    find_roots(&*disks.metadata, &superblock, PoolSeed::of(&superblock)).unwrap()
}

/// Makes several checkpoints. Returns the disks before each copy of a root is written.
fn before_each_copy(policy: Policy) -> Vec<Simulation> {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut left = Vec::new();
    for number in 0..CHECKPOINTS {
        write(&volume, number * BLOCK as u64, &content(1 + number, BLOCK)).unwrap();
        let [_, copy] = Root::offsets(roots(&simulation).newest.generation + 1);
        let hold = simulation.hold_at(METADATA, Call::Write, copy..copy + 1);
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| pool.checkpoint());
            hold.wait();
            left.push(Simulation::of_images(number, simulation.images()));
            hold.release();
            checkpoint.join().unwrap().unwrap();
        });
    }
    left
}

#[test]
fn a_crash_between_a_root_and_its_copy_is_not_reported_as_damage() {
    for policy in Policy::ALL {
        for (number, crashed) in before_each_copy(policy).iter().enumerate() {
            let report = check_all(crashed);
            assert!(report.is_clean(), "{policy:?}, {number}: {:?}", report.problems);
            let pool = open(&crashed.disks(), tuning()).unwrap();
            assert!(pool.damage().is_empty(), "{policy:?}, {number}: {:?}", pool.damage());
        }
    }
}

#[test]
fn the_root_before_the_newest_is_found_while_the_copy_of_an_older_one_is_there() {
    for crashed in before_each_copy(Policy::Compact) {
        let RootSearch { newest, older, .. } = roots(&crashed);
        assert_eq!(older.map(|older| older.generation), Some(newest.generation - 1));
    }
}

#[test]
fn a_damaged_root_and_a_damaged_copy_are_reported() {
    for crashed in before_each_copy(Policy::Compact) {
        drop(open(&crashed.disks(), tuning()).unwrap());
        assert!(check_all(&crashed).is_clean());
        let [page, copy] = Root::offsets(roots(&crashed).newest.generation);
        for offset in [page, copy] {
            let mut images = crashed.images();
            images[METADATA][offset as usize + PAGE / 2] ^= 1;
            let damaged = Simulation::of_images(1, images);
            assert_eq!(roots(&damaged).to_repair, [offset]);
            let problems = check_all(&damaged).problems;
            assert_eq!(problems.len(), 1, "{problems:?}");
        }
    }
}

/// A write that fails may leave any part of its bytes, also a part of a sector. So may a power cut
/// while it runs.
#[test]
fn a_copy_that_was_left_half_written_is_no_damage() {
    for policy in Policy::ALL {
        let crashed = before_each_copy(policy).pop().unwrap();
        let images = crashed.images();
        let [root, copy] = Root::offsets(roots(&crashed).newest.generation).map(|at| at as usize);
        for bytes in (0..110).chain([511, 512, 513, 4087, 4090, 4095]) {
            let mut images = images.clone();
            images[METADATA].copy_within(root..root + bytes, copy);
            let torn = Simulation::of_images(1, images);
            assert_eq!(roots(&torn).to_repair, [0; 0], "{policy:?}: {bytes} bytes");
            if bytes % 30 == 0 {
                let report = check_all(&torn);
                assert!(report.is_clean(), "{policy:?}, {bytes}: {:?}", report.problems);
                let pool = open(&torn.disks(), tuning()).unwrap();
                assert!(pool.damage().is_empty(), "{:?}", pool.damage());
                drop(pool);
                assert!(roots(&torn).to_repair.is_empty());
                let after = torn.images();
                assert!(after[METADATA][root..][..PAGE] == after[METADATA][copy..][..PAGE]);
            }
        }
    }
}

/// The same by an error of the disk during the write of the copy, which stops the pool.
#[test]
fn an_error_during_the_write_of_a_copy_leaves_no_damage() {
    for seed in 0..40 {
        let policy = Policy::ALL[seed as usize % Policy::ALL.len()];
        let simulation = Simulation::new(seed);
        Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        pool.checkpoint().unwrap();
        let [_, copy] = Root::offsets(roots(&simulation).newest.generation + 1);
        simulation.fail_next(METADATA, Call::Write, copy..copy + 1);
        assert!(pool.checkpoint().is_err());
        drop(pool);
        for after in [simulation.durable(), simulation.after_crash(seed), simulation.after_kill()] {
            let report = check_all(&after);
            assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
        }
    }
}

/// A root whose write failed may be on the disk all the same, so the slots of the state before it
/// and those of its own stay taken. Each of them opens, and has all that was flushed.
#[test]
fn a_failed_write_of_a_root_keeps_the_slots_of_both_states() {
    let mut opened = [0, 0];
    for seed in 0..32 {
        let policy = Policy::ALL[seed as usize % Policy::ALL.len()];
        let simulation = Simulation::new(seed);
        Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        let put = |first| {
            (0..8).for_each(|lbn| {
                write(&volume, lbn * BLOCK as u64, &content(first + lbn, BLOCK)).unwrap();
            });
            flush(&volume).unwrap();
        };
        put(1);
        pool.checkpoint().unwrap();
        put(101);
        let (generation, used) = (roots(&simulation).newest.generation, used_bytes(&pool));
        let offset = Root::offsets(generation + 1)[seed as usize / Policy::ALL.len() % COPIES];
        simulation.fail_next(METADATA, Call::Write, offset..offset + 1);
        assert!(pool.checkpoint().is_err());
        let reason = pool.stopped().unwrap().to_string();
        assert!(reason.contains("root"), "{reason}");
        assert!(used_bytes(&pool) > used, "{policy:?}, seed {seed}: {used}");
        let calls = simulation.calls();
        assert!(pool.checkpoint().is_err() && pool.flush().is_err());
        assert_eq!(simulation.calls(), calls, "{policy:?}, seed {seed}");
        assert_has(&volume, 101);
        drop((pool, volume));
        for after in [simulation.durable(), simulation.after_crash(seed), simulation.after_kill()] {
            opened[(roots(&after).newest.generation - generation) as usize] += 1;
            let report = check_all(&after);
            assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
            let pool = open(&after.disks(), tuning()).unwrap();
            assert!(pool.damage().is_empty(), "seed {seed}: {:?}", pool.damage());
            assert_has(&pool.volume("a").unwrap(), 101);
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "seed {seed}");
            pool.close().unwrap();
            assert!(check_all(&after).is_clean(), "{policy:?}, seed {seed}");
        }
    }
    assert!(opened.iter().all(|times| *times > 0), "{opened:?}");
}

fn used_bytes(pool: &Pool) -> u64 {
    pool.stat().unwrap().metadata_used_bytes
}

fn assert_has(volume: &Volume, first: u64) {
    for lbn in 0..8 {
        let found = read(volume, lbn * BLOCK as u64, BLOCK).unwrap();
        assert!(found == content(first + lbn, BLOCK), "block {lbn}");
    }
}

/// A root that a flush mark names and that is nowhere was lost, also if no commit follows it.
#[test]
fn a_root_whose_copies_are_both_lost_is_missed() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        pool.close().unwrap();
        let mut images = simulation.images();
        for offset in Root::offsets(roots(&simulation).newest.generation) {
            images[METADATA][offset as usize..][..PAGE].fill(0);
        }
        let damaged = Simulation::of_images(1, images);
        assert!(!check_all(&damaged).is_clean(), "{policy:?}");
        assert!(open(&damaged.disks(), tuning()).is_err(), "{policy:?}");
    }
}

/// The pages of an older root may have been written again. So the root before the newest one cannot
/// stand in for it, even where the journal has all commits since.
#[test]
fn no_older_root_takes_the_place_of_a_lost_one_that_commits_follow() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
        let volume = pool.volume("a").unwrap();
        for number in 0..3 {
            write(&volume, number * BLOCK as u64, &content(1 + number, BLOCK)).unwrap();
            flush(&volume).unwrap();
            if number < 2 {
                pool.checkpoint().unwrap();
            }
        }
        drop((pool, volume));
        let [data, mut metadata] = simulation.images();
        let disks = simulation.disks();
        let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
        let seed = PoolSeed::of(&superblock);
        let newest = find_roots(&*disks.metadata, &superblock, seed).unwrap().newest;
        for offset in Root::offsets(newest.generation) {
            metadata[offset as usize..][..PAGE].fill(0);
        }
        let damaged = Simulation::of_images(1, [data, metadata]);
        assert!(!check_all(&damaged).is_clean(), "{policy:?}");
        let opened = open(&damaged.disks(), tuning());
        assert!(
            opened.is_err(),
            "{policy:?}: an older root and the journal were taken for the newest state"
        );
    }
}

/// A disk that writes the newest root to a place of the root before, and a power cut before its
/// copy. The checkpoint was durable before its root was written, so nothing is lost.
#[test]
fn a_root_in_a_place_of_the_other_parity_counts_and_is_put_right() {
    for policy in Policy::ALL {
        for crashed in before_each_copy(policy) {
            let RootSearch { newest, older, .. } = roots(&crashed);
            for wrong in Root::offsets(newest.generation + 1) {
                let mut images = crashed.images();
                let own = Root::offsets(newest.generation).map(|at| at as usize);
                let page = images[METADATA][own[0]..][..PAGE].to_vec();
                images[METADATA][wrong as usize..][..PAGE].copy_from_slice(&page);
                own.iter().for_each(|at| images[METADATA][*at..][..PAGE].fill(0));
                let misplaced = Simulation::of_images(1, images);
                let found = roots(&misplaced);
                assert_eq!(found.newest, newest, "{policy:?}");
                assert_eq!(found.to_repair, Root::offsets(newest.generation), "{policy:?}");
                assert!(found.older.is_none() || found.older == older, "{policy:?}");
                let report = check_all(&misplaced);
                assert!(report.problems.iter().all(|problem| !problem.loses_data), "{policy:?}");
                assert_eq!(report.problems.len(), 2, "{policy:?}: {:?}", report.problems);
                let pool = open(&misplaced.disks(), tuning()).unwrap();
                assert!(!pool.is_read_only() && pool.damage().len() == 2, "{:?}", pool.damage());
                pool.close().unwrap();
                let report = check_all(&misplaced);
                assert!(report.is_clean(), "{policy:?}: {:?}", report.problems);
            }
        }
    }
}
