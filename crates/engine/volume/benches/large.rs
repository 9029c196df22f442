//! Pools of sizes that no disk here holds: rates, memory, metadata, snapshots and openings by size.
//!
//! Usage: `cargo bench -p gemelo-volume --bench large [-- DIRECTORY [SIZE,SIZE,... [BACKEND
//! [CACHE_MIB [SECONDS [MINUTES]]]]]]`. With MINUTES, one pool with room for snapshots, of which
//! nearly all blocks were used before, is loaded so long, and nothing else is measured. The
//! metadata are files in DIRECTORY: 56 bytes for each block, and twice as many at times. The data
//! disk makes contents instead of keeping them, in 4 bytes of memory for each block, which are not
//! counted. There is no cache of contents. Blocks have 4 KiB, and a pool is full to eight ninths.
//! Each load of random writes comes from 8 threads with 32 requests each, and lasts SECONDS, and a
//! flush that counts.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

mod growth;

use gemelo_base::units::parse_size;
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::testing::synthesize;
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::Pool;
use growth::pool::{BLOCK, Bench, Contents, LOAD_THREADS, Spread, VOLUME, write};
use growth::{Column, Options, Table, soak};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Snapshots that are taken during a load, at equal distances.
const SNAPSHOTS: [&str; 4] = ["s1", "s2", "s3", "s4"];
/// A wait for the background ends after this time.
const MAX_WAIT: Duration = Duration::from_secs(1800);

/// Waits for the background, and returns the time from an instant to the end of the wait.
fn wait(since: Instant, is_done: impl Fn() -> bool) -> Duration {
    while !is_done() {
        assert!(since.elapsed() < MAX_WAIT, "the background has not ended in time");
        std::thread::sleep(Duration::from_millis(2));
    }
    since.elapsed()
}

/// Random writes of all kinds.
fn load(bench: &mut Bench, pool: &Pool, column: &mut Column) {
    for (contents, place) in [(Contents::Fresh, "unique"), (Contents::Stored, "duplicate")] {
        for (spread, name) in [(Spread::HotSpots, "hot spots"), (Spread::Uniform, "uniform")] {
            let rate = bench.write_randomly(pool, spread, contents);
            column.rate(&format!("{place} random writes, {name}"), rate);
        }
    }
    for (threads, load) in [(LOAD_THREADS, "all threads"), (1, "one thread")] {
        snapshots(bench, pool, column, (threads, load));
    }
}

/// Snapshots that come under random writes of so many threads, and go. Where more threads write
/// than there are processors, a snapshot waits for these as well.
fn snapshots(
    bench: &mut Bench,
    pool: &Pool,
    column: &mut Column,
    (threads, name): (u64, &'static str),
) {
    let longest = std::thread::scope(|scope| {
        let pause = bench.load / (SNAPSHOTS.len() as u32 + 1);
        let write = || bench.write_with(threads, pool, Spread::HotSpots, Contents::Fresh);
        let load = scope.spawn(write);
        let times = SNAPSHOTS.map(|name| {
            std::thread::sleep(pause);
            let started = Instant::now();
            pool.snapshot_volume(VOLUME, name).unwrap();
            started.elapsed()
        });
        let rate = format!("unique random writes of {name}, hot spots, with snapshots");
        column.rate(&rate, load.join().unwrap());
        times.into_iter().max().unwrap_or_default()
    });
    column.time(&format!("the longest snapshot, {name} writing"), longest);
    let started = Instant::now();
    SNAPSHOTS.iter().for_each(|name| pool.remove_volume(name).unwrap());
    column.time(&format!("the removal of the snapshots, {name} writing"), started.elapsed());
    let is_gone = || pool.stat().unwrap().logical_blocks <= bench.blocks;
    let what = format!("until nothing of them is left, {name} writing");
    column.time(&what, wait(started, is_gone));
}

/// Opens the pool again, and writes a block at once.
fn reopen(bench: &mut Bench, column: &mut Column, name: &str) -> Pool {
    let (pool, opened) = bench.open();
    column.time(&format!("opening after {name}"), opened);
    let (started, mut block) = (Instant::now(), vec![0; BLOCK]);
    synthesize(bench.next.fetch_add(1, Ordering::Relaxed), &mut block);
    let volume = pool.volume(VOLUME).unwrap();
    write(&volume, [(bench.blocks / 2, block.as_slice())].into_iter());
    pool.flush().unwrap();
    column.time(&format!("the first write and flush after {name}"), started.elapsed());
    let is_complete = || {
        let stat = pool.stat().unwrap();
        stat.index_entries >= stat.physical_blocks
    };
    column.time(&format!("until the index is complete after {name}"), wait(started, is_complete));
    bench.note_memory(&pool);
    pool
}

/// Checks the metadata of the closed pool. Its memory is what it allocates: the pool has left gaps
/// in the memory of this process, which a process that only checks has not.
fn check_pool(bench: &Bench, column: &mut Column) {
    let allocated = || gemelo_base::memory::allocated_bytes().unwrap_or_default();
    let (before, is_done) = (allocated(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !is_done.load(Ordering::Relaxed) {
                most = most.max(allocated().saturating_sub(before));
                std::thread::sleep(Duration::from_millis(20));
            }
            most
        });
        let started = Instant::now();
        let options = CheckOptions { data: false };
        let report = check(&bench.disks(), options, &Silent, &StopFlag::new()).unwrap();
        let elapsed = started.elapsed();
        is_done.store(true, Ordering::Relaxed);
        assert!(report.is_clean(), "{report:?}");
        column.time("a check of the metadata", elapsed);
        column.bytes("memory of a check", watch.join().unwrap());
    });
}

