//! Shared parts of the engine's tests: disks that fail, a model of the contents of volumes, and a
//! driver that changes both alike.

#![allow(unreachable_pub, reason = "tests of other crates use this module, too")]

pub mod aged;
pub mod bytes;
pub mod collide;
pub mod driver;
pub mod history;
pub mod hold;
pub mod judge;
pub mod medium;
pub mod repeat;
pub mod scatter;
pub mod seek;
pub mod shape;
pub mod simulated;
pub mod space;
pub mod stored;
pub mod storm;

use gemelo_base::random::{Random, mix_pair};
use gemelo_base::{Clock, ManualClock};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_format::{Compression, Policy};
use gemelo_store::PoolDisks;
use gemelo_volume::{IndexSampling, LayoutTuning, Pool, PoolOptions, Tuning, Volume, VolumeError};
use repeat::cache_bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const BLOCK: usize = 512;

/// The ways in which a packed store is tested.
pub const COMPRESSIONS: [Compression; 3] =
    [Compression::Lz4, Compression::Zstd(1), Compression::Off];

/// A compression that a volume may have.
pub fn any_compression(random: &mut Random) -> Compression {
    COMPRESSIONS[random.below(COMPRESSIONS.len() as u64) as usize]
}

/// A policy, and the compression of a pool that compresses.
pub type Kind = (Policy, Option<Compression>);

/// Pools of each policy: one that does not compress, and those that do.
pub fn kinds() -> impl Iterator<Item = Kind> {
    let compressions = [None, Some(Compression::Lz4), Some(Compression::Zstd(1))];
    Policy::ALL.into_iter().flat_map(move |policy| compressions.map(|one| (policy, one)))
}

/// Options of a small pool with the shortest journal.
pub fn options(blocks: u64) -> PoolOptions {
    PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: blocks * BLOCK as u64,
        journal_bytes: Some(64 << 10),
        ..PoolOptions::default()
    }
}

/// The same as [`options`], with this policy.
pub fn options_with(policy: Policy, blocks: u64) -> PoolOptions {
    PoolOptions { policy, ..options(blocks) }
}

/// The same as [`options`], of this kind.
pub fn options_of((policy, compression): Kind, blocks: u64) -> PoolOptions {
    PoolOptions { compression, ..options_with(policy, blocks) }
}

/// Settings without a background: only the test changes the pool.
pub fn tuning() -> Tuning {
    Tuning {
        background: false,
        cache_bytes: Some(cache_bytes()),
        // It is full now and then, so that writers write out, too.
        write_buffer_bytes: 24 * BLOCK as u64,
        // Contents leave it now and then, so that some are read from the disk.
        content_cache_bytes: Some(16 * BLOCK as u64),
        // Small volumes are brought together, too.
        layout: LayoutTuning { run_bytes: 8 * BLOCK as u64, ..LayoutTuning::default() },
        ..Tuning::default()
    }
}

/// The contents that the index of `compact` has: all, or a sample.
pub fn index_sampling(is_sampled: bool) -> IndexSampling {
    IndexSampling::one_in(if is_sampled { 4 } else { 1 }).unwrap()
}

/// The same settings, but a flush leaves no content to the journal: it is on the data disk.
pub fn tuning_on_disk() -> Tuning {
    Tuning { max_journal_data_bytes: Some(0), ..tuning() }
}

pub fn open(disks: &PoolDisks, tuning: Tuning) -> Result<Pool, VolumeError> {
    Pool::open_disks(disks.clone(), tuning, Arc::new(ManualClock::new()))
}

/// A clock on which time passes at every look, so that flush marks are written again and again.
struct TickingClock(AtomicU64);

/// A look takes this long: a mark is due at every other one.
const TICK_NS: u64 = 500_000_000;

impl Clock for TickingClock {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(TICK_NS, Ordering::Relaxed)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.0.fetch_max(deadline_ns, Ordering::Relaxed);
    }
}

/// As [`open`], on a clock on which time passes.
pub fn open_ticking(disks: &PoolDisks, tuning: Tuning) -> Result<Pool, VolumeError> {
    Pool::open_disks(disks.clone(), tuning, Arc::new(TickingClock(AtomicU64::new(0))))
}

/// Makes the content of an id. The content of 0 is zeros. A part of the others repeats, so that
/// they compress more or less.
pub fn content(id: u64, bytes: usize) -> Vec<u8> {
    if id == 0 {
        return vec![0; bytes];
    }
    let noise = bytes as u64 / 8 * (1 + mix_pair(id, u64::MAX) % 4) / 4;
    let mut content = Vec::with_capacity(bytes);
    for word in 0..bytes as u64 / 8 {
        content.extend_from_slice(&mix_pair(id, word.min(noise)).to_le_bytes());
    }
    content
}

fn execute(volume: &Volume, operation: Operation<'_>) -> Result<(), DeviceError> {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    let [request] = batch;
    request.outcome
}

pub fn write(volume: &Volume, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
    execute(volume, Operation::Write { offset, data, durability: Durability::Flushed })
}

pub fn write_now(volume: &Volume, offset: u64, data: &[u8]) -> Result<(), DeviceError> {
    execute(volume, Operation::Write { offset, data, durability: Durability::Immediate })
}

pub fn read(volume: &Volume, offset: u64, length: usize) -> Result<Vec<u8>, DeviceError> {
    let mut buffer = vec![0xEE; length];
    execute(volume, Operation::Read { offset, buffer: &mut buffer })?;
    Ok(buffer)
}

pub fn trim(volume: &Volume, offset: u64, length: u64) -> Result<(), DeviceError> {
    execute(volume, Operation::Trim { offset, length, durability: Durability::Flushed })
}

pub fn write_zeroes(volume: &Volume, offset: u64, length: u64) -> Result<(), DeviceError> {
    execute(
        volume,
        Operation::WriteZeroes { offset, length, may_free: true, durability: Durability::Flushed },
    )
}

pub fn trim_now(volume: &Volume, offset: u64, length: u64) -> Result<(), DeviceError> {
    execute(volume, Operation::Trim { offset, length, durability: Durability::Immediate })
}

pub fn write_zeroes_now(volume: &Volume, offset: u64, length: u64) -> Result<(), DeviceError> {
    let durability = Durability::Immediate;
    execute(volume, Operation::WriteZeroes { offset, length, may_free: true, durability })
}

pub fn flush(volume: &Volume) -> Result<(), DeviceError> {
    execute(volume, Operation::Flush)
}

/// The number of rounds: `GEMELO_TEST_ROUNDS` or this number.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("GEMELO_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The first seed: `GEMELO_TEST_SEED` or 0.
pub fn first_seed() -> u64 {
    std::env::var("GEMELO_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
