//! Random bytes at memory speed: eight interleaved xorshift128+ generators (Vigna 2014). Compilers
//! turn their loops into vector instructions. The bytes are the same whatever instructions a
//! machine has.

use gemelo_base::random::{GOLDEN_STEP, mix64};

/// The number of interleaved generators: they fill one 512-bit register, two of 256 bits or four of
/// 128 bits.
const LANES: usize = 8;
/// The number of bytes that one step produces.
const STEP_BYTES: usize = LANES * 8;

/// The states of all generators of one key.
struct Lanes {
    first: [u64; LANES],
    second: [u64; LANES],
}

impl Lanes {
    #[inline(always)]
    fn new(key: u64) -> Self {
        let mut first = [0; LANES];
        let mut second = [0; LANES];
        for lane in 0..LANES {
            let word = mix64(key.wrapping_add(GOLDEN_STEP.wrapping_mul(lane as u64 + 1)));
            first[lane] = word;
            second[lane] = word.rotate_left(29).wrapping_mul(0xd6e8_feb8_6659_fd93) | 1;
        }
        Self { first, second }
    }

    #[inline(always)]
    fn step(&mut self) -> [u64; LANES] {
        let mut out = [0; LANES];
        for lane in 0..LANES {
            let mut moved = self.first[lane];
            let kept = self.second[lane];
            self.first[lane] = kept;
            moved ^= moved << 23;
            moved ^= (moved >> 18) ^ kept ^ (kept >> 5);
            self.second[lane] = moved;
            out[lane] = moved.wrapping_add(kept);
        }
        out
    }
}

#[inline(always)]
fn to_bytes(words: [u64; LANES]) -> [u8; STEP_BYTES] {
    let mut bytes = [0; STEP_BYTES];
    let (places, _) = bytes.as_chunks_mut();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes
}

#[inline(always)]
fn fill_uniform(key: u64, out: &mut [u8]) {
    let mut lanes = Lanes::new(key);
    // Whole arrays are assigned: copying slices would be a call for each.
    let (chunks, rest) = out.as_chunks_mut();
    for chunk in chunks {
        *chunk = to_bytes(lanes.step());
    }
    let last = to_bytes(lanes.step());
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Fills `out` with random bytes and zeros. A byte is random if its deciding byte is below the
/// threshold of its place, and zero otherwise.
#[inline(always)]
fn fill_thresholded(key: u64, thresholds: &Thresholds, out: &mut [u8]) {
    let mut lanes = Lanes::new(key);
    let steps = thresholds.0.len() / STEP_BYTES;
    for (index, chunk) in out.chunks_mut(STEP_BYTES).enumerate() {
        let start = index % steps * STEP_BYTES;
        let limits = &thresholds.0[start..start + STEP_BYTES];
        let deciding = to_bytes(lanes.step());
        let values = to_bytes(lanes.step());
        let mut bytes = [0; STEP_BYTES];
        for place in 0..STEP_BYTES {
            bytes[place] = if deciding[place] < limits[place] { values[place] } else { 0 };
        }
        chunk.copy_from_slice(&bytes[..chunk.len()]);
    }
}

/// The thresholds of 256 places: the number of values, of 256, of the deciding byte for which the
/// byte at that place is random. The mean of the thresholds is the share of random bytes, to 2^-16.
#[derive(Debug, Clone)]
pub(super) struct Thresholds([u8; 256]);

impl Thresholds {
    /// Creates the thresholds for a share of random bytes; `None` if the share rounds to all bytes.
    pub(super) fn new(random_share: f64) -> Option<Self> {
        let units = (random_share.clamp(0.0, 1.0) * 65_536.0).round() as usize;
        let (whole, places) = (units / 256, units % 256);
        if whole >= 255 {
            return None;
        }
        let mut limits = [whole as u8; 256];
        // The places with one more are spread evenly: 167 is odd, so its multiples visit every
        // place.
        for place in 0..places {
            limits[place * 167 % 256] += 1;
        }
        Some(Self(limits))
    }
}

/// The largest vector instructions of this processor, detected once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vectors {
    /// Vectors of 512 bits.
    #[cfg(all(target_arch = "x86_64", has_avx512))]
    Avx512,
    /// Vectors of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The instructions that every machine of the architecture has.
    Baseline,
}

