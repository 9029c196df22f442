//! A repair of a pool whose policy is for large ones: it takes the memory that it is given, and
//! leaves what is whole where it is.

use crate::common::shape::{twins, used_pages};
use crate::common::simulated::Simulation;
use crate::common::{content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_disk::FileDisk;
use gemelo_disk::testing::{SyntheticDisk, synthesize};
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, PoolOptions, RepairOptions, Tuning, repair, repair_outlook_within,
    repair_within,
};
use std::sync::Arc;

const PAGE: usize = 4096;
const BLOCK: usize = crate::common::BLOCK;

fn assert_clean(disks: &PoolDisks, what: &str) {
    let report = check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{what}: {:?}", report.problems);
}

/// A line of the process's memory.
fn memory_bytes(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// The memory that some work takes at most.
fn peak_of(work: impl FnOnce()) -> u64 {
    let before = memory_bytes("VmRSS");
    // Begins a new peak.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    work();
    memory_bytes("VmHWM").saturating_sub(before)
}

#[test]
fn a_repair_takes_the_memory_that_it_is_given() {
    const BLOCKS: u64 = 300_000;
    const AT_ONCE: u64 = 512;
    const MEMORY: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let metadata = FileDisk::create(&folder.path().join("metadata")).unwrap();
    let disks = PoolDisks::new(Arc::new(SyntheticDisk::new(PAGE)), Arc::new(metadata));
    let options = PoolOptions {
        block_bytes: PAGE as u32,
        capacity_bytes: 2 * BLOCKS * PAGE as u64,
        policy: Policy::Compact,
        ..PoolOptions::default()
    };
    Pool::format(&disks, &options).unwrap();
    let pool = open(&disks, Tuning { write_buffer_bytes: 4 << 20, ..tuning() }).unwrap();
    pool.create_volume("a", BLOCKS * PAGE as u64, DedupMode::Inline).unwrap();
    let mut buffer = vec![0; AT_ONCE as usize * PAGE];
    for first in (0..BLOCKS).step_by(AT_ONCE as usize) {
        let numbers = first as u32..;
        numbers.zip(buffer.chunks_mut(PAGE)).for_each(|(number, block)| synthesize(number, block));
        let count = AT_ONCE.min(BLOCKS - first) as usize;
        write(&pool.volume("a").unwrap(), first * PAGE as u64, &buffer[..count * PAGE]).unwrap();
    }
    pool.snapshot_volume("a", "b").unwrap();
    pool.close().unwrap();
    let repair_options = RepairOptions { data: true, choice: LossChoice::RollBack };
    let peak = peak_of(|| {
        let (silent, stop) = (Silent, StopFlag::new());
        repair_outlook_within(MEMORY, &disks, true, &silent, &stop).unwrap();
        repair_within(MEMORY, &disks, repair_options, &silent, &stop).unwrap();
    });
    // A word of the map alone takes 30 bytes for each block where all is in memory.
    assert!(peak < 16 * MEMORY, "{peak} bytes");
    assert_clean(&disks, "after the repair");
}

/// A pool of the volume `a` and snapshots of it, each with a block of its own.
fn pool_with_snapshots(policy: Policy) -> [Vec<u8>; 2] {
    let simulation = Simulation::new(1);
    let options = options_with(policy, 10_000);
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let all: Vec<u8> = (1..=BLOCKS).flat_map(|id| content(id, BLOCK)).collect();
    write(&pool.volume("a").unwrap(), 0, &all).unwrap();
    for number in 0..SNAPSHOTS {
        pool.clone_volume("a", &name(number)).unwrap();
        let volume = pool.volume(&name(number)).unwrap();
        write(&volume, own_block(number) * BLOCK as u64, &content(OWN + number, BLOCK)).unwrap();
    }
    pool.close().unwrap();
    simulation.images()
}

const BLOCKS: u64 = 1600;
const SNAPSHOTS: u64 = 6;
/// The first content of a snapshot alone.
const OWN: u64 = 100_000;

fn name(number: u64) -> String {
    format!("s{number}")
}

const fn own_block(number: u64) -> u64 {
    number * 211 % BLOCKS
}

/// Compares all volumes. Returns the number of lost blocks.
fn lost_blocks(pool: &Pool, what: &str) -> u64 {
    let mut lost = 0;
    let mut compare = |name: &str, own: Option<(u64, u64)>| {
        let volume = pool.volume(name).unwrap();
        for lbn in 0..BLOCKS {
            let id = own.filter(|(at, _)| *at == lbn).map_or(lbn + 1, |(_, id)| id);
            match read(&volume, lbn * BLOCK as u64, BLOCK) {
                Ok(found) => assert!(found == content(id, BLOCK), "{what}: {lbn} of {name}"),
                Err(DeviceError::Damaged { .. }) => lost += 1,
                Err(error) => panic!("{what}: {error}"),
            }
        }
    };
    compare("a", None);
    for number in 0..SNAPSHOTS {
        compare(&name(number), Some((own_block(number), OWN + number)));
    }
    lost
}

#[test]
fn maps_that_lose_a_page_still_share_the_others() {
    for policy in [Policy::Dtb, Policy::Compact] {
        let images = pool_with_snapshots(policy);
        let disks = Simulation::of_images(1, images.clone()).disks();
        let before = open(&disks, tuning()).unwrap().stat().unwrap();
        let used = used_pages(&images[1]);
        let (mut with_loss, mut repaired) = (0, 0);
        for pair in twins(&images[1]) {
            if !pair.iter().any(|offset| used.contains(&(offset / PAGE))) {
                continue;
            }
            let what = format!("{policy:?}, pages {pair:?}");
            let mut images = images.clone();
            pair.iter().for_each(|offset| images[1][offset + 100] ^= 1);
            let disks = Simulation::of_images(1, images).disks();
            let options = RepairOptions { data: false, choice: LossChoice::RollBack };
            if repair(&disks, options, &Silent, &StopFlag::new()).is_err() {
                continue;
            }
            assert_clean(&disks, &what);
            let pool = open(&disks, tuning()).unwrap();
            assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new(), "{what}");
            let Ok(_) = pool.volume("a") else { continue };
            let after = pool.stat().unwrap();
            // Maps that share nothing have 24 leaves more. A lost one that all share gives 7.
            let most = before.metadata_used_bytes + (12 * 2 * PAGE) as u64;
            assert!(after.metadata_used_bytes <= most, "{what}: {after:?}");
            with_loss += u64::from(lost_blocks(&pool, &what) > 0);
            repaired += 1;
        }
        assert!(with_loss > 10 && repaired > with_loss, "{with_loss} of {repaired}");
    }
}
