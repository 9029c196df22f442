//! Fingerprints of contents.

use crate::hash_many::ManyHasher;
use crate::types::{Fingerprint, FingerprintKind};
use sha2::Digest;
use twox_hash::XxHash3_128;

/// Computes fingerprints with a pool's key.
#[derive(Debug, Clone)]
pub struct Fingerprinter {
    kind: FingerprintKind,
    blake3: ManyHasher,
    seed: u64,
}

impl Fingerprinter {
    /// Of this kind, with the pool's key.
    #[must_use]
    pub fn new(kind: FingerprintKind, key: [u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = key;
        Self { kind, blake3: ManyHasher::new(key), seed: u64::from_le_bytes([a, b, c, d, e, f, g, h]) }
    }

    /// The fingerprint of a content.
    #[inline]
    #[must_use]
    pub fn of(&self, content: &[u8]) -> Fingerprint {
        Fingerprint::of_hash(match self.kind {
            FingerprintKind::Blake3 => first_16(&self.blake3.hash(content)),
            FingerprintKind::Xxh3Compare => XxHash3_128::oneshot_with_seed(self.seed, content),
            FingerprintKind::Sha256 => first_16(&sha2::Sha256::digest(content)),
            FingerprintKind::Sha1 => first_16(&sha1::Sha1::digest(content)),
        })
    }

    /// The fingerprint that a pool of format version 1 has for a content.
    #[must_use]
    pub fn of_v1(&self, content: &[u8]) -> Fingerprint {
        self.of(content)
    }

    /// Calls `found` with the fingerprint of every content, in order; faster than one by one if they have one length.
    pub fn of_all(&self, contents: &[&[u8]], mut found: impl FnMut(Fingerprint)) {
        if self.kind == FingerprintKind::Blake3 {
            self.blake3.hash_all(contents, |hash| found(Fingerprint::of_hash(first_16(hash))));
        } else {
            contents.iter().for_each(|content| found(self.of(content)));
        }
    }

    /// Whether equal fingerprints do not suffice to take contents for equal.
    #[must_use]
    pub const fn must_compare(&self) -> bool {
        matches!(self.kind, FingerprintKind::Xxh3Compare)
    }
}

/// The first 16 bytes of a hash, which all of them have.
fn first_16(hash: &[u8]) -> u128 {
    hash.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha_fingerprints_are_the_published_hashes_cut() {
        let of = |kind| Fingerprinter::new(kind, [0; 32]).of(b"abc").to_bytes();
        assert_eq!(of(FingerprintKind::Sha256)[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(of(FingerprintKind::Sha1)[..4], [0xa9, 0x99, 0x3e, 0x36]);
    }

    #[test]
    fn the_key_matters_where_it_should() {
        for kind in [FingerprintKind::Blake3, FingerprintKind::Xxh3Compare] {
            let one = Fingerprinter::new(kind, [1; 32]);
            let two = Fingerprinter::new(kind, [2; 32]);
            assert_eq!(one.of(b"content"), one.of(b"content"));
            assert_ne!(one.of(b"content"), one.of(b"Content"));
            assert_ne!(one.of(b"content"), two.of(b"content"));
        }
    }
}
