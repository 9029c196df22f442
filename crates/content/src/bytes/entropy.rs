//! How many bytes have to be random for a byte entropy, when all others are zero.
//!
//! The alphabet has two kinds of symbols, as in the entropy sources for Filebench (Al-Rfou', Patwardhan, Bhagavatula
//! 2010): one frequent symbol, and 255 that are all equally rare. A byte is uniform over all 256 with probability r and
//! the frequent symbol otherwise, so the frequent one has p = 1 - r 255/256 and each of the others r/256; the entropy
//! -p log2 p - 255 r/256 log2(r/256) rises with r from 0 to 8 bits.

/// Values of a byte.
const SYMBOLS: f64 = 256.0;

/// Bits a byte, for a share of uniformly random bytes among zeros.
pub(crate) fn entropy_of_share(random_share: f64) -> f64 {
    let rare = random_share / SYMBOLS;
    let frequent = 1.0 - rare * (SYMBOLS - 1.0);
    let term =
        |probability: f64| if probability > 0.0 { -probability * probability.log2() } else { 0.0 };
    term(frequent) + (SYMBOLS - 1.0) * term(rare)
}

/// The share of uniformly random bytes that has this entropy (0 to 8 bits).
pub(crate) fn share_of_entropy(entropy_bits: f64) -> f64 {
    // The entropy rises with the share: halve the interval to the last bit of a double.
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
