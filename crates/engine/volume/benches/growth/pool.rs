//! A pool whose data disk makes contents, and the load on it.

use super::Options;
use gemelo_base::SystemClock;
use gemelo_base::random::Random;
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_disk::FileDisk;
use gemelo_disk::testing::{SyntheticDisk, renumber, synthesize};
use gemelo_format::Policy;
use gemelo_store::PoolDisks;
use gemelo_volume::{Needs, Pool, PoolOptions, Tuning, Volume};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) const BLOCK: usize = 4096;
/// A fill: its threads, and the blocks of a request.
const FILL_THREADS: u64 = 2;
const FILL_BLOCKS: u64 = 256;
/// A load of random writes: its threads, and the requests of a batch of each. A thread waits while
/// the metadata of its batch are read.
pub(crate) const LOAD_THREADS: u64 = 8;
const BATCH: usize = 32;
/// Spare blocks, which random writes use before freed ones come back: an eighth, and these.
const SPARE_BLOCKS: u64 = 500_000;
pub(crate) const VOLUME: &str = "v";

/// The places of random writes, and the contents that are written there once more.
#[derive(Clone, Copy)]
pub(crate) enum Spread {
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
pub(crate) enum Contents {
    Fresh,
    Stored,
}

/// A pool of one size, open or not.
pub(crate) struct Bench {
    pub(crate) path: PathBuf,
    data: Arc<SyntheticDisk>,
    metadata: Arc<FileDisk>,
    tuning: Tuning,
    pub(crate) blocks: u64,
    pub(crate) load: Duration,
    /// The number of the next fresh content.
    pub(crate) next: AtomicU32,
    /// The number of loads so far. Each has places of its own.
    loads: u64,
    /// The highest memory seen: that of the process, and what of it `pool stat` names.
    pub(crate) memory_bytes: u64,
    pub(crate) metadata_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) buffer_bytes: u64,
    /// The needs of the metadata of the full pool, as `gemelo pool estimate` has them.
    pub(crate) estimated: Needs,
}

impl Bench {
    pub(crate) fn new(path: PathBuf, blocks: u64, policy: Policy, options: &Options) -> Self {
        let data = Arc::new(SyntheticDisk::new(BLOCK));
        let metadata = Arc::new(FileDisk::create(&path).unwrap());
        let pool = PoolOptions {
            block_bytes: BLOCK as u32,
            capacity_bytes: (blocks * options.volumes + blocks / 8 + SPARE_BLOCKS) * BLOCK as u64,
            policy,
            ..PoolOptions::default()
        };
        let cache_bytes = (options.cache_mib > 0).then_some(options.cache_mib << 20);
        // The memory is that of the metadata.
        let tuning = Tuning { cache_bytes, content_cache_bytes: Some(0), ..Tuning::default() };
        let next = AtomicU32::new(0);
        let load = options.load;
        // Of a pool that the blocks of the volume fill.
        let filled = PoolOptions { capacity_bytes: blocks * BLOCK as u64, ..pool.clone() };
        let full = filled.needs(1.0, (tuning.metadata_cache(), tuning.index_sampling)).unwrap();
        let bench = Self {
            path,
            data,
            metadata,
            tuning,
            blocks,
            load,
            next,
            loads: 0,
            memory_bytes: 0,
            metadata_bytes: 0,
            cache_bytes: 0,
            buffer_bytes: 0,
            estimated: full.needs,
        };
        Pool::format(&bench.disks(), &pool).unwrap();
        bench
    }

    pub(crate) fn disks(&self) -> PoolDisks {
        PoolDisks::new(Arc::clone(&self.data) as _, Arc::clone(&self.metadata) as _)
    }

    /// Opens the pool, with nothing of its metadata in the system's cache, and without memory of an
    /// earlier opening.
    pub(crate) fn open(&self) -> (Pool, Duration) {
        gemelo_base::memory::give_back_freed();
        let file = std::fs::File::open(&self.path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let started = Instant::now();
        let clock = Arc::new(SystemClock::new());
        let pool = Pool::open_disks(self.disks(), self.tuning, clock).unwrap();
        (pool, started.elapsed())
    }

    /// Memory of this process that is neither a file's nor the data disk's.
    pub(crate) fn own_bytes(&self) -> u64 {
        anonymous_bytes().saturating_sub(self.data.memory_bytes())
    }

    pub(crate) fn note_memory(&mut self, pool: &Pool) {
        self.memory_bytes = self.memory_bytes.max(self.own_bytes());
        let stat = pool.stat().unwrap();
        self.metadata_bytes = self.metadata_bytes.max(stat.metadata_memory_bytes);
        self.cache_bytes = self.cache_bytes.max(stat.metadata_cache.held_bytes);
        self.buffer_bytes = self.buffer_bytes.max(stat.write_buffer.memory_bytes);
    }

    /// Writes fresh contents from end to end, in a part for each thread. Returns blocks a second.
    pub(crate) fn fill(&mut self, pool: &Pool) -> f64 {
        let volume = pool.volume(VOLUME).unwrap();
        let started = Instant::now();
        let part = self.blocks.div_ceil(FILL_THREADS);
        std::thread::scope(|scope| {
            for thread in 0..FILL_THREADS {
                let (volume, next) = (&volume, &self.next);
                let lbns = thread * part..((thread + 1) * part).min(self.blocks);
                scope.spawn(move || fill_part(volume, next, lbns));
            }
        });
        pool.flush().unwrap();
        let rate = self.blocks as f64 / started.elapsed().as_secs_f64();
        self.note_memory(pool);
        rate
    }

    /// Writes blocks at random for a while, with all threads of a load. Returns writes a second.
    pub(crate) fn write_randomly(
        &mut self,
        pool: &Pool,
        spread: Spread,
        contents: Contents,
    ) -> f64 {
        self.write_with(LOAD_THREADS, pool, spread, contents)
    }

    /// Does the same with so many threads.
    pub(crate) fn write_with(
        &mut self,
        threads: u64,
        pool: &Pool,
        spread: Spread,
        contents: Contents,
    ) -> f64 {
        let volume = pool.volume(VOLUME).unwrap();
        self.loads += 1;
        let started = Instant::now();
        let written: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads)
                .map(|thread| {
                    let (volume, this) = (&volume, &*self);
                    let random = Random::new(this.loads * LOAD_THREADS + thread);
                    scope.spawn(move || this.write_part(volume, random, spread, contents))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        pool.flush().unwrap();
        let rate = written as f64 / started.elapsed().as_secs_f64();
        self.note_memory(pool);
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

pub(crate) fn write<'b>(volume: &Volume, blocks: impl Iterator<Item = (u64, &'b [u8])>) {
    let mut batch: Vec<Request<'_>> = blocks
        .map(|(lbn, data)| Operation::Write {
            offset: lbn * BLOCK as u64,
            data,
            durability: Durability::Flushed,
        })
        .map(|operation| Request { operation, outcome: Ok(()) })
        .collect();
    volume.execute(&mut batch);
    batch.into_iter().for_each(|request| request.outcome.unwrap());
}

/// Memory of this process that is no file's.
fn anonymous_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with("RssAnon")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}
