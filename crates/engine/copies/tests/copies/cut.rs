//! What differs between volumes whose ends move: blocks behind the end of the earlier one are new,
//! whatever a cut has left there, and a cut during a comparison ends it.

use super::common::repeat::Repeat;
use super::common::simulated::{Fault, Simulation};
use super::common::{BLOCK, content, open, options, tuning, write};
use gemelo_base::StopFlag;
use gemelo_format::DedupMode;
use gemelo_volume::{DifferenceKind, Pool, Tuning};
use std::sync::atomic::{AtomicBool, Ordering};

/// More blocks than one change unmaps.
const BLOCKS: u64 = 3000;
/// Entries of a page of a map.
const LEAF: u64 = 512;

fn bytes(blocks: u64) -> u64 {
    blocks * BLOCK as u64
}

/// A crash during a cut leaves blocks in the map until a pool is opened to be changed.
#[test]
fn blocks_behind_the_end_of_the_earlier_volume_are_new() {
    let made = Simulation::new(1);
    Pool::format(&made.disks(), &options(8000)).unwrap();
    let pool = open(&made.disks(), tuning()).unwrap();
    pool.create_volume("v", bytes(BLOCKS), DedupMode::Inline).unwrap();
    let contents: Vec<u8> = (1..=BLOCKS).flat_map(|id| content(id, BLOCK)).collect();
    write(&pool.volume("v").unwrap(), 0, &contents).unwrap();
    pool.snapshot_volume("v", "whole").unwrap();
    pool.close().unwrap();
    let mut left = 0;
    for at in 1.. {
        let _repeat = Repeat::of(at);
        let disks = Simulation::of_images(at, made.images());
        let pool = open(&disks.disks(), tuning()).unwrap();
        disks.set_fault(Fault::CrashAt(at));
        let is_cut = pool.resize_volume("v", bytes(10)).is_ok();
        drop(pool);
        let is_over = !disks.is_down();
        let after = if is_over { disks.after_kill() } else { disks.after_crash(at) };
        let reading = Tuning { read_only: true, ..tuning() };
        let pool = open(&after.disks(), reading).unwrap();
        let volumes = pool.volumes();
        let v = volumes.iter().find(|volume| volume.record.name == "v").unwrap();
        let found = pool.differing_ranges("whole", "v", 0..u64::MAX, (99, &StopFlag::new()));
        let kinds: Vec<_> = found
            .unwrap()
            .ranges
            .iter()
            .map(|range| (range.offset_bytes, range.length_bytes, range.kind))
            .collect();
        if v.record.size_bytes == bytes(10) {
            left += u64::from(v.mapped_blocks > 10);
            assert_eq!(kinds, [(bytes(10), bytes(BLOCKS - 10), DifferenceKind::New)]);
        } else {
            assert!(!is_cut && kinds.is_empty(), "{kinds:?}");
        }
        if is_over {
            break;
        }
    }
    assert!(left > 0, "a cut was under way");
}

#[test]
fn a_volume_that_is_cut_during_a_comparison_ends_it() {
    let made = Simulation::new(1);
    Pool::format(&made.disks(), &options(3000)).unwrap();
    let pool = open(&made.disks(), tuning()).unwrap();
    let blocks = 2000 * LEAF;
    pool.create_volume("v", bytes(blocks), DedupMode::Inline).unwrap();
    pool.snapshot_volume("v", "empty").unwrap();
    let fill = || {
        let volume = pool.volume("v").unwrap();
        for leaf in 0..400 {
            write(&volume, bytes(leaf * 5 * LEAF), &content(1 + leaf, BLOCK)).unwrap();
        }
    };
    fill();
    let (is_over, stop) = (AtomicBool::new(false), StopFlag::new());
    std::thread::scope(|scope| {
        let compare = || {
            let mut short = 0;
            while !is_over.load(Ordering::Relaxed) {
                let found = pool.differing_ranges("v", "empty", 0..u64::MAX, (usize::MAX, &stop));
                let found = found.unwrap();
                assert!(found.ranges.len() <= 400, "each block once");
                short += u64::from(found.ranges.len() < 400);
                let changes = pool.changes("v", "empty").unwrap();
                // A range that is behind the end by now is refused.
                let _ = changes.extents(0, bytes(blocks), usize::MAX);
            }
            short
        };
        let comparing = [scope.spawn(compare), scope.spawn(compare)];
        for round in 0..20 {
            pool.resize_volume("v", bytes(1 + round % 7 * 100 * LEAF)).unwrap();
            pool.resize_volume("v", bytes(blocks)).unwrap();
            fill();
        }
        is_over.store(true, Ordering::Relaxed);
        let short: u64 = comparing.into_iter().map(|thread| thread.join().unwrap()).sum();
        eprintln!("{short} comparisons met a cut volume");
        assert!(short > 0);
    });
}
