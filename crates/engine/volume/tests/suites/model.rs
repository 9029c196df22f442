//! Random work compared with a model, with every kind of fingerprint and the settings that change
//! the path of a write.

use crate::common::aged::age;
use crate::common::driver::{Driver, Model, check_recovered};
use crate::common::repeat::Repeat;
use crate::common::scatter::ScatterStore;
use crate::common::simulated::Simulation;
use crate::common::{
    BLOCK, COMPRESSIONS, content, first_seed, flush, index_sampling, open, options, read, rounds,
    trim, tuning, write,
};
use gemelo_base::random::Random;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_format::{DedupMode, FingerprintKind, Policy};
use gemelo_store::{BlockStore, OpenStore};
use gemelo_volume::{FinderTuning, InlineOverload, Pool, PoolOptions, Tuning, Volume, VolumeError};

fn work(seed: u64, options: &PoolOptions, tuning: &Tuning, open_store: OpenStore) {
    let mut random = Random::new(seed);
    let simulation = Simulation::new(seed).with_store(open_store);
    Pool::format(&simulation.disks(), options).unwrap();
    let mut model = Model::default();
    if seed % 2 == 1 {
        age(&simulation, &mut model, &mut random, *tuning);
    }
    for _ in 0..3 {
        let pool = open(&simulation.disks(), *tuning).unwrap();
        let mut driver = Driver::new(&simulation, &pool, &mut model, &mut random);
        driver.may_fail = true;
        for _ in 0..150 {
            driver.step().unwrap();
        }
        assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "seed {seed}");
        pool.close().unwrap();
        let pool = open(&simulation.disks(), *tuning).unwrap();
        check_recovered(&pool, &mut model);
        pool.close().unwrap();
        let options = CheckOptions { data: true };
        let report = check(&simulation.disks(), options, &Silent, &StopFlag::new()).unwrap();
        assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
    }
}

#[test]
fn every_fingerprint_and_setting_keeps_to_the_model() {
    let kinds = [
        FingerprintKind::Blake3,
        FingerprintKind::Xxh3Compare,
        FingerprintKind::Sha256,
        FingerprintKind::Sha1,
    ];
    for seed in first_seed()..first_seed() + rounds(40) {
        let _repeat = Repeat::of(seed);
        let policy = Policy::ALL[seed as usize / 4 % Policy::ALL.len()];
        let options = PoolOptions { fingerprint: kinds[seed as usize % 4], policy, ..options(180) };
        let tuning = match seed % 5 {
            0 => Tuning { verify_reads: true, ..tuning() },
            1 => Tuning { verify_bytes: true, ..tuning() },
            2 => Tuning { max_references: 3, ..tuning() },
            3 => Tuning { inline_overload: InlineOverload::Defer, ..tuning() },
            _ => tuning(),
        };
        let content_cache_bytes = [16, 3, 0][(seed % 3) as usize] * BLOCK as u64;
        let tuning = Tuning {
            content_cache_bytes: Some(content_cache_bytes),
            index_sampling: index_sampling(seed / 20 % 2 == 1),
            ..tuning
        };
        // The engine must not depend on the kind of store.
        work(seed, &options, &tuning, BlockStore::open);
        work(seed, &options, &tuning, ScatterStore::open);
        let compression = Some(COMPRESSIONS[seed as usize % COMPRESSIONS.len()]);
        work(seed, &PoolOptions { compression, ..options }, &tuning, BlockStore::open);
    }
}

/// Makes a pool with one volume of 64 blocks, "a".
fn small_pool(blocks: u64) -> (Simulation, Pool, Volume) {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(blocks)).unwrap();
    let pool = open(&simulation.disks(), tuning()).unwrap();
    pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    (simulation, pool, volume)
}

