//! A comparison of the policies of the metadata: write rates by data, pattern, transaction size and
//! cache size; memory and metadata per block. Figures 4 to 6 of the Dmdedup paper show the same for
//! its backends.
//!
//! Usage: `cargo bench -p gemelo-volume --bench policies [-- DIRECTORY [SOURCE_TREE [MIB]]]`. Pools
//! are made in DIRECTORY; the blocks of the files of SOURCE_TREE are the third kind of data; each
//! run writes MIB (64 unless set). A transaction is a number of writes and a flush. A cell is the
//! median of rounds in which the policies take turns. Stats are thousands of blocks of 4 KiB a
//! second, and can be compared within one run only.

#![allow(
    missing_docs,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints its figures or aborts"
)]

use gemelo_base::SystemClock;
use gemelo_base::random::{Random, mix64};
use gemelo_device::{BlockDevice, Durability, Operation, Request};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::{Pool, PoolOptions, Tuning, Volume};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Bytes of a sequential write, as in the paper.
const SEQUENTIAL_BYTES: usize = 640 << 10;
/// The number of contents in data that consists of duplicates alone.
const COMMON: u64 = 64;
/// Rounds in which the policies take turns; a cell is their median.
const ROUNDS: usize = 3;
/// A source tree with fewer bytes is too small for a sample.
const MIN_TREE_BYTES: usize = 8 << 20;
/// A cell ends after this time, even if blocks are left.
const MAX_TIME: Duration = Duration::from_secs(1);
/// Cache sizes. A pool of 64 MiB has metadata much larger than the first, about as large as the
/// second, and smaller than the third.
const CACHES_KIB: [u64; 3] = [128, 1024, 16 << 10];
/// Directories that serve as a source tree. Most machines have at least one.
const TREES: [&str; 3] = ["/usr/src", "/usr/include", "/usr/share"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Unique,
    Duplicates,
    Tree,
}

/// The kinds of data that are written.
struct Content<'t> {
    data: Data,
    tree: &'t [u8],
    next: u64,
}

impl Content<'_> {
    fn fill(&mut self, block: &mut [u8]) {
        self.next += 1;
        match self.data {
            Data::Unique => block[..8].copy_from_slice(&mix64(self.next).to_le_bytes()),
            Data::Duplicates => {
                block[..8].copy_from_slice(&mix64(self.next % COMMON).to_le_bytes());
            }
            Data::Tree => {
                let at = self.next as usize * BLOCK % self.tree.len();
                block.copy_from_slice(&self.tree[at..at + BLOCK]);
            }
        }
    }
}

fn execute(volume: &Volume, operation: Operation<'_>) {
    let mut batch = [Request { operation, outcome: Ok(()) }];
    volume.execute(&mut batch);
    assert!(batch.iter().all(|request| request.outcome.is_ok()), "{:?}", batch[0].outcome);
}

/// Writes blocks, with a flush after each `transaction` of them. Returns blocks a second.
fn run(
    volume: &Volume,
    content: &mut Content<'_>,
    bytes: u64,
    is_random: bool,
    transaction: Option<u64>,
) -> f64 {
    let request = if is_random { BLOCK } else { SEQUENTIAL_BYTES };
    let mut buffer = vec![0x5Au8; request];
    let mut random = Random::new(content.next);
    let (started, mut done) = (Instant::now(), 0);
    for number in 1..=bytes / request as u64 {
        buffer.chunks_mut(BLOCK).for_each(|block| content.fill(block));
        let place = if is_random {
            random.below(bytes / BLOCK as u64)
        } else {
            (number - 1) * (request / BLOCK) as u64
        };
        let offset = place * BLOCK as u64;
        execute(
            volume,
            Operation::Write { offset, data: &buffer, durability: Durability::Flushed },
        );
        if transaction.is_some_and(|writes| number.is_multiple_of(writes)) {
            execute(volume, Operation::Flush);
        }
        done += request / BLOCK;
        if started.elapsed() > MAX_TIME {
            break;
        }
    }
    done as f64 / started.elapsed().as_secs_f64()
}

fn open(directory: &Path, policy: Policy, cache_kib: u64, bytes: u64) -> Pool {
    let path = directory.join("pool");
    if path.exists() {
        std::fs::remove_dir_all(&path).unwrap();
    }
    let options = PoolOptions { capacity_bytes: bytes * 4, policy, ..PoolOptions::default() };
    Pool::create(&path, &options).unwrap();
    let cache_bytes = Some(cache_kib << 10);
    let tuning = Tuning { cache_bytes, content_cache_bytes: Some(0), ..Tuning::default() };
    let pool = Pool::open(&path, tuning, Arc::new(SystemClock::new())).unwrap();
    pool.create_volume("v", bytes, DedupMode::Inline).unwrap();
    pool
}

