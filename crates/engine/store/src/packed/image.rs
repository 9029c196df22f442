//! The bytes of a packed block.

use gemelo_format::{
    PACKED_MAGIC, PACKED_TABLE_BYTES, PackedPlace, Pbn, PoolSeed, SLOT_HEAD_BYTES, SPANNING_SLOT,
    SlotHead, slot_offset,
};
use std::borrow::Cow;
use std::ops::Range;

/// A content begins in a block only if this part of the block is left for it: its start would
/// otherwise cost the read of a block and save little.
const MIN_START_PART: usize = 32;

/// The room that a block has for a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// The content fits in this slot.
    Slot(u8),
    /// The content fits if it goes on in the next block.
    Spanning,
    /// The block is full.
    None,
}

/// Returns how a content of this many compressed bytes fits in a block that is filled up to `end`
/// and has this many slots.
fn fit(block_bytes: usize, (end, slots): (usize, u8), length: usize) -> Fit {
    let left = block_bytes - end;
    if SLOT_HEAD_BYTES + length <= left && slots + 1 < SPANNING_SLOT {
        Fit::Slot(slots + 1)
    } else if SLOT_HEAD_BYTES + length > left && left >= block_bytes / MIN_START_PART {
        Fit::Spanning
    } else {
        Fit::None
    }
}

/// Counts the blocks that contents take, in the order in which they are stored, from a fresh block
/// on.
#[derive(Debug)]
pub struct PackedCount<R> {
    block_bytes: usize,
    /// The lengths of further runs of blocks.
    runs: R,
    /// Blocks that are left of the present run.
    left: u64,
    blocks: u64,
    /// The bytes and the slots of the block that is being filled.
    open: Option<(usize, u8)>,
    is_out: bool,
}

impl<R: Iterator<Item = u64>> PackedCount<R> {
    /// Begins to count blocks of this size, which lie in runs of these lengths.
    pub const fn new(block_bytes: usize, runs: R) -> Self {
        Self { block_bytes, runs, left: 0, blocks: 0, open: None, is_out: false }
    }

    /// The number of blocks; [`None`] if the runs are too short.
    pub fn blocks(&self) -> Option<u64> {
        (!self.is_out).then_some(self.blocks)
    }

    fn take_block(&mut self) {
        while self.left == 0 {
            let Some(run) = self.runs.next() else {
                self.is_out = true;
                return;
            };
            self.left = run;
        }
        self.left -= 1;
        self.blocks += 1;
    }

    /// Adds a content, given by its compressed bytes, or by [`None`] if it fills a block.
    pub fn add(&mut self, content: Option<usize>) {
        let Some(length) = content else { return self.take_block() };
        loop {
            let (end, slots) = self.open.take().unwrap_or_else(|| {
                self.take_block();
                (PACKED_TABLE_BYTES, 0)
            });
            let stored = SLOT_HEAD_BYTES + length;
            match fit(self.block_bytes, (end, slots), length) {
                Fit::Slot(slot) => self.open = Some((end + stored, slot)),
                Fit::Spanning if self.left > 0 => {
                    self.take_block();
                    self.open = Some((PACKED_TABLE_BYTES + stored - (self.block_bytes - end), 0));
                }
                Fit::Spanning | Fit::None => continue,
            }
            return;
        }
    }
}

/// Returns the number of blocks that contents take; see [`PackedCount::add`].
#[must_use]
pub fn packed_blocks(block_bytes: usize, contents: impl IntoIterator<Item = Option<usize>>) -> u64 {
    let mut count = PackedCount::new(block_bytes, std::iter::once(u64::MAX));
    contents.into_iter().for_each(|content| count.add(content));
    count.blocks
}

/// A packed block that is being filled.
#[derive(Debug, Clone)]
pub struct BlockImage {
    bytes: Vec<u8>,
    end: usize,
    slots: u8,
}

