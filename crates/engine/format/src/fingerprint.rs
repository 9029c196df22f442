//! Fingerprints of contents.

use crate::hash_many::ManyHasher;
use crate::types::{Fingerprint, FingerprintKind};
use sha2::{Digest, Sha256};
use twox_hash::XxHash3_128;

/// Computes fingerprints with a pool's key.
#[derive(Debug, Clone)]
pub struct Fingerprinter {
    kind: FingerprintKind,
    blake3: ManyHasher,
    seed: u64,
    /// SHA-256 after one block that holds the key. Hashing a content then costs the same as without
    /// a key.
    keyed_sha256: Sha256,
}

/// Bytes of a block of SHA-256.
const SHA256_BLOCK_BYTES: usize = 64;

impl Fingerprinter {
    /// Makes a fingerprinter of this kind with the pool's key.
    #[must_use]
    pub fn new(kind: FingerprintKind, key: [u8; 32]) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = key;
        let seed = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let keyed_sha256 =
            Sha256::new().chain_update(key).chain_update([0; SHA256_BLOCK_BYTES - 32]);
        Self { kind, blake3: ManyHasher::new(key), seed, keyed_sha256 }
    }

    /// Computes the fingerprint of a content.
    #[inline]
    #[must_use]
    pub fn of(&self, content: &[u8]) -> Fingerprint {
        Fingerprint::of_hash(match self.kind {
            FingerprintKind::Blake3 => first_16(&self.blake3.hash(content)),
            FingerprintKind::Xxh3Compare => XxHash3_128::oneshot_with_seed(self.seed, content),
            FingerprintKind::Sha256 => {
                first_16(&self.keyed_sha256.clone().chain_update(content).finalize())
            }
            FingerprintKind::Sha1 => first_16(&sha1::Sha1::digest(content)),
        })
    }

    /// Calls `found` with the fingerprint of every content, in order. Contents of one length are
    /// hashed faster than one by one.
    pub fn of_all(&self, contents: &[&[u8]], mut found: impl FnMut(Fingerprint)) {
        if self.kind == FingerprintKind::Blake3 {
            self.blake3.hash_all(contents, |hash| found(Fingerprint::of_hash(first_16(hash))));
        } else {
            contents.iter().for_each(|content| found(self.of(content)));
        }
    }

    /// Returns whether contents with equal fingerprints have to be compared before they are shared.
    /// That holds for every kind without a key, and for hashes that do not resist forgery: a user
    /// of one volume could prepare two contents with one fingerprint, and have one of them shown in
    /// another volume.
    #[must_use]
    pub const fn must_compare(&self) -> bool {
        match self.kind {
            FingerprintKind::Blake3 | FingerprintKind::Sha256 => false,
            FingerprintKind::Xxh3Compare | FingerprintKind::Sha1 => true,
        }
    }
}

/// The first 16 bytes of a hash. Every hash here has at least that many.
fn first_16(hash: &[u8]) -> u128 {
    assert!(hash.len() >= 16, "a hash of {} bytes is too short", hash.len());
    hash.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_fingerprints_are_the_published_hash_cut() {
        let sha1 = Fingerprinter::new(FingerprintKind::Sha1, [0; 32]);
        assert_eq!(sha1.of(b"abc").to_bytes()[..4], [0xa9, 0x99, 0x3e, 0x36]);
    }

    #[test]
    fn keyed_sha256_is_that_of_a_block_with_the_key_and_the_content() {
        let content = [5; 4096];
        let whole = [&[7; 32][..], &[0; 32], &content].concat();
        let keyed = Fingerprinter::new(FingerprintKind::Sha256, [7; 32]);
        assert_eq!(keyed.of(&content), Fingerprint::of_hash(first_16(&Sha256::digest(whole))));
    }

    #[test]
    fn what_is_taken_for_equal_without_a_look_has_a_key() {
        for byte in 0..=u8::MAX {
            let Some(kind) = FingerprintKind::from_byte(byte) else { continue };
            let of = |key| Fingerprinter::new(kind, [key; 32]);
            assert_eq!(kind.byte(), byte);
            assert!(
                of(1).must_compare() || of(1).of(b"content") != of(2).of(b"content"),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn the_key_matters_where_it_should() {
        for kind in [FingerprintKind::Blake3, FingerprintKind::Xxh3Compare, FingerprintKind::Sha256]
        {
            let one = Fingerprinter::new(kind, [1; 32]);
            let two = Fingerprinter::new(kind, [2; 32]);
            assert_eq!(one.of(b"content"), one.of(b"content"));
            assert_ne!(one.of(b"content"), one.of(b"Content"));
            assert_ne!(one.of(b"content"), two.of(b"content"));
        }
    }
}
