//! What a scan is asked to do, and the check that it can be done.

use crate::fingerprint::FingerprintKind;
use gemelo_base::units::format_size;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use thiserror::Error;

/// The smallest block size, and what every block size is a multiple of, in bytes: a sector.
pub const BLOCK_STEP_BYTES: u32 = 512;

/// The largest block size in bytes. Deduplicating stores use 4 KiB to 128 KiB.
pub const MOST_BLOCK_BYTES: u32 = 1 << 20;

/// The most block sizes of one scan: each has a counting set and buffers of its own.
pub const MOST_BLOCK_SIZES: usize = 16;

/// The most bytes that all block sizes of a scan may have as common multiple, because files are read in pieces that
/// are whole numbers of blocks of every size.
pub const MOST_COMMON_BYTES: u64 = 4 << 20;

/// The most reading threads.
pub const MOST_THREADS: usize = 1024;

/// Memory of `--estimate` unless set, in bytes.
pub const ESTIMATE_BYTES: u64 = 64 << 20;

/// What becomes of a file's last block when it is shorter than the block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailPolicy {
    /// It is not counted as a block.
    Skip,
    /// It is filled up with zeros to a whole block.
    Pad,
    /// It is a block of its own length.
    #[default]
    Keep,
}

/// Whether blocks of zeros enter the dedup ratio and the distribution; they are counted apart in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ZeroPolicy {
    /// They are contents like any other.
    #[default]
    Include,
    /// They are left out: a thin store keeps none of them.
    Exclude,
}

/// How fingerprints are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Counting {
    /// Every fingerprint, in at most 32 bytes of memory each.
    #[default]
    Exact,
    /// Every fingerprint, within this much memory for the whole scan; what does not fit goes to temporary files.
    Bounded {
        /// Memory of the scan in bytes.
        memory_bytes: u64,
    },
    /// A uniform sample of the distinct contents, within this much memory for the whole scan.
    Estimate {
        /// Memory of the scan in bytes.
        memory_bytes: u64,
    },
}

/// What to scan and how, as it was asked for; [`ScanOptions::new`] checks it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScanRequest {
    /// Files, directories and block devices. A symbolic link given here is followed, one found below is not.
    pub paths: Vec<PathBuf>,
    /// Block sizes in bytes, each scanned as if alone.
    pub block_bytes: Vec<u32>,
    /// What becomes of short last blocks.
    pub tail: TailPolicy,
    /// Whether zero blocks enter ratio and distribution.
    pub zeros: ZeroPolicy,
    /// The hash that tells contents apart.
    pub fingerprint: FingerprintKind,
    /// Reading and hashing threads.
    pub threads: usize,
    /// How fingerprints are counted.
    pub counting: Counting,
    /// Where temporary files go; the system's temporary folder if none is set.
    pub spill_folder: Option<PathBuf>,
    /// Globs of names not to scan. One without `/` matches a file or directory name anywhere, one with `/` the path
    /// below the scanned one.
    pub exclude: Vec<String>,
    /// Stay on the file system of each path.
    pub one_file_system: bool,
    /// Count a file once for every hard link that is found to it.
    pub count_hard_links: bool,
    /// Find the bytes of all files while reading, so that the monitor can tell the time left. Costs a look at every
    /// file more.
    pub find_total: bool,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            block_bytes: vec![4096],
            tail: TailPolicy::default(),
            zeros: ZeroPolicy::default(),
            fingerprint: FingerprintKind::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            counting: Counting::default(),
            spill_folder: None,
            exclude: Vec::new(),
            one_file_system: false,
            count_hard_links: false,
            find_total: false,
        }
    }
}

/// Why a scan cannot be done as asked.
#[derive(Debug, Error)]
pub enum OptionsError {
    /// Nothing to scan.
    #[error("no path to scan was given")]
    NoPath,
    /// No block size.
    #[error("no block size was given")]
    NoBlockSize,
    /// A block size out of range.
    #[error(
        "block size {found} is not a multiple of {BLOCK_STEP_BYTES} from {BLOCK_STEP_BYTES} to {MOST_BLOCK_BYTES} bytes"
    )]
    BlockSize {
        /// The size in bytes.
        found: u32,
    },
    /// A block size given twice.
    #[error("block size {found} was given twice")]
    RepeatedBlockSize {
        /// The size in bytes.
        found: u32,
    },
    /// More block sizes than one pass can serve.
    #[error("{found} block sizes were given, at most {MOST_BLOCK_SIZES} fit one scan")]
    ManyBlockSizes {
        /// How many.
        found: usize,
    },
    /// Block sizes that do not fit one reading pass.
    #[error(
        "the block sizes have no common multiple up to {}: scan them one by one",
        format_size(MOST_COMMON_BYTES)
    )]
    NoCommonMultiple,
    /// An impossible number of threads.
    #[error("{found} threads were asked for, from 1 to {MOST_THREADS} can be had")]
    Threads {
        /// How many.
        found: usize,
    },
    /// A glob that cannot be read.
    #[error("exclude glob '{glob}' cannot be read")]
    Glob {
        /// The glob.
        glob: String,
        /// What is wrong with it.
        source: globset::Error,
    },
    /// Memory below what buffers alone take.
    #[error(
        "{} of memory are too little for these block sizes and threads: give at least {}",
        format_size(*found),
        format_size(*least)
    )]
    Memory {
        /// Bytes asked for.
        found: u64,
        /// Bytes needed.
        least: u64,
    },
}

/// A request that was checked.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    request: ScanRequest,
    exclude: GlobSet,
    common_bytes: u64,
}

