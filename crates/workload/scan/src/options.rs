//! The options of a scan, and their validation.

use crate::budget::Budget;
use crate::request::{Counting, ScanRequest};
use gemelo_base::Classified;
use gemelo_base::units::format_size;
use gemelo_format::MAX_PACKED_BLOCK_BYTES;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use thiserror::Error;

/// The smallest block size in bytes, one sector. Every block size is a multiple of it.
pub const BLOCK_STEP_BYTES: u32 = 512;

/// The largest block size in bytes. Deduplicating stores use 4 KiB to 128 KiB.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// The most block sizes of one scan. Each has its own counting set and buffers.
pub const MAX_BLOCK_SIZES: usize = 16;

/// The limit of the common multiple of all block sizes of a scan, in bytes. Files are read in
/// pieces that are whole blocks of every size.
pub const MAX_COMMON_BYTES: u64 = 4 << 20;

/// The most reading threads.
pub const MAX_THREADS: usize = 1024;

/// The default memory of an estimate, in bytes.
pub const ESTIMATE_BYTES: u64 = 64 << 20;

/// The reason why a scan request is refused.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum OptionsError {
    /// The request has no path.
    #[error("no path to scan was given: give files, directories or block devices")]
    NoPath,
    /// The request has no block size.
    #[error("no block size was given: give at least one")]
    NoBlockSize,
    /// A block size is out of range.
    #[error(
        "invalid block size {found}: it must be a multiple of {BLOCK_STEP_BYTES} bytes, at most {}",
        format_size(u64::from(MAX_BLOCK_BYTES))
    )]
    BlockSize {
        /// The block size in bytes.
        found: u32,
    },
    /// A block size is given twice.
    #[error("block size {found} was given twice: give each size once")]
    RepeatedBlockSize {
        /// The block size in bytes.
        found: u32,
    },
    /// The request has more block sizes than one scan supports.
    #[error("{found} block sizes were given; one scan takes at most {MAX_BLOCK_SIZES}")]
    ManyBlockSizes {
        /// The number of block sizes.
        found: usize,
    },
    /// No pool that compresses has blocks of this size.
    #[error(
        "no pool that compresses has blocks of {found} bytes: leave --compression out, or give \
         powers of two from 512 bytes to {}",
        format_size(u64::from(MAX_PACKED_BLOCK_BYTES))
    )]
    CompressedBlockSize {
        /// The block size in bytes.
        found: u32,
    },
    /// The common multiple of the block sizes exceeds the limit.
    #[error(
        "the block sizes have no common multiple up to {}: scan them one by one",
        format_size(MAX_COMMON_BYTES)
    )]
    NoCommonMultiple,
    /// The number of threads is out of range.
    #[error("{found} threads were requested; give from 1 to {MAX_THREADS}")]
    Threads {
        /// The requested number of threads.
        found: usize,
    },
    /// An exclude glob is invalid.
    #[error("invalid exclude glob '{glob}'")]
    Glob {
        /// The glob as the user gave it.
        glob: String,
        /// The error of the glob parser.
        source: globset::Error,
    },
    /// The memory limit is below the memory of the buffers and the smallest tables.
    #[error(
        "{} of memory is too little for these block sizes and threads: give at least {}",
        format_size(*found),
        format_size(*least)
    )]
    Memory {
        /// The requested memory in bytes.
        found: u64,
        /// The minimum memory in bytes.
        least: u64,
    },
}

/// A validated scan request.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    request: ScanRequest,
    exclude: GlobSet,
    common_bytes: u64,
}

impl ScanOptions {
    /// Validates a request.
    ///
    /// # Errors
    /// Fails at the first invalid setting. Nothing has been read by then.
    pub fn new(mut request: ScanRequest) -> Result<Self, OptionsError> {
        if request.paths.is_empty() {
            return Err(OptionsError::NoPath);
        }
        if !(1..=MAX_THREADS).contains(&request.threads) {
            return Err(OptionsError::Threads { found: request.threads });
        }
        request.block_bytes.sort_unstable();
        let common_bytes = common_multiple(&request.block_bytes)?;
        let in_pools = |bytes: &u32| bytes.is_power_of_two() && *bytes <= MAX_PACKED_BLOCK_BYTES;
        let not_in_pools = request.block_bytes.iter().find(|bytes| !in_pools(bytes));
        if let Some(found) = not_in_pools.filter(|_| !request.compression.is_empty()) {
            return Err(OptionsError::CompressedBlockSize { found: *found });
        }
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
        if found >= self.budget().min_bytes() {
            return Ok(());
        }
        Err(OptionsError::Memory { found, least: self.min_memory() })
    }

