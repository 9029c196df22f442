//! Runs of garbage of up to 1 MiB, anywhere on the metadata disk of a closed pool and of one that
//! was killed: nothing that was flushed is lost, the damage is found, and a repair restores the
//! copies. A pool that has lost all copies of its own heads is damaged.

use crate::common::repeat::Repeat;
use crate::common::shape::superblock_of;
use crate::common::simulated::{DATA, METADATA, Simulation};
use crate::common::{
    BLOCK, content, first_seed, flush, open, options_with, read, rounds, tuning, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Classified, FailureKind, Silent, StopFlag};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_format::{DedupMode, MAX_DAMAGED_BYTES, PAGE_BYTES, Policy, RingPiece, Superblock};
use gemelo_store::PoolDisks;
use gemelo_volume::{LossChoice, Pool, RepairOptions, RepairPlan, repair, repair_outlook};
use std::collections::BTreeSet;

const LENGTHS: [usize; 4] = [8 << 10, 100 << 10, 512 << 10, MAX_DAMAGED_BYTES as usize];
/// Distance of the LBNs that are written. Each has a page of its own in the maps of `log` and
/// `ram`.
const STRIDE: u64 = 512;
/// Blocks that are written. Their map pages fill more than one group of slots.
const WRITTEN: u64 = 300;
/// Blocks that are written again after the last checkpoint.
const WRITTEN_AGAIN: u64 = 20;

fn offset_of(number: u64) -> u64 {
    number * STRIDE * BLOCK as u64
}

/// The content of a block: that of the last write.
const fn content_of(number: u64, is_closed: bool) -> u64 {
    if number < WRITTEN_AGAIN && !is_closed { 1000 + number } else { 1 + number % 250 }
}

/// The disks of a pool that was closed, or of one that was killed with commits in its journal.
fn images(policy: Policy, is_closed: bool) -> [Vec<u8>; 2] {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options_with(policy, 600)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", offset_of(WRITTEN), DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    let put = |number| {
        let bytes = content(content_of(number, true), BLOCK);
        write(&volume, offset_of(number), &bytes).unwrap();
    };
    (0..WRITTEN / 2).for_each(put);
    pool.checkpoint().unwrap();
    (WRITTEN / 2..WRITTEN).for_each(put);
    pool.checkpoint().unwrap();
    if is_closed {
        drop(volume);
        pool.close().unwrap();
        return simulation.images();
    }
    for number in 0..WRITTEN_AGAIN {
        write(&volume, offset_of(number), &content(content_of(number, false), BLOCK)).unwrap();
        flush(&volume).unwrap();
    }
    simulation.images()
}

fn check_data(disks: &PoolDisks) -> CheckReport {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).unwrap()
}

/// Opens the pool and reads all blocks back.
fn expect_whole(disks: &PoolDisks, is_closed: bool, what: &str) {
    let pool = open(disks, tuning()).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(!pool.is_read_only(), "{what}: {:?}", pool.damage());
    let volume = pool.volume("a").unwrap();
    for number in 0..WRITTEN {
        let found = read(&volume, offset_of(number), BLOCK);
        let found = found.unwrap_or_else(|error| panic!("{what}: block {number}: {error}"));
        assert!(found == content(content_of(number, is_closed), BLOCK), "{what}: block {number}");
    }
    write(&volume, 0, &content(5000, BLOCK)).unwrap();
    flush(&volume).unwrap();
    assert_eq!(pool.prove(5).unwrap(), Vec::<String>::new(), "{what}");
}

/// The first bytes of runs of this length that begin or end where a region does.
fn places(metadata: &[u8], length: usize) -> BTreeSet<usize> {
    let regions = superblock_of(metadata).regions();
    let mut edges: Vec<u64> = Superblock::offsets().to_vec();
    edges.extend(edges.clone().into_iter().map(|head| head + 4 * PAGE_BYTES as u64));
    for RingPiece { bytes, offsets } in regions.ring(0, regions.ring_bytes() as usize) {
        edges.extend(offsets.iter().flat_map(|at| [*at, at + bytes.len() as u64]));
    }
    edges.extend([regions.fixed_bytes(), metadata.len() as u64]);
    let around = edges.into_iter().map(|edge| edge as usize).flat_map(|edge| {
        [Some(edge), edge.checked_sub(length), edge.checked_sub(length / 2), edge.checked_sub(1)]
    });
    around.flatten().filter(|at| at + length <= metadata.len()).collect()
}