impl Vectors {
    pub(super) fn of_this_machine() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            #[cfg(has_avx512)]
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                return Self::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }

    /// Fills `out` with the bytes of `key`: uniformly random ones, or with zeros among them if
    /// there are thresholds.
    #[inline]
    pub(super) fn fill(self, key: u64, thresholds: Option<&Thresholds>, out: &mut [u8]) {
        match self {
            // SAFETY: only `of_this_machine` creates this variant, after it detected that the
            // processor has these instructions.
            #[cfg(all(target_arch = "x86_64", has_avx512))]
            Self::Avx512 => unsafe { fill_avx512(key, thresholds, out) },
            // SAFETY: see above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { fill_avx2(key, thresholds, out) },
            Self::Baseline => fill(key, thresholds, out),
        }
    }
}

#[inline(always)]
fn fill(key: u64, thresholds: Option<&Thresholds>, out: &mut [u8]) {
    match thresholds {
        None => fill_uniform(key, out),
        Some(thresholds) => fill_thresholded(key, thresholds, out),
    }
}

#[cfg(all(target_arch = "x86_64", has_avx512))]
#[target_feature(enable = "avx512f,avx512bw")]
fn fill_avx512(key: u64, thresholds: Option<&Thresholds>, out: &mut [u8]) {
    fill(key, thresholds, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2(key: u64, thresholds: Option<&Thresholds>, out: &mut [u8]) {
    fill(key, thresholds, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(
        vectors: Vectors,
        key: u64,
        thresholds: Option<&Thresholds>,
        length: usize,
    ) -> Vec<u8> {
        let mut bytes = vec![0xaa; length];
        vectors.fill(key, thresholds, &mut bytes);
        bytes
    }

    /// These bytes must never change: a change here changes every data set that was ever generated.
    #[test]
    fn the_bytes_are_those_of_the_first_version() {
        let bytes = filled(Vectors::Baseline, 1, None, 16);
        assert_eq!(bytes, FIRST_VERSION, "{bytes:?}");
    }
    const FIRST_VERSION: [u8; 16] =
        [9, 193, 112, 156, 44, 210, 20, 117, 40, 253, 227, 103, 114, 252, 168, 113];

    #[test]
    fn every_instruction_set_makes_the_same_bytes_at_every_length() {
        let thresholds = Thresholds::new(0.3);
        for length in [0, 1, 63, 64, 65, 255, 4080, 4096] {
            for thresholds in [None, thresholds.as_ref()] {
                let baseline = filled(Vectors::Baseline, 7, thresholds, length);
                assert_eq!(filled(Vectors::of_this_machine(), 7, thresholds, length), baseline);
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    assert_eq!(filled(Vectors::Avx2, 7, thresholds, length), baseline);
                }
            }
        }
    }

    #[test]
    fn bytes_are_evenly_distributed_and_keys_differ() {
        let bytes = filled(Vectors::of_this_machine(), 3, None, 1 << 20);
        let mut counts = [0f64; 256];
        for byte in &bytes {
            counts[usize::from(*byte)] += 1.0;
        }
        let chi_square: f64 = counts.iter().map(|count| (count - 4096.0).powi(2) / 4096.0).sum();
        // With 255 degrees of freedom, a value outside this interval has a probability of 1 in
        // 1000.
        assert!((190.0..331.0).contains(&chi_square), "{chi_square}");
        assert_ne!(filled(Vectors::Baseline, 3, None, 64), filled(Vectors::Baseline, 4, None, 64));
    }

    #[test]
    fn thresholds_make_the_share_asked_for() {
        for share in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99] {
            let thresholds = Thresholds::new(share);
            let bytes = filled(Vectors::of_this_machine(), 5, thresholds.as_ref(), 1 << 20);
            let random = bytes.iter().filter(|byte| **byte != 0).count() as f64 / (1 << 20) as f64;
            let expected = share * 255.0 / 256.0;
            assert!((random - expected).abs() < 0.002, "{share}: {random}");
        }
        assert!(Thresholds::new(1.0).is_none());
    }
}
