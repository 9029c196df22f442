//! The requested paths and settings of a scan.

use crate::fingerprint::ScanFingerprintKind;
use gemelo_format::Compression;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The treatment of a file's last block if it is shorter than the block size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TailPolicy {
    /// The short block is not counted.
    Skip,
    /// The short block is filled up with zeros to a whole block.
    Pad,
    /// The short block counts as a content of its own length.
    #[default]
    Keep,
}

/// The method by which fingerprints are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Counting {
    /// Counts every fingerprint, in at most 32 bytes of memory each.
    #[default]
    Exact,
    /// Counts every fingerprint within a memory limit for the whole scan. Tables that do not fit
    /// are written to temporary files.
    Bounded {
        /// The memory limit of the whole scan, in bytes.
        memory_bytes: u64,
    },
    /// Counts a uniform sample of the distinct contents within a memory limit for the whole scan.
    Estimate {
        /// The memory limit of the whole scan, in bytes.
        memory_bytes: u64,
    },
}

/// The requested paths and settings of a scan, which [`crate::ScanOptions`] validates.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ScanRequest {
    /// The files, directories and block devices to scan. A symbolic link in this list is followed;
    /// a link below a directory is not.
    #[serde(with = "gemelo_base::names::paths")]
    #[schemars(with = "Vec<String>")]
    pub paths: Vec<PathBuf>,
    /// The block sizes in bytes. Each gives the same figures as in a scan of its own.
    pub block_bytes: Vec<u32>,
    /// The treatment of short last blocks.
    pub tail: TailPolicy,
    /// The hash function of the fingerprints.
    pub fingerprint: ScanFingerprintKind,
    /// The number of threads that read and hash.
    pub threads: usize,
    /// The method by which fingerprints are counted.
    pub counting: Counting,
    /// The directory of temporary files; `None` means the system's temporary directory.
    #[serde(with = "gemelo_base::names::optional_path")]
    #[schemars(with = "Option<String>")]
    pub spill_directory: Option<PathBuf>,
    /// The globs of names to leave out. A glob without `/` matches the name of a file or directory
    /// at any depth. A glob with `/` matches the path relative to the scanned directory.
    pub exclude: Vec<String>,
    /// `true` if the scan stays on the file system of each path.
    pub one_file_system: bool,
    /// `true` if a file counts once for each of its hard links that the scan finds.
    pub count_hard_links: bool,
    /// The depth below the paths down to which directories get figures of their own; `None` for
    /// none. With 0, each path has them.
    pub directory_depth: Option<u32>,
    /// The compressions of pools for which the stored blocks are predicted.
    pub compression: Vec<Compression>,
    /// `true` if a second walk finds the bytes of all files while the scan reads, so that the
    /// monitor can show the remaining time. It costs one more `stat` call for every file.
    pub find_total: bool,
}

/// The input of a result: the request of a scan, or the sets that were merged.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScanInput {
    /// The request of a scan.
    Scan(Box<ScanRequest>),
    /// The request of a merge.
    Merge {
        /// The saved sets.
        #[serde(with = "gemelo_base::names::paths")]
        #[schemars(with = "Vec<String>")]
        sets: Vec<PathBuf>,
    },
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            block_bytes: vec![4096],
            tail: TailPolicy::default(),
            fingerprint: ScanFingerprintKind::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            counting: Counting::default(),
            spill_directory: None,
            exclude: Vec::new(),
            one_file_system: false,
            count_hard_links: false,
            directory_depth: None,
            compression: Vec::new(),
            find_total: false,
        }
    }
}
