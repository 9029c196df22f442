//! Finds directories and files that share contents: a bounded sample of contents, each with all its
//! copies by directory and file.
//!
//! The sample is that of [`crate::levels`]: it is uniform over distinct contents and does not
//! depend on the order of reading. Zero blocks are not in it; readers count them by directory.

mod figures;

pub(crate) use figures::sharing_result;

use crate::file_ref::FileRef;
use crate::fingerprint::ScanFingerprint;
use crate::levels::{MAX_LEVEL, highest_low};
use crate::set::locked;
use crate::walk::DirectoryNumber;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most entries of the sample: contents by file. The list has up to twice as many before it is
/// cut.
const MAX_COPIES: usize = 256 * 1024;

/// The memory of the sample, in bytes: entries of 48 bytes, and the paths of their files.
pub(crate) const SHARING_BYTES: u64 = 64 << 20;

/// The most files by which a content is kept. The copies of a content in more files are kept by
/// directory alone, so that no content can fill the sample.
const MAX_FILES: usize = 256;

/// The entries that a reader collects before it hands them over.
const MAX_COLLECTED: usize = 512;

/// A file by its batch and its place in the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileNumber {
    batch: u32,
    index: u32,
}

impl FileNumber {
    fn of(file: &FileRef) -> Self {
        Self { batch: file.batch, index: file.index as u32 }
    }
}

/// The copies of a content in one file, or in many files of one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Copies {
    fingerprint: ScanFingerprint,
    length_bytes: u32,
    directory: DirectoryNumber,
    /// `None` if the content is in too many files.
    file: Option<FileNumber>,
    copies: u64,
}

/// The totals of a directory that readers count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DirectoryTotals {
    pub(crate) blocks: u64,
    pub(crate) data_bytes: u64,
    pub(crate) zero_blocks: u64,
    pub(crate) zero_bytes: u64,
}

impl DirectoryTotals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.data_bytes = self.data_bytes.saturating_add(other.data_bytes);
        self.zero_blocks += other.zero_blocks;
        self.zero_bytes = self.zero_bytes.saturating_add(other.zero_bytes);
    }
}

/// The entries that one reader has collected, with the paths of their files.
#[derive(Default)]
pub(crate) struct Collected {
    copies: Vec<Copies>,
    files: Vec<(FileNumber, PathBuf)>,
}

impl Collected {
    /// Adds one copy.
    pub(crate) fn push(&mut self, fingerprint: ScanFingerprint, length_bytes: u32, file: &FileRef) {
        let number = FileNumber::of(file);
        if self.files.last().is_none_or(|(last, _)| *last != number) {
            self.files.push((number, file.names.path(file.index)));
        }
        self.copies.push(Copies {
            fingerprint,
            length_bytes,
            directory: file.directory,
            file: Some(number),
            copies: 1,
        });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.copies.len() >= MAX_COLLECTED
    }
}

/// Collects copies from many threads.
pub(crate) struct SharingSampler {
    highest_low: AtomicU64,
    held: Mutex<SharingSample>,
}

/// The sample: its level, and its copies in ascending order.
#[derive(Default)]
pub(crate) struct SharingSample {
    level: u32,
    copies: Vec<Copies>,
    files: HashMap<FileNumber, PathBuf>,
}

impl SharingSampler {
    pub(crate) fn new() -> Self {
        Self { highest_low: AtomicU64::new(u64::MAX), held: Mutex::default() }
    }

    /// Returns the highest last 64 bits of a fingerprint in the sample.
    #[inline]
    pub(crate) fn highest_low(&self) -> u64 {
        self.highest_low.load(Ordering::Relaxed)
    }

    /// Takes what a reader has collected.
    pub(crate) fn take(&self, collected: &mut Collected) {
        let mut held = locked(&self.held);
        let highest = highest_low(held.level);
        held.copies.extend(collected.copies.drain(..).filter(|one| one.fingerprint.low <= highest));
        held.files.extend(collected.files.drain(..));
        if held.copies.len() >= 2 * MAX_COPIES {
            held.cut();
            self.highest_low.store(highest_low(held.level), Ordering::Relaxed);
        }
    }

