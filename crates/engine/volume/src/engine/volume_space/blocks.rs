//! Counts the blocks of a store in which contents share blocks, by the owners of these contents.

use crate::engine::volume_space::Accountant;
use gemelo_format::{PackedPlace, Pbn, SPANNING_SLOT};
use std::ops::Range;

/// Blocks whose slots are looked at in one hold of the lock of the space.
const BLOCKS_AT_ONCE: u32 = 4096;

/// The owner of a content: what is asked for, or others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentOwner {
    /// Only what is asked for refers to it.
    Alone,
    /// Others refer to it as well.
    Shared,
    /// Only others refer to it, or nothing does any more.
    Others,
}

/// Blocks counted by the owners of their contents.
#[derive(Debug, Default)]
pub(super) struct BlockTally {
    /// Blocks with any content.
    pub(super) used: u64,
    /// Blocks with a content of what is asked for.
    pub(super) own: u64,
    /// Blocks with no other contents.
    pub(super) exclusive: u64,
    /// The owner of the content that goes on from the block before.
    before: Option<ContentOwner>,
}

impl BlockTally {
    /// Adds a block, by the owners of the contents that begin in it. `last` is that of the content
    /// that goes on in the next block.
    fn add(&mut self, owners: impl Iterator<Item = ContentOwner>, last: Option<ContentOwner>) {
        let (mut is_used, mut is_own, mut is_others) = (false, false, false);
        for owner in owners.chain(self.before) {
            is_used = true;
            is_own |= owner != ContentOwner::Others;
            is_others |= owner != ContentOwner::Alone;
        }
        self.used += u64::from(is_used);
        self.own += u64::from(is_own);
        self.exclusive += u64::from(is_own && !is_others);
        self.before = last;
    }
}

impl Accountant {
    /// Adds the blocks of a window of PBNs, which is one of whole regions. Windows come in order.
    pub(super) fn count_blocks(
        &self,
        (window, data_blocks): (Range<u64>, u64),
        tally: &mut BlockTally,
        owner: impl Fn(Pbn) -> ContentOwner,
    ) {
        for blocks in blocks_of(&window, data_blocks) {
            let first = blocks.start;
            for (block, slots) in (first..).zip(self.data.allocator.used_slots(blocks)) {
                let of_slot = |slot: u8| {
                    let is_used = slots & 1 << slot != 0;
                    let pbn = PackedPlace { block, slot }.pbn().filter(|_| is_used);
                    pbn.map(&owner)
                };
                tally.add((0..=SPANNING_SLOT).filter_map(of_slot), of_slot(SPANNING_SLOT));
            }
        }
    }
}

/// The blocks of a window, in pieces.
fn blocks_of(window: &Range<u64>, data_blocks: u64) -> impl Iterator<Item = Range<u32>> + use<> {
    let block_at = |number: u64| Pbn::new(number).map_or(0, |pbn| PackedPlace::of(pbn).block);
    let end = data_blocks as u32;
    let first = block_at(window.start);
    // The PBNs of a region are by slot, so its last block has the last PBN of the window.
    let last = window.end.checked_sub(1).map_or(0, block_at);
    let after = end.min(last.saturating_add(1));
    (first..after)
        .step_by(BLOCKS_AT_ONCE as usize)
        .map(move |start| start..after.min(start.saturating_add(BLOCKS_AT_ONCE)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::{Compression, StoreKind};

    #[test]
    fn windows_have_each_block_once() {
        for blocks in [1, 2, 4095, 4096, 4097, 20_000, 100_000] {
            let pbn_end = StoreKind::Packed(Compression::Lz4).pbn_end(blocks);
            let mut next = 0;
            for window in super::super::windows(pbn_end, 3 * 8 * 4096) {
                for piece in blocks_of(&window, blocks) {
                    assert_eq!(piece.start, next, "{blocks} blocks, {window:?}");
                    next = piece.end;
                }
            }
            assert_eq!(u64::from(next), blocks);
        }
    }

    #[test]
    fn a_content_that_goes_on_is_in_both_blocks() {
        let mut tally = BlockTally::default();
        let mut add = |owners: &[ContentOwner], last| tally.add(owners.iter().copied(), last);
        add(&[], None);
        add(&[ContentOwner::Alone, ContentOwner::Others], Some(ContentOwner::Others));
        add(&[ContentOwner::Alone], Some(ContentOwner::Alone));
        add(&[], None);
        add(&[ContentOwner::Alone], None);
        add(&[ContentOwner::Shared], None);
        assert_eq!((tally.used, tally.own, tally.exclusive), (5, 5, 2));
    }
}
