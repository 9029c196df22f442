//! Distributions: the blocks of zeros, the number of distinct other contents for each number of
//! duplicates, and the figures that follow from them.

mod compare;
mod fit;
mod power_law;
mod ranges;
mod sampled;
mod scale;
mod text;

pub use compare::{ComparedRange, Comparison, LargestDifference};
pub use fit::{FITTED_BLOCKS, Figure, SummaryStats};
use gemelo_base::Classified;
pub use ranges::{RANGE_COUNT, RangeRow, range_index, range_label, range_start};
pub use sampled::ExpectedSample;
pub use scale::{RankedContent, ScaledClass, ScaledDistribution};
pub use text::ParseNote;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// All distinct contents that have the same number of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateClass {
    /// The duplicates of each content: its copies minus one.
    pub duplicates: u64,
    /// The number of distinct contents in this class.
    pub contents: u64,
}

impl DuplicateClass {
    /// Returns the copies of each content.
    #[must_use]
    pub const fn copies(&self) -> u64 {
        self.duplicates.saturating_add(1)
    }

    /// Returns the blocks of the whole class. The product never overflows for a class of a
    /// [`Distribution`].
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.contents.saturating_mul(self.copies())
    }
}

/// The blocks of zeros, and the number of distinct other contents for each number of duplicates.
///
/// Blocks of zeros are no class: a thin store keeps none of them, so they would distort every
/// figure about duplicates. A distribution has at least one block and no empty class. Its classes
/// are in ascending order of duplicates, without repetition. There are at most 2^63 blocks in all.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "DistributionForm", into = "DistributionForm")]
pub struct Distribution {
    classes: Vec<DuplicateClass>,
    zero_blocks: u64,
    blocks: u64,
}

/// The serialised form of a distribution.
#[derive(JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DistributionForm {
    /// The number of blocks of zeros.
    #[serde(default)]
    zero_blocks: u64,
    /// `[duplicates, contents]` pairs of the contents that are not zeros.
    contents: Vec<[u64; 2]>,
}

/// The most blocks of a distribution: half the range of 64 bits, so that the sum of two still fits.
const MAX_BLOCKS: u64 = 1 << 63;

/// The reason why classes or a text do not form a distribution, or a distribution cannot be
/// processed.
#[derive(Debug, Clone, PartialEq, Eq, Error, Classified)]
#[kind(BadInput)]
pub enum DistributionError {
    /// There are no blocks of zeros, and no classes, or only empty ones.
    #[error("the distribution has no blocks: give at least one line '<duplicates> <contents>'")]
    Empty,
    /// The distribution has more than 2^63 blocks.
    #[error(
        "the distribution has more than 2^63 blocks (reached at {duplicates} duplicates): \
         scale it down"
    )]
    TooLarge {
        /// The number of duplicates of the class at which the sum exceeded the limit.
        duplicates: u64,
    },
    /// There are more than 2^63 blocks of zeros.
    #[error("the distribution has more than 2^63 blocks of zeros: scale it down")]
    TooManyZeros,
    /// A line does not consist of two whole numbers.
    #[error("line {line}: expected '<duplicates> <contents>', two whole numbers, found '{found}'")]
    Line {
        /// The line number, counted from 1.
        line: usize,
        /// The line, shortened for display.
        found: String,
    },
    /// A line has further numbers, as distributions of DEDISbench++ do.
    #[error(
        "line {line}: expected two whole numbers, found '{found}': gemelo does not read the \
         compressibility of DEDISbench++ here; leave it out and give --compressibility, or write a \
         profile with lz4_saved_share for ranges of duplicates"
    )]
    CompressibleLine {
        /// The line number, counted from 1.
        line: usize,
        /// The line, shortened for display.
        found: String,
    },
    /// A size or a count is above the limit of the operation.
    #[error("{what} is {found}; it must be at most {most}")]
    Limit {
        /// The name of the figure.
        what: &'static str,
        /// The value of the figure.
        found: u64,
        /// The highest value that the operation supports.
        most: u64,
    },
    /// Summary figures contradict each other or are too few.
    #[error("no distribution has these figures: {reason}")]
    Unfit {
        /// The figures at fault and the contradiction between them.
        reason: String,
    },
}

