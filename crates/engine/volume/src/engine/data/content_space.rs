//! The PBNs that are in use, and the blocks that have their contents.
//!
//! In a plain store they are the same. In a packed one a block is in use as long as one content has
//! a part in it. The number of a PBN names its blocks, so a byte for each block tells everything:
//! a bit for each of its slots.

mod reserve;
mod windows;

use super::space::Space;
use gemelo_format::{PackedPlace, Pbn, StoreKind};
use gemelo_store::block_number;
use reserve::CleanerBlocks;
use std::collections::BTreeMap;
use std::ops::Range;
pub(crate) use windows::{CONTENT, MAX_CONTENTS, Rule, Window};

/// The PBNs that are in use; see the module.
#[derive(Debug)]
pub(crate) struct ContentSpace {
    blocks: Space,
    /// Of a packed store.
    slots: Option<Slots>,
}

/// Blocks whose contents may all lie elsewhere.
#[derive(Debug, Default)]
pub struct LeftBlocks {
    /// The blocks whose contents do.
    pub unused: Vec<Pbn>,
    /// Contents of blocks that get more contents. It is not known yet what these blocks have.
    pub open: Vec<Pbn>,
}

/// The slots of a packed store's blocks.
#[derive(Debug, Default)]
struct Slots {
    /// A bit for each slot in use, by block.
    used: Vec<u8>,
    /// Bits that are set.
    contents: u64,
    /// Bits that were cleared since the pool was opened.
    released: u64,
    /// The blocks to which contents are still added, which are not free whatever they have.
    open: Vec<u32>,
    reserve: CleanerBlocks,
}

/// With fewer free blocks none is taken ahead.
const MIN_FREE_AHEAD: u64 = 32;

const SPANNING_BIT: u8 = 1 << gemelo_format::SPANNING_SLOT;

impl Slots {
    fn of(&self, block: u32) -> u8 {
        self.used.get(block as usize).copied().unwrap_or(0)
    }

    /// Returns whether a content has a part in the block.
    fn has_contents(&self, block: u32) -> bool {
        let is_spanned_into =
            block.checked_sub(1).is_some_and(|before| self.of(before) & SPANNING_BIT != 0);
        self.of(block) != 0 || is_spanned_into
    }

    /// Sets or clears the bit of a PBN. Returns whether that changed it.
    fn set(&mut self, place: PackedPlace, is_used: bool) -> bool {
        let Some(used) = self.used.get_mut(place.block as usize) else { return false };
        let bit = 1 << place.slot;
        let has_changed = (*used & bit != 0) != is_used;
        if has_changed {
            *used ^= bit;
            self.contents = if is_used { self.contents + 1 } else { self.contents - 1 };
            self.released += u64::from(!is_used);
        }
        has_changed
    }
}

impl ContentSpace {
    /// The space of a data store of this kind and this many blocks, all free but block 0.
    pub(crate) fn new(kind: StoreKind, blocks: u64) -> Self {
        let slots = matches!(kind, StoreKind::Packed(_)).then(Slots::default);
        let mut space = Self { blocks: Space::new(blocks), slots };
        space.fit_slots();
        space
    }

    fn fit_slots(&mut self) {
        if let Some(slots) = &mut self.slots {
            slots.used.resize(self.blocks.blocks() as usize, 0);
        }
    }

    /// The blocks, by their numbers.
    pub(crate) const fn blocks(&self) -> &Space {
        &self.blocks
    }

    /// The blocks, for the parts of the engine that take free ones.
    pub(crate) const fn blocks_mut(&mut self) -> &mut Space {
        &mut self.blocks
    }

    /// Adds free blocks up to this number of blocks.
    pub(crate) fn grow(&mut self, blocks: u64) {
        self.blocks.grow(blocks);
        self.fit_slots();
    }

    /// Gives out no block of these any more.
    pub(crate) fn bar(&mut self, blocks: Range<u64>) {
        self.blocks.bar(blocks);
        let slots = self.slots.iter_mut();
        let reserved = slots.flat_map(|slots| slots.reserve.take_barred(&self.blocks));
        let numbers: Vec<Pbn> = reserved.filter_map(block_number).collect();
        numbers.into_iter().for_each(|number| self.blocks.release(number));
    }

    /// Forgets the blocks from this one on, which have no contents.
    pub(crate) fn cut(&mut self, blocks: u64) {
        self.blocks.cut(blocks);
        self.fit_slots();
    }

    /// Marks a PBN as used, with its blocks. Returns whether it was free.
    pub(crate) fn claim(&mut self, pbn: Pbn) -> bool {
        let Some(slots) = &mut self.slots else { return self.blocks.claim(pbn) };
        let place = PackedPlace::of(pbn);
        let was_free = slots.set(place, true);
        for block in parts_of(place) {
            block_number(block).map(|number| self.blocks.claim(number));
        }
        was_free
    }

