//! Memory and metadata disk of a pool as it grows, with each backend. It shows whether the cached
//! backends stay within their cache.
//!
//! Usage: `cargo bench -p gemelo-volume --bench memory [-- DIRECTORY [GB,GB,... [BACKEND
//! [CACHE_MIB]]]]`. GB count blocks of 4 KiB. Here blocks have 512 bytes and the data store keeps
//! none of them, as metadata depend on neither. Every size fills the pool with unique contents,
//! overwrites a part of it at random, and opens it anew. Memory is the resident memory of the
//! process, less what it had before the pool was made.

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
use gemelo_format::{BackendKind, DedupMode, FingerprintKind};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning};
use std::sync::Arc;
use std::time::Instant;

const BLOCK: usize = 512;
/// Blocks of 4 KiB in a GB.
const BLOCKS_PER_GB: f64 = 1e9 / 4096.0;
const BLOCKS_A_WRITE: usize = 256;
const USUAL_CACHE_MIB: u64 = 16;

/// Reads a field of this process's status, in MiB.
fn status_mib(field: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn write(pool: &Pool, first: u64, data: &[u8]) {
    let volume = pool.volume("v").unwrap();
    let operation =
        Operation::Write { offset: first * BLOCK as u64, data, durability: Durability::Flushed };
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    assert!(batch.iter().all(|request| request.outcome.is_ok()), "{:?}", batch[0].outcome);
}

/// Writes unique contents from end to end, then `random_blocks` more at random places.
fn fill(pool: &Pool, blocks: u64, random_blocks: u64) -> (f64, f64) {
    let mut buffer = vec![0x5Au8; BLOCK * BLOCKS_A_WRITE];
    let mut random = Random::new(1);
    let started = Instant::now();
    let mut written = 0;
    while written < blocks {
        let count = BLOCKS_A_WRITE.min((blocks - written) as usize);
        for (number, block) in (written..).zip(buffer.chunks_mut(BLOCK).take(count)) {
            block[..8].copy_from_slice(&mix64(number).to_le_bytes());
        }
        write(pool, written, &buffer[..count * BLOCK]);
        written += count as u64;
    }
    let sequential = blocks as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    for number in 0..random_blocks {
        buffer[..8].copy_from_slice(&mix64(blocks + number).to_le_bytes());
        write(pool, random.below(blocks), &buffer[..BLOCK]);
    }
    pool.flush().unwrap();
    (sequential, random_blocks as f64 / started.elapsed().as_secs_f64())
}

fn measure(directory: &std::path::Path, backend: BackendKind, gb: f64, cache_mib: u64) {
    let blocks = (gb * BLOCKS_PER_GB) as u64;
    let before = status_mib("VmRSS");
    // Resets the peak of the resident set.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let path = directory.join(format!("{}-{gb}", backend.name()));
    let metadata = Arc::new(FileDisk::create(&path).unwrap());
    let data = Arc::new(SinkDisk::new(blocks * 2 * BLOCK as u64, BLOCK));
    let disks = PoolDisks::new(data, metadata);
    let options = PoolOptions {
        block_bytes: BLOCK as u32,
        capacity_bytes: (blocks + blocks / 4 + 100_000) * BLOCK as u64,
        fingerprint: FingerprintKind::Xxh3Compare,
        backend,
        ..PoolOptions::default()
    };
    Pool::format(&disks, &options).unwrap();
    let cache_bytes = cache_mib << 20;
    let tuning = Tuning { cache_bytes, content_cache_bytes: 0, ..Tuning::default() };
    let open = || Pool::open_disks(disks.clone(), tuning, Arc::new(SystemClock::new())).unwrap();
    let pool = open();
    pool.create_volume("v", blocks * BLOCK as u64, DedupMode::Inline).unwrap();
    let (sequential, random) = fill(&pool, blocks, blocks.min(400_000));
    let stat = pool.stat().unwrap();
    let highest = status_mib("VmHWM") - before;
    let looked_up = (stat.metadata_cache.hits + stat.metadata_cache.misses).max(1) as f64;
    let hits = stat.metadata_cache.hits as f64 / looked_up * 100.0;
    drop(pool);
    let started = Instant::now();
    let pool = open();
    let opened = started.elapsed().as_secs_f64();
    let stored = stat.metadata_used_bytes as f64 / blocks as f64;
    let longest =
        stat.metadata_disk_bytes.saturating_sub(stat.journal_bytes) as f64 / blocks as f64;
    println!(
        "{:<6} {gb:>6} GB {highest:>8.0} MiB {:>6.1} B/block memory {stored:>6.1} B/block disk ({:.2} %, at most {:.2} %) {hits:>5.1} % hits \
         {:>6.0} k/s sequential {:>6.0} k/s random, opened in {opened:.2} s",
        backend.name(),
        highest * 1_048_576.0 / blocks as f64,
        stored / 40.96,
        longest / 40.96,
        sequential / 1e3,
        random / 1e3,
    );
    assert_eq!(pool.stat().unwrap().logical_blocks, blocks);
    drop(pool);
    std::fs::remove_file(path).unwrap();
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let sizes = arguments.get(1).map_or("1", String::as_str);
    let backends = match arguments.get(2) {
        Some(name) => vec![BackendKind::from_name(name).unwrap()],
        None => BackendKind::ALL.to_vec(),
    };
    let cache_mib = arguments.get(3).map_or(USUAL_CACHE_MIB, |text| text.parse().unwrap());
    println!("cache of the backends on disk: {cache_mib} MiB");
    for backend in backends {
        for gb in sizes.split(',') {
            measure(directory.path(), backend, gb.parse().unwrap(), cache_mib);
        }
    }
}