/// The summary figures of a data set, as papers print them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The blocks of the data set, blocks of zeros included.
    pub blocks: u64,
    /// The blocks of zeros. They are not part of the figures below.
    pub zero_blocks: u64,
    /// The number of distinct contents that are not zeros.
    pub distinct: u64,
    /// The number of distinct contents with exactly one copy.
    pub unique: u64,
    /// The number of distinct contents with at least two copies.
    pub distinct_with_duplicates: u64,
    /// The number of blocks that are not zeros minus the number of distinct contents.
    pub duplicates: u64,
    /// The most duplicates of any content.
    pub max_duplicates: u64,
}

impl Summary {
    /// Returns the blocks that are not zeros.
    #[must_use]
    pub const fn counted_blocks(&self) -> u64 {
        self.blocks - self.zero_blocks
    }

    /// Returns the logical blocks divided by the physical blocks, both without blocks of zeros; 1
    /// if all blocks are zeros.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.counted_blocks() as f64, self.distinct as f64)
    }

    /// Returns the dedup ratio of a store for which zeros are a content like any other.
    #[must_use]
    pub fn dedup_ratio_with_zeros(&self) -> f64 {
        ratio(self.blocks as f64, (self.distinct + u64::from(self.zero_blocks > 0)) as f64)
    }

    /// Returns the mean duplicates of the contents that have at least one; 0 if no content has any.
    #[must_use]
    pub fn duplicates_per_duplicated_content(&self) -> f64 {
        if self.distinct_with_duplicates == 0 {
            return 0.0;
        }
        self.duplicates as f64 / self.distinct_with_duplicates as f64
    }
}

/// Returns the dedup ratio of blocks; 1 if there are none.
pub(crate) fn ratio(logical: f64, physical: f64) -> f64 {
    if physical > 0.0 { logical / physical } else { 1.0 }
}

impl TryFrom<DistributionForm> for Distribution {
    type Error = DistributionError;

    fn try_from(form: DistributionForm) -> Result<Self, DistributionError> {
        Self::of_pairs(&form.contents, form.zero_blocks)
    }
}

impl From<Distribution> for DistributionForm {
    fn from(distribution: Distribution) -> Self {
        Self { zero_blocks: distribution.zero_blocks, contents: distribution.pairs() }
    }
}

impl Distribution {
    /// Creates a distribution without blocks of zeros from classes in any order. Classes with the
    /// same number of duplicates are added up, and empty classes are left out.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Empty`] or [`DistributionError::TooLarge`].
    pub fn new(
        classes: impl IntoIterator<Item = DuplicateClass>,
    ) -> Result<Self, DistributionError> {
        Self::with_zeros(classes, 0)
    }

    /// Creates a distribution from `[duplicates, contents]` pairs and the blocks of zeros.
    ///
    /// # Errors
    /// Fails as [`Self::with_zeros`] does.
    pub fn of_pairs(pairs: &[[u64; 2]], zero_blocks: u64) -> Result<Self, DistributionError> {
        let pairs = pairs.iter();
        let class = |[duplicates, contents]: &[u64; 2]| DuplicateClass {
            duplicates: *duplicates,
            contents: *contents,
        };
        Self::with_zeros(pairs.map(class), zero_blocks)
    }

    /// Creates a distribution from classes in any order and the blocks of zeros, which are in none
    /// of the classes.
    ///
    /// # Errors
    /// Fails with [`DistributionError::Empty`], [`DistributionError::TooLarge`] or
    /// [`DistributionError::TooManyZeros`].
    pub fn with_zeros(
        classes: impl IntoIterator<Item = DuplicateClass>,
        zero_blocks: u64,
    ) -> Result<Self, DistributionError> {
        if zero_blocks > MAX_BLOCKS {
            return Err(DistributionError::TooManyZeros);
        }
        let mut sorted: Vec<DuplicateClass> =
            classes.into_iter().filter(|class| class.contents > 0).collect();
        sorted.sort_unstable_by_key(|class| class.duplicates);
        let mut merged: Vec<DuplicateClass> = Vec::with_capacity(sorted.len());
        let mut blocks = u128::from(zero_blocks);
        for class in sorted {
            blocks += (u128::from(class.duplicates) + 1) * u128::from(class.contents);
            if blocks > u128::from(MAX_BLOCKS) {
                return Err(DistributionError::TooLarge { duplicates: class.duplicates });
            }
            match merged.last_mut() {
                Some(last) if last.duplicates == class.duplicates => {
                    last.contents += class.contents;
                }
                _ => merged.push(class),
            }
        }
        if blocks == 0 {
            return Err(DistributionError::Empty);
        }
        // The check above limits the sum to 2^63.
        Ok(Self { classes: merged, zero_blocks, blocks: blocks as u64 })
    }

