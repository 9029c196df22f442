//! Disks in memory for the targets that open a pool, and the small pool that they start from.

use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_check::{CheckOptions, CheckReport, check};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::Disk;
use gemelo_format::{BackendKind, DedupMode, PoolDisks};
use gemelo_volume::{Pool, PoolOptions, Tuning, repair_outlook};
use std::io::{self, ErrorKind, IoSlice};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest a disk may become: a pool that wants more has understood its metadata wrongly.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 512;
/// Blocks of each volume.
const VOLUME_BLOCKS: u64 = 2100;

/// A disk that is a vector.
#[derive(Default)]
pub(super) struct MemoryDisk(Mutex<Vec<u8>>);

impl MemoryDisk {
    /// A disk that holds this.
    pub(super) fn of(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(bytes)))
    }

    /// What it holds.
    pub(super) fn image(&self) -> Vec<u8> {
        self.bytes().clone()
    }

    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if length > MOST_BYTES {
            return Err(ErrorKind::StorageFull.into());
        }
        self.bytes().resize(length as usize, 0);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes();
        let from =
            usize::try_from(offset).ok().and_then(|start| bytes.get(start..)?.get(..buffer.len()));
        buffer.copy_from_slice(from.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        let data: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= MOST_BYTES);
        let end = end.ok_or(ErrorKind::StorageFull)? as usize;
        let mut bytes = self.bytes();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        if let Some(to) = bytes.get_mut(end - data.len()..end) {
            to.copy_from_slice(&data);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Requests do what they are made to do at once; nothing happens in the background, so that a run repeats.
pub(super) fn tuning() -> Tuning {
    Tuning { verify_reads: true, background: false, ..Tuning::default() }
}

/// A small pool: volumes with shared, trimmed and repeated blocks, a checkpoint, and a journal after it.
pub(super) fn small_pool(backend: BackendKind) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let (data, metadata) = (MemoryDisk::of(Vec::new()), MemoryDisk::of(Vec::new()));
    let disks = PoolDisks { data: data.clone(), metadata: metadata.clone() };
    let options = PoolOptions {
        block_bytes: BLOCK_BYTES as u32,
        capacity_bytes: 300 * BLOCK_BYTES as u64,
        journal_bytes: Some(64 << 10),
        backend,
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
    // Not closed: what came after the checkpoint stays in the journal.
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

/// Opens, uses and checks a pool with this metadata. Whatever it is, that ends, with an error or without; and a pool
/// that the checker found good is good after use.
///
/// # Panics
/// If it is not.
pub(super) fn use_pool(data: Vec<u8>, metadata: Vec<u8>) {
    let disks = PoolDisks { data: MemoryDisk::of(data), metadata: MemoryDisk::of(metadata) };
    let checked = || check(&disks, CheckOptions { data: true }, &Silent, &StopFlag::new());
    let was_clean = checked().is_ok_and(|report| report.is_clean());
    if !was_clean {
        let _ = repair_outlook(&disks, true, &Silent, &StopFlag::new());
    }
    let opened = Pool::open_disks(disks.clone(), tuning(), Arc::new(SystemClock::new()));
    let Ok(pool) = opened else { return };
    for summary in pool.volumes() {
        write(&pool, &summary.name, BLOCK_BYTES as u64 / 2, 9);
        let Ok(volume) = pool.volume(&summary.name) else { continue };
        let mut buffer = vec![0; 64 * BLOCK_BYTES];
        let operation = Operation::Read { offset: 0, buffer: &mut buffer };
        volume.execute(&mut [Request { operation, outcome: Ok(()) }]);
        let _ = volume.extents(0, summary.size_bytes, 100);
    }
    let closed = pool.close();
    if was_clean && closed.is_ok() {
        let report = checked();
        assert!(report.as_ref().is_ok_and(CheckReport::is_clean), "after use: {report:?}");
    }
}
