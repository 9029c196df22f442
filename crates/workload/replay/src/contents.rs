//! Maps the hashes of a trace to contents that a generator can make.

use gemelo_base::random::mix64;
use gemelo_content::{Assignment, BlockContent, ContentError, ContentId, ContentSpec, Generator};
use gemelo_trace::ContentHash;

/// Returns the content for a hash. Equal hashes give equal contents. Different hashes give
/// different contents, except with a probability of n²/2^64 among n hashes, as a content id has 63
/// bits here. The hash of zeros gives zeros.
#[inline]
#[must_use]
pub fn content_of_hash(hash: ContentHash) -> BlockContent {
    if hash == ContentHash::ZEROS {
        return BlockContent::Zeros;
    }
    ContentId::shared((hash.0 as u64) ^ mix64((hash.0 >> 64) as u64)).into()
}

/// The contents of a replay: those of hashes, and contents of a distribution for records without
/// hashes.
#[derive(Debug, Clone)]
pub struct ReplayContents {
    pub(crate) generator: Generator,
    assignment: Option<Assignment>,
}

impl ReplayContents {
    /// Creates the contents for a trace in which `drawn_blocks` blocks are written or populated
    /// without a hash. These blocks get the distribution of `spec`. All contents are made with its
    /// seed. Contents of hashes have the entropy of unique contents.
    ///
    /// # Errors
    /// If a figure of the specification is outside its range.
    pub fn new(spec: &ContentSpec, drawn_blocks: u64) -> Result<Self, ContentError> {
        let assignment =
            (drawn_blocks > 0).then(|| Assignment::new(spec, drawn_blocks, 1)).transpose()?;
        Ok(Self { generator: Generator::new(spec)?, assignment })
    }

    /// Returns the n-th content of the distribution.
    #[inline]
    pub(crate) fn drawn(&self, number: u64) -> BlockContent {
        let unique = || ContentId::unique(0, number).into();
        self.assignment.as_ref().map_or_else(unique, |all| all.content(0, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_hashes_are_equal_contents_and_no_others() {
        let id = |hash| content_of_hash(ContentHash(hash));
        assert_eq!(id((7 << 64) | 9), id((7 << 64) | 9));
        let all: std::collections::HashSet<_> =
            (0..1000u128).flat_map(|n| [id(n), id((n + 1) << 64)]).collect();
        assert_eq!(all.len(), 2000);
        assert!(matches!(id(u128::MAX), BlockContent::Id(id) if !id.is_unique()));
        assert_eq!(content_of_hash(ContentHash::ZEROS), BlockContent::Zeros);
    }
}
