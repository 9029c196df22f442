//! What contents a job writes: everything that decides which content goes where and what its bytes are.

use crate::{Distribution, DistributionError, Profile};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// How contents are assigned to the blocks written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AssignmentMode {
    /// Every data set carries the distribution exactly, at any size.
    #[default]
    Exact,
    /// Every block is drawn from the cumulative distribution, as DEDISbench does (Paulo et al. 2012, section 3.1):
    /// at sizes below that of the distribution, copies of a content are missed and too many blocks are unique.
    Sampled,
}

/// How random and how compressible the bytes of a content are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Nature {
    /// Byte entropy (order 0), 0 to 8 bits a byte.
    pub entropy_bits: f64,
    /// What LZ4 and zstd level 1 save, 0 to 1, for bytes of full entropy; repeats inside the block make it.
    pub compressible_share: f64,
}

impl Nature {
    /// Random bytes, which nothing compresses.
    pub const RANDOM: Self = Self { entropy_bits: 8.0, compressible_share: 0.0 };
}

/// The nature of contents in a range of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ClassNature {
    /// First number of duplicates of the range.
    pub duplicates_from: u64,
    /// Last number of duplicates of the range, included.
    pub duplicates_to: u64,
    /// Their nature.
    pub nature: Nature,
}

/// What contents a job writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContentSpec {
    /// How many contents have how many duplicates.
    pub distribution: Distribution,
    /// How contents are assigned to blocks.
    pub mode: AssignmentMode,
    /// Decides bytes and places; the same seed gives the same shared contents on every host.
    pub seed: u64,
    /// Keeps the unique contents of this run and host apart from those of all others.
    pub run: u64,
    /// Size of a block in bytes, at least [`ContentSpec::LEAST_BLOCK_BYTES`].
    pub block_bytes: usize,
    /// The nature of contents in classes without one of their own.
    pub nature: Nature,
    /// The nature of contents by class.
    pub class_natures: Vec<ClassNature>,
    /// Mean distance between copies of a content in blocks; `None` spreads them over the whole data set.
    pub duplicate_distance: Option<u64>,
    /// Share of contents that differ from another in a few bytes, 0 to 1.
    pub similar_share: f64,
    /// Share of contents that are another's, moved by some bytes, 0 to 1.
    pub shifted_share: f64,
}

/// Why a specification of contents is refused.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ContentError {
    /// A figure outside its range.
    #[error("{what} is {value}, it has to be {range}")]
    Range {
        /// Which figure.
        what: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: &'static str,
    },
    /// The distribution cannot be carried to this size.
    #[error("the distribution does not fit {blocks} blocks")]
    Scale {
        /// The size asked for.
        blocks: u64,
        /// Why.
        source: DistributionError,
    },
}

impl ContentSpec {
    /// The smallest block that holds the mark by which a content is recognised, and something besides.
    pub const LEAST_BLOCK_BYTES: usize = 64;
    /// The largest block: 16 MiB.
    pub const MOST_BLOCK_BYTES: usize = 1 << 24;

    /// Random contents of this distribution, exactly assigned.
    #[must_use]
    pub const fn new(distribution: Distribution, block_bytes: usize, seed: u64) -> Self {
        Self {
            distribution,
            mode: AssignmentMode::Exact,
            seed,
            run: 0,
            block_bytes,
            nature: Nature::RANDOM,
            class_natures: Vec::new(),
            duplicate_distance: None,
            similar_share: 0.0,
            shifted_share: 0.0,
        }
    }

    /// Takes the nature of contents from what a profile measured.
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

    /// The nature of contents with this many duplicates.
    #[must_use]
    pub fn nature_of(&self, duplicates: u64) -> Nature {
        let own = self
            .class_natures
            .iter()
            .find(|class| (class.duplicates_from..=class.duplicates_to).contains(&duplicates));
        own.map_or(self.nature, |class| class.nature)
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`ContentError::Range`] with the first figure that is out of its range.
    pub fn check(&self) -> Result<(), ContentError> {
        let sizes = Self::LEAST_BLOCK_BYTES..=Self::MOST_BLOCK_BYTES;
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
