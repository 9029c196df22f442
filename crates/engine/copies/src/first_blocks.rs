//! The contents that a sender remembers, by keyed hashes, with the blocks that had them first.

use std::collections::HashMap;

/// Most contents that are remembered: 13 MiB of memory.
const MAX_CONTENTS: usize = (1 << 19) / 8 * 7;

/// A keyed hash of a content.
pub(crate) type ContentName = [u8; 16];

/// The first blocks of contents that may come again.
pub(crate) struct FirstBlocks {
    blocks: HashMap<ContentName, u64>,
    most: usize,
}

impl FirstBlocks {
    /// Remembers contents of a snapshot of so many blocks.
    pub(crate) fn new(blocks: u64) -> Self {
        let most = usize::try_from(blocks).map_or(MAX_CONTENTS, |blocks| blocks.min(MAX_CONTENTS));
        Self { blocks: HashMap::new(), most }
    }

    /// Returns the first block with this content. If none is known, it is this one, and is
    /// remembered as long as there is room.
    pub(crate) fn earlier(&mut self, name: ContentName, block: u64) -> Option<u64> {
        let known = self.blocks.get(&name).copied();
        if known.is_none() && self.blocks.len() < self.most {
            if self.blocks.is_empty() {
                // A table that grows would be in memory twice.
                self.blocks.reserve(self.most);
            }
            self.blocks.insert(name, block);
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_remembered_in_bounded_memory() {
        let name =
            |block: u64| *blake3::hash(&block.to_le_bytes()).as_bytes().first_chunk().unwrap();
        let mut few = FirstBlocks::new(100);
        assert_eq!((few.earlier(name(1), 1), few.earlier(name(1), 2)), (None, Some(1)));
        assert!(few.blocks.capacity() < 200);
        let mut blocks = FirstBlocks::new(1 << 28);
        for block in 0..500_000 {
            assert_eq!(blocks.earlier(name(block), block), None);
        }
        assert_eq!(blocks.blocks.len(), MAX_CONTENTS);
        let places = blocks.blocks.capacity() / 7 * 8;
        let place_bytes = size_of::<(ContentName, u64)>() + 1;
        assert!(places * place_bytes <= 13 << 20, "{places} places");
        let known = [7, 999].map(|block| blocks.earlier(name(block), 5_000_000));
        assert_eq!(known, [Some(7), Some(999)]);
        assert_eq!(blocks.earlier(name(499_999), 5_000_000), None, "there was no room for it");
    }
}
