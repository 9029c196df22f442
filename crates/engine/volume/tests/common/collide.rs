//! Different contents with the same XXH3-128, for tests of fingerprints that have to be compared.
//!
//! XXH3 adds to each of its eight accumulators, for every 64 bytes, the product of the two halves
//! of `data ^ secret`, and adds `data` itself to the neighbouring accumulator. If the lower half of
//! the data equals that of the secret, the product is zero whatever the upper half is. If that
//! holds in two stripes, the upper halves may change as long as their sum stays: the hash does not
//! change.

use super::BLOCK;
use gemelo_base::random::mix_pair;
use gemelo_format::{Fingerprinter, read_superblock};
use gemelo_store::PoolDisks;

/// The first words of the secret that XXH3 derives from seed 0 (xxhash, `XXH3_kSecret`).
const SECRET: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];
/// Bytes that XXH3 processes in one step.
const STRIPE: usize = 64;

/// Makes colliding contents for one pool.
#[derive(Clone)]
pub struct Collider {
    words: [u32; 2],
}

impl Collider {
    /// Makes a collider for the pool on these disks. The pool's key decides which contents collide.
    pub fn of(disks: &PoolDisks) -> Self {
        let superblock = read_superblock(&*disks.metadata, &mut Vec::new()).unwrap();
        let seed = u64::from_le_bytes(*superblock.key.first_chunk().unwrap());
        let words =
            [SECRET[0].wrapping_add(seed), SECRET[1].wrapping_sub(seed)].map(|word| word as u32);
        let collider = Self { words };
        let of = Fingerprinter::new(superblock.fingerprint, superblock.key);
        let (one, two) = (collider.content(1, 1), collider.content(1, 2));
        assert!(one != two);
        assert!(of.of(&one) == of.of(&two), "the contents do not collide");
        collider
    }

    /// Makes a content. All contents of a family have one fingerprint.
    pub fn content(&self, family: u64, member: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> =
            (0..BLOCK as u64 / 8).flat_map(|word| mix_pair(!family, word).to_le_bytes()).collect();
        let upper = [member, 0_u32.wrapping_sub(member)];
        for (stripe, (lower, upper)) in self.words.into_iter().zip(upper).enumerate() {
            let at = stripe * STRIPE;
            bytes[at..at + 4].copy_from_slice(&lower.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&upper.to_le_bytes());
        }
        bytes
    }
}

/// Returns the two messages of 320 bytes with one SHA-1 that Stevens and others published in 2017
/// ("The first collision for full SHA-1"), each padded to a block. Equal bytes after a collision
/// keep it.
pub fn sha1_collision() -> [Vec<u8>; 2] {
    const PREFIX: &str = "\
        255044462d312e330a25e2e3cfd30a0a0a312030206f626a0a3c3c2f57696474682032203020522f\
        4865696768742033203020522f547970652034203020522f537562747970652035203020522f4669\
        6c7465722036203020522f436f6c6f7253706163652037203020522f4c656e677468203820302052\
        2f42697473506572436f6d706f6e656e7420383e3e0a73747265616d0affd8fffe00245348412d31\
        20697320646561642121212121852fec092339759c39b1a1c63c4c97e1fffe01";
    const ENDS: [&str; 2] = [
        "7f46dc93a6b67e013b029aaa1db2560b45ca67d688c7f84b8c4c791fe02b3df614f86db1690901c5\
         6b45c1530afedfb76038e972722fe7ad728f0e4904e046c230570fe9d41398abe12ef5bc942be335\
         42a4802d98b5d70f2a332ec37fac3514e74ddc0f2cc1a874cd0c78305a21566461309789606bd0bf\
         3f98cda8044629a1",
        "7346dc9166b67e118f029ab621b2560ff9ca67cca8c7f85ba84c79030c2b3de218f86db3a90901d5\
         df45c14f26fedfb3dc38e96ac22fe7bd728f0e45bce046d23c570feb141398bb552ef5a0a82be331\
         fea48037b8b5d71f0e332edf93ac3500eb4ddc0decc1a864790c782c76215660dd309791d06bd0af\
         3f98cda4bc4629b1",
    ];
    ENDS.map(|end| {
        let digits = format!("{PREFIX}{end}");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        let mut bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        assert_eq!(bytes.len(), 320);
        bytes.resize(4096, 0);
        bytes
    })
}
