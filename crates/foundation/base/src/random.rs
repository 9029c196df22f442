//! The only source of chance: seeded random numbers, which are the same on every host for the same
//! seed, and fresh ones for names and keys that must not repeat.

use std::io;

/// Applies the finalizer of SplitMix64 (Steele, Lea, Flood 2014, in Stafford's variant 13): a
/// bijection of 64-bit words in which every output bit depends on every input bit.
#[inline]
#[must_use]
pub const fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The odd increment of SplitMix64: 2^64 divided by the golden ratio.
pub const GOLDEN_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes two words into one. The result depends on the order of the words.
#[inline]
#[must_use]
pub const fn mix_pair(first: u64, second: u64) -> u64 {
    mix64(mix64(first.wrapping_add(GOLDEN_STEP)) ^ second.wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// Returns a word that differs from process to process and from call to call. It serves for names
/// that must not repeat. It must not serve for anything that a seed should determine.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the source from which others take chance")]
pub fn fresh_word() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Returns bytes that nobody can predict, from the system. They serve for keys.
///
/// # Errors
/// Fails if the system has no source of random bytes.
pub fn fresh_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::rand::getrandom(rest, rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// SplitMix64: a generator of 64-bit words from one seed.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates the generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next word.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN_STEP);
        mix64(self.state)
    }

    /// Returns a number below `bound`. The numbers are equally likely to within `bound` / 2^64. A
    /// `bound` of 0 gives 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number from 0 (included) to 1 (excluded), in steps of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of SplitMix64 with seed 1234567, as the authors' reference code prints them.
    #[test]
    fn the_stream_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn fresh_words_differ() {
        assert_ne!(fresh_word(), fresh_word());
        assert_ne!(fresh_bytes::<32>().unwrap(), fresh_bytes().unwrap());
        assert!(fresh_bytes::<0>().unwrap().is_empty());
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_both_ends() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.below(7)).collect();
        assert_eq!(drawn.iter().min(), Some(&0));
        assert_eq!(drawn.iter().max(), Some(&6));
        assert_eq!(random.below(0), 0);
        assert!((0..1000).map(|_| random.unit()).all(|x| (0.0..1.0).contains(&x)));
    }
}
