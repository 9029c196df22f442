//! The result of a scan, as figures that can be serialised. Sizes are in bytes, and shares are from
//! 0 to 1.

use crate::fingerprint::{ScanFingerprint, ScanFingerprintKind};
use crate::request::TailPolicy;
use crate::set::ContentLocation;
use gemelo_content::{Distribution, DistributionError, Profile, ProfileClass};
use gemelo_format::Compression;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema name of the result file of a scan, whose input is a [`ScanInput`](crate::ScanInput).
pub const SCAN_SCHEMA: &str = "gemelo.scan/1";

/// The result of a scan.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ScanResult {
    /// `true` if the scan was stopped or ended early after an error. The figures then cover only
    /// the data that was read.
    pub partial: bool,
    /// The hash function of the fingerprints.
    pub fingerprint: ScanFingerprintKind,
    /// The treatment of short last blocks.
    pub tail: TailPolicy,
    /// The counts of files, and of names that were not read.
    pub files: FileCounts,
    /// The time and the memory of the scan.
    pub effort: Effort,
    /// The figures of each block size, in ascending order of sizes.
    pub block_sizes: Vec<BlockSizeResult>,
    /// The figures by directory and by group of files, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingResult>,
}

/// The directories and files that share contents, at the smallest block size.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SharingResult {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// The share of distinct contents from which the saved bytes are estimated; with 1 they are
    /// exact.
    pub sampled_share: f64,
    /// The directories with data, in descending order of saved bytes.
    pub directories: Vec<DirectoryResult>,
    /// The groups of files that save most by their common contents, in descending order. Each
    /// content belongs to one group: that of all files that have it. Zero blocks belong to none.
    pub file_groups: Vec<FileGroup>,
}

/// The figures of a directory and of all below it that have no figures of their own.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DirectoryResult {
    /// The path of the directory, or of a file or device that was given.
    pub path: String,
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of all blocks.
    pub data_bytes: u64,
    /// The bytes of the blocks of zeros.
    pub zero_bytes: u64,
    /// The part of the bytes saved in the scan that is due to this directory. Each copy of a
    /// content bears an equal part of the one that is stored.
    pub saved_bytes: u64,
    /// The bytes that deduplication saves within this directory alone.
    pub saved_alone_bytes: u64,
    /// The bytes of distinct contents that no other directory has.
    pub only_here_bytes: u64,
}

/// Files with common contents.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FileGroup {
    /// The number of files. A group of one file has contents that repeat in it.
    pub files: u64,
    /// The paths of the first of them.
    pub paths: Vec<String>,
    /// The bytes of one copy of each content that these files have, and no others.
    pub distinct_bytes: u64,
    /// The bytes saved if each of these contents is stored once.
    pub saved_bytes: u64,
}

/// The counts of files, and of names that were not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct FileCounts {
    /// The number of files and block devices that were scanned.
    pub files: u64,
    /// The number of directories that were listed.
    pub directories: u64,
    /// The bytes of all scanned files, holes included.
    pub data_bytes: u64,
    /// The bytes of holes, which were not read.
    pub hole_bytes: u64,
    /// The number of further hard links to files that were already counted.
    pub hard_links_skipped: u64,
    /// The number of symbolic links, which were not followed.
    pub symbolic_links_skipped: u64,
    /// The number of pipes, sockets and devices.
    pub special_skipped: u64,
    /// The number of files and directories that an exclude glob matched.
    pub excluded: u64,
    /// The number of directories and files on other file systems.
    pub other_file_systems_skipped: u64,
    /// The number of directories that mounts showed again at another place.
    pub repeated_directories_skipped: u64,
    /// The number of files and directories that could not be read, or not to their end.
    pub unreadable: u64,
    /// The number of files that vanished, shrank, grew or were modified during the scan.
    pub changed: u64,
}

impl FileCounts {
    /// Adds the counts of another scan.
    pub(crate) fn add(&mut self, other: &Self) {
        self.files = self.files.saturating_add(other.files);
        self.directories = self.directories.saturating_add(other.directories);
        self.data_bytes = self.data_bytes.saturating_add(other.data_bytes);
        self.hole_bytes = self.hole_bytes.saturating_add(other.hole_bytes);
        self.hard_links_skipped = self.hard_links_skipped.saturating_add(other.hard_links_skipped);
        self.symbolic_links_skipped =
            self.symbolic_links_skipped.saturating_add(other.symbolic_links_skipped);
        self.special_skipped = self.special_skipped.saturating_add(other.special_skipped);
        self.excluded = self.excluded.saturating_add(other.excluded);
        self.other_file_systems_skipped =
            self.other_file_systems_skipped.saturating_add(other.other_file_systems_skipped);
        self.repeated_directories_skipped =
            self.repeated_directories_skipped.saturating_add(other.repeated_directories_skipped);
        self.unreadable = self.unreadable.saturating_add(other.unreadable);
        self.changed = self.changed.saturating_add(other.changed);
    }
}

