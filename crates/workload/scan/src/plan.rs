//! The prediction of a scan's time and memory: the walk gives files and bytes, and a short timed
//! sample gives the rate.

use crate::error::ScanError;
use crate::halt::Halt;
use crate::options::ScanOptions;
use crate::read::Session;
use crate::request::Counting;
use crate::trouble::Troubles;
use crate::walk::{
    Batch, Ended, Mounts, Root, RootKind, WalkCounts, Walker, raise_open_files, roots_of,
};
use gemelo_base::random::Random;
use gemelo_base::{Clock, Monitor, Silent, StopFlag, SystemClock, Unit};
use rustix::fs::{AtFlags, FileType, Stat};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The most memory of a distinct block in a counting table, in bytes; see `set`.
const TABLE_BYTES_PER_BLOCK: u64 = 32;

/// The number of files that give a piece, and the bytes of a piece. They are large enough to
/// reach several places of a disk.
const SAMPLED_FILES: usize = 64;
const SAMPLED_BYTES: usize = 1 << 20;

/// The time limit for reading the sample.
const SAMPLE_NS: u64 = 1_000_000_000;

/// The time to open and close a cached file, in nanoseconds. A disk adds a seek for a file that is
/// not cached.
const OPEN_NS: u64 = 4_000;

/// The predicted time and memory of a scan.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PlanResult {
    /// The number of files and block devices to read.
    pub files: u64,
    /// The number of directories.
    pub directories: u64,
    /// The bytes of all files, holes included.
    pub data_bytes: u64,
    /// The bytes of all files without holes, which the scan will read.
    pub read_bytes: u64,
    /// The number of files and directories that cannot be examined.
    pub unreadable: u64,
    /// The memory of buffers and samples, without the counting tables, in bytes.
    pub fixed_bytes: u64,
    /// The most memory that the scan can take, in bytes: that of a scan without duplicates, or the
    /// memory limit if it is lower.
    pub memory_bytes: u64,
    /// The prediction for each block size.
    pub block_sizes: Vec<PlanSize>,
    /// The bytes that were read to measure the rate.
    pub sampled_bytes: u64,
    /// The rate at which one thread reads and hashes, in bytes a second; `None` if nothing could be
    /// read.
    pub bytes_per_s: Option<f64>,
    /// The time that the scan will take at that rate on all threads, in nanoseconds.
    pub estimate_ns: Option<u64>,
}

/// The prediction for one block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PlanSize {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// The most blocks of this size.
    pub blocks: u64,
    /// The memory of the counting table if every block is distinct, in bytes.
    pub table_bytes: u64,
}

#[derive(Default)]
struct PlannedFiles {
    files: u64,
    data_bytes: u64,
    read_bytes: u64,
    blocks: Vec<u64>,
    sampled: Vec<(PathBuf, u64)>,
    /// The files with several hard links that were found, as (file system, inode number).
    links: HashSet<(u64, u64)>,
    /// `true` if all files are remembered like these, because mounts can repeat them.
    remembers_all: bool,
}

/// Predicts the time and memory of a scan with these options. Reads only a few pieces of files.
///
/// # Errors
/// Fails if a path cannot be scanned at all.
pub fn plan(
    options: &ScanOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<PlanResult, ScanError> {
    raise_open_files();
    let roots = roots_of(&options.request().paths)?;
    let mounts = Mounts::of(&roots);
    let (halt, counts, troubles) = (Halt::new(stop), WalkCounts::default(), Troubles::new(monitor));
    let mut found = PlannedFiles {
        blocks: vec![0; options.request().block_bytes.len()],
        remembers_all: mounts.has_files,
        ..PlannedFiles::default()
    };
    let mut random = Random::new(0);
    monitor.begin("looking at files", Unit::Items, None);
    let mut walker = Walker::new(options, &counts, &troubles, &halt, &mounts);
    let _ended_early = walker.walk(&roots, &mut |batch| {
        monitor.advance(batch.names.len() as u64);
        for_each_file(&batch, |index, stat| {
            found.add(options, &batch, index, &stat, &mut random);
        });
        Ok(())
    });
    for root in roots.iter().filter(|root| root.kind == RootKind::BlockDevice) {
        found.add_bytes(options, root.size_bytes, root.size_bytes);
        found.sampled.push((root.path.clone(), root.size_bytes));
    }
    monitor.begin("timing a sample", Unit::Bytes, None);
    let (sampled_bytes, sampled_ns) = time_sample(options, &found.sampled, stop);
    monitor.finish();
    let bytes_per_s =
        (sampled_bytes > 0).then(|| sampled_bytes as f64 / (sampled_ns.max(1) as f64 / 1e9));
    let directories = counts.directories.load(std::sync::atomic::Ordering::Relaxed);
    Ok(result(
        options,
        &found,
        directories,
        troubles.unreadable_count(),
        (sampled_bytes, bytes_per_s),
    ))
}

fn result(
    options: &ScanOptions,
    found: &PlannedFiles,
    directories: u64,
    unreadable: u64,
    (sampled_bytes, bytes_per_s): (u64, Option<f64>),
) -> PlanResult {
    let request = options.request();
    let size = |(block_bytes, blocks): (&u32, &u64)| PlanSize {
        block_bytes: *block_bytes,
        blocks: *blocks,
        table_bytes: blocks.saturating_mul(TABLE_BYTES_PER_BLOCK),
    };
    let block_sizes: Vec<PlanSize> =
        request.block_bytes.iter().zip(&found.blocks).map(size).collect();
    let fixed_bytes = options.budget().fixed_bytes();
    let most =
        block_sizes.iter().fold(fixed_bytes, |sum, size| sum.saturating_add(size.table_bytes));
    let threads = options.budget().threads() as u64;
    PlanResult {
        files: found.files,
        directories,
        data_bytes: found.data_bytes,
        read_bytes: found.read_bytes,
        unreadable,
        fixed_bytes,
        memory_bytes: match request.counting {
            Counting::Exact => most,
            Counting::Bounded { memory_bytes } | Counting::Estimate { memory_bytes } => {
                most.min(memory_bytes)
            }
        },
        block_sizes,
        sampled_bytes,
        bytes_per_s,
        estimate_ns: bytes_per_s.map(|rate| {
            let reading_ns = found.read_bytes as f64 / rate * 1e9;
            (reading_ns as u64).saturating_add(found.files * OPEN_NS) / threads.max(1)
        }),
    }
}

impl PlannedFiles {
    fn add(
        &mut self,
        options: &ScanOptions,
        batch: &Batch,
        index: usize,
        stat: &Stat,
        random: &mut Random,
    ) {
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return;
        }
        let identity = (stat.st_dev, stat.st_ino);
        let has_other_names =
            self.remembers_all || (stat.st_nlink > 1 && !options.request().count_hard_links);
        if has_other_names && !self.links.insert(identity) {
            return;
        }
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let stored = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        self.add_bytes(options, bytes, bytes.min(stored));
        if bytes == 0 {
            return;
        }
        // Reservoir sampling: every file has the same probability to stay in the sample.
        if self.sampled.len() < SAMPLED_FILES {
            self.sampled.push((batch.names.path(index), bytes));
        } else if let Ok(at) = usize::try_from(random.below(self.files))
            && let Some(place) = self.sampled.get_mut(at)
        {
            *place = (batch.names.path(index), bytes);
        }
    }

    fn add_bytes(&mut self, options: &ScanOptions, bytes: u64, read_bytes: u64) {
        self.files += 1;
        // The sums can exceed 64 bits, because sparse files can be that large together.
        self.data_bytes = self.data_bytes.saturating_add(bytes);
        self.read_bytes = self.read_bytes.saturating_add(read_bytes);
        for (blocks, size) in self.blocks.iter_mut().zip(&options.request().block_bytes) {
            *blocks = blocks.saturating_add(bytes.div_ceil(u64::from(*size)));
        }
    }
}

