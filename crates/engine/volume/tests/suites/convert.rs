//! The metadata move to another backend while the pool is written: contents and clones stay, a
//! crash finds the old backend or the new one, and a stop finds the old one.

use crate::common::bytes::Bytes;
use crate::common::simulated::{Fault, Simulation};
use crate::common::{BLOCK, content, flush, open, options_with, read, trim, tuning, write};
use gemelo_base::random::Random;
use gemelo_base::{Monitor, Silent, StopFlag, Unit};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{BackendKind, DedupMode};
use gemelo_volume::{Pool, PoolOptions, VolumeError};
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks of the volumes.
const BLOCKS: u64 = 600;
const SIZE: usize = BLOCKS as usize * BLOCK;

fn pairs() -> impl Iterator<Item = (BackendKind, BackendKind)> {
    let all = BackendKind::ALL.into_iter();
    all.flat_map(|from| BackendKind::ALL.map(|to| (from, to))).filter(|(from, to)| from != to)
}

/// The ids of the contents of a volume.
type Ids = Vec<u64>;

fn bytes(ids: &[u64]) -> Vec<u8> {
    ids.iter().flat_map(|id| content(*id, BLOCK)).collect()
}

/// Overwrites some blocks, and trims some.
fn change(pool: &Pool, name: &str, ids: &mut Ids, random: &mut Random) {
    let volume = pool.volume(name).unwrap();
    let first = random.below(BLOCKS - 8);
    let fresh: Ids = (0..8).map(|_| 1 + random.below(2000)).collect();
    let is_trimmed = random.below(4) == 0;
    let place = first as usize..first as usize + 8;
    if is_trimmed {
        trim(&volume, first * BLOCK as u64, 8 * BLOCK as u64).unwrap();
        ids[place].fill(0);
    } else {
        write(&volume, first * BLOCK as u64, &bytes(&fresh)).unwrap();
        ids[place].copy_from_slice(&fresh);
    }
}

fn convert(pool: &Pool, to: BackendKind) -> Result<(), VolumeError> {
    pool.convert(to, &Silent, &StopFlag::new())
}