/// The time and the memory of a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Effort {
    /// The time from the first directory to the last figure, in nanoseconds.
    pub elapsed_ns: u64,
    /// The peak memory of the counting tables, in bytes.
    pub table_bytes: u64,
    /// The bytes that were written to temporary files.
    pub spilled_bytes: u64,
}

/// The figures at one block size.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct BlockSizeResult {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// The number of all blocks, zero blocks and short ones included.
    pub blocks: u64,
    /// The bytes of all blocks.
    pub data_bytes: u64,
    /// The number of blocks shorter than the block size (`--tail keep`).
    pub short_blocks: u64,
    /// The number of short last blocks that were left out (`--tail skip`).
    pub skipped_tails: u64,
    /// The bytes of the short last blocks that were left out.
    pub skipped_tail_bytes: u64,
    /// The bytes of the zeros with which short last blocks were filled up (`--tail pad`).
    pub padding_bytes: u64,
    /// The number of blocks of zeros.
    pub zero_blocks: u64,
    /// The bytes of the blocks of zeros.
    pub zero_bytes: u64,
    /// The figures of a store for which zeros are a content like any other.
    pub with_zeros: WithZeros,
    /// The number of blocks that are not zero. The figures below cover only these.
    pub counted_blocks: u64,
    /// The bytes of the counted blocks.
    pub counted_bytes: u64,
    /// The number of distinct contents.
    pub distinct: u64,
    /// The bytes of one copy of each distinct content.
    pub distinct_bytes: u64,
    /// The number of contents with one copy.
    pub unique: u64,
    /// The number of contents with two or more copies.
    pub distinct_with_duplicates: u64,
    /// The number of counted blocks minus the number of distinct contents.
    pub duplicates: u64,
    /// The counted blocks divided by the distinct contents; 1 if there are no blocks.
    pub dedup_ratio: f64,
    /// The bytes that deduplication saves.
    pub saved_bytes: u64,
    /// The share of the counted bytes that deduplication saves.
    pub saved_share: f64,
    /// The distribution of the counted blocks as `[duplicates, contents]` pairs, in ascending
    /// order.
    pub distribution: Vec<[u64; 2]>,
    /// The distribution by ranges of duplicates.
    pub ranges: Vec<RangeResult>,
    /// The contents with the most copies, in descending order of copies.
    pub max_repeated: Vec<Repeated>,
    /// The compressibility and the byte entropy, if contents could be sampled.
    pub nature: Option<NatureResult>,
    /// The blocks of pools that compress, for each compression that was asked for.
    pub pools: Vec<PoolPrediction>,
    /// The distances between copies, if any were sampled.
    pub locality: Option<LocalityResult>,
    /// The confidence intervals of the figures, if they are estimates.
    pub estimate: Option<EstimateResult>,
}

/// The figures at one block size of a store that keeps zeros as a content like any other: one block
/// of zeros, and one for each length of short blocks of zeros. A thin store keeps none.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct WithZeros {
    /// The number of distinct contents, those of zeros included.
    pub distinct: u64,
    /// The bytes of one copy of each distinct content.
    pub distinct_bytes: u64,
    /// All blocks divided by the distinct contents; 1 if there are no blocks.
    pub dedup_ratio: f64,
    /// The bytes that deduplication saves.
    pub saved_bytes: u64,
    /// The share of all bytes that deduplication saves.
    pub saved_share: f64,
}

/// The contents in one range of duplicates.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RangeResult {
    /// The range as text, such as `10-49`.
    pub duplicates: String,
    /// The number of distinct contents in the range.
    pub contents: u64,
    /// The number of blocks in the range, all copies included.
    pub blocks: u64,
    /// The share of the counted blocks that is in the range.
    pub share: f64,
}

/// A content with many copies.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Repeated {
    /// The fingerprint of the content.
    pub fingerprint: ScanFingerprint,
    /// The number of copies.
    pub copies: u64,
    /// The length of the content in bytes.
    pub length_bytes: u32,
    /// A place where the content was seen. It is `None` if many other contents have about as many
    /// copies.
    pub place: Option<ContentLocation>,
}

/// Means over sampled contents.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct NatureStats {
    /// The number of distinct contents that were measured.
    pub sampled_contents: u64,
    /// The mean byte entropy (order 0), in bits a byte.
    pub entropy_bits: f64,
    /// The share of bytes that LZ4 saves, with each block compressed alone; below 0 if blocks
    /// become larger.
    pub lz4_saved_share: f64,
    /// The share of bytes that zstd level 1 saves, with each block compressed alone.
    pub zstd_saved_share: f64,
}

