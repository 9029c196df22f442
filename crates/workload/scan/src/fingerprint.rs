//! Fingerprints: 128 bits of a hash of a content.
//!
//! Longer hashes are cut to the first 128 bits of their printed form. The probability that any two
//! of 10^12 different contents share a fingerprint by chance is below 10^-14 for every hash. Only
//! the cryptographic hashes also resist contents that were made to collide.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use sha1::Digest as _;

/// The hash function that makes fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScanFingerprintKind {
    /// XXH3 with 128 bits: it runs at memory speed and is not cryptographic.
    #[default]
    #[serde(rename = "xxh3-128")]
    Xxh3,
    /// BLAKE3, cut to 128 bits.
    Blake3,
    /// SHA-256, cut to 128 bits.
    Sha256,
    /// SHA-1, cut to 128 bits.
    Sha1,
    /// MD5, which has 128 bits and is not collision-resistant.
    Md5,
}

impl ScanFingerprintKind {
    /// The kinds in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Xxh3, Self::Blake3, Self::Sha256, Self::Sha1, Self::Md5];

    /// Returns the name that users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xxh3 => "xxh3-128",
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
        }
    }

    /// Returns the fingerprint of a content.
    #[inline]
    #[must_use]
    pub fn of(self, content: &[u8]) -> ScanFingerprint {
        match self {
            Self::Xxh3 => ScanFingerprint::from(twox_hash::XxHash3_128::oneshot(content)),
            Self::Blake3 => first_bits(blake3::hash(content).as_bytes()),
            Self::Sha256 => first_bits(&sha2::Sha256::digest(content)),
            Self::Sha1 => first_bits(&sha1::Sha1::digest(content)),
            Self::Md5 => first_bits(&md5::Md5::digest(content)),
        }
    }
}

fn first_bits(hash: &[u8]) -> ScanFingerprint {
    // Every hash in this file has at least 16 bytes.
    ScanFingerprint::from(hash.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
}

/// The 128 bits that identify a content. They are ordered as their printed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Deserialize)]
#[schemars(with = "String")]
#[serde(try_from = "String")]
pub struct ScanFingerprint {
    /// The first 64 bits. They determine the shard, and the order in files.
    pub(crate) high: u64,
    /// The last 64 bits. They determine membership in samples, so that a sample spreads over all
    /// shards.
    pub(crate) low: u64,
}

impl ScanFingerprint {
    /// Returns the 16 bytes, in printed order.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.high) << 64) | u128::from(self.low)).to_be_bytes()
    }

    /// Returns the fingerprint with these 16 bytes, in printed order.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::from(u128::from_be_bytes(bytes))
    }
}

impl From<u128> for ScanFingerprint {
    #[inline]
    fn from(bits: u128) -> Self {
        Self { high: (bits >> 64) as u64, low: bits as u64 }
    }
}

impl TryFrom<String> for ScanFingerprint {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = u128::from_str_radix(&text, 16).ok().filter(|_| is_hex);
        bits.map(Self::from).ok_or_else(|| format!("expected 32 hexadecimal digits, not '{text}'"))
    }
}

impl std::fmt::Display for ScanFingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.high, self.low)
    }
}

impl Serialize for ScanFingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `xxh128sum`, `b3sum`, `sha256sum`, `sha1sum` and `md5sum` for "abc", cut to 32
    /// digits.
    #[test]
    fn fingerprints_are_the_first_digits_that_the_common_tools_print() {
        for (kind, digits) in [
            (ScanFingerprintKind::Xxh3, "06b05ab6733a618578af5f94892f3950"),
            (ScanFingerprintKind::Blake3, "6437b3ac38465133ffb63b75273a8db5"),
            (ScanFingerprintKind::Sha256, "ba7816bf8f01cfea414140de5dae2223"),
            (ScanFingerprintKind::Sha1, "a9993e364706816aba3e25717850c26c"),
            (ScanFingerprintKind::Md5, "900150983cd24fb0d6963f7d28e17f72"),
        ] {
            let fingerprint = kind.of(b"abc");
            assert_eq!(fingerprint.to_string(), digits, "{}", kind.name());
            assert_eq!(ScanFingerprint::from_bytes(fingerprint.to_bytes()), fingerprint);
        }
    }

    #[test]
    fn the_order_is_that_of_the_bytes() {
        let low = ScanFingerprint::from_bytes([
            0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0,
        ]);
        let high = ScanFingerprint::from_bytes([1; 16]);
        assert!(low < high && low.to_bytes() < high.to_bytes());
    }
}