fn for_each_file(batch: &Batch, mut each: impl FnMut(usize, Stat)) {
    for index in 0..batch.names.len() {
        let Some(name) = batch.names.get(index) else { continue };
        let stat = match &batch.place.directory {
            Some(directory) => rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW),
            None => rustix::fs::stat(name),
        };
        if let Ok(stat) = stat {
            each(index, stat);
        }
    }
}

/// Reads and hashes pieces from random places of the files, on one thread. Returns the bytes and
/// the nanoseconds.
fn time_sample(options: &ScanOptions, files: &[(PathBuf, u64)], stop: &StopFlag) -> (u64, u64) {
    let clock = SystemClock::new();
    let mut random = Random::new(1);
    let mut buffer = vec![0; SAMPLED_BYTES];
    let (mut bytes, mut working_ns) = (0, 0);
    for (path, size) in files {
        if stop.is_raised() || clock.now_ns() > SAMPLE_NS {
            break;
        }
        let start_ns = clock.now_ns();
        let offset = random.below(size.saturating_sub(SAMPLED_BYTES as u64) + 1);
        let Some(read) = read_piece(path, offset, &mut buffer) else { continue };
        let data = buffer.get(..read).unwrap_or_default();
        for size in &options.request().block_bytes {
            for block in data.chunks(*size as usize) {
                std::hint::black_box(options.request().fingerprint.of(block));
            }
        }
        bytes += read as u64;
        working_ns += clock.now_ns() - start_ns;
    }
    (bytes, working_ns)
}

fn read_piece(path: &Path, offset: u64, buffer: &mut [u8]) -> Option<usize> {
    File::open(path).ok()?.read_at(buffer, offset).ok()
}

/// Adds up the bytes of all files while other threads read them, and reports the total to the
/// monitor.
pub(crate) fn tell_total(session: &Session<'_>, roots: &[Root]) {
    let (counts, silent) = (WalkCounts::default(), Silent);
    let troubles = Troubles::new(&silent);
    let mut total: u64 = 0;
    let mut walker = Walker::new(session.options, &counts, &troubles, session.halt, session.mounts);
    let walked = walker.walk(roots, &mut |batch| {
        for_each_file(&batch, |_, stat| {
            total = total.saturating_add(u64::try_from(stat.st_size).unwrap_or(0));
        });
        if session.queue.is_over() { Err(Ended) } else { Ok(()) }
    });
    if walked.is_ok() {
        session.monitor.set_total(total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::ScanRequest;

    #[test]
    fn sparse_files_of_more_than_64_bits_together_are_planned() {
        let request = ScanRequest { paths: vec!["all".into()], ..ScanRequest::default() };
        let options = ScanOptions::new(ScanRequest { threads: 1, ..request }).unwrap();
        let mut found = PlannedFiles { blocks: vec![0], ..PlannedFiles::default() };
        for _ in 0..3 {
            found.add_bytes(&options, i64::MAX as u64, i64::MAX as u64);
        }
        let plan = result(&options, &found, 0, 0, (1, Some(1.0)));
        assert_eq!((plan.data_bytes, plan.read_bytes), (u64::MAX, u64::MAX));
        assert_eq!(plan.estimate_ns, Some(u64::MAX));
    }
}
