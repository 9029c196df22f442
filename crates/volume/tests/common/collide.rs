//! Different contents with the same XXH3-128: what a fingerprint that has to be compared is tried with.
//!
//! XXH3 adds to each of its eight accumulators, for every 64 bytes, the product of the two halves of
//! `data ^ secret`, and to its neighbour `data` itself. Where the lower half of the data is that of
//! the secret, the product is zero whatever the upper half is. If this is so in two stripes, what
//! one upper half gains and the other loses is not seen: the sum is the same.

use super::BLOCK;
use gemelo_base::random::mix_pair;
use gemelo_format::{Fingerprinter, read_superblock};
use gemelo_store::PoolDisks;

/// The first words of the secret that XXH3 derives from seed 0 (xxhash, `XXH3_kSecret`).
const SECRET: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];
/// Bytes that XXH3 takes in at once.
const STRIPE: usize = 64;

/// Makes colliding contents for one pool.
#[derive(Clone)]
pub struct Collider {
    words: [u32; 2],
}

impl Collider {
    /// For the pool on these disks, whose key decides what collides.
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

    /// All contents of a family have one fingerprint.
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
