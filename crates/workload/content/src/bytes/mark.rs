//! The mark at the start of every block, by which a reader recognises the content.
//!
//! The mark holds the content id, scrambled so that it looks like the random bytes around it, and a
//! tag of 64 bits. Other data has a matching tag with probability 2^-64.

use crate::ContentId;
use gemelo_base::random::{mix_pair, mix64};

/// The size of the mark in bytes.
pub(super) const MARK_BYTES: usize = 16;

/// The key of one kind of content (shared, or unique to a run).
#[derive(Debug, Clone, Copy)]
pub(super) struct MarkKey {
    name: u64,
    tag: u64,
}

impl MarkKey {
    pub(super) const fn new(seed: u64) -> Self {
        Self { name: mix_pair(seed, 0x6e61_6d65), tag: mix_pair(seed, 0x0074_6167) }
    }

    pub(super) fn write(self, id: ContentId, block: &mut [u8]) {
        let name = mix64(id.to_bits() ^ self.name);
        let tag = mix_pair(name, self.tag);
        if let Some((first, rest)) = block.split_first_chunk_mut::<8>() {
            *first = name.to_le_bytes();
            if let Some(second) = rest.first_chunk_mut::<8>() {
                *second = tag.to_le_bytes();
            }
        }
    }

    pub(super) fn read(self, block: &[u8]) -> Option<ContentId> {
        let (name, rest) = block.split_first_chunk::<8>()?;
        let name = u64::from_le_bytes(*name);
        let tag = u64::from_le_bytes(*rest.first_chunk::<8>()?);
        (mix_pair(name, self.tag) == tag).then(|| ContentId::from_bits(unmix64(name) ^ self.name))
    }
}

/// The inverse of [`mix64`].
const fn unmix64(value: u64) -> u64 {
    let value = value ^ (value >> 31) ^ (value >> 62);
    let value = value.wrapping_mul(0x3196_42b2_d24d_8ec3);
    let value = value ^ (value >> 27) ^ (value >> 54);
    let value = value.wrapping_mul(0x96de_1b17_3f11_9089);
    value ^ (value >> 30) ^ (value >> 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_gives_back_its_content_to_its_own_key_only() {
        for bits in [0, 1, u64::MAX, 0x0123_4567_89ab_cdef] {
            assert_eq!(unmix64(mix64(bits)), bits);
            let id = ContentId::from_bits(bits);
            let mut block = [0; 64];
            MarkKey::new(5).write(id, &mut block);
            assert_eq!(MarkKey::new(5).read(&block), Some(id));
            assert_eq!(MarkKey::new(6).read(&block), None);
        }
        assert_eq!(MarkKey::new(5).read(&[0; 4096]), None);
        assert_eq!(MarkKey::new(5).read(&[0; 15]), None);
    }
}