fn check_is_clean(simulation: &Simulation) {
    let options = CheckOptions { data: true };
    let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// A pool with a volume, two snapshots and a clone, each with contents of its own.
fn pool_of(backend: BackendKind) -> (Simulation, Pool, Vec<(&'static str, Ids)>) {
    let simulation = Simulation::new(1);
    let options = PoolOptions { journal_bytes: Some(1 << 20), ..options_with(backend, 6000) };
    Pool::format(&simulation.disks(), &options).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    let mut random = Random::new(7);
    let mut ids: Ids = (0..BLOCKS).map(|lbn| 1 + lbn % 500).collect();
    pool.create_volume("a", SIZE as u64, DedupMode::Inline).unwrap();
    write(&pool.volume("a").unwrap(), 0, &bytes(&ids)).unwrap();
    let mut all = Vec::new();
    for name in ["older", "newer"] {
        pool.snapshot_volume("a", name).unwrap();
        all.push((name, ids.clone()));
        (0..5).for_each(|_| change(&pool, "a", &mut ids, &mut random));
    }
    pool.clone_volume("a", "clone").unwrap();
    let mut of_clone = ids.clone();
    (0..5).for_each(|_| change(&pool, "clone", &mut of_clone, &mut random));
    all.extend([("a", ids), ("clone", of_clone)]);
    pool.flush().unwrap();
    (simulation, pool, all)
}

fn compare(pool: &Pool, all: &[(&'static str, Ids)]) {
    for (name, ids) in all {
        let found = read(&pool.volume(name).unwrap(), 0, SIZE).unwrap();
        assert!(found == bytes(ids), "{name} has other contents");
    }
    assert_eq!(pool.prove(9).unwrap(), Vec::<String>::new());
}

#[test]
fn a_pool_is_converted_while_it_is_written() {
    for (from, to) in pairs() {
        let (simulation, pool, mut all) = pool_of(from);
        let mut random = Random::new(11);
        std::thread::scope(|scope| {
            let pool = &pool;
            let moving = scope.spawn(move || convert(pool, to));
            let mut turn = 0;
            while !moving.is_finished() {
                for (name, ids) in all.iter_mut().filter(|(name, _)| ["a", "clone"].contains(name))
                {
                    change(pool, name, ids, &mut random);
                }
                pool.snapshot_volume("clone", &format!("s{turn}")).unwrap();
                if turn > 0 {
                    pool.remove_volume(&format!("s{}", turn - 1)).unwrap();
                }
                flush(&pool.volume("a").unwrap()).unwrap();
                turn += 1;
            }
            moving.join().unwrap().unwrap();
        });
        assert_eq!(pool.stat().unwrap().backend, to);
        compare(&pool, &all);
        change(&pool, "a", &mut all[2].1, &mut random);
        pool.close().unwrap();
        check_is_clean(&simulation);
        let pool = open(&simulation.disks(), tuning()).unwrap();
        assert_eq!(pool.stat().unwrap().backend, to);
        compare(&pool, &all);
    }
}

#[test]
fn a_crash_finds_the_old_backend_or_the_new_one() {
    for (from, to) in pairs() {
        let (simulation, pool, all) = pool_of(from);
        drop(pool);
        let images = simulation.after_kill().images().map(Bytes::from);
        let (mut olds, mut news) = (0, 0);
        for calls in 1.. {
            let simulation = Simulation::of_images(calls, images.clone());
            let pool = open(&simulation.disks(), tuning()).unwrap();
            simulation.set_fault(Fault::CrashAt(calls));
            let converted = convert(&pool, to);
            let is_over = !simulation.is_down();
            // A mark of the journal that cannot be written is no error.
            assert!(converted.is_ok() || !is_over);
            drop(pool);
            let simulation = simulation.after_crash(calls);
            check_is_clean(&simulation);
            let pool = open(&simulation.disks(), tuning()).unwrap();
            let found = pool.stat().unwrap().backend;
            assert!(found == to || found == from && converted.is_err());
            *(if found == to { &mut news } else { &mut olds }) += 1;
            compare(&pool, &all);
            pool.close().unwrap();
            check_is_clean(&simulation);
            if is_over {
                break;
            }
        }
        assert!(olds > 2 && news > 1, "{from:?} to {to:?}: {olds} crashes before, {news} after");
    }
}

#[test]
fn a_stop_leaves_the_old_backend_and_its_space() {
    for (from, to) in pairs() {
        let (simulation, pool, all) = pool_of(from);
        pool.checkpoint().unwrap();
        let before = pool.stat().unwrap();
        let stop = StopFlag::new();
        stop.raise();
        let stopped = pool.convert(to, &Silent, &stop);
        assert!(matches!(stopped, Err(VolumeError::Interrupted)), "{stopped:?}");
        let after = pool.stat().unwrap();
        assert_eq!((after.backend, after.metadata_used_bytes), (from, before.metadata_used_bytes));
        compare(&pool, &all);
        // The next run has all the space again.
        convert(&pool, to).unwrap();
        convert(&pool, to).unwrap();
        compare(&pool, &all);
        pool.close().unwrap();
        check_is_clean(&simulation);
    }
}

/// Sums up the progress, and tries to convert the pool meanwhile.
struct Second<'p> {
    pool: &'p Pool,
    to: BackendKind,
    copied: AtomicU64,
}

impl Monitor for Second<'_> {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, amount: u64) {
        self.copied.fetch_add(amount, Ordering::Relaxed);
        assert!(matches!(convert(self.pool, self.to), Err(VolumeError::Moving)));
    }
    fn warn(&self, _message: &str) {}
    fn log(&self, _message: &str) {}
    fn finish(&self) {}
}

#[test]
fn a_second_conversion_is_refused_and_the_progress_counts_blocks() {
    let (_, pool, _) = pool_of(BackendKind::Log);
    let to = BackendKind::Compact;
    let second = Second { pool: &pool, to, copied: AtomicU64::new(0) };
    pool.convert(to, &second, &StopFlag::new()).unwrap();
    let copied = second.copied.into_inner();
    // Three of four volumes are copied as what differs: ten changes of eight blocks at most.
    assert!((BLOCKS - 80..=BLOCKS + 160).contains(&copied), "{copied} blocks");
}

/// The new backend shares the parts of maps that snapshots and clones share.
#[test]
fn clones_take_no_more_after_they_went_there_and_back() {
    let sharing = BackendKind::ALL.into_iter().filter(|kind| *kind != BackendKind::BTree);
    for (from, to) in sharing.clone().flat_map(|from| sharing.clone().map(move |to| (from, to))) {
        let (_, pool, all) = pool_of(from);
        (0..100).for_each(|number| pool.snapshot_volume("a", &format!("s{number}")).unwrap());
        pool.checkpoint().unwrap();
        let before = pool.stat().unwrap().metadata_used_bytes;
        convert(&pool, to).unwrap();
        convert(&pool, from).unwrap();
        pool.checkpoint().unwrap();
        let after = pool.stat().unwrap().metadata_used_bytes;
        assert!(after <= before + before / 4, "{from:?} to {to:?}: {before} bytes, then {after}");
        compare(&pool, &all);
    }
}