/// Overwrites a run of the metadata with garbage. Everything that was flushed is there without a
/// repair, and after one nothing is damaged any more.
fn burst(images: &[Vec<u8>; 2], is_closed: bool, at: usize, length: usize, what: &str) {
    let what = format!("{what}: {length} bytes at {at}");
    let mut images = images.clone();
    let mut random = Random::new(at as u64);
    // The rest of a page that is in use may be zeros.
    let pages = at / PAGE_BYTES * PAGE_BYTES..(at + length).next_multiple_of(PAGE_BYTES);
    let pages = pages.start..pages.end.min(images[METADATA].len());
    let is_used = images[METADATA][pages].iter().any(|byte| *byte != 0);
    let run = &mut images[METADATA][at..at + length];
    let has_head = Superblock::offsets().into_iter().any(|head| head as usize == at);
    run.fill_with(|| random.next_u64() as u8);
    let damaged = Simulation::of_images(1, images.clone());
    let report = check_data(&damaged.disks());
    let loses = report.problems.iter().find(|problem| problem.loses_data);
    assert!(loses.is_none(), "{what}: {loses:?}");
    assert!(is_used || report.is_clean(), "{what}: {:?}", report.problems);
    assert!(!has_head || !report.is_clean(), "{what}: a damaged head is not reported");
    expect_whole(&damaged.disks(), is_closed, &format!("{what}, without a repair"));

    let damaged = Simulation::of_images(1, images);
    let disks = damaged.disks();
    let outlook = repair_outlook(&disks, true, &Silent, &StopFlag::new()).unwrap();
    assert!(outlook.lost_history.is_none(), "{what}");
    let options = RepairOptions { data: true, choice: LossChoice::RollBack };
    let plan = repair(&disks, options, &Silent, &StopFlag::new())
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(plan, RepairPlan::default(), "{what}: a repair gives up nothing");
    let report = check_data(&disks);
    assert!(report.is_clean(), "{what}: after the repair {:?}", report.problems);
    expect_whole(&disks, is_closed, &format!("{what}, repaired"));
}

fn bursts(policy: Policy) {
    for is_closed in [true, false] {
        let images = images(policy, is_closed);
        let what = format!("{policy:?}, {}", if is_closed { "closed" } else { "killed" });
        let report = check_data(&Simulation::of_images(1, images.clone()).disks());
        assert!(report.is_clean(), "{what}: {:?}", report.problems);
        for length in LENGTHS {
            for at in places(&images[METADATA], length) {
                burst(&images, is_closed, at, length, &what);
            }
        }
        for seed in first_seed()..first_seed() + rounds(10) {
            let _repeat = Repeat::of(seed);
            let mut random = Random::new(seed);
            let length = 1 + random.below(MAX_DAMAGED_BYTES) as usize;
            let at = random.below((images[METADATA].len() - length) as u64) as usize;
            burst(&images, is_closed, at, length, &what);
        }
    }
}

gemelo_format::test_each_policy!(no_burst_in_the_metadata_loses_what_was_flushed, bursts);

/// The bytes of the disks at which the pool's own heads are: of the superblock, and of the header
/// of the data store.
fn heads(images: &[Vec<u8>; 2]) -> [Vec<usize>; 2] {
    let superblock = superblock_of(&images[METADATA]);
    let copy = superblock.header_copy.map(|pbn| pbn.index() * BLOCK);
    let superblocks = Superblock::offsets().map(|offset| offset as usize);
    [std::iter::once(0).chain(copy).collect(), superblocks.to_vec()]
}

/// Either disk tells that there is a pool. Without all heads of one disk the pool is damaged and
/// nothing is written to it, whether these are overwritten or cut off; without all heads of both
/// there is no pool.
#[test]
fn a_pool_without_all_heads_of_a_disk_is_damaged_and_not_absent() {
    let kinds = |images: &[Vec<u8>; 2]| {
        let simulation = Simulation::of_images(1, images.clone());
        let (disks, stop) = (simulation.disks(), StopFlag::new());
        let options = RepairOptions { data: true, choice: LossChoice::RollBack };
        let all = [
            open(&disks, tuning()).map(drop).unwrap_err().kind(),
            check(&disks, CheckOptions { data: true }, &Silent, &stop).unwrap_err().kind(),
            repair(&disks, options, &Silent, &stop).unwrap_err().kind(),
        ];
        assert!(simulation.images() == *images, "nothing is written");
        all
    };
    for policy in Policy::ALL {
        let whole = images(policy, true);
        let heads = heads(&whole);
        let without = |which: usize, images: &mut [Vec<u8>; 2]| {
            for at in &heads[which] {
                images[which][*at..*at + 100].fill(0xA5);
            }
        };
        for which in [DATA, METADATA] {
            let mut images = whole.clone();
            without(which, &mut images);
            assert_eq!(kinds(&images), [FailureKind::Damaged; 3], "{policy:?}, disk {which}");
            images[which].truncate(100);
            assert_eq!(kinds(&images), [FailureKind::Damaged; 3], "{policy:?}, cut off {which}");
        }
        let mut images = whole.clone();
        [DATA, METADATA].into_iter().for_each(|which| without(which, &mut images));
        assert_eq!(kinds(&images), [FailureKind::BadInput; 3], "{policy:?}, neither");
    }
}
