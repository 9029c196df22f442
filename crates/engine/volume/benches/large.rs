//! Pools of sizes that no disk here holds: rates, memory, metadata, snapshots and openings by size.
//!
//! Usage: `cargo bench -p gemelo-volume --bench large [-- DIRECTORY [SIZE,SIZE,... [BACKEND
//! [CACHE_MIB [SECONDS]]]]]`. The metadata are files in DIRECTORY: 56 bytes for each block, and
//! twice as many at times. The data disk makes contents instead of keeping them, in 4 bytes of
//! memory for each block, which are not counted. There is no cache of contents. Blocks have 4 KiB,
//! and a pool is full to eight ninths. Each load of random writes lasts SECONDS, and a flush that
//! counts.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

mod growth;

use gemelo_base::random::Random;
use gemelo_base::units::parse_size;
use gemelo_base::{Silent, StopFlag, SystemClock};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::FileDisk;
use gemelo_disk::testing::{SyntheticDisk, renumber, synthesize};
use gemelo_format::{BackendKind, DedupMode};
use gemelo_store::PoolDisks;
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use growth::{Column, Table};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Blocks of a request of a fill, and requests of a batch of random writes.
const FILL_BLOCKS: u64 = 256;
const BATCH: usize = 32;
const THREADS: u64 = 2;
/// Spare blocks, which random writes use before freed ones come back: an eighth, and these.
const SPARE_BLOCKS: u64 = 500_000;
const VOLUME: &str = "v";
const SNAPSHOT: &str = "s";
/// A wait for the background ends after this time.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// The places of random writes, and the contents that are written there once more.
#[derive(Clone, Copy)]
enum Spread {
    /// TPC-C's NURand with a tenth of the blocks as its constant, as in DEDISbench.
    HotSpots,
    Uniform,
}

impl Spread {
    fn draw(self, random: &mut Random, blocks: u64) -> u64 {
        match self {
            Self::HotSpots => (random.below(blocks / 10 + 1) | random.below(blocks)) % blocks,
            Self::Uniform => random.below(blocks),
        }
    }
}

#[derive(Clone, Copy)]
enum Contents {
    Fresh,
    Stored,
}

/// A pool of one size, open or not.
struct Bench {
    path: PathBuf,
    data: Arc<SyntheticDisk>,
    metadata: Arc<FileDisk>,
    tuning: Tuning,
    blocks: u64,
    load: Duration,
    /// The number of the next fresh content.
    next: AtomicU32,
    /// The highest memory seen.
    memory_bytes: u64,
}

impl Bench {
    fn new(path: PathBuf, blocks: u64, backend: BackendKind, options: &Options) -> Self {
        let data = Arc::new(SyntheticDisk::new(BLOCK));
        let metadata = Arc::new(FileDisk::create(&path).unwrap());
        let pool = PoolOptions {
            block_bytes: BLOCK as u32,
            capacity_bytes: (blocks + blocks / 8 + SPARE_BLOCKS) * BLOCK as u64,
            backend,
            ..PoolOptions::default()
        };
        let cache_bytes = options.cache_mib << 20;
        // The memory is that of the metadata.
        let tuning = Tuning { cache_bytes, content_cache_bytes: Some(0), ..Tuning::default() };
        let next = AtomicU32::new(0);
        let load = options.load;
        let bench = Self { path, data, metadata, tuning, blocks, load, next, memory_bytes: 0 };
        Pool::format(&bench.disks(), &pool).unwrap();
        bench
    }

    fn disks(&self) -> PoolDisks {
        PoolDisks::new(Arc::clone(&self.data) as _, Arc::clone(&self.metadata) as _)
    }

    /// Opens the pool, with nothing of its metadata in the system's cache.
    fn open(&self) -> (Pool, Duration) {
        let file = std::fs::File::open(&self.path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let started = Instant::now();
        let clock = Arc::new(SystemClock::new());
        let pool = Pool::open_disks(self.disks(), self.tuning, clock).unwrap();
        (pool, started.elapsed())
    }

    fn note_memory(&mut self) {
        let own_bytes = anonymous_bytes().saturating_sub(self.data.memory_bytes());
        self.memory_bytes = self.memory_bytes.max(own_bytes);
    }

    /// Writes fresh contents from end to end, in a part for each thread. Returns blocks a second.
    fn fill(&mut self, pool: &Pool) -> f64 {
        let volume = pool.volume(VOLUME).unwrap();
        let started = Instant::now();
        let part = self.blocks.div_ceil(THREADS);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (volume, next) = (&volume, &self.next);
                let lbns = thread * part..((thread + 1) * part).min(self.blocks);
                scope.spawn(move || fill_part(volume, next, lbns));
            }
        });
        pool.flush().unwrap();
        let rate = self.blocks as f64 / started.elapsed().as_secs_f64();
        self.note_memory();
        rate
    }

    /// Writes blocks at random for a while. Returns writes a second.
    fn write_randomly(&mut self, pool: &Pool, spread: Spread, contents: Contents) -> f64 {
        let volume = pool.volume(VOLUME).unwrap();
        let started = Instant::now();
        let written: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (volume, this) = (&volume, &*self);
                    let random = Random::new(thread + 1);
                    scope.spawn(move || this.write_part(volume, random, spread, contents))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        pool.flush().unwrap();
        let rate = written as f64 / started.elapsed().as_secs_f64();
        self.note_memory();
        rate
    }

    fn write_part(
        &self,
        volume: &Volume,
        mut random: Random,
        spread: Spread,
        contents: Contents,
    ) -> u64 {
        let mut blocks = vec![vec![0; BLOCK]; BATCH];
        blocks.iter_mut().for_each(|block| synthesize(0, block));
        let (started, mut written) = (Instant::now(), 0);
        while started.elapsed() < self.load {
            let lbns: Vec<u64> =
                blocks.iter().map(|_| spread.draw(&mut random, self.blocks)).collect();
            for block in &mut blocks {
                let number = match contents {
                    Contents::Fresh => self.next.fetch_add(1, Ordering::Relaxed),
                    Contents::Stored => spread.draw(&mut random, self.blocks) as u32,
                };
                renumber(number, block);
            }
            write(volume, lbns.iter().copied().zip(blocks.iter().map(Vec::as_slice)));
            written += BATCH as u64;
        }
        written
    }
}