/// The results of a round for one policy: rates, and figures that are the same in every round.
struct Round {
    rates: Vec<f64>,
    rest: String,
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn print(name: &str, rounds: &[Round]) {
    let of_cell = |cell: usize| median(rounds.iter().map(|round| round.rates[cell]).collect());
    let cells: Vec<String> = (0..6).map(|cell| format!("{:>8.1}", of_cell(cell) / 1e3)).collect();
    println!("{name:<16} {} {}", cells.join(" "), rounds[0].rest);
}

/// Runs one round of a line of the table.
fn measure(
    directory: &Path,
    (policy, cache_kib): (Policy, u64),
    (data, tree): (Data, &[u8]),
    bytes: u64,
) -> Round {
    let pool = open(directory, policy, cache_kib, bytes);
    let volume = pool.volume("v").unwrap();
    let mut content = Content { data, tree, next: 0 };
    let mut rates = Vec::new();
    for is_random in [false, true] {
        for transaction in [None, Some(1000), Some(1)] {
            rates.push(run(&volume, &mut content, bytes, is_random, transaction));
        }
    }
    pool.checkpoint().unwrap();
    let stat = pool.stat().unwrap();
    let per_block = |bytes: u64| bytes as f64 / stat.logical_blocks.max(1) as f64;
    let looked_up = (stat.metadata_cache.hits + stat.metadata_cache.misses).max(1) as f64;
    let rest = format!(
        "{:>7.1} {:>7.1} {:>6.2} {:>6.1}",
        per_block(stat.metadata_memory_bytes),
        per_block(stat.metadata_used_bytes),
        stat.dedup_ratio(),
        stat.metadata_cache.hits as f64 * 100.0 / looked_up,
    );
    Round { rates, rest }
}

/// Reads the files below a directory until there are enough bytes. Each file is filled up to whole
/// blocks.
fn read_tree(directory: &Path, most: usize, bytes: &mut Vec<u8>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        if bytes.len() >= most {
            return;
        }
        match path.symlink_metadata() {
            Ok(status) if status.is_dir() => read_tree(&path, most, bytes),
            Ok(status) if status.is_file() => {
                bytes.extend(std::fs::read(&path).unwrap_or_default());
                bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
            }
            _ => {}
        }
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(tempfile::tempdir, tempfile::tempdir_in).unwrap();
    let bytes = arguments.get(2).map_or(64, |text| text.parse().unwrap()) << 20;
    let (mut tree, mut root) = (Vec::new(), Path::new("."));
    for candidate in arguments.get(1).map_or(TREES.to_vec(), |root| vec![root.as_str()]) {
        if tree.len() < MIN_TREE_BYTES {
            root = Path::new(candidate);
            tree.clear();
            read_tree(root, bytes as usize, &mut tree);
        }
    }
    tree.resize(tree.len().max(BLOCK), 0x5A);
    println!(
        "{} MiB; the source tree is {} MiB of {}",
        bytes >> 20,
        tree.len() >> 20,
        root.display()
    );
    for (title, data) in [
        ("unique data", Data::Unique),
        ("all duplicates", Data::Duplicates),
        ("source tree", Data::Tree),
    ] {
        println!("\n{title}: thousand blocks a second");
        println!("{:<16} {:^26} {:^26}", "", "sequential 640 KiB", "random 4 KiB");
        let transactions = format!("{:>8} {:>8} {:>8}", "no limit", "1000", "1");
        println!(
            "{:<16} {transactions} {transactions} {:>7} {:>7} {:>6} {:>6}",
            "policy, cache", "mem B", "disk B", "ratio", "hits %"
        );
        let lines = lines();
        let mut rounds: Vec<Vec<Round>> = lines.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for ((_, policy, cache_kib), rounds) in lines.iter().zip(&mut rounds) {
                rounds.push(measure(directory.path(), (*policy, *cache_kib), (data, &tree), bytes));
            }
        }
        lines.iter().zip(&rounds).for_each(|((name, ..), rounds)| print(name, rounds));
    }
}

/// The lines of the table: every policy, and the cached ones with every cache size.
fn lines() -> Vec<(String, Policy, u64)> {
    let mut lines = Vec::new();
    for policy in Policy::ALL {
        let name = policy.name();
        if !policy.is_image() {
            lines.extend(CACHES_KIB.map(|kib| (format!("{name} {kib} KiB"), policy, kib)));
        } else {
            lines.push((name.to_owned(), policy, 0));
        }
    }
    lines
}
