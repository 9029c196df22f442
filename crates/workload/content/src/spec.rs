//! The specification of a job's contents: all parameters that determine the content of each block
//! and its bytes.

use crate::{Distribution, DistributionError, Profile};
use gemelo_base::Classified;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The method by which contents are assigned to the blocks that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssignmentMode {
    /// Every data set carries the distribution exactly, at any size.
    #[default]
    Exact,
    /// Every block is drawn from the cumulative distribution, as DEDISbench does (Paulo et al.
    /// 2012, section 2.3). In data sets smaller than the distribution, some copies of a content are
    /// not drawn, so too many blocks are unique.
    Sampled,
}

/// The byte entropy and the compressibility of a content.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Nature {
    /// The byte entropy (order 0), 0 to 8 bits a byte.
    pub entropy_bits: f64,
    /// The share that LZ4 and zstd level 1 save on bytes of full entropy, 0 to 1. Repeats within
    /// the block cause the saving.
    pub compressible_share: f64,
}

impl Nature {
    /// Random bytes, which no compressor can reduce.
    pub const RANDOM: Self = Self { entropy_bits: 8.0, compressible_share: 0.0 };
}

/// The nature of contents in a range of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ClassNature {
    /// The first number of duplicates of the range.
    pub duplicates_from: u64,
    /// The last number of duplicates of the range, included.
    pub duplicates_to: u64,
    /// The nature of the contents in the range.
    pub nature: Nature,
}

/// All parameters that determine the contents that a job writes.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct ContentSpec {
    /// The number of distinct contents for each number of duplicates.
    pub distribution: Distribution,
    /// The method by which contents are assigned to blocks.
    pub mode: AssignmentMode,
    /// The seed of the bytes. The same seed gives the same shared contents on every host.
    pub seed: u64,
    /// The seed of the assignment: which write gets which content.
    pub assignment_seed: u64,
    /// The run id. It makes the unique contents of this run and host differ from those of all
    /// others.
    pub run: u64,
    /// The size of a block in bytes, at least [`ContentSpec::MIN_BLOCK_BYTES`].
    pub block_bytes: usize,
    /// The nature of contents in classes that `class_natures` does not contain.
    pub nature: Nature,
    /// The nature of contents by ranges of duplicates.
    pub class_natures: Vec<ClassNature>,
    /// The mean distance between copies of a content, in blocks; `None` spreads them over the data
    /// set.
    pub duplicate_distance: Option<u64>,
    /// The share of contents that differ from another content in a few bytes, 0 to 1.
    pub similar_share: f64,
    /// The share of contents that are another content moved by some bytes, 0 to 1.
    pub shifted_share: f64,
    /// The share of blocks whose contents no other host of a run has, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub private_share: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_zero(share: &f64) -> bool {
    *share == 0.0
}

/// The reason why a specification of contents is refused.
#[derive(Debug, Clone, PartialEq, Error, Classified)]
#[kind(BadInput)]
pub enum ContentError {
    /// A figure is outside its range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// The name of the figure.
        what: &'static str,
        /// The given value, as text.
        value: String,
        /// The valid range, as text.
        range: &'static str,
    },
    /// Contents cannot be private to hosts in this mode, at this size or with this many hosts.
    #[error(
        "contents private to hosts need exact assignment, a data set of at most 2^33 blocks, and \
         at most 1,022 hosts"
    )]
    PrivateShare,
    /// The distribution cannot be scaled to this size.
    #[error("the distribution does not fit {blocks} blocks")]
    Scale {
        /// The requested size in blocks.
        blocks: u64,
        /// The limit that is exceeded.
        source: DistributionError,
    },
}

impl ContentSpec {
    /// The smallest block size in bytes: it holds the mark that identifies the content, and a body.
    pub const MIN_BLOCK_BYTES: usize = 64;
    /// The largest block size in bytes: 16 MiB.
    pub const MAX_BLOCK_BYTES: usize = 1 << 24;

    /// Creates a specification of random contents of this distribution, assigned exactly, with one
    /// seed for the contents and their assignment.
    #[must_use]
    pub const fn new(distribution: Distribution, block_bytes: usize, seed: u64) -> Self {
        Self {
            distribution,
            mode: AssignmentMode::Exact,
            seed,
            assignment_seed: seed,
            run: 0,
            block_bytes,
            nature: Nature::RANDOM,
            class_natures: Vec::new(),
            duplicate_distance: None,
            similar_share: 0.0,
            shifted_share: 0.0,
            private_share: 0.0,
        }
    }

