//! Crashes between the writes of a root and of its copy: this damages nothing, and no damage is
//! reported.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot continue fails"
)]

mod common;

use common::hold::Call;
use common::simulated::{METADATA, Simulation};
use common::{BLOCK, content, open, options_with, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{
    BackendKind, DedupMode, PoolSeed, Root, RootSearch, find_roots, read_superblock,
};
use gemelo_volume::Pool;

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
fn before_each_copy(backend: BackendKind) -> Vec<Simulation> {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(backend, 300)).unwrap();
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
    for backend in BackendKind::ALL {
        for (number, crashed) in before_each_copy(backend).iter().enumerate() {
            let report = check_all(crashed);
            assert!(report.is_clean(), "{backend:?}, {number}: {:?}", report.problems);
            let pool = open(&crashed.disks(), tuning()).unwrap();
            assert!(pool.damage().is_empty(), "{backend:?}, {number}: {:?}", pool.damage());
        }
    }
}

#[test]
fn the_root_before_the_newest_is_found_while_the_copy_of_an_older_one_is_there() {
    for crashed in before_each_copy(BackendKind::Log) {
        let RootSearch { newest, older, .. } = roots(&crashed);
        assert_eq!(older.map(|older| older.generation), Some(newest.generation - 1));
    }
}

#[test]
fn a_damaged_root_and_a_damaged_copy_are_reported() {
    for crashed in before_each_copy(BackendKind::Log) {
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