    /// Returns a memory limit in whole MiB with which these options work. The samples of an
    /// estimate are a share of its memory, so a larger limit also needs a little more.
    fn min_memory(&self) -> u64 {
        let mut request = self.request.clone();
        let mut least = 0;
        loop {
            let needed = Budget::new(&request, self.common_bytes).min_bytes();
            if needed <= least {
                return least;
            }
            least = needed.next_multiple_of(1 << 20);
            request.counting = match request.counting {
                Counting::Estimate { .. } => Counting::Estimate { memory_bytes: least },
                Counting::Exact | Counting::Bounded { .. } => {
                    Counting::Bounded { memory_bytes: least }
                }
            };
        }
    }

    /// Returns the request, with its block sizes in ascending order.
    #[must_use]
    pub fn request(&self) -> &ScanRequest {
        &self.request
    }

    /// Returns the division of the scan's memory among its parts.
    pub(crate) fn budget(&self) -> Budget<'_> {
        Budget::new(&self.request, self.common_bytes)
    }

    /// Returns the least common multiple of all block sizes, in bytes.
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
    if sizes.len() > MAX_BLOCK_SIZES {
        return Err(OptionsError::ManyBlockSizes { found: sizes.len() });
    }
    let mut common = 1;
    for &size in sizes {
        if size == 0 || size % BLOCK_STEP_BYTES != 0 || size > MAX_BLOCK_BYTES {
            return Err(OptionsError::BlockSize { found: size });
        }
        common = u64::from(size) / greatest_divisor(common, u64::from(size)) * common;
        if common > MAX_COMMON_BYTES {
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
    use gemelo_format::Compression;
    use std::path::PathBuf;

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
            (vec![], "no block size was given: give at least one"),
            (
                vec![1000],
                "invalid block size 1000: it must be a multiple of 512 bytes, at most 1.00 MiB",
            ),
            (vec![0], "invalid block size 0: it must be a multiple of 512 bytes, at most 1.00 MiB"),
            (
                vec![2 << 20],
                "invalid block size 2097152: it must be a multiple of 512 bytes, at most 1.00 MiB",
            ),
            (vec![4096, 512, 4096], "block size 4096 was given twice: give each size once"),
            (vec![512; 17], "17 block sizes were given; one scan takes at most 16"),
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
        for block_bytes in [12288, 1 << 17] {
            let compression = vec![Compression::Lz4];
            let block_bytes = vec![block_bytes];
            let error = ScanOptions::new(ScanRequest { block_bytes, compression, ..request() });
            let message = error.unwrap_err().to_string();
            assert!(message.starts_with("no pool that compresses has blocks of"), "{message}");
        }
        let glob = ScanOptions::new(ScanRequest { exclude: vec!["a[".to_owned()], ..request() });
        assert!(glob.unwrap_err().to_string().contains("'a['"));
        let counting = Counting::Estimate { memory_bytes: 1000 };
        let memory = ScanOptions::new(ScanRequest { counting, ..request() });
        assert!(memory.unwrap_err().to_string().contains("give at least"));
    }

    /// The limit that a message names is accepted.
    #[test]
    fn the_least_memory_is_enough() {
        for block_bytes in [vec![4096], vec![512, 4096, 1 << 20], vec![1 << 20]] {
            for of in [
                |memory_bytes| Counting::Estimate { memory_bytes },
                |memory_bytes| Counting::Bounded { memory_bytes },
            ] {
                let with = |memory_bytes| {
                    let counting = of(memory_bytes);
                    let block_bytes = block_bytes.clone();
                    ScanOptions::new(ScanRequest { counting, block_bytes, ..request() })
                };
                let Err(OptionsError::Memory { least, .. }) = with(1) else { panic!("1 byte") };
                assert!(with(least).is_ok(), "{block_bytes:?}: {least}");
                assert!(least.is_multiple_of(1 << 20) && with(least / 2).is_err());
            }
        }
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