impl ScanOptions {
    /// Checks a request.
    ///
    /// # Errors
    /// The first thing that cannot be done; nothing has been touched then.
    pub fn new(mut request: ScanRequest) -> Result<Self, OptionsError> {
        if request.paths.is_empty() {
            return Err(OptionsError::NoPath);
        }
        if !(1..=MOST_THREADS).contains(&request.threads) {
            return Err(OptionsError::Threads { found: request.threads });
        }
        request.block_bytes.sort_unstable();
        let common_bytes = common_multiple(&request.block_bytes)?;
        let exclude = glob_set(&request.exclude)?;
        let options = Self { request, exclude, common_bytes };
        options.check_memory()?;
        Ok(options)
    }

    fn check_memory(&self) -> Result<(), OptionsError> {
        let (Counting::Bounded { memory_bytes: found }
        | Counting::Estimate { memory_bytes: found }) = self.request.counting
        else {
            return Ok(());
        };
        let least = crate::budget::least_bytes(self);
        if found < least { Err(OptionsError::Memory { found, least }) } else { Ok(()) }
    }

    /// What was asked for, block sizes in ascending order.
    #[must_use]
    pub fn request(&self) -> &ScanRequest {
        &self.request
    }

    /// A number of bytes that holds whole blocks of every size.
    pub(crate) fn common_bytes(&self) -> u64 {
        self.common_bytes
    }

    pub(crate) fn exclude(&self) -> &GlobSet {
        &self.exclude
    }
}

fn common_multiple(sizes: &[u32]) -> Result<u64, OptionsError> {
    if sizes.is_empty() {
        return Err(OptionsError::NoBlockSize);
    }
    if sizes.len() > MOST_BLOCK_SIZES {
        return Err(OptionsError::ManyBlockSizes { found: sizes.len() });
    }
    let mut common = 1;
    for &size in sizes {
        if size == 0 || size % BLOCK_STEP_BYTES != 0 || size > MOST_BLOCK_BYTES {
            return Err(OptionsError::BlockSize { found: size });
        }
        common = u64::from(size) / greatest_divisor(common, u64::from(size)) * common;
        if common > MOST_COMMON_BYTES {
            return Err(OptionsError::NoCommonMultiple);
        }
    }
    match sizes.windows(2).find(|pair| pair.first() == pair.last()).and_then(|pair| pair.first()) {
        Some(&found) => Err(OptionsError::RepeatedBlockSize { found }),
        None => Ok(common),
    }
}

fn greatest_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn glob_set(globs: &[String]) -> Result<GlobSet, OptionsError> {
    let mut set = GlobSetBuilder::new();
    let wrong = |glob: &str, source| OptionsError::Glob { glob: glob.to_owned(), source };
    for glob in globs {
        let trimmed = glob.trim_end_matches('/');
        let anchored = match trimmed.strip_prefix('/') {
            Some(rest) => rest.to_owned(),
            None if trimmed.contains('/') => trimmed.to_owned(),
            None => format!("**/{trimmed}"),
        };
        let built = GlobBuilder::new(&anchored).literal_separator(true).build();
        set.add(built.map_err(|source| wrong(glob, source))?);
    }
    set.build().map_err(|source| wrong(&globs.join(" "), source))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ScanRequest {
        ScanRequest { paths: vec![PathBuf::from(".")], ..ScanRequest::default() }
    }

    #[test]
    fn block_sizes_are_sorted_and_have_a_common_multiple() {
        let options =
            ScanOptions::new(ScanRequest { block_bytes: vec![16384, 4096, 12288], ..request() });
        let options = options.unwrap();
        assert_eq!(options.request().block_bytes, [4096, 12288, 16384]);
        assert_eq!(options.common_bytes(), 49152);
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        for (block_bytes, message) in [
            (vec![], "no block size was given"),
            (vec![1000], "block size 1000 is not a multiple of 512 from 512 to 1048576 bytes"),
            (vec![0], "block size 0 is not a multiple of 512 from 512 to 1048576 bytes"),
            (
                vec![2 << 20],
                "block size 2097152 is not a multiple of 512 from 512 to 1048576 bytes",
            ),
            (vec![4096, 512, 4096], "block size 4096 was given twice"),
            (vec![512; 17], "17 block sizes were given, at most 16 fit one scan"),
            (
                vec![512 * 1021, 512 * 1019],
                "the block sizes have no common multiple up to 4.00 MiB: scan them one by one",
            ),
        ] {
            let error = ScanOptions::new(ScanRequest { block_bytes, ..request() }).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        assert!(ScanOptions::new(ScanRequest::default()).is_err());
        assert!(ScanOptions::new(ScanRequest { threads: 0, ..request() }).is_err());
        let glob = ScanOptions::new(ScanRequest { exclude: vec!["a[".to_owned()], ..request() });
        assert!(glob.unwrap_err().to_string().contains("'a['"));
        let counting = Counting::Estimate { memory_bytes: 1000 };
        let memory = ScanOptions::new(ScanRequest { counting, ..request() });
        assert!(memory.unwrap_err().to_string().contains("give at least"));
    }

    #[test]
    fn a_glob_without_slash_matches_names_and_one_with_slash_paths() {
        let exclude = ["*.iso", "/cache", "a/b*"].map(str::to_owned).to_vec();
        let options = ScanOptions::new(ScanRequest { exclude, ..request() }).unwrap();
        for (path, excluded) in [
            ("x.iso", true),
            ("deep/down/x.iso", true),
            ("cache", true),
            ("deep/cache", false),
            ("a/bc", true),
            ("x/a/bc", false),
            ("iso", false),
        ] {
            assert_eq!(options.exclude().is_match(path), excluded, "{path}");
        }
    }
}