impl BlockImage {
    /// Makes a block that begins with the rest of a content of the block before.
    #[must_use]
    pub fn new(block_bytes: usize, tail: &[u8]) -> Self {
        let mut bytes = vec![0; block_bytes];
        let end = PACKED_TABLE_BYTES + tail.len();
        assert!(end <= block_bytes, "a content ends in the block after that in which it begins");
        put(&mut bytes, 0, &PACKED_MAGIC);
        put(&mut bytes, PACKED_TABLE_BYTES, tail);
        Self { bytes, end, slots: 0 }
    }

    /// The bytes of the block.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how a content of this many compressed bytes fits.
    #[must_use]
    pub fn fit(&self, length: usize) -> Fit {
        fit(self.bytes.len(), (self.end, self.slots), length)
    }

    /// Adds a content that fits in the next slot.
    pub fn add(&mut self, slot: u8, form: &[u8]) {
        assert_eq!(slot, self.slots + 1, "slots are given out in order");
        self.set_offset(slot);
        put(&mut self.bytes, self.end, form);
        (self.end, self.slots) = (self.end + form.len(), slot);
    }

    /// Adds the start of a content that goes on in the next block. Returns the rest of it.
    pub fn add_start<'f>(&mut self, form: &'f [u8]) -> &'f [u8] {
        let (start, rest) = form.split_at(self.bytes.len() - self.end);
        assert!(start.len() >= SLOT_HEAD_BYTES && !rest.is_empty(), "a content spans two blocks");
        self.set_offset(SPANNING_SLOT);
        put(&mut self.bytes, self.end, start);
        (self.end, self.slots) = (self.bytes.len(), SPANNING_SLOT);
        rest
    }

    fn set_offset(&mut self, slot: u8) {
        let offset = u16::try_from(self.end);
        assert!(offset.is_ok(), "a packed block has at most 64 KiB");
        put(&mut self.bytes, 2 * usize::from(slot), &offset.unwrap_or_default().to_le_bytes());
    }
}

/// Copies bytes to an offset at which there is room for them.
pub(super) fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    let to = bytes.get_mut(at..at + part.len());
    assert!(to.is_some(), "{} bytes fit at {at}", part.len());
    to.into_iter().for_each(|to| to.copy_from_slice(part));
}

/// Sets `form` to the stored form of a content: its head and its compressed bytes.
pub fn form_into(form: &mut Vec<u8>, seed: PoolSeed, pbn: Pbn, (algorithm, bytes): (u8, &[u8])) {
    form.clear();
    form.extend_from_slice(&SlotHead::new(seed, pbn, algorithm, bytes).encode());
    form.extend_from_slice(bytes);
}

/// Returns the head and the compressed bytes of a stored form.
pub(super) fn split_form(form: &[u8]) -> Option<(SlotHead, &[u8])> {
    let (head, bytes) = form.split_first_chunk::<SLOT_HEAD_BYTES>()?;
    Some((SlotHead::decode(*head), bytes))
}

/// Finds the stored form of a content in the bytes of its block, and in those of the next one if it
/// goes on there. Returns its offset, and its bytes in both; [`None`] if the block has none that
/// makes sense.
pub(super) fn find_parts<'b>(
    place: PackedPlace,
    block: &'b [u8],
    next: Option<&'b [u8]>,
) -> Option<(usize, &'b [u8], &'b [u8])> {
    let offset = slot_offset(block, place.slot)?;
    let start = block.get(offset..)?;
    let (head, _) = split_form(start)?;
    let length = SLOT_HEAD_BYTES + usize::from(head.length);
    if !place.is_spanning() {
        return Some((offset, start.get(..length)?, &[]));
    }
    // A content that ends with its block has another slot.
    let rest = length.checked_sub(start.len()).filter(|rest| *rest > 0)?;
    let rest = next?.get(PACKED_TABLE_BYTES..PACKED_TABLE_BYTES + rest)?;
    Some((offset, start, rest))
}

/// Finds the stored form of a content as [`find_parts`] does, in one piece.
pub(super) fn find_form<'b>(
    place: PackedPlace,
    block: &'b [u8],
    next: Option<&'b [u8]>,
) -> Option<(usize, Cow<'b, [u8]>)> {
    let (offset, start, rest) = find_parts(place, block, next)?;
    let form = if rest.is_empty() { Cow::Borrowed(start) } else { [start, rest].concat().into() };
    Some((offset, form))
}