    /// Marks PBNs as used that come in order.
    pub(crate) fn claim_visited<E>(
        &mut self,
        visit: impl FnOnce(&mut dyn FnMut(Pbn)) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.slots.is_none() {
            return self.blocks.claim_visited(visit);
        }
        visit(&mut |pbn| {
            self.claim(pbn);
        })
    }

    /// Takes a free block for a packer; [`None`] if there is none.
    pub(super) fn take_block(&mut self) -> Option<u32> {
        let mut pbns = Vec::new();
        if self.blocks.free() > 0 {
            self.blocks.take(1, &mut pbns);
        }
        Some(pbns.first()?.narrow())
    }

    /// Takes this block for a packer, if it is free. One that is taken `ahead` is not needed yet.
    pub(super) fn take_this_block(&mut self, block: u32, ahead: bool) -> bool {
        let kept = if ahead { MIN_FREE_AHEAD } else { 0 };
        u64::from(block) < self.blocks.blocks()
            && self.blocks.free() > kept
            && block_number(block).is_some_and(|number| self.blocks.claim(number))
    }

    /// Marks a block as used that has no content.
    pub(crate) fn claim_block(&mut self, number: Pbn) {
        self.blocks.claim(number);
    }

    /// Free blocks of writers: those that are free, and those that are kept for contents and have
    /// none yet.
    pub(crate) fn free_or_open(&self) -> u64 {
        let open = self
            .slots
            .iter()
            .flat_map(|slots| slots.open.iter().filter(|block| !slots.has_contents(**block)));
        self.blocks.free() + open.count() as u64
    }

    /// Blocks without contents: those of writers and those of the cleaner.
    pub(crate) fn free_blocks(&self) -> u64 {
        self.free_or_open() + self.slots.as_ref().map_or(0, |slots| slots.reserve.len())
    }

    /// Returns whether a PBN is in use, or out of range.
    pub(crate) fn is_used(&self, pbn: Pbn) -> bool {
        match &self.slots {
            None => self.blocks.is_used(pbn),
            Some(slots) => {
                let place = PackedPlace::of(pbn);
                u64::from(place.block) >= self.blocks.blocks()
                    || slots.of(place.block) & 1 << place.slot != 0
            }
        }
    }

    /// Calls with every PBN in use.
    pub(crate) fn each_used(&self, each: &mut dyn FnMut(Pbn)) {
        let end = self.blocks.blocks();
        match &self.slots {
            None => {
                let numbers = (1..end).filter_map(Pbn::new);
                let is_used =
                    |pbn: &Pbn| self.blocks.is_used(*pbn) && !self.blocks.is_parked(pbn.number());
                numbers.filter(is_used).for_each(each);
            }
            Some(slots) => {
                let blocks = 1..end as u32;
                blocks.flat_map(|block| places_of(block, slots.of(block))).for_each(each);
            }
        }
    }

    /// Returns whether a PBN may be in a store of this size.
    pub(crate) fn is_within(&self, pbn: Pbn) -> bool {
        let block = match self.slots {
            Some(_) => u64::from(PackedPlace::of(pbn).block),
            None => pbn.number(),
        };
        block < self.blocks.blocks()
    }

    /// Frees a PBN. Calls `freed` with each block that is free then.
    pub(crate) fn release(&mut self, pbn: Pbn, mut freed: impl FnMut(Pbn)) {
        let Some(slots) = &mut self.slots else {
            self.blocks.release(pbn);
            return freed(pbn);
        };
        let place = PackedPlace::of(pbn);
        let was_used = slots.set(place, false);
        assert!(was_used, "block {} is freed twice", pbn.number());
        for block in parts_of(place) {
            self.free_if_empty(block, &mut freed);
        }
    }

    /// Frees a block of a packed store that has no content.
    fn free_if_empty(&mut self, block: u32, freed: &mut impl FnMut(Pbn)) {
        let Some(slots) = &mut self.slots else { return };
        if !slots.has_contents(block)
            && !slots.open.contains(&block)
            && !slots.reserve.has(block)
            && let Some(number) = block_number(block)
            && self.blocks.is_used(number)
            && !self.blocks.is_parked(number.number())
        {
            if self.blocks.is_barred(block.into()) || !slots.reserve.adopts(block) {
                self.blocks.release(number);
            }
            freed(number);
        }
    }

