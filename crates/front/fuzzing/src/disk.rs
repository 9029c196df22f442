//! Disks in memory for the fuzz targets that open a pool, and the use of a pool.

use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::testing::MemoryDisk;
use gemelo_format::VolumeLimits;
use gemelo_serve::{OnBadBlock, Sink, export};
use gemelo_store::PoolDisks;
use gemelo_volume::{
    LossChoice, Pool, RepairOptions, Tuning, Volume, record_damage, repair_outlook_within,
    repair_within,
};
use std::sync::Arc;

/// Greatest length of a disk in bytes. A pool that needs more has misread its metadata.
const MAX_BYTES: u64 = 64 << 20;
/// Block size of the pools in bytes.
pub(crate) const BLOCK_BYTES: usize = 512;
/// Memory of a repair in bytes.
const REPAIR_BYTES: u64 = 4 << 20;
/// Most blocks of a volume that are read at its beginning.
const READ_BLOCKS: u64 = 2200;
/// Blocks of a read.
const BLOCKS_AT_ONCE: usize = 64;
/// Most extents of a volume that are listed.
const EXTENTS: usize = 3000;
/// Fewest operations and bytes a second with which a volume is used.
const LEAST_OPERATIONS: u64 = 10_000;
const LEAST_BYTES: u64 = 16 << 20;

/// Makes a disk with these bytes.
pub(crate) fn disk_of(bytes: Vec<u8>) -> Arc<MemoryDisk> {
    Arc::new(MemoryDisk::new(bytes, MAX_BYTES))
}

/// Returns a tuning without background work, so that a run repeats exactly.
pub(crate) fn tuning() -> Tuning {
    Tuning {
        verify_reads: true,
        background: false,
        cache_bytes: Some(256 << 10),
        content_cache_bytes: Some(0),
        ..Tuning::default()
    }
}

/// Returns whether requests of a volume do not have to wait for its limits.
fn is_fast(limits: &VolumeLimits) -> bool {
    limits.operations_per_s.is_none_or(|rate| rate >= LEAST_OPERATIONS)
        && limits.bytes_per_s.is_none_or(|rate| rate >= LEAST_BYTES)
}

/// Writes to a volume, if there is one of this name.
pub(crate) fn write(pool: &Pool, name: &str, offset: u64, data: &[u8]) {
    let Ok(volume) = pool.volume(name) else { return };
    let operation = Operation::Write { offset, data, durability: Durability::Flushed };
    volume.execute(&mut [Request { operation, outcome: Ok(()) }]);
}

fn open(disks: &PoolDisks, tuning: Tuning) -> Option<Pool> {
    Pool::open_disks(disks.clone(), tuning, Arc::new(SystemClock::new())).ok()
}

/// Reads the beginning of a volume, and the blocks after it that have contents.
fn read_all(volume: &Volume, size_bytes: u64) {
    let mut buffer = vec![0; BLOCKS_AT_ONCE * BLOCK_BYTES];
    let mut read = |offset| {
        let operation = Operation::Read { offset, buffer: &mut buffer };
        volume.execute(&mut [Request { operation, outcome: Ok(()) }]);
    };
    let end = size_bytes.min(READ_BLOCKS * BLOCK_BYTES as u64);
    (0..end).step_by(BLOCKS_AT_ONCE * BLOCK_BYTES).for_each(&mut read);
    let _ = volume.extents(0, size_bytes, EXTENTS);
    let Ok(extents) = volume.extents(end, size_bytes.saturating_sub(end), EXTENTS) else { return };
    let mut offset = end;
    for extent in extents.into_iter().take(BLOCKS_AT_ONCE) {
        read(offset);
        offset = offset.saturating_add(extent.length);
    }
}

/// Copies the beginning of a volume with zeros in place of what cannot be read, as `gemelo volume
/// export --salvage`.
fn salvage(volume: Volume) {
    let device: Arc<dyn BlockDevice> = Arc::new(volume);
    let bytes = READ_BLOCKS * BLOCK_BYTES as u64;
    let sink = Sink::Stream(Box::new(std::io::sink()));
    let _ = export(&[device], bytes, sink, OnBadBlock::Zeros, &Silent, &StopFlag::new());
}

