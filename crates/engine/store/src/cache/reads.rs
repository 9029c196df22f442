//! A cache of contents that lie elsewhere, by the PBNs under which they are read.

use super::{ContentCache, ContentCacheStats, Purpose};
use crate::ContentRead;
use gemelo_format::Pbn;

/// A cache of contents that lie elsewhere; see the module. Its memory is made when it is needed.
#[derive(Debug)]
pub struct ReadCache {
    cache: ContentCache,
}

impl ReadCache {
    /// Makes a cache of at most this many bytes, for contents of this size.
    #[must_use]
    pub fn new(block_bytes: usize, bytes: u64) -> Self {
        Self { cache: ContentCache::new(block_bytes, (bytes, true), false) }
    }

    /// Reads contents from the cache, and the others by `below`.
    pub fn read(&self, reads: &mut [ContentRead<'_>], below: impl Fn(&mut [ContentRead<'_>])) {
        let below = |list: &mut [ContentRead<'_>], _| below(list);
        self.cache.read(reads, (Vec::new(), Purpose::Wait), (drop, below));
    }

    /// Forgets a content. A read that has begun before does not bring it back.
    pub fn forget(&self, pbn: Pbn) {
        self.cache.forget(pbn.number()..pbn.number() + 1);
    }

    /// Returns the figures of the cache.
    #[must_use]
    pub fn figures(&self) -> ContentCacheStats {
        self.cache.figures()
    }
}