    /// Marks contents as used that a packer has placed. `taken` has the blocks that it took for
    /// them, and `open` those to which writers add contents from now on, if that changes.
    pub(crate) fn settle(
        &mut self,
        placed: &[Pbn],
        taken: impl IntoIterator<Item = u32>,
        open: Option<Vec<u32>>,
    ) {
        let Some(slots) = &mut self.slots else { return };
        for pbn in placed {
            let was_free = slots.set(PackedPlace::of(*pbn), true);
            assert!(was_free, "block {} is given to two contents", pbn.number());
        }
        let before = open.map(|open| std::mem::replace(&mut slots.open, open)).unwrap_or_default();
        for block in taken.into_iter().chain(before) {
            self.free_if_empty(block, &mut |_| ());
        }
    }

    /// The contents in use, with `reserved` blocks that have none.
    pub(crate) fn contents(&self, reserved: u64) -> u64 {
        match &self.slots {
            Some(slots) => slots.contents,
            None => {
                let unused = reserved + self.blocks.free() + self.blocks.parked();
                self.blocks.blocks().saturating_sub(unused)
            }
        }
    }

    /// A bit for each slot in use of these blocks of a packed store.
    pub(crate) fn used_slots(&self, blocks: Range<u32>) -> Vec<u8> {
        let Some(slots) = &self.slots else { return Vec::new() };
        blocks.map(|block| slots.of(block)).collect()
    }

    /// Returns whether a block has contents, and no others than these. A block to which contents
    /// are added may have one already that is not marked as used yet.
    pub(crate) fn has_only(&self, block: Pbn, these: impl Fn(&Pbn) -> bool) -> bool {
        let is_open = self.slots.as_ref().is_some_and(|slots| slots.open.contains(&block.narrow()));
        let contents = self.contents_of(&[block]);
        !is_open && !contents.is_empty() && contents.iter().all(these)
    }

    /// Looks for blocks of these contents whose space can be given back, because all contents that
    /// they have lie elsewhere.
    pub(crate) fn left_blocks(
        &self,
        pbns: &[Pbn],
        is_elsewhere: &dyn Fn(&Pbn) -> bool,
    ) -> LeftBlocks {
        let mut left = LeftBlocks::default();
        let Some(slots) = &self.slots else {
            left.unused.extend(pbns.iter().filter(|pbn| is_elsewhere(pbn)));
            return left;
        };
        let parts =
            pbns.iter().flat_map(|pbn| parts_of(PackedPlace::of(*pbn)).map(|at| (at, *pbn)));
        for (block, pbn) in parts.collect::<BTreeMap<u32, Pbn>>() {
            if slots.open.contains(&block) {
                left.open.push(pbn);
            } else {
                let number = block_number(block);
                left.unused.extend(number.filter(|number| self.has_only(*number, is_elsewhere)));
            }
        }
        left
    }

    /// The contents that have a part in these blocks.
    pub(crate) fn contents_of(&self, blocks: &[Pbn]) -> Vec<Pbn> {
        let Some(slots) = &self.slots else { return blocks.to_vec() };
        let mut contents = Vec::new();
        for number in blocks {
            let block = number.narrow();
            contents.extend(places_of(block, slots.of(block)));
            let before = block.saturating_sub(1);
            contents.extend(places_of(before, slots.of(before) & SPANNING_BIT));
        }
        contents.sort_unstable();
        contents.dedup();
        contents
    }
}

/// The PBNs of a block's slots.
fn places_of(block: u32, slots: u8) -> impl Iterator<Item = Pbn> {
    let used = (0..8u8).filter(move |slot| slots & 1 << slot != 0);
    used.filter_map(move |slot| PackedPlace { block, slot }.pbn())
}

/// The blocks that have a part of a content.
fn parts_of(place: PackedPlace) -> impl Iterator<Item = u32> {
    place.block..=place.block + u32::from(place.is_spanning())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_format::Compression;

    #[test]
    fn a_block_that_gets_more_contents_does_not_have_only_those_that_are_known() {
        let mut space = ContentSpace::new(StoreKind::Packed(Compression::Lz4), 20);
        let place = |slot| PackedPlace { block: 7, slot }.pbn().unwrap();
        let block = block_number(7).unwrap();
        let (first, second) = (place(1), place(2));
        assert!(!space.has_only(block, |_| true), "it has none");
        space.claim_block(block);
        space.settle(&[first], [7], Some(vec![7]));
        // The second content is in the block by now, and is noted when all of its list are placed.
        assert!(!space.has_only(block, |pbn| *pbn == first));
        space.settle(&[second], [], Some(Vec::new()));
        assert!(!space.has_only(block, |pbn| *pbn == first));
        assert!(space.has_only(block, |pbn| [first, second].contains(pbn)));
    }
}
