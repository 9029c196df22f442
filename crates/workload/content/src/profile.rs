//! Profiles: a distribution with the nature of its contents. `gemelo scan` writes profiles, and
//! `gemelo bench` generates data from them.
//!
//! The file is TOML and needs no other file. It contains the distribution and, for ranges of
//! duplicates, the measured byte entropy and compressibility.

use crate::{Distribution, DistributionError};
use gemelo_base::Classified;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The schema name of a profile file.
pub const PROFILE_SCHEMA: &str = "gemelo.profile/1";

/// The largest block size of a profile: 1 GiB, above every unit of deduplication.
const MAX_BLOCK_BYTES: u64 = 1 << 30;

/// A distribution with the byte entropy and the compressibility of its classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The schema name, always [`PROFILE_SCHEMA`].
    pub schema: String,
    /// A short name for display.
    pub name: String,
    /// The source of the figures: a paper, or a command and the data that it read.
    pub source: String,
    /// The block size at which the duplicates were counted, in bytes.
    pub block_bytes: u64,
    /// The blocks of zeros.
    #[serde(default, skip_serializing_if = "is_none")]
    pub zero_blocks: u64,
    /// The contents that are not zeros, as `[duplicates, contents]` pairs.
    pub distribution: Vec<[u64; 2]>,
    /// The nature of contents by ranges of duplicates; empty if only the duplicates are known.
    #[serde(default, rename = "class")]
    pub classes: Vec<ProfileClass>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_none(blocks: &u64) -> bool {
    *blocks == 0
}

/// The nature of the contents in a range of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileClass {
    /// The first number of duplicates of the range.
    pub duplicates_from: u64,
    /// The last number of duplicates of the range, included.
    pub duplicates_to: u64,
    /// The number of distinct contents whose bytes were measured.
    pub sampled_contents: u64,
    /// The mean byte entropy (order 0), 0 to 8 bits a byte.
    pub entropy_bits: f64,
    /// The share of bytes that LZ4 saves, with each block compressed alone; 0 to 1, or slightly
    /// negative.
    pub lz4_saved_share: f64,
    /// The share of bytes that zstd level 1 saves, with each block compressed alone; 0 to 1, or
    /// slightly negative.
    pub zstd_saved_share: f64,
}

/// The reason why a text is not a valid profile.
#[derive(Debug, Error, Classified)]
#[kind(BadInput)]
pub enum ProfileError {
    /// The text is not TOML, or its keys are not those of a profile.
    #[error("not a profile: {0}")]
    Toml(#[from] toml::de::Error),
    /// The profile has another schema.
    #[error(
        "the profile has schema '{found}', but this version of gemelo reads '{PROFILE_SCHEMA}'"
    )]
    Schema {
        /// The schema that the file names.
        found: String,
    },
    /// The block size is 0 or above the limit.
    #[error("block_bytes is {found}; it must be from 1 to {MAX_BLOCK_BYTES} (1 GiB)")]
    BlockBytes {
        /// The block size that the file gives.
        found: u64,
    },
    /// The pairs do not form a distribution.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// A figure of a class is out of its range.
    #[error("class {duplicates_from}-{duplicates_to}: {what}")]
    Class {
        /// The first number of duplicates of the class at fault.
        duplicates_from: u64,
        /// The last number of duplicates of the class at fault.
        duplicates_to: u64,
        /// The figure at fault and its valid range.
        what: &'static str,
    },
}

impl Profile {
    /// Creates a profile of this distribution, without figures about the nature of contents.
    #[must_use]
    pub fn new(name: &str, source: &str, block_bytes: u64, distribution: &Distribution) -> Self {
        Self {
            schema: PROFILE_SCHEMA.to_owned(),
            name: name.to_owned(),
            source: source.to_owned(),
            block_bytes,
            zero_blocks: distribution.zero_blocks(),
            distribution: distribution.pairs(),
            classes: Vec::new(),
        }
    }

    /// Parses and checks a profile file.
    ///
    /// # Errors
    /// Fails if the text is not TOML of this schema, or if a figure is out of its range.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text)?;
        profile.checked()
    }

    /// Checks a profile that was not read by [`Profile::parse`], and returns it.
    ///
    /// # Errors
    /// Fails if the schema is another one, or if a figure is out of its range.
    pub fn checked(self) -> Result<Self, ProfileError> {
        if self.schema != PROFILE_SCHEMA {
            return Err(ProfileError::Schema { found: self.schema });
        }
        if !(1..=MAX_BLOCK_BYTES).contains(&self.block_bytes) {
            return Err(ProfileError::BlockBytes { found: self.block_bytes });
        }
        self.to_distribution()?;
        for class in &self.classes {
            class.check()?;
        }
        Ok(self)
    }

    /// Serialises the profile as TOML.
    ///
    /// # Errors
    /// Never fails in practice: every profile can be serialised.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// Returns the distribution of the profile.
    ///
    /// # Errors
    /// Fails if the pairs do not form a distribution.
    pub fn to_distribution(&self) -> Result<Distribution, DistributionError> {
        Distribution::of_pairs(&self.distribution, self.zero_blocks)
    }

    /// Returns the nature of contents with this many duplicates, if the profile has it.
    #[must_use]
    pub fn class_of(&self, duplicates: u64) -> Option<&ProfileClass> {
        self.classes
            .iter()
            .find(|class| (class.duplicates_from..=class.duplicates_to).contains(&duplicates))
    }
}

impl ProfileClass {
    fn check(&self) -> Result<(), ProfileError> {
        let wrong = |what| ProfileError::Class {
            duplicates_from: self.duplicates_from,
            duplicates_to: self.duplicates_to,
            what,
        };
        if self.duplicates_from > self.duplicates_to {
            return Err(wrong("duplicates_from must not be above duplicates_to"));
        }
        if !(0.0..=8.0).contains(&self.entropy_bits) {
            return Err(wrong("entropy_bits must be from 0 to 8"));
        }
        // A compressor can make a block larger, so a saving can be slightly below 0.
        if ![self.lz4_saved_share, self.zstd_saved_share]
            .iter()
            .all(|share| (-1.0..=1.0).contains(share))
        {
            return Err(wrong("lz4_saved_share and zstd_saved_share must be from -1 to 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema = \"gemelo.profile/1\"\nname = \"x\"\nsource = \"by hand\"\n\
        block_bytes = 4096\ndistribution = [[0, 10], [3, 2]]\n[[class]]\n\
        duplicates_from = 0\nduplicates_to = 0\nsampled_contents = 10\n\
        entropy_bits = 7.5\nlz4_saved_share = 0.1\nzstd_saved_share = 0.2\n";

    #[test]
    fn a_profile_survives_its_file() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!(profile.to_distribution().unwrap().blocks(), 18);
        assert_eq!(Profile::parse(&profile.to_toml().unwrap()).unwrap(), profile);
        assert_eq!(profile.class_of(0).map(|class| class.entropy_bits), Some(7.5));
        assert!(profile.class_of(3).is_none());
    }

    #[test]
    fn impossible_figures_are_refused() {
        for (from, to) in [
            ("profile/1", "profile/9"),
            ("= 4096", "= 0"),
            ("7.5", "8.5"),
            ("0.1", "nan"),
            ("[[0, 10], [3, 2]]", "[]"),
            ("duplicates_from = 0", "duplicates_from = 5"),
            ("entropy_bits", "entropy_bats"),
        ] {
            assert!(Profile::parse(&TEXT.replacen(from, to, 1)).is_err(), "{to}");
        }
    }
}
