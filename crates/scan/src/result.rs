//! What a scan found, as plain figures that can be serialised. Sizes are bytes, shares 0 to 1.

use crate::fingerprint::{Fingerprint, FingerprintKind};
use crate::options::{TailPolicy, ZeroPolicy};
use crate::set::Place;
use gemelo_content::{Distribution, DistributionError, DuplicateClass, Profile, ProfileClass};
use serde::{Deserialize, Serialize};

/// What a scan found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScanResult {
    /// The scan was stopped before its end, or could not go on: figures are of what was read until then.
    pub partial: bool,
    /// The hash that made fingerprints.
    pub fingerprint: FingerprintKind,
    /// What became of short last blocks.
    pub tail: TailPolicy,
    /// Whether zero blocks are in ratio and distribution.
    pub zeros: ZeroPolicy,
    /// What was found on the way.
    pub files: FileCounts,
    /// Time and memory of the scan itself.
    pub effort: Effort,
    /// The figures, a block size each, in ascending order.
    pub block_sizes: Vec<BlockSizeResult>,
}

/// Files and what was not read of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCounts {
    /// Files and block devices that were scanned.
    pub files: u64,
    /// Directories that were listed.
    pub directories: u64,
    /// Bytes of all scanned files, holes included.
    pub data_bytes: u64,
    /// Bytes of holes, which were not read.
    pub hole_bytes: u64,
    /// Further names of files that were already counted.
    pub hard_links_skipped: u64,
    /// Symbolic links, not followed.
    pub symbolic_links_skipped: u64,
    /// Pipes, sockets and devices.
    pub special_skipped: u64,
    /// Files and directories that an exclude glob matched.
    pub excluded: u64,
    /// Directories and files on other file systems.
    pub other_file_systems_skipped: u64,
    /// Files and directories that could not be read, or not to their end.
    pub unreadable: u64,
    /// Files that vanished, shrank or grew while they were scanned.
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
        self.unreadable = self.unreadable.saturating_add(other.unreadable);
        self.changed = self.changed.saturating_add(other.changed);
    }
}

/// Time and memory that a scan took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Effort {
    /// From the first directory to the last figure, in nanoseconds.
    pub elapsed_ns: u64,
    /// The most memory that the counting tables took, in bytes.
    pub table_bytes: u64,
    /// Written to temporary files, in bytes.
    pub spilled_bytes: u64,
}

/// The figures at one block size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BlockSizeResult {
    /// The block size in bytes.
    pub block_bytes: u32,
    /// All blocks, zero blocks and short ones included.
    pub blocks: u64,
    /// Bytes of all blocks.
    pub data_bytes: u64,
    /// Blocks shorter than the block size (`--tail keep`).
    pub short_blocks: u64,
    /// Short last blocks that were left out (`--tail skip`).
    pub skipped_tails: u64,
    /// Bytes that were left out with them.
    pub skipped_tail_bytes: u64,
    /// Zeros that short last blocks were filled up with (`--tail pad`), in bytes.
    pub padding_bytes: u64,
    /// Blocks of zeros only.
    pub zero_blocks: u64,
    /// Their bytes.
    pub zero_bytes: u64,
    /// The blocks that the figures below are about: all, or those that are not zero.
    pub counted_blocks: u64,
    /// Their bytes.
    pub counted_bytes: u64,
    /// Different contents.
    pub distinct: u64,
    /// The bytes of one copy of each.
    pub distinct_bytes: u64,
    /// Contents with one copy.
    pub unique: u64,
    /// Contents with two copies or more.
    pub distinct_with_duplicates: u64,
    /// Blocks that are a further copy of a content.
    pub duplicates: u64,
    /// Counted blocks / distinct contents; 1 where there are no blocks.
    pub dedup_ratio: f64,
    /// What deduplication saves, in bytes.
    pub saved_bytes: u64,
    /// What deduplication saves, of the counted bytes.
    pub saved_share: f64,
    /// `[duplicates, contents]` pairs, ascending.
    pub distribution: Vec<[u64; 2]>,
    /// The distribution by ranges of duplicates.
    pub ranges: Vec<RangeResult>,
    /// The contents with the most copies, the most first.
    pub most_repeated: Vec<Repeated>,
    /// Compressibility and entropy, where contents could be sampled.
    pub nature: Option<NatureResult>,
    /// How far apart duplicates lie, where any were sampled.
    pub locality: Option<LocalityResult>,
    /// How sure the figures are, if they are estimates.
    pub estimate: Option<EstimateResult>,
}