fn measure(directory: &Path, size: &str, policy: Policy, options: &Options) -> Column {
    let bytes = parse_size(size).unwrap();
    let blocks = bytes / BLOCK as u64;
    let mut column = Column::new(size, bytes);
    let path = directory.join(format!("{}-{size}", policy.name()));
    let mut bench = Bench::new(path.clone(), blocks, policy, options);
    let (pool, _) = bench.open();
    pool.create_volume(VOLUME, bytes, DedupMode::Inline).unwrap();
    column.rate("sequential unique writes", bench.fill(&pool));
    load(&mut bench, &pool, &mut column);
    pool.flush().unwrap();
    drop(pool);
    let pool = reopen(&mut bench, &mut column, "a crash");
    assert!(pool.stat().unwrap().logical_blocks == blocks, "every LBN is mapped");
    let started = Instant::now();
    pool.close().unwrap();
    column.time("closing", started.elapsed());
    // What a check has allocated leaves gaps in the memory of this process.
    column.bytes("memory", bench.memory_bytes);
    column.bytes("of it the write buffer", bench.buffer_bytes);
    column.bytes("of it the metadata", bench.metadata_bytes);
    column.bytes("of these the cache", bench.cache_bytes);
    column.bytes("memory of the metadata by the estimate", bench.estimated.memory_bytes);
    column.bytes("of it the cache", bench.estimated.cache_bytes);
    check_pool(&bench, &mut column);
    let pool = reopen(&mut bench, &mut column, "a close");
    let stat = pool.stat().unwrap();
    column.bytes("metadata on disk", stat.metadata_used_bytes);
    column.bytes("metadata file, at most", stat.metadata_disk_bytes);
    drop(pool);
    std::fs::remove_file(path).unwrap();
    column
}

fn main() {
    // As the program does.
    gemelo_base::memory::keep_little();
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let directory = argument(0).map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let sizes = argument(1).unwrap_or("1g");
    let policy = Policy::from_name(argument(2).unwrap_or("compact")).unwrap();
    let cache_mib = argument(3).map_or(0, |text| text.parse().unwrap());
    let load = Duration::from_secs(argument(4).map_or(10, |text| text.parse().unwrap()));
    let options = Options { cache_mib, load, volumes: 1 };
    if let Some(minutes) = argument(5) {
        let (size, minutes) = (parse_size(sizes).unwrap(), minutes.parse().unwrap());
        let is_flat = soak::run(directory.path(), size, policy, &options, minutes);
        drop(directory);
        std::process::exit(i32::from(!is_flat));
    }
    match cache_mib {
        0 => println!("{}, cache as large as is usual", policy.name()),
        _ => println!("{}, cache of {cache_mib} MiB", policy.name()),
    }
    let mut table = Table::default();
    for size in sizes.split(',') {
        table.add(measure(directory.path(), size, policy, &options));
    }
    println!("{table}");
}
