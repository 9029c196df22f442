//! The speed of the engine in one process, beside `pwrite` and `pread` to a plain file in the same
//! run.
//!
//! Usage: `cargo bench -p gemelo-volume --bench engine [-- DIRECTORY [WORD [JOURNAL_DATA]]]`. The
//! data are in DIRECTORY, or in the directory for temporary files; with WORD, only the lines that
//! contain it are measured; with JOURNAL_DATA, a flush puts at most this many bytes of contents
//! into the journal. Every line is the median of rounds in which the candidates take turns, on
//! files that have been written before. The second line has the processor time of all threads per
//! operation.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

use gemelo_base::SystemClock;
use gemelo_base::random::{Random, mix64};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, FingerprintKind};
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const BLOCK: usize = 4096;
const VOLUME_BYTES: u64 = 512 << 20;
const BLOCKS: u64 = VOLUME_BYTES / BLOCK as u64;
const CAPACITY_BYTES: u64 = 1 << 30;
/// Requests of a batch, as a server receives on a connection with a deep queue.
const BATCH: usize = 32;
const THREADS: u64 = 2;
const ROUNDS: usize = 5;
/// Blocks written or read by each thread in a round.
const BLOCKS_A_ROUND: u64 = 40_000;
/// Bytes of a sequential write, as in the paper.
const SEQUENTIAL_BYTES: usize = 640 << 10;
/// The number of contents among which duplicates are chosen.
const COMMON: u64 = 1000;

trait Candidate: Sync {
    fn write(&self, blocks: &[(u64, &[u8])]);
    fn read(&self, offsets: &[u64], buffers: &mut [Vec<u8>]);
    fn flush(&self);
}

impl Candidate for Volume {
    fn write(&self, blocks: &[(u64, &[u8])]) {
        let mut batch: Vec<Request<'_>> = blocks
            .iter()
            .map(|&(offset, data)| Operation::Write {
                offset,
                data,
                durability: Durability::Flushed,
            })
            .map(|operation| Request { operation, outcome: Ok(()) })
            .collect();
        self.execute(&mut batch);
        assert!(batch.iter().all(|request| request.outcome.is_ok()));
    }

    fn read(&self, offsets: &[u64], buffers: &mut [Vec<u8>]) {
        let mut batch: Vec<Request<'_>> = offsets
            .iter()
            .zip(buffers)
            .map(|(offset, buffer)| Request {
                operation: Operation::Read { offset: *offset, buffer },
                outcome: Ok(()),
            })
            .collect();
        self.execute(&mut batch);
        assert!(batch.iter().all(|request| request.outcome.is_ok()));
    }

    fn flush(&self) {
        let mut batch = [Request { operation: Operation::Flush, outcome: Ok(()) }];
        self.execute(&mut batch);
        assert!(batch.iter().all(|request| request.outcome.is_ok()));
    }
}

struct Plain(File);

impl Candidate for Plain {
    fn write(&self, blocks: &[(u64, &[u8])]) {
        for (offset, data) in blocks {
            self.0.write_all_at(data, *offset).unwrap();
        }
    }

    fn read(&self, offsets: &[u64], buffers: &mut [Vec<u8>]) {
        for (offset, buffer) in offsets.iter().zip(buffers) {
            self.0.read_exact_at(buffer, *offset).unwrap();
        }
    }

    fn flush(&self) {
        self.0.sync_data().unwrap();
    }
}

/// Fills a block with a content. Eight bytes identify the content, and the rest is a pattern.
fn stamp(id: u64, block: &mut [u8]) {
    block[..8].copy_from_slice(&mix64(id).to_le_bytes());
}

/// All threads write 4 KiB at random places; of ten contents, `unique_of_ten` are new. Returns the
/// number of writes.
fn random_writes(candidate: &dyn Candidate, round: usize, unique_of_ten: u64) -> u64 {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = Random::new(round as u64 * 100 + thread);
                let mut blocks = vec![vec![0x5Au8; BLOCK]; BATCH];
                let mut done = 0;
                while done < BLOCKS_A_ROUND {
                    for block in &mut blocks {
                        let is_unique = random.below(10) < unique_of_ten;
                        stamp(
                            if is_unique { random.next_u64() } else { random.below(COMMON) },
                            block,
                        );
                    }
                    let batch: Vec<(u64, &[u8])> = blocks
                        .iter()
                        .map(|block| (random.below(BLOCKS) * BLOCK as u64, block.as_slice()))
                        .collect();
                    candidate.write(&batch);
                    done += BATCH as u64;
                }
            });
        }
    });
    BLOCKS_A_ROUND * THREADS
}

fn random_reads(candidate: &dyn Candidate, round: usize) -> u64 {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut random = Random::new(round as u64 * 100 + thread);
                let mut buffers = vec![vec![0u8; BLOCK]; BATCH];
                for _ in 0..BLOCKS_A_ROUND / BATCH as u64 {
                    let offsets: Vec<u64> =
                        (0..BATCH).map(|_| random.below(BLOCKS) * BLOCK as u64).collect();
                    candidate.read(&offsets, &mut buffers);
                }
            });
        }
    });
    BLOCKS_A_ROUND * THREADS
}

/// One thread writes half of the volume from end to end. Returns the number of blocks.
fn sequential_writes(candidate: &dyn Candidate, round: usize) -> u64 {
    let mut buffer = vec![0x5Au8; SEQUENTIAL_BYTES];
    let writes = VOLUME_BYTES / 2 / SEQUENTIAL_BYTES as u64;
    for number in 0..writes {
        for (at, block) in (0..).zip(buffer.chunks_mut(BLOCK)) {
            stamp((round as u64) << 40 | number << 10 | at, block);
        }
        candidate.write(&[(number * SEQUENTIAL_BYTES as u64, &buffer)]);
    }
    writes * (SEQUENTIAL_BYTES / BLOCK) as u64
}