#[test]
fn each_content_is_stored_once_and_zeros_never() {
    let (_simulation, pool, volume) = small_pool(100);
    let bytes: Vec<u8> =
        [1, 2, 1, 0, 1, 2, 0, 3].iter().flat_map(|id| content(*id, BLOCK)).collect();
    write(&volume, 0, &bytes).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks, stat.index_entries), (6, 3, 3));
    assert_eq!(stat.dedup_ratio(), 2.0);
    let done = volume.stat();
    assert_eq!((done.unique_blocks, done.duplicate_blocks, done.zero_blocks), (3, 3, 2));
    write(&volume, 0, &bytes).unwrap();
    assert_eq!(volume.stat().unchanged_blocks, 6, "the same again changes nothing");
    assert_eq!(pool.stat().unwrap().activity.commits, 1, "of the creation");
    write(&volume, 0, &content(9, BLOCK)).unwrap();
    let done = volume.stat();
    assert_eq!((done.cow_blocks, done.cow_shared_blocks), (1, 1), "others still refer to it");
    write(&volume, 7 * BLOCK as u64, &content(10, BLOCK)).unwrap();
    let done = volume.stat();
    assert_eq!((done.cow_blocks, done.cow_shared_blocks), (2, 1), "nothing else referred to it");
    trim(&volume, 0, 8 * BLOCK as u64).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks, stat.index_entries), (0, 0, 0));
    assert_eq!(read(&volume, 0, 64 * BLOCK).unwrap(), vec![0; 64 * BLOCK]);
}

#[test]
fn an_offline_volume_is_deduplicated_afterwards() {
    let (_simulation, pool, inline) = small_pool(100);
    pool.create_volume("b", 64 * BLOCK as u64, DedupMode::Offline).unwrap();
    let offline = pool.volume("b").unwrap();
    write(&inline, 0, &content(1, BLOCK)).unwrap();
    let ids = [1, 2, 3, 2, 0, 2, 3, 4];
    let bytes: Vec<u8> = ids.iter().flat_map(|id| content(*id, BLOCK)).collect();
    write(&offline, 0, &bytes).unwrap();
    assert_eq!(
        pool.stat().unwrap().physical_blocks,
        8,
        "every block but that of zeros has its own"
    );
    pool.snapshot_volume("b", "before").unwrap();
    let report = pool.find(&Silent, &StopFlag::new()).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks, stat.index_entries), (15, 4, 4));
    assert_eq!((report.shared_blocks, report.aborted_blocks), (8, 0), "four of each volume");
    for name in ["b", "before"] {
        assert_eq!(read(&pool.volume(name).unwrap(), 0, bytes.len()).unwrap(), bytes);
    }
    assert_eq!(
        pool.find(&Silent, &StopFlag::new()).unwrap().examined_blocks,
        0,
        "nothing was written since"
    );
    write(&inline, BLOCK as u64, &content(4, BLOCK)).unwrap();
    assert_eq!(
        pool.stat().unwrap().physical_blocks,
        4,
        "what the finder has identified is found in-line"
    );
    write(&offline, 0, &content(5, BLOCK)).unwrap();
    assert_eq!(
        read(&inline, 0, BLOCK).unwrap(),
        content(1, BLOCK),
        "a shared block is not written in place"
    );
    pool.set_mode("a", DedupMode::Off).unwrap();
    write(&inline, 0, &content(5, BLOCK)).unwrap();
    pool.set_mode("a", DedupMode::Offline).unwrap();
    pool.find(&Silent, &StopFlag::new()).unwrap();
    assert_eq!(
        pool.stat().unwrap().physical_blocks,
        5,
        "a volume that becomes off-line is gone through"
    );
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn the_finder_waits_its_delay_and_keeps_to_its_rate() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(5000)).unwrap();
    let clock = std::sync::Arc::new(gemelo_base::ManualClock::new());
    let finder = FinderTuning { bytes_per_s: Some(1024 * BLOCK as u64), ..FinderTuning::default() };
    let tuning = Tuning { finder, ..Tuning::default() };
    let pool = Pool::open_disks(simulation.disks(), tuning, clock.clone()).unwrap();
    pool.create_volume("a", 2048 * BLOCK as u64, DedupMode::Offline).unwrap();
    let bytes: Vec<u8> = (0..2048).flat_map(|block| content(1 + block % 1024, BLOCK)).collect();
    write(&pool.volume("a").unwrap(), 0, &bytes).unwrap();
    let examined = || pool.stat().unwrap().activity.examined_blocks;
    let pause = || std::thread::sleep(std::time::Duration::from_millis(300));
    pause();
    assert_eq!(examined(), 0, "within the delay");
    clock.advance_ns(finder.delay.as_nanos() as u64);
    eventually(|| examined() == 1024);
    pause();
    assert_eq!(examined(), 1024, "a second's worth");
    clock.advance_ns(1_000_000_000);
    eventually(|| examined() == 2048);
    assert_eq!(pool.stat().unwrap().physical_blocks, 1024);
    pool.close().unwrap();
}