/// Returns whether a form of this offset and length, which a damaged block may tell, covers no
/// other slot of its block and of the next one.
pub(super) fn is_apart(
    place: PackedPlace,
    (block, next): (&[u8], &[u8]),
    (offset, length): (usize, usize),
) -> bool {
    let covers = |block: &[u8], own: Range<usize>, slot: u8| {
        let Some(start) = slot_offset(block, slot) else { return false };
        let head = block.get(start..).and_then(split_form);
        let length = SLOT_HEAD_BYTES + head.map_or(0, |(head, _)| usize::from(head.length));
        own.start < start + length && start < own.end
    };
    let rest =
        PACKED_TABLE_BYTES..PACKED_TABLE_BYTES + (offset + length).saturating_sub(block.len());
    !(1..=SPANNING_SLOT).any(|slot| {
        let is_other = slot != place.slot;
        is_other && covers(block, offset..offset + length, slot)
            || place.is_spanning() && covers(next, rest.clone(), slot)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::tests::superblock;

    #[test]
    fn blocks_are_counted_as_they_are_filled() {
        let blocks = |contents: &[Option<usize>]| packed_blocks(4096, contents.iter().copied());
        assert_eq!(blocks(&[]), 0);
        assert_eq!(blocks(&[None, None]), 2);
        assert_eq!(blocks(&[Some(10); 6]), 1);
        assert_eq!(blocks(&[Some(10); 7]), 2, "six slots, and no seventh that ends in the block");
        assert_eq!(blocks(&[Some(2032), Some(2032)]), 1, "two heads and the table fill it up");
        assert_eq!(blocks(&[Some(2040), Some(2040)]), 2, "the second goes on in another block");
        assert_eq!(blocks(&[Some(2040), None, Some(2040)]), 3);
        assert_eq!(blocks(&[Some(2040); 200]), 101);
    }

    #[test]
    fn no_content_goes_on_from_run_to_run() {
        let blocks = |runs: &[u64], contents: usize| {
            let mut count = PackedCount::new(4096, runs.iter().copied());
            (0..contents).for_each(|_| count.add(Some(2040)));
            count.blocks()
        };
        assert_eq!([1, 2, 3, 4].map(|contents| blocks(&[2, 3], contents)), [1, 2, 2, 3].map(Some));
        assert_eq!((blocks(&[1, 1, 1], 3), blocks(&[1, 1, 1], 4)), (Some(3), None));
    }

    #[test]
    fn contents_are_found_in_one_block_and_across_two() {
        let seed = PoolSeed::of(&superblock(512));
        let form_of = |pbn, part| {
            let mut form = Vec::new();
            form_into(&mut form, seed, pbn, part);
            form
        };
        let pbn = |block, slot| PackedPlace { block, slot }.pbn().unwrap();
        let bytes: Vec<u8> = (0..200).map(|byte| byte as u8).collect();
        let mut image = BlockImage::new(512, b"the rest of another");
        let mut forms = Vec::new();
        while let Fit::Slot(slot) = image.fit(bytes.len()) {
            let form = form_of(pbn(5, slot), (1, &bytes));
            image.add(slot, &form);
            forms.push(form);
        }
        assert_eq!((forms.len(), image.fit(bytes.len())), (2, Fit::Spanning));
        let spanning = form_of(pbn(5, SPANNING_SLOT), (1, &bytes));
        let rest = image.add_start(&spanning).to_vec();
        let next = BlockImage::new(512, &rest);
        assert_eq!(image.fit(1), Fit::None);
        for (slot, form) in (1..).zip(&forms) {
            let found = find_form(PackedPlace { block: 5, slot }, image.bytes(), None).unwrap();
            assert_eq!(found.1, *form);
        }
        let place = PackedPlace { block: 5, slot: SPANNING_SLOT };
        let found = find_form(place, image.bytes(), Some(next.bytes())).unwrap();
        assert_eq!(found.1, spanning);
        assert!(find_form(place, image.bytes(), None).is_none());
        assert!(find_form(PackedPlace { block: 5, slot: 3 }, image.bytes(), None).is_none());
    }
}
