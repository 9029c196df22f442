//! Pools in directories: the files that are made, their owner and mode, and the refusals.

use crate::common::{BLOCK, content, flush, read, write};
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, check};
use gemelo_device::DeviceError;
use gemelo_disk::DiskError;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolDirectory, PoolOptions, Tuning, VolumeError};
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 8 << 20;

fn small() -> PoolOptions {
    PoolOptions { capacity_bytes: SIZE, ..PoolOptions::default() }
}

fn open(path: &Path) -> Result<Pool, VolumeError> {
    Pool::open(path, Tuning::default(), Arc::new(SystemClock::new()))
}

#[test]
fn a_pool_keeps_its_volumes_from_one_opening_to_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    let bytes = content(5, 10_000);
    {
        let pool = open(&path).unwrap();
        pool.create_volume("disk 1", SIZE, DedupMode::Inline).unwrap();
        let volume = pool.volume("disk 1").unwrap();
        write(&volume, 777, &bytes).unwrap();
        flush(&volume).unwrap();
        // The pool is dropped without being closed, as by a crash.
    }
    let pool = open(&path).unwrap();
    assert_eq!(read(&pool.volume("disk 1").unwrap(), 777, 10_000).unwrap(), bytes);
    pool.rename_volume("disk 1", "disk 2").unwrap();
    pool.resize_volume("disk 2", 8192).unwrap();
    pool.close().unwrap();
    let pool = open(&path).unwrap();
    let list = pool.volumes();
    assert_eq!(list.len(), 1);
    assert_eq!(
        (list[0].record.name.as_str(), list[0].record.size_bytes, list[0].mapped_blocks),
        ("disk 2", 8192, 2)
    );
    assert_eq!(read(&pool.volume("disk 2").unwrap(), 777, 7415).unwrap(), bytes[..7415]);
    pool.close().unwrap();
    let disks = PoolDirectory::lock(&path).unwrap().disks();
    let options = CheckOptions { data: true };
    let report = check(&disks, options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.checked_contents, 2);
}

#[test]
fn a_second_opener_is_refused_and_told_who_has_the_pool() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    let pool = open(&path).unwrap();
    let Err(VolumeError::InUse { holder }) = open(&path) else { panic!("opened twice") };
    assert!(holder.starts_with(&format!("process {} (", std::process::id())), "{holder}");
    // The lock needs no file beside the disks, so none can be deleted.
    let mut names: Vec<_> =
        std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["data", "metadata"]);
    pool.close().unwrap();
    open(&path).unwrap().close().unwrap();
}

#[test]
fn disks_can_be_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let (path, data) = (directory.path().join("pool"), directory.path().join("data.img"));
    Pool::create(&path, &PoolOptions { data: Some(data.clone()), ..small() }).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().len(), SIZE);
    let pool = open(&path).unwrap();
    pool.create_volume("a", SIZE, DedupMode::Inline).unwrap();
    pool.grow(2 * SIZE).unwrap();
    assert_eq!(std::fs::metadata(&data).unwrap().len(), 2 * SIZE);
    pool.close().unwrap();
    let other = directory.path().join("other");
    let taken = Pool::create(&other, &PoolOptions { data: Some(data), ..small() });
    assert!(matches!(taken, Err(VolumeError::Disk(DiskError::Exists { .. }))));
}

#[test]
fn invalid_options_are_refused_before_anything_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    for options in [
        PoolOptions { block_bytes: 1000, ..small() },
        PoolOptions { block_bytes: 256, ..small() },
        PoolOptions { capacity_bytes: 4096, ..small() },
        PoolOptions { capacity_bytes: u64::MAX, ..small() },
        PoolOptions { journal_bytes: Some(1), ..small() },
    ] {
        assert!(
            matches!(Pool::create(&path, &options), Err(VolumeError::BadOption { .. })),
            "{options:?}"
        );
        assert!(!path.exists());
    }
    assert!(matches!(open(&path), Err(VolumeError::NotAPool { .. })));
    Pool::create(&path, &small()).unwrap();
    assert!(matches!(
        Pool::create(&path, &small()),
        Err(VolumeError::Disk(DiskError::Exists { .. }))
    ));
    let pool = open(&path).unwrap();
    for (name, size) in [
        ("", 4096),
        (".", 4096),
        ("..", 4096),
        ("a/b", 4096),
        ("a\n", 4096),
        ("a", 0),
        ("a", 4097),
        ("a", 1 << 62),
    ] {
        let made = pool.create_volume(name, size, DedupMode::Inline);
        assert!(matches!(made, Err(VolumeError::BadOption { .. })), "{name:?} {size}");
    }
    assert!(matches!(pool.volume("a"), Err(VolumeError::NoSuchVolume { .. })));
    assert!(matches!(pool.grow(4096), Err(VolumeError::BadOption { .. })));
}

