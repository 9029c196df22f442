//! The share of random bytes that gives a block a certain byte entropy when all other bytes are
//! zero.
//!
//! The alphabet has two kinds of symbols, as in the entropy sources for Filebench (Al-Rfou',
//! Patwardhan, Bhagavatula 2010): one frequent symbol, and 255 equally rare ones. A byte is uniform
//! over all 256 values with probability r, and the frequent symbol otherwise. The frequent symbol
//! then has probability p = 1 - r 255/256, and each other symbol r/256. The entropy -p log2 p - 255
//! r/256 log2(r/256) rises with r from 0 to 8 bits.

/// The number of values of a byte.
const SYMBOLS: f64 = 256.0;

/// Returns the entropy, in bits a byte, of a block with this share of uniformly random bytes.
pub(crate) fn entropy_of_share(random_share: f64) -> f64 {
    let rare = random_share / SYMBOLS;
    let frequent = 1.0 - rare * (SYMBOLS - 1.0);
    let term =
        |probability: f64| if probability > 0.0 { -probability * probability.log2() } else { 0.0 };
    term(frequent) + (SYMBOLS - 1.0) * term(rare)
}

/// Returns the share of uniformly random bytes that gives this entropy (0 to 8 bits).
pub(crate) fn share_of_entropy(entropy_bits: f64) -> f64 {
    // The entropy rises with the share, so bisection finds the share to the precision of a double.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if entropy_of_share(middle) < entropy_bits {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_0_and_8_bits() {
        assert!(entropy_of_share(0.0).abs() < 1e-12);
        assert!((entropy_of_share(1.0) - 8.0).abs() < 1e-12);
    }

    #[test]
    fn shares_and_entropies_are_each_others_inverse() {
        for tenths in 0..=80 {
            let entropy_bits = f64::from(tenths) / 10.0;
            assert!((entropy_of_share(share_of_entropy(entropy_bits)) - entropy_bits).abs() < 1e-9);
        }
    }
}
