//! Damage to the pages of counts: an opening reads them, because they say which blocks are in use.
//! Those of large counts, and of maps, are read later.

use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{
    DedupMode, MANY, Policy, PoolSeed, StoreTable, Tree, find_roots, read_chain, read_superblock,
};
use gemelo_volume::{LossChoice, Pool, RepairOptions, repair};

const BLOCKS: u64 = 40;
const PAGE: u64 = 4096;
/// References to each block.
const REFERENCES: u64 = MANY as u64 + 1;
const ON_DISK: [Policy; 3] = [Policy::Dtb, Policy::Cbt, Policy::Compact];

/// A pool with a full volume, of which both copies of the root of a tree are unreadable.
fn damaged(policy: Policy, tree: impl Fn(&StoreTable) -> Tree) -> Simulation {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let bytes: Vec<u8> = (0..BLOCKS).flat_map(content_of).collect();
    write(&pool.volume("a").unwrap(), 0, &bytes).unwrap();
    pool.close().unwrap();
    let disk = simulation.disks().metadata;
    let superblock = read_superblock(&*disk, &mut Vec::new()).unwrap();
    let seed = PoolSeed::of(&superblock);
    let root = find_roots(&*disk, &superblock, seed).unwrap().newest;
    let stream = read_chain(&*disk, &superblock, &root, seed).unwrap().stream;
    let slot = tree(&StoreTable::decode(&stream).unwrap()).root.unwrap().slot;
    for offset in superblock.regions().slot(slot) {
        disk.write_at(offset, &[0xAA; PAGE as usize]).unwrap();
    }
    simulation
}

fn content_of(lbn: u64) -> Vec<u8> {
    content(1 + lbn / REFERENCES, BLOCK)
}

fn assert_intact(pool: &Pool) {
    for lbn in 0..BLOCKS {
        let bytes = read(&pool.volume("a").unwrap(), lbn * BLOCK as u64, BLOCK).unwrap();
        assert_eq!(bytes, content_of(lbn), "block {lbn}");
    }
}

fn assert_repairable(simulation: &Simulation) {
    let disks = simulation.disks();
    let report = check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    assert!(!report.is_clean());
    let options = RepairOptions { data: false, choice: LossChoice::RollBack };
    repair(&disks, options, &Silent, &StopFlag::new()).unwrap();
    let report = check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    let pool = open(&disks, tuning()).unwrap();
    assert_intact(&pool);
    write(&pool.volume("a").unwrap(), 0, &content(1000, BLOCK)).unwrap();
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
}

#[test]
fn a_pool_whose_used_blocks_are_unknown_is_open_for_reading_until_it_is_repaired() {
    for policy in ON_DISK {
        let simulation = damaged(policy, |table| table.counts);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert!(pool.is_read_only(), "{policy:?}");
        assert_intact(&pool);
        assert!(write(&pool.volume("a").unwrap(), 0, &content(1000, BLOCK)).is_err());
        drop(pool);
        assert_repairable(&simulation);
    }
}

#[test]
fn a_lost_page_of_large_counts_is_found_when_it_is_read_and_stops_writes_alone() {
    for policy in ON_DISK {
        let simulation = damaged(policy, |table| table.many);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_intact(&pool);
        assert!(write(&pool.volume("a").unwrap(), 0, &content(1000, BLOCK)).is_err());
        assert_intact(&pool);
        drop(pool);
        assert_repairable(&simulation);
    }
}

/// What a change needs is read before anything is changed. So the metadata are whole in memory, and
/// what was acknowledged becomes durable.
#[test]
fn a_change_that_needs_a_lost_page_is_refused_and_leaves_nothing_half_done() {
    for policy in ON_DISK {
        let simulation = Simulation::new(1);
        Pool::format(&simulation.disks(), &options_with(policy, 300)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        // In two leaves of the map, which an opening does not read.
        let lbns = [0, 1500];
        for name in ["a", "b"] {
            pool.create_volume(name, 2000 * BLOCK as u64, DedupMode::Inline).unwrap();
        }
        let place = |lbn: u64| lbn * BLOCK as u64;
        for lbn in lbns {
            write(&pool.volume("a").unwrap(), place(lbn), &content_of(lbn)).unwrap();
        }
        pool.close().unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        write(&pool.volume("b").unwrap(), 0, &content(1000, BLOCK)).unwrap();
        simulation.make_unreadable(METADATA, 0..u64::MAX);
        assert!(pool.remove_volume("a").is_err(), "{policy:?}");
        pool.flush().unwrap();
        let pool = open(&simulation.after_worst_crash().disks(), tuning()).unwrap();
        let [a, b] = ["a", "b"].map(|name| pool.volume(name).unwrap());
        for lbn in lbns {
            assert!(read(&a, place(lbn), BLOCK).unwrap() == content_of(lbn), "{policy:?} {lbn}");
        }
        assert!(read(&b, 0, BLOCK).unwrap() == content(1000, BLOCK), "{policy:?}");
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
    }
}