    pub(crate) fn finish(self) -> SharingSample {
        let mut held = self.held.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        held.cut();
        held
    }
}

impl SharingSample {
    /// Returns the share of all contents that is in the sample.
    fn share(&self) -> f64 {
        0.5f64.powi(i32::try_from(self.level).unwrap_or(i32::MAX))
    }

    /// Adds up the copies of each content in each file, and raises the level until the sample is
    /// within its limit.
    fn cut(&mut self) {
        self.add_up();
        self.gather_by_directory();
        while self.copies.len() > MAX_COPIES && self.level < MAX_LEVEL {
            self.level += 1;
            let highest = highest_low(self.level);
            self.copies.retain(|one| one.fingerprint.low <= highest);
        }
        let wanted: HashSet<FileNumber> = self.copies.iter().filter_map(|one| one.file).collect();
        self.files.retain(|number, _| wanted.contains(number));
    }

    fn add_up(&mut self) {
        self.copies.sort_unstable();
        self.copies.dedup_by(|next, sum| {
            let is_same = (next.fingerprint, next.length_bytes, next.directory, next.file)
                == (sum.fingerprint, sum.length_bytes, sum.directory, sum.file);
            if is_same {
                sum.copies += next.copies;
            }
            is_same
        });
    }

    /// Keeps the contents of too many files by directory alone. A content that once was in too many
    /// files stays so, also if later copies name their file.
    fn gather_by_directory(&mut self) {
        let mut gathered = false;
        for copies in self.copies.chunk_by_mut(|a, b| a.fingerprint == b.fingerprint) {
            if copies.len() > MAX_FILES || copies.iter().any(|one| one.file.is_none()) {
                gathered |= copies.iter().any(|one| one.file.is_some());
                copies.iter_mut().for_each(|one| one.file = None);
            }
        }
        if gathered {
            self.add_up();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::mix64;

    fn copy(content: u64, directory: u32, file: u32) -> Copies {
        Copies {
            fingerprint: ScanFingerprint { high: content, low: mix64(content) },
            length_bytes: 4096,
            directory,
            file: Some(FileNumber { batch: file, index: 0 }),
            copies: 1,
        }
    }

    fn sample(copies: impl Iterator<Item = Copies>) -> SharingSample {
        let sampler = SharingSampler::new();
        let copies: Vec<Copies> = copies.collect();
        for part in copies.chunks(MAX_COLLECTED) {
            let files = part
                .iter()
                .filter_map(|one| Some((one.file?, PathBuf::from(format!("{:?}", one.file)))))
                .collect();
            sampler.take(&mut Collected { copies: part.to_vec(), files });
        }
        sampler.finish()
    }

    #[test]
    fn the_sample_is_bounded_and_does_not_depend_on_the_order() {
        let count = 6 * MAX_COPIES as u64;
        let make = |number: u64| copy(number / 2, (number % 3) as u32, (number % 1000) as u32);
        let (forward, backward) =
            (sample((0..count).map(make)), sample((0..count).rev().map(make)));
        assert!(forward.level > 0 && forward.copies.len() <= MAX_COPIES);
        assert!(forward.copies.len() > MAX_COPIES / 4);
        assert_eq!(forward.copies, backward.copies);
        assert_eq!(forward.files, backward.files);
        assert!(forward.files.len() <= 1000);
    }

    #[test]
    fn a_content_in_many_files_is_kept_by_directory() {
        let count = 3 * MAX_COPIES as u64;
        let sample = sample((0..count).map(|number| copy(1, (number % 7) as u32, number as u32)));
        assert_eq!((sample.level, sample.copies.len()), (0, 7));
        assert_eq!(sample.copies.iter().map(|one| one.copies).sum::<u64>(), count);
        assert!(sample.files.is_empty());
    }
}
