//! Keyed permutations of a range of integers. Each value is computed on its own, without a table.

use crate::random::mix64;

/// A family of permutations of [0, size), one for each key.
///
/// A value passes through rounds of multiply, add and xor-shift over the next power of two. The
/// rounds repeat until the result is below the size (cycle walking, Black and Rogaway 2002), which
/// takes fewer than two passes on average.
#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    size: u64,
    mask: u64,
    shift: u32,
}

impl Permutation {
    /// Creates the family of permutations of [0, size).
    #[must_use]
    pub const fn new(size: u64) -> Self {
        let bits = u64::BITS - size.saturating_sub(1).leading_zeros();
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        // The shift is half the width: it moves the high bits, which multiplication mixes, over the
        // low ones.
        Self { size, mask, shift: if bits < 2 { 1 } else { bits.div_ceil(2) } }
    }

    /// Returns the size of the permuted range.
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns the image of `value` under the permutation of `key`. `value` must be below the size.
    #[inline]
    #[must_use]
    pub const fn apply(&self, key: u64, value: u64) -> u64 {
        let odd = key | 1;
        let second = mix64(key);
        let mut value = value;
        loop {
            value = value.wrapping_mul(odd).wrapping_add(second) & self.mask;
            value ^= value >> self.shift;
            value = value.wrapping_mul(second | 1).wrapping_add(odd >> 7) & self.mask;
            value ^= value >> self.shift;
            value = value.wrapping_mul(0xd6e8_feb8_6659_fd93).wrapping_add(second >> 9) & self.mask;
            value ^= value >> self.shift;
            if value < self.size {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_has_a_place_of_its_own(size in 1u64..3000, key: u64) {
            let permutation = Permutation::new(size);
            let mut places: Vec<u64> =
                (0..size).map(|value| permutation.apply(key, value)).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..size).collect::<Vec<_>>());
        }
    }
}