fn fill_part(volume: &Volume, next: &AtomicU32, lbns: std::ops::Range<u64>) {
    let mut buffer = vec![0; BLOCK * FILL_BLOCKS as usize];
    buffer.chunks_mut(BLOCK).for_each(|block| synthesize(0, block));
    let mut first = lbns.start;
    while first < lbns.end {
        let count = FILL_BLOCKS.min(lbns.end - first);
        let number = next.fetch_add(count as u32, Ordering::Relaxed);
        let blocks = buffer.chunks_mut(BLOCK).take(count as usize);
        (number..).zip(blocks).for_each(|(number, block)| renumber(number, block));
        write(volume, [(first, &buffer[..count as usize * BLOCK])].into_iter());
        first += count;
    }
}

fn write<'b>(volume: &Volume, blocks: impl Iterator<Item = (u64, &'b [u8])>) {
    let mut batch: Vec<Request<'_>> = blocks
        .map(|(lbn, data)| Operation::Write {
            offset: lbn * BLOCK as u64,
            data,
            durability: Durability::Flushed,
        })
        .map(|operation| Request { operation, outcome: Ok(()) })
        .collect();
    volume.execute(&mut batch);
    assert!(batch.iter().all(|request| request.outcome.is_ok()), "{:?}", batch[0].outcome);
}

/// Memory of this process that is no file's.
fn anonymous_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// Waits for the background, and returns the time from an instant to the end of the wait.
fn wait(since: Instant, is_done: impl Fn() -> bool) -> Duration {
    while !is_done() {
        assert!(since.elapsed() < MAX_WAIT, "the background has not ended in time");
        std::thread::sleep(Duration::from_millis(2));
    }
    since.elapsed()
}

/// Random writes of all kinds, and a snapshot that comes and goes meanwhile.
fn load(bench: &mut Bench, pool: &Pool, column: &mut Column) {
    for (contents, place) in [(Contents::Fresh, "unique"), (Contents::Stored, "duplicate")] {
        for (spread, name) in [(Spread::HotSpots, "hot spots"), (Spread::Uniform, "uniform")] {
            let rate = bench.write_randomly(pool, spread, contents);
            column.rate(&format!("{place} random writes, {name}"), rate);
        }
    }
    let started = Instant::now();
    pool.snapshot_volume(VOLUME, SNAPSHOT).unwrap();
    column.time("a snapshot", started.elapsed());
    let references = pool.stat().unwrap().logical_blocks;
    let rate = bench.write_randomly(pool, Spread::HotSpots, Contents::Fresh);
    column.rate("unique random writes, hot spots, after a snapshot", rate);
    let started = Instant::now();
    pool.remove_volume(SNAPSHOT).unwrap();
    column.time("the removal of the snapshot", started.elapsed());
    let is_gone = || pool.stat().unwrap().logical_blocks <= references / 2;
    column.time("until nothing of it is left", wait(started, is_gone));
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
    bench.note_memory();
    pool
}

fn measure(directory: &Path, size: &str, backend: BackendKind, options: &Options) -> Column {
    let bytes = parse_size(size).unwrap();
    let blocks = bytes / BLOCK as u64;
    let mut column = Column::new(size, bytes);
    let path = directory.join(format!("{}-{size}", backend.name()));
    let mut bench = Bench::new(path.clone(), blocks, backend, options);
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
    let pool = reopen(&mut bench, &mut column, "a close");
    let stat = pool.stat().unwrap();
    column.bytes("memory", bench.memory_bytes);
    column.bytes("metadata on disk", stat.metadata_used_bytes);
    column.bytes("metadata file, at most", stat.metadata_disk_bytes);
    let other =
        if backend == BackendKind::Table { BackendKind::Compact } else { BackendKind::Table };
    let started = Instant::now();
    pool.convert(other, &Silent, &StopFlag::new()).unwrap();
    let rate = blocks as f64 / started.elapsed().as_secs_f64();
    column.rate(&format!("blocks of a move to {}", other.name()), rate);
    drop(pool);
    std::fs::remove_file(path).unwrap();
    column
}

struct Options {
    cache_mib: u64,
    load: Duration,
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let directory = argument(0).map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let sizes = argument(1).unwrap_or("1g");
    let backend = BackendKind::from_name(argument(2).unwrap_or("compact")).unwrap();
    let cache_mib = argument(3).map_or(256, |text| text.parse().unwrap());
    let load = Duration::from_secs(argument(4).map_or(10, |text| text.parse().unwrap()));
    let options = Options { cache_mib, load };
    println!("{}, cache of {cache_mib} MiB", backend.name());
    let mut table = Table::default();
    for size in sizes.split(',') {
        table.add(measure(directory.path(), size, backend, &options));
    }
    println!("{table}");
}