/// Each of `threads` threads repeats a write of 4 KiB and a flush. Returns the number of such
/// pairs.
fn flushed_writes(candidate: &dyn Candidate, round: usize, threads: u64) -> u64 {
    const PAIRS: u64 = 100;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut random = Random::new(round as u64 * 100 + thread);
                let mut block = vec![0x5Au8; BLOCK];
                for _ in 0..PAIRS {
                    stamp(random.next_u64(), &mut block);
                    candidate.write(&[(random.below(BLOCKS) * BLOCK as u64, &block)]);
                    candidate.flush();
                }
            });
        }
    });
    PAIRS * threads
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn open_pool(
    directory: &Path,
    fingerprint: FingerprintKind,
    max_journal_data_bytes: Option<u64>,
) -> (Pool, Volume) {
    let path = directory.join(format!("{fingerprint:?}"));
    Pool::create(
        &path,
        &PoolOptions { capacity_bytes: CAPACITY_BYTES, fingerprint, ..PoolOptions::default() },
    )
    .unwrap();
    let tuning = Tuning { max_journal_data_bytes, ..Tuning::default() };
    let pool = Pool::open(&path, tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("v", VOLUME_BYTES, DedupMode::Inline).unwrap();
    let volume = pool.volume("v").unwrap();
    // The data store is written once before, like the plain file. Otherwise the allocation of the
    // file's pages would be measured.
    for round in 0..CAPACITY_BYTES / (VOLUME_BYTES / 2) + 1 {
        sequential_writes(&volume, 1_000_000 + round as usize);
    }
    volume.flush();
    (pool, volume)
}

struct Bench<'c> {
    candidates: &'c [(&'c str, &'c dyn Candidate)],
    only: Option<String>,
}

impl Bench<'_> {
    /// Measures a run, which returns its number of operations, and prints the rate in `unit`
    /// operations a second.
    fn measure(&self, title: &str, unit: f64, run: impl Fn(&dyn Candidate, usize) -> u64) {
        if self.only.as_ref().is_some_and(|word| !title.contains(word)) {
            return;
        }
        let mut figures = vec![(Vec::new(), Vec::new()); self.candidates.len()];
        for round in 0..ROUNDS {
            for ((_, candidate), (rates, cpu_us)) in self.candidates.iter().zip(&mut figures) {
                let (started, cpu_before_ns) = (Instant::now(), cpu_ns());
                let operations = run(*candidate, round * 1000 + title.len()) as f64;
                rates.push(operations / started.elapsed().as_secs_f64());
                cpu_us.push((cpu_ns() - cpu_before_ns) as f64 / 1e3 / operations);
                candidate.flush();
            }
        }
        let medians: Vec<(f64, f64)> =
            figures.into_iter().map(|(rates, cpu_us)| (median(rates), median(cpu_us))).collect();
        let plain = medians[0].0;
        let rates: Vec<String> = medians
            .iter()
            .map(|(rate, _)| format!("{:>9.1} ({:>4.2})", rate / unit, rate / plain))
            .collect();
        println!("{title:<42} {}", rates.join(" "));
        let cpu: Vec<String> =
            medians.iter().map(|(_, cpu_us)| format!("{cpu_us:>16.2}")).collect();
        println!("{:<42} {}", "  processor time of one, µs", cpu.join(" "));
    }
}

/// Processor time of this process in nanoseconds.
fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let directory = arguments.next().map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let only = arguments.next();
    let max_journal_data_bytes = arguments.next().map(|bytes| bytes.parse().unwrap());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(directory.path().join("plain"))
        .unwrap();
    let filler = vec![1u8; 1 << 20];
    for offset in (0..VOLUME_BYTES).step_by(filler.len()) {
        file.write_all_at(&filler, offset).unwrap();
    }
    let plain = Plain(file);
    let (_blake3_pool, blake3) =
        open_pool(directory.path(), FingerprintKind::Blake3, max_journal_data_bytes);
    let (_xxh3_pool, xxh3) =
        open_pool(directory.path(), FingerprintKind::Xxh3Compare, max_journal_data_bytes);
    let candidates: [(&str, &dyn Candidate); 3] =
        [("plain file", &plain), ("blake3", &blake3), ("xxh3+compare", &xxh3)];
    let names: Vec<String> = candidates.iter().map(|(name, _)| format!("{name:>16}")).collect();
    println!("{:<42} {}", "(ratio to the plain file)", names.join(" "));
    let bench = Bench { candidates: &candidates, only };
    let sequential_mb = 1e6 / BLOCK as f64;
    bench.measure("sequential 640 KiB writes, MB/s", sequential_mb, sequential_writes);
    bench.measure(
        "sequential, with a flush at the end, MB/s",
        sequential_mb,
        |candidate, round| {
            let operations = sequential_writes(candidate, round);
            candidate.flush();
            operations
        },
    );
    bench.measure("random 4 KiB writes, unique, k/s", 1e3, |c, round| random_writes(c, round, 10));
    bench.measure("random 4 KiB writes, half duplicates, k/s", 1e3, |c, round| {
        random_writes(c, round, 5)
    });
    bench.measure("random 4 KiB writes, all duplicates, k/s", 1e3, |c, round| {
        random_writes(c, round, 0)
    });
    bench.measure("random 4 KiB reads, k/s", 1e3, random_reads);
    for threads in [1, 8] {
        let title = format!("4 KiB write + flush, {threads} writers, /s");
        bench.measure(&title, 1.0, |c, round| flushed_writes(c, round, threads));
    }
}
