//! Disks in memory for the fuzz targets that open a pool, and the small pool with which they begin.

use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::testing::MemoryDisk;
use gemelo_format::{DedupMode, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, repair_outlook};
use std::sync::Arc;

/// Greatest length of a disk in bytes. A pool that needs more has misread its metadata.
const MAX_BYTES: u64 = 64 << 20;
/// Block size of the pool in bytes.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Size of each volume in blocks.
const VOLUME_BLOCKS: u64 = 2100;

/// Makes a disk with these bytes.
pub(crate) fn disk_of(bytes: Vec<u8>) -> Arc<MemoryDisk> {
    Arc::new(MemoryDisk::new(bytes, MAX_BYTES))
}

/// Returns a tuning without background work, so that a run repeats exactly.
pub(crate) fn tuning() -> Tuning {
    Tuning { verify_reads: true, background: false, ..Tuning::default() }
}

/// Makes a small pool and returns its data and metadata. It has volumes with shared and repeated
/// blocks, a checkpoint, and a journal with later commits.
pub(crate) fn small_pool(policy: Policy) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let (data, metadata) = (disk_of(Vec::new()), disk_of(Vec::new()));
    let disks = PoolDisks::new(data.clone(), metadata.clone());
    let options = PoolOptions {
        block_bytes: BLOCK_BYTES as u32,
        capacity_bytes: 300 * BLOCK_BYTES as u64,
        journal_bytes: Some(64 << 10),
        policy,
        ..PoolOptions::default()
    };
    Pool::format(&disks, &options)?;
    let pool = Pool::open_disks(disks, tuning(), Arc::new(SystemClock::new()))?;
    let size_bytes = VOLUME_BLOCKS * BLOCK_BYTES as u64;
    pool.create_volume("one", size_bytes, DedupMode::Inline)?;
    pool.create_volume("two", size_bytes, DedupMode::Off)?;
    for round in 0..2 {
        for (place, name) in ["one", "two", "one"].into_iter().enumerate() {
            write(
                &pool,
                name,
                (place as u64 * 7 + round * 1030) * BLOCK_BYTES as u64,
                round as u8 + 1,
            );
        }
        pool.flush()?;
        if round == 0 {
            pool.snapshot_volume("one", "three")?;
            pool.checkpoint()?;
        }
    }
    pool.rename_volume("two", "second")?;
    pool.resize_volume("one", size_bytes / 2)?;
    pool.flush()?;
    // The pool is not closed, so the commits after the checkpoint stay in the journal.
    drop(pool);
    Ok((data.image(), metadata.image()))
}

fn write(pool: &Pool, name: &str, offset: u64, seed: u8) {
    let Ok(volume) = pool.volume(name) else { return };
    let data: Vec<u8> =
        (0..12).flat_map(|block| [seed.wrapping_add(block % 5); BLOCK_BYTES]).collect();
    let durability = Durability::Flushed;
    volume.execute(&mut [Request {
        operation: Operation::Write { offset, data: &data, durability },
        outcome: Ok(()),
    }]);
}

/// Checks, opens and uses a pool with this data and metadata. Any of these steps may fail with an
/// error. A pool that the checker found clean must be clean after use as well.
///
/// # Panics
/// Panics if a clean pool is damaged after use.
pub(crate) fn use_pool(data: Vec<u8>, metadata: Vec<u8>) {
    let disks = PoolDisks::new(disk_of(data), disk_of(metadata));
    let checked = || check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new());
    let was_clean = checked().is_ok_and(|report| report.is_clean());
    if !was_clean {
        let _ = repair_outlook(&disks, true, &Silent, &StopFlag::new());
    }
    let opened = Pool::open_disks(disks.clone(), tuning(), Arc::new(SystemClock::new()));
    let Ok(pool) = opened else { return };
    for summary in pool.volumes() {
        write(&pool, &summary.record.name, BLOCK_BYTES as u64 / 2, 9);
        let Ok(volume) = pool.volume(&summary.record.name) else { continue };
        let mut buffer = vec![0; 64 * BLOCK_BYTES];
        let operation = Operation::Read { offset: 0, buffer: &mut buffer };
        volume.execute(&mut [Request { operation, outcome: Ok(()) }]);
        let _ = volume.extents(0, summary.record.size_bytes, 100);
    }
    let closed = pool.close();
    if was_clean && closed.is_ok() {
        let report = checked();
        assert!(report.as_ref().is_ok_and(CheckReport::is_clean), "after use: {report:?}");
    }
}
