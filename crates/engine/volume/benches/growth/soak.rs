//! A long load with a snapshot each minute, of which the oldest goes. Memory has to be flat.

use super::Options;
use super::pool::{BLOCK, Bench, Contents, Spread, VOLUME};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::Pool;
use std::path::Path;
use std::time::{Duration, Instant};

/// Snapshots that are kept.
const KEPT: u64 = 5;
/// Blocks that random writes overwrite at most while a snapshot is kept, and one that is removed is
/// not gone: 80,000 a second.
const OVERWRITTEN: u64 = 30_000_000;
/// The last minutes are compared with as many before them: a third of all, at most so many.
const MAX_WINDOW: usize = 20;
/// More memory is growth: a fiftieth, and a MiB.
const TOLERANCE: f64 = 1.02;
const TOLERANCE_BYTES: f64 = 1048576.0;

/// Fills a pool, and loads it for some minutes. Prints the figures of each. Returns whether memory
/// was flat.
pub(crate) fn run(
    directory: &Path,
    bytes: u64,
    policy: Policy,
    options: &Options,
    minutes: u64,
) -> bool {
    let blocks = bytes / BLOCK as u64;
    let minute = Duration::from_secs(60);
    let path = directory.join("soak");
    // A snapshot has all blocks that were overwritten since then.
    let volumes = 1 + OVERWRITTEN.div_ceil(blocks).min(KEPT + 1);
    let options = Options { load: minute / 4, volumes, ..*options };
    let mut bench = Bench::new(path, blocks, policy, &options);
    let (pool, _) = bench.open();
    pool.create_volume(VOLUME, bytes, DedupMode::Inline).unwrap();
    // The pool is an aged one: nearly all of its blocks were used before.
    for _ in 0..volumes {
        println!("filled with {:.0} blocks a second", bench.fill(&pool));
    }
    println!("minute writes/s snapshot/ms memory/MB buffer/MB metadata/MB index entries");
    let memory: Vec<u64> = (1..=minutes).map(|number| one(&mut bench, &pool, number)).collect();
    pool.close().unwrap();
    let options = CheckOptions { data: false };
    let report = check(&bench.disks(), options, &Silent, &StopFlag::new()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    is_flat(&memory)
}

/// One minute. Returns the memory at its end, without that of the write buffer, which has a bound
/// of its own, and comes near it once in a long while.
fn one(bench: &mut Bench, pool: &Pool, number: u64) -> u64 {
    let started = Instant::now();
    pool.snapshot_volume(VOLUME, &format!("s{number}")).unwrap();
    let snapshot = started.elapsed();
    if let Some(old) = number.checked_sub(KEPT).filter(|old| *old > 0) {
        pool.remove_volume(&format!("s{old}")).unwrap();
    }
    let mut rate = 0.0;
    for contents in [Contents::Fresh, Contents::Stored] {
        for spread in [Spread::HotSpots, Spread::Uniform] {
            rate += bench.write_randomly(pool, spread, contents) / 4.0;
        }
    }
    let stat = pool.stat().unwrap();
    let buffer = stat.write_buffer.memory_bytes;
    let memory = bench.own_bytes() - buffer;
    println!(
        "{number:6} {rate:8.0} {:11.1} {:9.1} {:9.1} {:11.1} {:13}",
        snapshot.as_secs_f64() * 1e3,
        memory as f64 / 1e6,
        buffer as f64 / 1e6,
        stat.metadata_used_bytes as f64 / 1e6,
        stat.index_entries,
    );
    memory
}

/// Returns whether the memory of the last minutes is not above that of the minutes before them.
fn is_flat(memory: &[u64]) -> bool {
    let window = (memory.len() / 3).clamp(1, MAX_WINDOW);
    let mean = |minutes: &[u64]| minutes.iter().sum::<u64>() as f64 / minutes.len().max(1) as f64;
    let (before, last) = memory.split_at(memory.len().saturating_sub(window));
    let before = mean(&before[before.len().saturating_sub(window)..]);
    let last = mean(last);
    println!("memory: {:.1} MB, before {:.1} MB", last / 1e6, before / 1e6);
    last <= before * TOLERANCE + TOLERANCE_BYTES
}
