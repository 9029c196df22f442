//! The time that a pool with the blocks of 100 GB takes to open after a crash, with its memory and
//! its disk space.
//!
//! Usage: `cargo bench -p gemelo-volume --bench open [-- DIRECTORY]`. Blocks have 512 bytes and the
//! data store keeps none of them: opening reads metadata alone, which do not depend on either.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

use gemelo_base::SystemClock;
use gemelo_base::random::{Random, mix64};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::FileDisk;
use gemelo_disk::testing::SinkDisk;
use gemelo_format::{DedupMode, FingerprintKind};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;
use std::time::Instant;

/// Blocks of 4 KiB in 100 GB.
const BLOCKS: u64 = 24_414_062;
const BLOCK: usize = 512;
const BLOCKS_A_WRITE: usize = 256;

/// Fills the volume with unique contents, and overwrites a part of it at random, so that the
/// journal has commits to replay.
fn fill(pool: &Pool) {
    let volume = pool.volume("v").unwrap();
    let mut buffer = vec![0x5Au8; BLOCK * BLOCKS_A_WRITE];
    let mut random = Random::new(1);
    let random_blocks = 400_000;
    let mut written = 0;
    while written < BLOCKS + random_blocks {
        let is_first_time = written < BLOCKS;
        let count = if is_first_time { BLOCKS_A_WRITE.min((BLOCKS - written) as usize) } else { 1 };
        for (number, block) in (written..).zip(buffer.chunks_mut(BLOCK).take(count)) {
            block[..8].copy_from_slice(&mix64(number).to_le_bytes());
        }
        let first = if is_first_time { written } else { random.below(BLOCKS) };
        let data = &buffer[..count * BLOCK];
        let operation = Operation::Write {
            offset: first * BLOCK as u64,
            data,
            durability: Durability::Flushed,
        };
        let mut batch = [Request { operation, outcome: Ok(()) }];
        volume.execute(&mut batch);
        assert!(batch.iter().all(|request| request.outcome.is_ok()));
        written += count as u64;
    }
    pool.flush().unwrap();
}

/// Processor time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let base = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let directory = base.map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let path = directory.path().join("metadata");
    let metadata = Arc::new(FileDisk::create(&path).unwrap());
    let disks =
        PoolDisks::new(Arc::new(SinkDisk::new((BLOCKS + 10_000) * BLOCK as u64, BLOCK)), metadata);
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: (BLOCKS + 1_000_000) * BLOCK as u64,
        fingerprint: FingerprintKind::Xxh3Compare,
        ..PoolOptions::default()
    };
    Pool::format(&disks, &options).unwrap();
    let open = || {
        Pool::open_disks(disks.clone(), Tuning::default(), Arc::new(SystemClock::new())).unwrap()
    };
    let pool = open();
    pool.create_volume("v", BLOCKS * BLOCK as u64, DedupMode::Inline).unwrap();
    let started = Instant::now();
    fill(&pool);
    println!("filled in {:.1} s", started.elapsed().as_secs_f64());
    let stat = pool.stat().unwrap();
    let per_block = |bytes: u64| bytes as f64 / stat.logical_blocks as f64;
    println!("{} blocks, {} checkpoints", stat.logical_blocks, stat.activity.checkpoints);
    println!("memory: {:.1} bytes a mapped block", per_block(stat.metadata_memory_bytes));
    let on_disk = per_block(stat.metadata_disk_bytes);
    println!(
        "metadata disk: {on_disk:.1} bytes a block, {:.2} % of blocks of 4 KiB",
        on_disk / 40.96
    );
    println!("journal to replay: {:.1} MB", stat.journal_used_bytes as f64 / 1e6);
    let started = Instant::now();
    pool.snapshot_volume("v", "snapshot").unwrap();
    println!("a snapshot took {:.1} ms", started.elapsed().as_secs_f64() * 1e3);
    pool.remove_volume("snapshot").unwrap();
    drop(pool);
    for from in ["the system's cache", "disk"] {
        if from == "disk" {
            let file = std::fs::File::open(&path).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
        let (started, cpu_before_ns) = (Instant::now(), cpu_ns());
        let pool = open();
        let cpu_s = (cpu_ns() - cpu_before_ns) as f64 / 1e9;
        println!(
            "opened after a crash from {from} in {:.2} s, with {cpu_s:.2} s of processor time",
            started.elapsed().as_secs_f64()
        );
        assert_eq!(pool.stat().unwrap().logical_blocks, BLOCKS);
    }
}