    /// Returns the classes of contents that are not zeros, in ascending order of duplicates.
    #[must_use]
    pub fn classes(&self) -> &[DuplicateClass] {
        &self.classes
    }

    /// Returns the classes as `[duplicates, contents]` pairs.
    #[must_use]
    pub fn pairs(&self) -> Vec<[u64; 2]> {
        self.classes.iter().map(|class| [class.duplicates, class.contents]).collect()
    }

    /// Returns the blocks of the data set that the distribution describes, blocks of zeros
    /// included.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the blocks of zeros.
    #[must_use]
    pub const fn zero_blocks(&self) -> u64 {
        self.zero_blocks
    }

    /// Returns the blocks that are not zeros.
    #[must_use]
    pub const fn counted_blocks(&self) -> u64 {
        self.blocks - self.zero_blocks
    }

    /// Returns the summary figures.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let distinct = self.classes.iter().map(|class| class.contents).sum();
        let unique = self
            .classes
            .first()
            .filter(|class| class.duplicates == 0)
            .map_or(0, |class| class.contents);
        Summary {
            blocks: self.blocks,
            zero_blocks: self.zero_blocks,
            distinct,
            unique,
            distinct_with_duplicates: distinct - unique,
            duplicates: self.counted_blocks() - distinct,
            max_duplicates: self.classes.last().map_or(0, |class| class.duplicates),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(duplicates: u64, contents: u64) -> DuplicateClass {
        DuplicateClass { duplicates, contents }
    }

    #[test]
    fn the_summary_counts_blocks_contents_and_duplicates() {
        let distribution = Distribution::new([class(3, 10), class(0, 50), class(9, 1)]).unwrap();
        let summary = distribution.summary();
        assert_eq!((summary.blocks, summary.distinct, summary.unique), (100, 61, 50));
        assert_eq!((summary.duplicates, summary.distinct_with_duplicates), (39, 11));
        assert_eq!(summary.max_duplicates, 9);
        assert!((summary.dedup_ratio() - 100.0 / 61.0).abs() < 1e-12);
    }

    #[test]
    fn equal_classes_are_added_and_empty_ones_left_out() {
        let distribution = Distribution::new([class(1, 2), class(5, 0), class(1, 3)]).unwrap();
        assert_eq!(distribution.classes(), [class(1, 5)]);
        assert_eq!(distribution.summary().unique, 0);
    }

    #[test]
    fn zeros_are_blocks_and_no_duplicates() {
        let distribution = Distribution::with_zeros([class(1, 10)], 80).unwrap();
        let summary = distribution.summary();
        assert_eq!((summary.blocks, summary.zero_blocks, summary.distinct), (100, 80, 10));
        assert_eq!((summary.duplicates, summary.unique), (10, 0));
        assert!((summary.dedup_ratio() - 2.0).abs() < 1e-12);
        assert!((summary.dedup_ratio_with_zeros() - 100.0 / 11.0).abs() < 1e-12);
        let only = Distribution::with_zeros([], 5).unwrap().summary();
        assert_eq!((only.blocks, only.distinct, only.duplicates), (5, 0, 0));
        assert_eq!((only.dedup_ratio(), only.dedup_ratio_with_zeros()), (1.0, 5.0));
        let most = Distribution::with_zeros([class(0, 1)], 1 << 63);
        assert_eq!(most, Err(DistributionError::TooLarge { duplicates: 0 }));
        let most = Distribution::with_zeros([], u64::MAX);
        assert_eq!(most, Err(DistributionError::TooManyZeros));
    }

    #[test]
    fn nothing_and_too_much_are_refused() {
        assert_eq!(Distribution::new([]), Err(DistributionError::Empty));
        assert_eq!(Distribution::new([class(4, 0)]), Err(DistributionError::Empty));
        let most = Distribution::new([class(u64::MAX, u64::MAX)]);
        assert_eq!(most, Err(DistributionError::TooLarge { duplicates: u64::MAX }));
        assert!(Distribution::new([class(0, 1 << 63), class(1, 1)]).is_err());
    }
}
