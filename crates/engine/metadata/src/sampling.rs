//! The contents that an index in memory has: all, or a sample by fingerprint.

use gemelo_format::Fingerprint;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The highest number of contents of which one is in the index.
const MAX_RATE: u32 = 1024;

/// The contents that an index in memory has. Equal contents have equal fingerprints, so both or
/// none of them belong to the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema)]
#[schemars(with = "u32")]
pub struct IndexSampling {
    /// Upper bits of a fingerprint's lower half that are 0. The index uses the lower ones.
    bits: u32,
}

impl IndexSampling {
    /// Every content.
    pub const ALL: Self = Self { bits: 0 };

    /// As few as can be chosen.
    pub const LEAST: Self = Self { bits: MAX_RATE.ilog2() };

    /// One content in `rate`, a power of two from 1 to 1024. `None` for another number.
    #[must_use]
    pub const fn one_in(rate: u32) -> Option<Self> {
        match rate.is_power_of_two() && rate <= MAX_RATE {
            true => Some(Self { bits: rate.ilog2() }),
            false => None,
        }
    }

    /// Contents of which one is in the index.
    #[must_use]
    pub const fn rate(self) -> u32 {
        1 << self.bits
    }

    pub(crate) const fn bits(self) -> u32 {
        self.bits
    }

    /// Returns whether the index has contents with this lower half of the fingerprint.
    pub(crate) const fn has(self, hash: u64) -> bool {
        hash.leading_zeros() >= self.bits
    }

    pub(crate) const fn has_content(self, fingerprint: Fingerprint) -> bool {
        self.has(fingerprint.low())
    }
}

impl Display for IndexSampling {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.rate())
    }
}

impl Serialize for IndexSampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.rate())
    }
}

impl FromStr for IndexSampling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sampling = text.parse().ok().and_then(Self::one_in);
        sampling.ok_or_else(|| format!("expected a power of two from 1 to {MAX_RATE}"))
    }
}
