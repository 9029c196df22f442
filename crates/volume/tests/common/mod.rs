//! What the tests of the engine share: disks that fail, a model of what volumes hold, and a driver that does the same to both.

#![allow(dead_code, unreachable_pub, reason = "every test uses a part of it")]

pub mod collide;
pub mod driver;
pub mod history;
pub mod hold;
pub mod judge;
pub mod medium;
pub mod scatter;
pub mod simulated;
pub mod storm;

use gemelo_base::{ManualClock, random::mix_pair};
use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use gemelo_format::BackendKind;
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume, VolumeError};
use std::sync::Arc;

pub const BLOCK: usize = 512;

/// A small pool whose journal is the shortest there can be.
pub fn options(blocks: u64) -> PoolOptions {
    PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: blocks * BLOCK as u64,
        journal_bytes: Some(64 << 10),
        ..PoolOptions::default()
    }
}

/// As [`options`], with this backend.
pub fn options_with(backend: BackendKind, blocks: u64) -> PoolOptions {
    PoolOptions { backend, ..options(blocks) }
}

/// Nothing happens but what the test does.
pub fn tuning() -> Tuning {
    Tuning {
        background: false,
        cache_bytes: 64 << 10,
        // It is full now and then, so that writers write out, too.
        write_buffer_bytes: 24 * BLOCK as u64,
        ..Tuning::default()
    }
}

pub fn open(disks: &PoolDisks, tuning: Tuning) -> Result<Pool, VolumeError> {
    Pool::open_disks(disks.clone(), tuning, Arc::new(ManualClock::new()))
}

/// The content of an id: 0 is zeros.
pub fn content(id: u64, bytes: usize) -> Vec<u8> {
    if id == 0 {
        return vec![0; bytes];
    }
    (0..bytes as u64 / 8).flat_map(|word| mix_pair(id, word).to_le_bytes()).collect()
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

/// How much a test does: `GEMELO_TEST_ROUNDS` or this.
pub fn rounds(usual: u64) -> u64 {
    std::env::var("GEMELO_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// The seed to begin with: `GEMELO_TEST_SEED` or 0.
pub fn first_seed() -> u64 {
    std::env::var("GEMELO_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
