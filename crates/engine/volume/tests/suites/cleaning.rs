//! Pools that compress and are nearly full: blocks of which a part was freed are used again.

use crate::common::repeat::Repeat;
use crate::common::simulated::Simulation;
use crate::common::{BLOCK, COMPRESSIONS, flush, open, options_with, read, trim, write};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_format::{Compression, DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::sync::Arc;

const BYTES: usize = BLOCK;
/// Blocks of the data store. In a much smaller one there would be too little room to move many
/// contents at once.
const BLOCKS: u64 = 8_000;
/// Contents are written in lists of this many.
const AT_ONCE: u64 = 8;

/// Makes a content of which this share in eighths does not compress.
fn content(id: u64, eighths: usize) -> Vec<u8> {
    let mut random = Random::new(id);
    let mut content: Vec<u8> = (0..BYTES * eighths / 8).map(|_| random.next_u64() as u8).collect();
    content.resize(BYTES, id as u8);
    content
}

fn pool_of(policy: Policy, compression: Compression) -> PoolOptions {
    PoolOptions {
        compression: Some(compression),
        block_bytes: BYTES as u32,
        capacity_bytes: BLOCKS * BYTES as u64,
        journal_bytes: Some(1 << 20),
        ..options_with(policy, BLOCKS)
    }
}

fn tuning() -> Tuning {
    Tuning { write_buffer_bytes: 1 << 20, ..crate::common::tuning() }
}

/// A volume and the contents that it must have.
struct Aged {
    volume: Volume,
    ids: Vec<u64>,
    eighths: fn(u64) -> usize,
}

impl Aged {
    fn write(&mut self, lbn: usize, id: u64) -> Result<(), DeviceError> {
        let written = write(&self.volume, (lbn * BYTES) as u64, &content(id, (self.eighths)(id)));
        if written.is_ok() {
            self.ids[lbn] = id;
        }
        written
    }

    /// Overwrites blocks at random, and flushes now and then.
    fn overwrite(&mut self, random: &mut Random, writes: u64) {
        for number in 0..writes {
            let lbn = random.below(self.ids.len() as u64) as usize;
            let written = self.write(lbn, 1 << 40 | random.next_u64() >> 24);
            assert!(written.is_ok(), "write {number} of {writes}: {written:?}");
            if number % (4 * AT_ONCE) == 0 {
                flush(&self.volume).unwrap();
            }
        }
    }

    fn check(&self) {
        for (lbn, id) in (0..).zip(&self.ids).filter(|(_, id)| **id > 0) {
            let found = read(&self.volume, lbn * BYTES as u64, BYTES).unwrap();
            assert!(found == content(*id, (self.eighths)(*id)), "block {lbn}");
        }
    }
}

/// Makes a volume that takes this share of the bytes of its pool, in percent.
fn filled(pool: &Pool, percent: u64, eighths: fn(u64) -> usize) -> Aged {
    // More than a pool of this size can have.
    let most = 7 * BLOCKS;
    pool.create_volume("a", most * BYTES as u64, DedupMode::Off).unwrap();
    let volume = pool.volume("a").unwrap();
    let mut aged = Aged { volume, ids: vec![0; most as usize], eighths };
    let mut written = 0;
    while written % 64 > 0 || pool.stat().unwrap().used_blocks * 100 < BLOCKS * percent {
        aged.write(written, written as u64 + 1).unwrap();
        written += 1;
    }
    aged.ids.truncate(written);
    flush(&aged.volume).unwrap();
    aged
}

fn half(_: u64) -> usize {
    4
}

/// From an eighth to seven eighths, which does not shrink enough to be packed.
fn mixed(id: u64) -> usize {
    1 + (id % 7) as usize
}

fn check_from_outside(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Overwrites a pool that is full to this share, many times its size. Returns the bytes that were
/// written for each byte of new contents.
fn age(
    (seed, policy): (u64, Policy),
    (percent, eighths): (u64, fn(u64) -> usize),
    times: u64,
) -> f64 {
    let _repeat = Repeat::of(seed);
    let simulation = Simulation::new(seed);
    let compression = COMPRESSIONS[seed as usize % 2];
    Pool::format(&simulation.disks(), &pool_of(policy, compression)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut random = Random::new(seed);
    let mut aged = filled(&pool, percent, eighths);
    let before = pool.stat().unwrap().activity;
    let writes = times * aged.ids.len() as u64;
    aged.overwrite(&mut random, writes);
    flush(&aged.volume).unwrap();
    aged.check();
    let stat = pool.stat().unwrap();
    assert_eq!(stat.physical_blocks, aged.ids.len() as u64);
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
    let new = stat.activity.packed_bytes - before.packed_bytes;
    let moved = stat.activity.cleaner_moved_bytes - before.cleaner_moved_bytes;
    assert!(stat.activity.cleaned_blocks > 0, "nothing was cleaned");
    drop(aged);
    pool.close().unwrap();
    check_from_outside(&simulation);
    (new + moved) as f64 / new as f64
}

#[test]
fn a_pool_at_95_percent_of_its_bytes_never_refuses_overwrites() {
    let _ = age((0, Policy::Compact), (95, half), 1);
}

#[test]
fn a_pool_with_contents_of_all_sizes_never_refuses_overwrites() {
    for (seed, policy) in (0..).zip(Policy::ALL) {
        let _ = age((seed, policy), (93, mixed), 1);
    }
}

/// The bounds are above what was measured, and far below what cleaning without a choice would cost.
#[test]
fn the_cost_of_cleaning_grows_as_the_pool_fills() {
    for (percent, most, times) in [(70, 2.5, 2), (80, 4.5, 2), (90, 9.0, 2), (95, 40.0, 1)] {
        let amplification = age((1, Policy::Compact), (percent, half), times);
        eprintln!("{percent} % full: {amplification:.2} bytes are written for each new one");
        assert!(amplification < most, "{percent} % full: {amplification:.2}");
    }
}

/// Contents that do not shrink fill the store to its last blocks. Only a removal makes room then.
#[test]
fn a_pool_whose_bytes_are_used_refuses_writes_and_serves_again_after_a_removal() {
    let simulation = Simulation::new(3);
    Pool::format(&simulation.disks(), &pool_of(Policy::Compact, Compression::Lz4)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut aged = filled(&pool, 90, half);
    // New contents need bytes that no overwritten one gives back.
    let (mut lbn, last) = (aged.ids.len(), 7 * BLOCKS as usize);
    aged.ids.resize(last, 0);
    while lbn < last && aged.write(lbn, lbn as u64 + 1).is_ok() {
        lbn += 1;
    }
    let stored = pool.stat().unwrap();
    assert_eq!(stored.physical_blocks, lbn as u64);
    // 276 bytes of a content, with its head, and 16 of each block.
    let used_bytes = lbn as u64 * 276 + stored.used_blocks * 16;
    assert!(used_bytes * 100 > BLOCKS * BYTES as u64 * 95, "{used_bytes} bytes are used");
    aged.check();
    trim(&aged.volume, 0, 400 * BYTES as u64).unwrap();
    aged.ids[..400].fill(0);
    flush(&aged.volume).unwrap();
    for lbn in 0..300 {
        aged.write(lbn, 1 << 50 | lbn as u64).unwrap();
    }
    aged.check();
    drop(aged);
    pool.close().unwrap();
    check_from_outside(&simulation);
}

/// Of each block a half is freed, and a snapshot shares the other one.
#[test]
fn contents_that_a_snapshot_has_as_well_give_way_to_writes() {
    for policy in Policy::ALL {
        let simulation = Simulation::new(3);
        Pool::format(&simulation.disks(), &pool_of(policy, Compression::Lz4)).unwrap();
        let pool = open(&simulation.disks(), tuning()).unwrap();
        let mut a = filled(&pool, 90, half);
        let written = a.ids.len();
        for lbn in (1..written).step_by(2) {
            trim(&a.volume, (lbn * BYTES) as u64, BYTES as u64).unwrap();
            a.ids[lbn] = 0;
        }
        flush(&a.volume).unwrap();
        pool.snapshot_volume("a", "s").unwrap();
        let snapshot = pool.volume("s").unwrap();
        let mut s = Aged { volume: snapshot, ids: a.ids.clone(), eighths: half };
        for lbn in (1..written * 3 / 4).step_by(2) {
            let made = a.write(lbn, 1 << 40 | lbn as u64);
            assert!(made.is_ok(), "{policy:?}: write {lbn} of {written}: {made:?}");
        }
        flush(&a.volume).unwrap();
        assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
        a.check();
        s.check();
        let after = simulation.after_worst_crash();
        let pool = open(&after.disks(), tuning()).unwrap();
        for (name, aged) in [("a", &mut a), ("s", &mut s)] {
            aged.volume = pool.volume(name).unwrap();
            aged.check();
        }
        drop((a, s));
        pool.close().unwrap();
        check_from_outside(&after);
    }
}

/// Writers, the cleaner's thread and the finder at once. Debug builds check the order of all locks.
#[test]
fn writers_and_the_thread_of_the_cleaner_work_side_by_side() {
    const WRITERS: u64 = 3;
    const WRITES: u64 = 6_000;
    let simulation = Simulation::new(11);
    Pool::format(&simulation.disks(), &pool_of(Policy::Compact, Compression::Lz4)).unwrap();
    let tuning = Tuning { background: true, ..tuning() };
    let pool = Pool::open_disks(simulation.disks(), tuning, Arc::new(SystemClock::new())).unwrap();
    // Two contents of each block, nearly.
    let blocks = BLOCKS * 17 / 10 * 9 / 10 / WRITERS;
    let names: Vec<String> = (0..WRITERS).map(|number| format!("v{number}")).collect();
    for (name, mode) in names.iter().zip([DedupMode::Off, DedupMode::Inline, DedupMode::Offline]) {
        pool.create_volume(name, blocks * BYTES as u64, mode).unwrap();
    }
    std::thread::scope(|scope| {
        for (number, name) in (0..).zip(&names) {
            let volume = pool.volume(name).unwrap();
            scope.spawn(move || {
                let mut random = Random::new(number);
                let ids = vec![0; blocks as usize];
                let mut aged = Aged { volume, ids, eighths: half };
                for lbn in 0..blocks as usize {
                    aged.write(lbn, (number + 1) << 32 | lbn as u64).unwrap();
                }
                aged.overwrite(&mut random, WRITES);
                aged.check();
            });
        }
    });
    assert!(pool.stat().unwrap().activity.cleaned_blocks > 0, "nothing was cleaned");
    pool.close().unwrap();
    check_from_outside(&simulation);
}