/// Looks at all of a pool without writing: figures, spaces, every block.
fn look(disks: &PoolDisks) {
    let Some(pool) = open(disks, Tuning { read_only: true, ..tuning() }) else { return };
    let _ = (pool.stat(), pool.prove(3), pool.snapshot_space(&StopFlag::new()));
    for summary in pool.volumes() {
        let name = &summary.record.name;
        let _ = pool.volume_space(name, &StopFlag::new());
        if let Ok(volume) = pool.volume(name)
            && is_fast(&summary.record.limits)
        {
            read_all(&volume, summary.record.size_bytes);
            salvage(volume);
        }
    }
    let _ = pool.close();
}

/// Writes to all volumes of a pool, and reads them. Returns whether the pool took everything.
fn change(disks: &PoolDisks) -> bool {
    let Some(pool) = open(disks, tuning()) else { return false };
    if pool.is_read_only() {
        return false;
    }
    let _ = pool.stat();
    let fast = pool.volumes().into_iter().filter(|one| is_fast(&one.record.limits));
    for (seed, summary) in fast.enumerate() {
        let name = &summary.record.name;
        let data: Vec<u8> =
            (0..12).flat_map(|block| [seed as u8 ^ (block % 5); BLOCK_BYTES]).collect();
        write(&pool, name, BLOCK_BYTES as u64 / 2, &data);
        if let Ok(volume) = pool.volume(name) {
            read_all(&volume, summary.record.size_bytes);
        }
    }
    if let Some(summary) = pool.volumes().last() {
        let name = &summary.record.name;
        let _ = (pool.snapshot_volume(name, "a snapshot"), pool.remove_volume(name));
    }
    let _ = (pool.gc(None, &Silent, &StopFlag::new()), pool.checkpoint());
    pool.close().is_ok()
}

fn checked(disks: &PoolDisks) -> Option<CheckReport> {
    check(disks, CheckOptions { data: true }, &Silent, &StopFlag::new()).ok()
}

/// Checks, opens, reads, uses and repairs a pool. `disks` makes the pool anew. Any of these steps
/// may fail with an error, but a pool that the checker found clean opens, takes changes and stays
/// clean, and so does one that was repaired.
///
/// # Panics
/// Panics if a clean or repaired pool is damaged.
pub(crate) fn use_pool(disks: impl Fn() -> PoolDisks) {
    let pool = disks();
    let before = checked(&pool);
    let was_clean = before.as_ref().is_some_and(CheckReport::is_clean);
    look(&pool);
    // A salvage marks what it could not read.
    let marked = disks();
    let _ = record_damage(&marked, &[1, 7]);
    look(&marked);
    let outlook = (!was_clean)
        .then(|| repair_outlook_within(REPAIR_BYTES, &pool, true, &Silent, &StopFlag::new()).ok());
    if change(&pool) || was_clean {
        let after = checked(&pool);
        let is_clean = after.as_ref().is_some_and(CheckReport::is_clean);
        assert!(!was_clean || is_clean, "a clean pool is damaged after use: {after:?}");
    }
    let can_skip = outlook.flatten().is_some_and(|outlook| outlook.skip.is_some());
    let choices = [LossChoice::RollBack, LossChoice::Skip];
    for choice in choices.into_iter().take(if can_skip { 2 } else { 1 }) {
        repair_and_use(&disks(), choice, before.as_ref());
    }
}

fn repair_and_use(pool: &PoolDisks, choice: LossChoice, before: Option<&CheckReport>) {
    let options = RepairOptions { data: true, choice };
    if repair_within(REPAIR_BYTES, pool, options, &Silent, &StopFlag::new()).is_err() {
        return;
    }
    for when in ["a repair", "use of the repaired pool"] {
        let after = checked(pool);
        let is_clean = after.as_ref().is_some_and(CheckReport::is_clean);
        assert!(
            is_clean,
            "after {when}: {:?}, before: {:?}",
            problems(after.as_ref()),
            problems(before)
        );
        if when == "a repair" {
            assert!(
                change(pool),
                "a repaired pool takes no changes; before: {:?}",
                problems(before)
            );
        }
    }
}

/// The first problems of a report.
fn problems(report: Option<&CheckReport>) -> Option<Vec<&str>> {
    Some(report?.problems.iter().take(4).map(|problem| problem.what.as_str()).collect())
}