#[test]
fn a_refusal_names_the_value_and_the_limit_in_the_units_of_users() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    let refused = |options: PoolOptions| Pool::create(&path, &options).unwrap_err().to_string();
    let options = PoolOptions { block_bytes: 4096, ..small() };
    let dtb = PoolOptions { policy: Policy::Dtb, ..options.clone() };
    assert_eq!(
        refused(PoolOptions { capacity_bytes: (1 << 44) + 4096, ..dtb }),
        "invalid capacity 17179869188 KiB: such a pool of 4 KiB blocks holds 16 TiB at most; \
         larger blocks, or the policy compact, allow more"
    );
    assert_eq!(
        refused(PoolOptions { capacity_bytes: (1 << 48) + 4096, ..options.clone() }),
        "invalid capacity 274877906948 KiB: such a pool of 4 KiB blocks holds 256 TiB at most; \
         larger blocks allow more"
    );
    assert_eq!(
        refused(PoolOptions { capacity_bytes: 5000, ..options.clone() }),
        "invalid capacity 5000 bytes: a pool of 4 KiB blocks needs at least 8 KiB"
    );
    assert_eq!(
        refused(PoolOptions { journal_bytes: Some(1024), ..options.clone() }),
        "invalid journal size 1 KiB: give 64 KiB to 64 GiB"
    );
    Pool::create(&path, &options).unwrap();
    let pool = open(&path).unwrap();
    let made = pool.create_volume("a", 1000, DedupMode::Inline).unwrap_err();
    assert_eq!(
        made.to_string(),
        "invalid volume size 1000 bytes: give a multiple of the pool's block size (4 KiB), at most \
         1 PiB"
    );
    let smaller = pool.grow(8192).unwrap_err().to_string();
    assert!(smaller.starts_with("invalid capacity 8 KiB: the pool has 8 MiB: "), "{smaller}");
    assert!(smaller.ends_with("'gemelo pool shrink' makes it smaller"), "{smaller}");
    let larger = pool.grow(17 << 40).unwrap_err().to_string();
    assert!(larger.contains("it can grow to 16 TiB at most: "), "{larger}");
}

#[test]
fn free_space_goes_back_to_the_system() {
    use std::os::unix::fs::MetadataExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    let pool = open(&path).unwrap();
    pool.create_volume("a", SIZE, DedupMode::Inline).unwrap();
    let volume = pool.volume("a").unwrap();
    write(&volume, 0, &content(1, 4 << 20)).unwrap();
    flush(&volume).unwrap();
    let used = || std::fs::metadata(path.join("data")).unwrap().blocks() * 512;
    let before = used();
    pool.remove_volume("a").unwrap();
    let report = pool.gc(None, &Silent, &StopFlag::new()).unwrap();
    // The background may have given back a part before.
    assert!(report.discarded_blocks <= (4 << 20) / 4096, "what was used, and no more");
    // Space that is reserved ahead of the next writes stays.
    let after = used();
    assert!(before >= 4 << 20 && after <= (1 << 20) + (64 << 10), "{before} to {after}");
    pool.create_volume("b", SIZE, DedupMode::Inline).unwrap();
    write(&pool.volume("b").unwrap(), 0, &content(2, 4 << 20)).unwrap();
    pool.flush().unwrap();
    pool.remove_volume("b").unwrap();
    let stopped = StopFlag::new();
    stopped.raise();
    match pool.gc(None, &Silent, &stopped) {
        Err(VolumeError::Interrupted) => {}
        done => assert_eq!(done.unwrap().discarded_blocks, 0, "the background has done it all"),
    }
}

#[test]
fn a_pool_open_for_reading_takes_no_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    Pool::create(&path, &small()).unwrap();
    let pool = open(&path).unwrap();
    pool.create_volume("a", SIZE, DedupMode::Inline).unwrap();
    drop(pool);
    let before = std::fs::read(path.join("metadata")).unwrap();
    let tuning = Tuning { read_only: true, ..Tuning::default() };
    let pool = Pool::open(&path, tuning, Arc::new(SystemClock::new())).unwrap();
    let volume = pool.volume("a").unwrap();
    assert!(write(&volume, 0, &[1]).is_err());
    assert!(flush(&volume).is_ok());
    assert!(matches!(pool.create_volume("b", SIZE, DedupMode::Inline), Err(VolumeError::ReadOnly)));
    assert!(matches!(pool.checkpoint(), Err(VolumeError::ReadOnly)));
    pool.close().unwrap();
    assert!(std::fs::read(path.join("metadata")).unwrap() == before);
}

#[test]
fn a_volume_that_was_removed_takes_no_request_of_those_who_still_have_it() {
    let simulation = crate::common::simulated::Simulation::new(1);
    Pool::format(&simulation.disks(), &crate::common::options(100)).unwrap();
    let pool = crate::common::open(&simulation.disks(), crate::common::tuning()).unwrap();
    let bytes = content(1, BLOCK);
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    let removed = pool.volume("a").unwrap();
    write(&removed, 0, &bytes).unwrap();
    pool.remove_volume("a").unwrap();
    pool.create_volume("a", 8 * BLOCK as u64, DedupMode::Inline).unwrap();
    let there = pool.volume("a").unwrap();
    write(&there, 0, &bytes).unwrap();
    let outcomes = [
        read(&removed, 0, BLOCK).map(drop),
        write(&removed, 0, &content(2, BLOCK)),
        crate::common::trim(&removed, 0, BLOCK as u64),
        crate::common::write_zeroes(&removed, 0, BLOCK as u64),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(DeviceError::OutOfRange { .. })), "{outcome:?}");
    }
    assert!(read(&there, 0, BLOCK).unwrap() == bytes);
    assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
}
