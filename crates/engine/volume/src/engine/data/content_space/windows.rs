//! Finds packed blocks of which a part was freed, by the bits of their slots.
//!
//! The bytes of contents are not in memory. Their mean number in a full block is known from a
//! sample, so a block with fewer contents has free bytes. Contents go on from block to block. To
//! empty some blocks in a row, all contents are moved that have a part in them, and the parts in
//! the blocks around them become free, too.

use super::ContentSpace;
use gemelo_format::SPANNING_SLOT;
use gemelo_store::block_number;
use std::ops::Range;

/// Blocks of a window: 256 KiB of blocks of 4 KiB are moved at once. In a small store the cleaner
/// has room for fewer. An emptied window becomes the next room of the cleaner, so a shorter one
/// would be of little use.
const WINDOW_BLOCKS: u32 = 64;
/// Windows begin at multiples of this number.
const STEP_BLOCKS: u32 = 8;
/// A free block between others is used badly, so that emptying those saves this part of it.
const FREE_PART: u64 = 4;
/// A content, in the unit in which parts of contents are counted.
pub(crate) const CONTENT: u64 = 256;

/// Consecutive blocks that may be emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// Blocks of them that are not free.
    pub(crate) used: u32,
    /// Contents that have a part in them, in units of which a content has [`CONTENT`].
    pub(crate) contents: u64,
}

/// The rule by which windows are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The contents of a full block, in units of which a content has [`CONTENT`].
    pub(crate) per_block: u64,
    /// The contents that a used block may have in the mean, in the same unit.
    pub(crate) worth: u64,
}

impl Rule {
    /// The rule by which any blocks are chosen.
    pub(crate) const fn any(per_block: u64) -> Self {
        Self { per_block, worth: 2 * MAX_CONTENTS * CONTENT }
    }
}

impl ContentSpace {
    /// Contents that were freed since the pool was opened.
    pub(crate) fn released(&self) -> u64 {
        self.slots.as_ref().map_or(0, |slots| slots.released)
    }

    /// Returns the first packed block in this range.
    pub(crate) fn packed_block(&self, blocks: Range<u32>) -> Option<u32> {
        let slots = self.slots.as_ref()?;
        blocks.into_iter().find(|block| slots.of(*block) & !1 != 0)
    }

    /// Finds windows in these blocks.
    pub(crate) fn windows(&self, blocks: Range<u32>, rule: Rule, found: &mut Vec<Window>) {
        let mut first = blocks.start;
        while first < blocks.end {
            match self.window(first..blocks.end, rule) {
                Some(window) => {
                    first = window.end;
                    found.push(window);
                }
                None => first = first.saturating_add(STEP_BLOCKS),
            }
        }
    }

    /// The window that begins with the first of these blocks, if it saves something.
    fn window(&self, blocks: Range<u32>, rule: Rule) -> Option<Window> {
        let length = self.reserve_goal().min(WINDOW_BLOCKS);
        let first = blocks.start;
        let end = first.checked_add(length).filter(|end| *end <= blocks.end)?;
        let mut contents = CONTENT * u64::from(self.is_spanned_into(first));
        let (mut used, mut worth) = (0, 0);
        for block in first..end {
            let is_free = block_number(block).is_some_and(|number| !self.blocks.is_used(number));
            if is_free {
                worth += rule.worth / FREE_PART;
            } else {
                contents += self.weight(block, rule)?;
                worth += rule.worth;
                used += 1;
            }
        }
        (used > 0 && worth > contents).then_some(Window { first, end, used, contents })
    }

    fn is_spanned_into(&self, block: u32) -> bool {
        let spans = |slots: &super::Slots| {
            block.checked_sub(1).is_some_and(|before| slots.of(before) & super::SPANNING_BIT != 0)
        };
        self.slots.as_ref().is_some_and(spans)
    }

    /// The contents that begin in a block that is not free; [`None`] for one that gets more.
    fn weight(&self, block: u32, rule: Rule) -> Option<u64> {
        let slots = self.slots.as_ref()?;
        let used = slots.of(block);
        if !slots.has_contents(block) || slots.open.contains(&block) {
            return None;
        }
        Some(if used & 1 != 0 { rule.per_block } else { CONTENT * u64::from(used.count_ones()) })
    }
}

/// A block has at most this many compressed contents.
pub(crate) const MAX_CONTENTS: u64 = SPANNING_SLOT as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::{Compression, PackedPlace, StoreKind};

    fn space(contents: &[(u32, u8)]) -> ContentSpace {
        let mut space = ContentSpace::new(StoreKind::Packed(Compression::Lz4), 2400);
        space.set_reserve();
        for (block, slot) in contents.iter().copied() {
            assert!(space.claim(PackedPlace { block, slot }.pbn().unwrap()));
        }
        space
    }

    /// Two contents fill a block.
    const RULE: Rule = Rule { per_block: 2 * CONTENT, worth: 2 * CONTENT - 40 };

    fn windows(space: &ContentSpace) -> Vec<(u32, u32, u32, u64)> {
        let mut found = Vec::new();
        space.windows(8..2000, RULE, &mut found);
        let facts = |one: Window| (one.first, one.end, one.used, one.contents / CONTENT);
        found.into_iter().map(facts).collect()
    }

    /// Blocks that are full, but for these, which have one content.
    fn full_except(emptier: &[u32]) -> Vec<(u32, u8)> {
        let contents = |block| [(block, 1), (block, 2)].into_iter();
        (8..2000)
            .flat_map(contents)
            .filter(|(block, slot)| *slot == 1 || !emptier.contains(block))
            .collect()
    }

    #[test]
    fn windows_are_blocks_with_few_contents() {
        assert_eq!(windows(&space(&full_except(&[]))), []);
        let emptier: Vec<u32> = (80..90).collect();
        assert_eq!(windows(&space(&full_except(&emptier))), [(40, 88, 48, 88)]);
        let far_apart: Vec<u32> = (100..2000).step_by(100).collect();
        assert_eq!(windows(&space(&full_except(&far_apart))), [], "each saves half a block of 48");
        let mut wholes = full_except(&emptier);
        wholes.retain(|(block, slot)| !(72..80).contains(block) || *slot == 1);
        wholes
            .iter_mut()
            .filter(|(block, _)| (72..80).contains(block))
            .for_each(|(_, slot)| *slot = 0);
        assert_eq!(windows(&space(&wholes)), [(40, 88, 48, 88)], "a whole block is a full one");
    }

    #[test]
    fn open_blocks_and_empty_stretches_are_left_alone() {
        assert_eq!(windows(&space(&[])), []);
        let emptier: Vec<u32> = (80..90).collect();
        let mut space = space(&full_except(&emptier));
        space.settle(&[], [], Some(vec![85]));
        assert_eq!(windows(&space), []);
        assert_eq!((space.packed_block(1..100), space.packed_block(1..8)), (Some(8), None));
    }
}