    /// Takes the nature of contents from the figures of a profile.
    #[must_use]
    pub fn with_natures_of(mut self, profile: &Profile) -> Self {
        self.class_natures = profile
            .classes
            .iter()
            .map(|class| ClassNature {
                duplicates_from: class.duplicates_from,
                duplicates_to: class.duplicates_to,
                nature: Nature {
                    entropy_bits: class.entropy_bits,
                    compressible_share: class.lz4_saved_share.clamp(0.0, 1.0),
                },
            })
            .collect();
        self
    }

    /// Returns the nature of contents with this many duplicates.
    #[must_use]
    pub fn nature_of(&self, duplicates: u64) -> Nature {
        let own = self
            .class_natures
            .iter()
            .find(|class| (class.duplicates_from..=class.duplicates_to).contains(&duplicates));
        own.map_or(self.nature, |class| class.nature)
    }

    /// Checks all figures.
    ///
    /// # Errors
    /// Fails with [`ContentError::Range`] at the first figure that is out of its range.
    pub fn check(&self) -> Result<(), ContentError> {
        let sizes = Self::MIN_BLOCK_BYTES..=Self::MAX_BLOCK_BYTES;
        if !sizes.contains(&self.block_bytes) {
            return Err(range("the block size", &self.block_bytes, "from 64 bytes to 16 MiB"));
        }
        let natures = self.class_natures.iter().map(|class| class.nature).chain([self.nature]);
        for nature in natures {
            if !(0.0..=8.0).contains(&nature.entropy_bits) {
                return Err(range("the entropy", &nature.entropy_bits, "from 0 to 8 bits a byte"));
            }
            check_share("the compressibility", nature.compressible_share)?;
        }
        check_share("the share of similar contents", self.similar_share)?;
        check_share("the share of shifted contents", self.shifted_share)?;
        check_share(
            "the share of similar and shifted contents",
            self.similar_share + self.shifted_share,
        )?;
        check_share("the share of private contents", self.private_share)?;
        if self.duplicate_distance == Some(0) {
            return Err(range("the duplicate distance", &0, "at least 1 block"));
        }
        Ok(())
    }
}

fn check_share(what: &'static str, share: f64) -> Result<(), ContentError> {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(range(what, &(share * 100.0), "from 0 to 100 %"))
    }
}

fn range(what: &'static str, value: &dyn std::fmt::Display, range: &'static str) -> ContentError {
    ContentError::Range { what, value: value.to_string(), range }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ContentSpec {
        ContentSpec::new(Distribution::parse("0 10\n3 2\n").unwrap(), 4096, 1)
    }

    #[test]
    fn figures_out_of_range_are_named() {
        assert_eq!(spec().check(), Ok(()));
        let wrong: [(ContentSpec, &str); 6] = [
            (ContentSpec { block_bytes: 63, ..spec() }, "the block size is 63"),
            (ContentSpec { duplicate_distance: Some(0), ..spec() }, "the duplicate distance is 0"),
            (ContentSpec { similar_share: 1.5, ..spec() }, "the share of similar contents is 150"),
            (
                ContentSpec { similar_share: 0.6, shifted_share: 0.6, ..spec() },
                "similar and shifted",
            ),
            (
                ContentSpec { nature: Nature { entropy_bits: 8.1, ..Nature::RANDOM }, ..spec() },
                "the entropy",
            ),
            (
                ContentSpec {
                    nature: Nature { entropy_bits: f64::NAN, ..Nature::RANDOM },
                    ..spec()
                },
                "NaN",
            ),
        ];
        for (spec, message) in wrong {
            let error = spec.check().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_class_has_its_own_nature_where_the_profile_measured_one() {
        let class = crate::ProfileClass {
            duplicates_from: 1,
            duplicates_to: 4,
            sampled_contents: 9,
            entropy_bits: 5.0,
            lz4_saved_share: -0.01,
            zstd_saved_share: 0.3,
        };
        let mut profile = Profile::new("x", "test", 4096, &spec().distribution);
        profile.classes.push(class);
        let spec = spec().with_natures_of(&profile);
        assert_eq!(spec.nature_of(3), Nature { entropy_bits: 5.0, compressible_share: 0.0 });
        assert_eq!(spec.nature_of(0), Nature::RANDOM);
    }
}
