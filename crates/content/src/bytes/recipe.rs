//! From the nature asked for to the parameters of the filling: how many bytes are random, how many repeat others.

use super::entropy::{entropy_of_share, share_of_entropy};
use super::mark::MARK_BYTES;
use super::random::{Thresholds, Vectors};
use crate::Nature;

/// Inside a stretch of this many bytes, the first are made and the rest repeat them. Short enough for a compressor that
/// looks at 4 KiB, long enough that what it spends on a repeat is little.
const STRETCH_BYTES: usize = 1024;

/// What LZ4 and zstd level 1 spend on a stretch beside its made bytes: lengths and distance of one repeat.
const REPEAT_COST_BYTES: f64 = 6.0;

/// The fewest bytes that are made of a stretch.
const LEAST_MADE_BYTES: usize = 8;

/// How the body of a block (all but its mark) is filled.
#[derive(Debug, Clone)]
pub(super) struct Recipe {
    nature: Nature,
    /// Where the body's bytes are random; `None` for all of them.
    thresholds: Option<Thresholds>,
    /// Bytes made of each stretch; the rest repeats them.
    made_bytes: usize,
    /// The entropy that blocks have.
    entropy_bits: f64,
}

impl Recipe {
    pub(super) fn new(nature: Nature, block_bytes: usize) -> Self {
        // The mark is random. The rest of the block makes up for it, so that the block as a whole has the entropy.
        let mark_share = MARK_BYTES as f64 / block_bytes as f64;
        let block_share = share_of_entropy(nature.entropy_bits);
        let body_share = ((block_share - mark_share) / (1.0 - mark_share)).max(0.0);
        Self {
            nature,
            thresholds: Thresholds::new(body_share),
            made_bytes: made_bytes(nature.compressible_share),
            entropy_bits: entropy_of_share(block_share.max(mark_share)),
        }
    }

    pub(super) const fn nature(&self) -> Nature {
        self.nature
    }

    /// What cannot be had, in words for the user.
    pub(super) fn shortfall(&self, block_bytes: usize) -> Option<String> {
        /// Within this, an entropy counts as reached.
        const TOLERANCE_BITS: f64 = 0.02;
        let asked = self.nature.entropy_bits;
        (self.entropy_bits > asked + TOLERANCE_BITS).then(|| {
            format!(
                "an entropy of {asked} bits a byte leaves no room for distinct contents in blocks of {block_bytes} bytes: \
                 written are blocks of zeros with a mark of {MARK_BYTES} bytes that tells them apart, {:.3} bits a byte",
                self.entropy_bits
            )
        })
    }

    #[inline]
    pub(super) fn fill(&self, vectors: Vectors, key: u64, body: &mut [u8]) {
        vectors.fill(key, self.thresholds.as_ref(), body);
        if self.made_bytes < STRETCH_BYTES {
            for stretch in body.chunks_mut(STRETCH_BYTES) {
                repeat(stretch, self.made_bytes);
            }
        }
    }
}

fn made_bytes(compressible_share: f64) -> usize {
    if compressible_share <= 0.0 {
        return STRETCH_BYTES;
    }
    let made = (1.0 - compressible_share) * STRETCH_BYTES as f64 - REPEAT_COST_BYTES;
    (made.round().max(0.0) as usize).clamp(LEAST_MADE_BYTES, STRETCH_BYTES)
}

/// Repeats the first `made` bytes over the rest.
fn repeat(stretch: &mut [u8], made: usize) {
    let mut filled = made;
    while filled < stretch.len() {
        let more = filled.min(stretch.len() - filled);
        stretch.copy_within(..more, filled);
        filled += more;
    }
}
