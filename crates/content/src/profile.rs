//! A distribution with the nature of its contents: what `gemelo scan` finds out and `gemelo bench` writes again.
//!
//! The file is TOML and stands alone: it holds the distribution itself, and for ranges of duplicates the byte entropy
//! and the compressibility measured there.

use crate::{Distribution, DistributionError, DuplicateClass};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What a profile file says it is.
pub const PROFILE_SCHEMA: &str = "gemelo.profile/1";

/// The largest block size of a profile: 1 GiB, above every unit of deduplication.
const MOST_BLOCK_BYTES: u64 = 1 << 30;

/// A distribution, and how random and compressible the contents of its classes are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Always [`PROFILE_SCHEMA`].
    pub schema: String,
    /// A short name.
    pub name: String,
    /// Where the figures come from: a paper, or a command and the data it read.
    pub source: String,
    /// The block size at which the duplicates were counted, in bytes.
    pub block_bytes: u64,
    /// `[duplicates, contents]` pairs.
    pub distribution: Vec<[u64; 2]>,
    /// The nature of contents, by ranges of duplicates; none where only the duplicates are known.
    #[serde(default, rename = "class")]
    pub classes: Vec<ProfileClass>,
}

/// The nature of the contents in a range of duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileClass {
    /// First number of duplicates of the range.
    pub duplicates_from: u64,
    /// Last number of duplicates of the range, included.
    pub duplicates_to: u64,
    /// Distinct contents whose bytes were measured.
    pub sampled_contents: u64,
    /// Mean byte entropy (order 0), 0 to 8 bits a byte.
    pub entropy_bits: f64,
    /// What LZ4 saves, block by block, 0 to 1.
    pub lz4_saved_share: f64,
    /// What zstd level 1 saves, block by block, 0 to 1.
    pub zstd_saved_share: f64,
}

/// Why a text is no profile.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// Not TOML, or not with these keys.
    #[error("not a profile: {0}")]
    Toml(#[from] toml::de::Error),
    /// Another schema.
    #[error("schema is '{found}', this program reads '{PROFILE_SCHEMA}'")]
    Schema {
        /// What the file says.
        found: String,
    },
    /// A block size of nothing, or beyond all use.
    #[error("block_bytes is {found}, not from 1 to {MOST_BLOCK_BYTES}")]
    BlockBytes {
        /// What the file says.
        found: u64,
    },
    /// The pairs make no distribution.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// A figure out of its range.
    #[error("class {duplicates_from}-{duplicates_to}: {what}")]
    Class {
        /// First number of duplicates of the class at fault.
        duplicates_from: u64,
        /// Last number of duplicates of the class at fault.
        duplicates_to: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl Profile {
    /// A profile of this distribution, without figures on the nature of contents.
    #[must_use]
    pub fn new(name: &str, source: &str, block_bytes: u64, distribution: &Distribution) -> Self {
        Self {
            schema: PROFILE_SCHEMA.to_owned(),
            name: name.to_owned(),
            source: source.to_owned(),
            block_bytes,
            distribution: distribution
                .classes()
                .iter()
                .map(|class| [class.duplicates, class.contents])
                .collect(),
            classes: Vec::new(),
        }
    }

    /// Reads and checks a profile file.
    ///
    /// # Errors
    /// If the text is not TOML of this schema, or a figure is impossible.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Self = toml::from_str(text)?;
        profile.checked()
    }

    /// A profile that came from elsewhere, if it is one.
    ///
    /// # Errors
    /// If the schema is another, or a figure is impossible.
    pub fn checked(self) -> Result<Self, ProfileError> {
        if self.schema != PROFILE_SCHEMA {
            return Err(ProfileError::Schema { found: self.schema });
        }
        if !(1..=MOST_BLOCK_BYTES).contains(&self.block_bytes) {
            return Err(ProfileError::BlockBytes { found: self.block_bytes });
        }
        self.to_distribution()?;
        for class in &self.classes {
            class.check()?;
        }
        Ok(self)
    }

    /// The profile as a TOML file.
    ///
    /// # Errors
    /// None in practice: every profile can be written.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The distribution alone.
    ///
    /// # Errors
    /// If the pairs make none.
    pub fn to_distribution(&self) -> Result<Distribution, DistributionError> {
        let pairs = self.distribution.iter();
        Distribution::new(pairs.map(|[duplicates, contents]| DuplicateClass {
            duplicates: *duplicates,
            contents: *contents,
        }))
    }

    /// What is known of contents with this many duplicates.
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
            return Err(wrong("duplicates_from is above duplicates_to"));
        }
        if !(0.0..=8.0).contains(&self.entropy_bits) {
            return Err(wrong("entropy_bits is not from 0 to 8"));
        }
        // A compressor may make a block larger: a saving can be a little below 0.
        if ![self.lz4_saved_share, self.zstd_saved_share]
            .iter()
            .all(|share| (-1.0..=1.0).contains(share))
        {
            return Err(wrong("a saved share is not from -1 to 1"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema = \"gemelo.profile/1\"\nname = \"x\"\nsource = \"by hand\"\nblock_bytes = 4096\n\
        distribution = [[0, 10], [3, 2]]\n[[class]]\nduplicates_from = 0\nduplicates_to = 0\nsampled_contents = 10\n\
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
