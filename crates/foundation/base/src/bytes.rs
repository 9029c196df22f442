//! Questions about the bytes of a block.

/// The bytes that are combined before the result is checked.
const STEP_BYTES: usize = 256;

/// Returns whether all bytes are zero. The first 16 bytes decide for nearly every other block.
#[inline]
#[must_use]
pub fn is_zero(block: &[u8]) -> bool {
    let head = block.first_chunk::<16>().map_or(0, |head| u128::from_ne_bytes(*head));
    head == 0 && is_all_zero(block)
}

fn is_all_zero(block: &[u8]) -> bool {
    let mut steps = block.chunks_exact(STEP_BYTES);
    steps.all(|step| step.iter().fold(0, |sum, byte| sum | byte) == 0)
        && steps.remainder().iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_bit_anywhere_makes_a_block_not_zero() {
        for length in [0, 1, 15, 16, 17, 255, 256, 257, 4096] {
            let mut block = vec![0; length];
            assert!(is_zero(&block));
            for at in 0..length {
                block[at] = 0x10;
                assert!(!is_zero(&block), "byte {at} of {length}");
                block[at] = 0;
            }
        }
    }
}