/// The contents in one range of duplicates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RangeResult {
    /// The range as text, such as `10-49`.
    pub duplicates: String,
    /// Distinct contents in it.
    pub contents: u64,
    /// Their blocks, all copies.
    pub blocks: u64,
    /// Their share of the counted blocks.
    pub share: f64,
}

/// A content with many copies.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Repeated {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Copies.
    pub copies: u64,
    /// Length in bytes.
    pub length_bytes: u32,
    /// It is all zeros.
    pub zero: bool,
    /// One place where it was seen, unless it was lost among many equals.
    pub place: Option<Place>,
}

/// Means over sampled contents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct NatureFigures {
    /// Distinct contents that were measured.
    pub sampled_contents: u64,
    /// Mean byte entropy (order 0), bits a byte.
    pub entropy_bits: f64,
    /// What LZ4 saves, block by block; below 0 where it makes blocks larger.
    pub lz4_saved_share: f64,
    /// What zstd level 1 saves, block by block.
    pub zstd_saved_share: f64,
}

/// Means over the sampled contents of a range of duplicates.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NatureClass {
    /// The range as text.
    pub duplicates: String,
    /// First number of duplicates.
    pub duplicates_from: u64,
    /// Last number of duplicates, included.
    pub duplicates_to: u64,
    /// The means.
    #[serde(flatten)]
    pub figures: NatureFigures,
}

/// Steps of the entropy histogram: half bits from 0 to 8.
pub const ENTROPY_STEPS: usize = 16;

/// The nature of contents. Zero contents are not among them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NatureResult {
    /// Over all sampled contents, each once.
    pub overall: NatureFigures,
    /// By ranges of duplicates.
    pub classes: Vec<NatureClass>,
    /// Sampled contents by entropy, in steps of half a bit.
    pub entropy_histogram: [u64; ENTROPY_STEPS],
}

/// How far apart consecutive copies of a content lie in the order of the scan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LocalityResult {
    /// Sampled contents with at least two copies.
    pub sampled_contents: u64,
    /// Distances measured.
    pub distances: u64,
    /// Mean distance in bytes.
    pub mean_bytes: f64,
    /// Median distance in bytes.
    pub median_bytes: u64,
    /// Distances by powers of two: `[from_bytes, count]`, up to twice `from_bytes`, empty ones left out.
    pub histogram: Vec<[u64; 2]>,
}

/// An interval that holds the true figure in 95 of 100 scans of such data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// How sure an estimate is. Blocks, bytes and zero blocks are exact even then.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EstimateResult {
    /// Distinct contents in the sample, with exact copies each.
    pub sampled_contents: u64,
    /// The share of all distinct contents that is in the sample; 1 means that all are and every figure is exact.
    pub sampled_share: f64,
    /// Distinct contents.
    pub distinct: Interval,
    /// Contents with one copy.
    pub unique: Interval,
    /// Contents with two copies or more.
    pub distinct_with_duplicates: Interval,
    /// Blocks that are a further copy.
    pub duplicates: Interval,
    /// Dedup ratio.
    pub dedup_ratio: Interval,
    /// Share of bytes saved.
    pub saved_share: Interval,
    /// Of each row of the range table: contents and blocks.
    pub ranges: Vec<RangeInterval>,
}

/// How sure a row of the range table is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RangeInterval {
    /// Distinct contents.
    pub contents: Interval,
    /// Their blocks.
    pub blocks: Interval,
}

impl BlockSizeResult {
    /// The distribution of duplicates.
    ///
    /// # Errors
    /// If there are no blocks.
    pub fn to_distribution(&self) -> Result<Distribution, DistributionError> {
        let class = |[duplicates, contents]: &[u64; 2]| DuplicateClass {
            duplicates: *duplicates,
            contents: *contents,
        };
        Distribution::new(self.distribution.iter().map(class))
    }

    /// The distribution with the nature of contents, to generate such data.
    ///
    /// # Errors
    /// If there are no blocks.
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
                // A tiny block may become more than twice as large; a profile goes no lower than -1.
                lz4_saved_share: class.figures.lz4_saved_share.max(-1.0),
                zstd_saved_share: class.figures.zstd_saved_share.max(-1.0),
            })
            .collect();
        Ok(profile)
    }
}