/// Means over the sampled contents of a range of duplicates.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct NatureClass {
    /// The range as text, such as `10-49`.
    pub duplicates: String,
    /// The first number of duplicates of the range.
    pub duplicates_from: u64,
    /// The last number of duplicates of the range, included.
    pub duplicates_to: u64,
    /// The means over the sampled contents of the range.
    #[serde(flatten)]
    pub figures: NatureStats,
}

/// The number of steps in the entropy histogram: each is half a bit, from 0 to 8 bits.
pub const ENTROPY_STEPS: usize = 16;

/// The space that the data would take in a pool that compresses, predicted from sampled contents.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PoolPrediction {
    /// The compression of the pool.
    pub compression: Compression,
    /// The contents that the pool would store, each of the size of a block. Zeros are not stored.
    pub physical_blocks: u64,
    /// The blocks that they would take; `None` if the scan ended before it compressed any content.
    pub used_blocks: Option<u64>,
    /// The used blocks for each physical one; `None` as for `used_blocks`.
    pub stored_share: Option<f64>,
    /// The number of distinct contents that were compressed.
    pub sampled_contents: u64,
}

/// The nature of contents. Zero contents are not part of it.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct NatureResult {
    /// The means over all sampled contents. Each content counts once.
    pub overall: NatureStats,
    /// The means for each range of duplicates.
    pub classes: Vec<NatureClass>,
    /// The number of sampled contents by entropy, in steps of half a bit.
    pub entropy_histogram: [u64; ENTROPY_STEPS],
}

/// The distances between consecutive copies of a content, in the order of the scan.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LocalityResult {
    /// The number of sampled contents with at least two copies.
    pub sampled_contents: u64,
    /// The number of measured distances.
    pub distances: u64,
    /// The mean distance in bytes.
    pub mean_bytes: f64,
    /// The median distance in bytes.
    pub median_bytes: u64,
    /// The number of distances by powers of two, as `[from_bytes, count]` for distances below twice
    /// `from_bytes`. Empty powers are left out.
    pub histogram: Vec<[u64; 2]>,
}

/// An interval that contains the true figure in 95 of 100 scans of such data.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ConfidenceInterval {
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The confidence intervals of an estimate. Blocks, bytes and zero blocks are exact in an estimate
/// too.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct EstimateResult {
    /// The number of distinct contents in the sample. The copies of each are exact.
    pub sampled_contents: u64,
    /// The share of all distinct contents that is in the sample; 1 means that the sample contains
    /// all contents and every figure is exact.
    pub sampled_share: f64,
    /// The interval of the number of distinct contents.
    pub distinct: ConfidenceInterval,
    /// The interval of the number of contents with one copy.
    pub unique: ConfidenceInterval,
    /// The interval of the number of contents with two or more copies.
    pub distinct_with_duplicates: ConfidenceInterval,
    /// The interval of the number of duplicates.
    pub duplicates: ConfidenceInterval,
    /// The interval of the dedup ratio.
    pub dedup_ratio: ConfidenceInterval,
    /// The interval of the share of bytes that deduplication saves.
    pub saved_share: ConfidenceInterval,
    /// The interval of the dedup ratio with zeros.
    pub dedup_ratio_with_zeros: ConfidenceInterval,
    /// The interval of the share of all bytes that deduplication saves with zeros.
    pub saved_share_with_zeros: ConfidenceInterval,
    /// The intervals of each row of the range table.
    pub ranges: Vec<RangeInterval>,
}

/// The intervals of a row of the range table.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RangeInterval {
    /// The interval of the number of distinct contents.
    pub contents: ConfidenceInterval,
    /// The interval of the number of blocks.
    pub blocks: ConfidenceInterval,
}

impl BlockSizeResult {
    /// Returns the distribution of duplicates, with the blocks of zeros.
    ///
    /// # Errors
    /// Fails if there are no blocks.
    pub fn to_distribution(&self) -> Result<Distribution, DistributionError> {
        Distribution::of_pairs(&self.distribution, self.zero_blocks)
    }

    /// Returns a profile: the distribution with the nature of contents, from which such data can be
    /// generated.
    ///
    /// # Errors
    /// Fails if there are no blocks.
    pub fn to_profile(&self, name: &str, source: &str) -> Result<Profile, DistributionError> {
        let mut profile =
            Profile::new(name, source, u64::from(self.block_bytes), &self.to_distribution()?);
        let classes = self.nature.iter().flat_map(|nature| &nature.classes);
        profile.classes = classes
            .map(|class| ProfileClass {
                duplicates_from: class.duplicates_from,
                duplicates_to: class.duplicates_to,
                sampled_contents: class.figures.sampled_contents,
                entropy_bits: class.figures.entropy_bits,
                // A tiny block can become more than twice as large, and a profile allows no share
                // below -1.
                lz4_saved_share: class.figures.lz4_saved_share.max(-1.0),
                zstd_saved_share: class.figures.zstd_saved_share.max(-1.0),
            })
            .collect();
        Ok(profile)
    }
}