fn eventually(is_true: impl Fn() -> bool) {
    for _ in 0..400 {
        if is_true() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("it did not happen in ten seconds");
}

#[test]
fn a_snapshot_keeps_what_was_there_and_shares_it() {
    let (_simulation, pool, volume) = small_pool(100);
    write(&volume, 0, &content(1, BLOCK)).unwrap();
    pool.snapshot_volume("a", "before").unwrap();
    pool.clone_volume("a", "copy").unwrap();
    write(&volume, 0, &content(2, BLOCK)).unwrap();
    let (before, copy) = (pool.volume("before").unwrap(), pool.volume("copy").unwrap());
    assert!(matches!(write(&before, 0, &[1]), Err(DeviceError::ReadOnly)));
    write(&copy, 5, b"patched").unwrap();
    assert_eq!(read(&before, 0, BLOCK).unwrap(), content(1, BLOCK));
    assert_eq!(read(&copy, 5, 7).unwrap(), b"patched");
    assert_eq!(pool.stat().unwrap().physical_blocks, 3);
    assert!(matches!(pool.snapshot_volume("a", "copy"), Err(VolumeError::VolumeExists { .. })));
    pool.remove_volume("before").unwrap();
    assert!(read(&before, 0, BLOCK).is_err(), "who still holds a removed volume cannot read it");
    assert_eq!(pool.stat().unwrap().physical_blocks, 2);
}

#[test]
fn a_full_store_refuses_fresh_contents_only_and_recovers() {
    // Two blocks of the store are the header and its copy.
    let (_simulation, pool, volume) = small_pool(10);
    for block in 0..8u64 {
        write(&volume, block * BLOCK as u64, &content(block + 1, BLOCK)).unwrap();
    }
    assert!(matches!(write(&volume, 0, &content(99, BLOCK)), Err(DeviceError::NoSpace)));
    write(&volume, 20 * BLOCK as u64, &content(3, BLOCK)).unwrap();
    assert_eq!(read(&volume, 0, BLOCK).unwrap(), content(1, BLOCK));
    trim(&volume, 0, BLOCK as u64).unwrap();
    write(&volume, 0, &content(99, BLOCK)).unwrap();
    assert_eq!(read(&volume, 0, BLOCK).unwrap(), content(99, BLOCK));
    pool.grow(20 * BLOCK as u64).unwrap();
    write(&volume, 30 * BLOCK as u64, &content(100, BLOCK)).unwrap();
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn a_full_count_makes_a_fresh_copy() {
    let simulation = Simulation::new(1);
    Pool::format(&simulation.disks(), &options(100)).unwrap();
    let pool = open(&simulation.disks(), Tuning { max_references: 4, ..tuning() }).unwrap();
    pool.create_volume("a", 64 * BLOCK as u64, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    for block in 0..10u64 {
        write(&volume, block * BLOCK as u64, &content(1, BLOCK)).unwrap();
    }
    let all_at_once = content(2, BLOCK).repeat(10);
    write(&volume, 20 * BLOCK as u64, &all_at_once).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.logical_blocks, stat.physical_blocks), (20, 6));
    // A clone shares the map, and adds no references before it is written.
    pool.clone_volume("a", "b").unwrap();
    assert_eq!(pool.stat().unwrap().physical_blocks, 6);
    write(&pool.volume("b").unwrap(), 0, &content(3, BLOCK)).unwrap();
    assert_eq!(read(&volume, 0, BLOCK).unwrap(), content(1, BLOCK));
    assert_eq!(pool.stat().unwrap().physical_blocks, 7);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}

#[test]
fn a_batch_is_done_in_order_where_it_overlaps() {
    let (simulation, _pool, volume) = small_pool(100);
    let (one, two) = (content(1, BLOCK), content(2, 64));
    let (mut early, mut late) = (vec![9; BLOCK], vec![9; BLOCK]);
    let write = |offset, data| Operation::Write { offset, data, durability: Durability::Flushed };
    let request = |operation| Request { operation, outcome: Ok(()) };
    let syncs = simulation.syncs();
    let mut batch = [
        request(Operation::Read { offset: 0, buffer: &mut early }),
        request(write(0, &one)),
        request(write(100, &two)),
        request(Operation::Read { offset: 0, buffer: &mut late }),
        request(write(64 * BLOCK as u64 - 1, &two)),
        request(Operation::Flush),
    ];
    volume.execute(&mut batch);
    let failed: Vec<usize> = (0..6).filter(|number| batch[*number].outcome.is_err()).collect();
    assert_eq!(failed, [4], "beyond the end");
    let mut expected = one.clone();
    expected[100..164].copy_from_slice(&two);
    assert_eq!((early, late), (vec![0; BLOCK], expected));
    assert_eq!(simulation.syncs() - syncs, 1, "one for the commit, which has the contents");
    flush(&volume).unwrap();
    assert_eq!(simulation.syncs() - syncs, 1, "nothing more to make durable");
}

#[test]
fn extents_tell_what_takes_space() {
    let (_simulation, _pool, volume) = small_pool(100);
    write(&volume, 2 * BLOCK as u64, &content(1, 2 * BLOCK)).unwrap();
    let lengths = |offset, length, most| -> Vec<(u64, bool)> {
        let extents = volume.extents(offset, length, most).unwrap();
        extents.iter().map(|extent| (extent.length, extent.allocated)).collect()
    };
    let block = BLOCK as u64;
    assert_eq!(
        lengths(0, 64 * block, 9),
        [(2 * block, false), (2 * block, true), (60 * block, false)]
    );
    assert_eq!(lengths(2 * block + 1, block, 9), [(block, true)]);
    assert_eq!(lengths(0, 64 * block, 1), [(2 * block, false)]);
    assert!(volume.extents(63 * block, 2 * block, 1).is_err());
}

/// Visiting every block of the volume would take an hour.
#[test]
fn extents_pass_over_what_was_never_written() {
    let (_simulation, pool, volume) = small_pool(100);
    let (block, blocks) = (BLOCK as u64, gemelo_format::MAX_VOLUME_BLOCKS);
    pool.resize_volume("a", blocks * block).unwrap();
    let place = (blocks / 2 + 7) * block;
    write(&volume, place, &content(1, BLOCK)).unwrap();
    let extents = volume.extents(0, blocks * block, 9).unwrap();
    let lengths: Vec<(u64, bool)> =
        extents.iter().map(|extent| (extent.length, extent.allocated)).collect();
    assert_eq!(lengths, [(place, false), (block, true), (blocks * block - place - block, false)]);
}

#[test]
fn the_mode_off_stores_every_write() {
    let (_simulation, pool, volume) = small_pool(100);
    pool.set_mode("a", DedupMode::Off).unwrap();
    write(&volume, 0, &content(1, BLOCK).repeat(4)).unwrap();
    assert_eq!(pool.stat().unwrap().physical_blocks, 4);
    pool.set_mode("a", DedupMode::Inline).unwrap();
    write(&volume, 8 * BLOCK as u64, &content(1, BLOCK).repeat(4)).unwrap();
    let stat = pool.stat().unwrap();
    assert_eq!((stat.physical_blocks, stat.index_entries), (5, 1));
}
