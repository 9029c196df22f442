//! The number of contents for each number of copies.

use std::collections::BTreeMap;

/// Numbers of copies below this limit are counted in an array instead of a map.
const SMALL_COPIES: usize = 4096;

/// The number of contents for each number of copies.
#[derive(Debug, Clone, Default)]
pub(crate) struct CopyCounts {
    small: Vec<u64>,
    large: BTreeMap<u64, u64>,
}

impl CopyCounts {
    /// Adds a content with this number of copies.
    pub(crate) fn add(&mut self, copies: u64) {
        if self.small.is_empty() {
            self.small = vec![0; SMALL_COPIES];
        }
        match usize::try_from(copies).ok().and_then(|index| self.small.get_mut(index)) {
            Some(count) => *count += 1,
            None => *self.large.entry(copies).or_insert(0) += 1,
        }
    }

    /// Returns (copies, contents) pairs, in ascending order.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let small = (0u64..).zip(self.small.iter().copied());
        small
            .chain(self.large.iter().map(|(copies, count)| (*copies, *count)))
            .filter(|(_, count)| *count > 0)
    }
}
