//! A mark for each page of the maps, by its slot, while a pool is opened.
//!
//! The maps of a volume of 1 TiB have half a million pages. They lie near each other, so pieces of
//! marks take 4 MiB for them, where a hash table of what the marks stand for takes 35 MiB, and 52
//! while it grows.

use gemelo_base::random::mix_pair;
use gemelo_format::{NodeRef, Slot};
use std::ops::Range;

/// Marks of a piece, which takes 8 KiB.
const PIECE_MARKS: usize = 1024;

/// What a mark stands for: the checksum of a page and its LBNs, hashed to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageMark(u64);

impl PageMark {
    pub(super) fn of(at: NodeRef, lbns: &Range<u64>) -> Self {
        let place = mix_pair(lbns.start, lbns.end);
        Self(mix_pair(at.checksum, place).max(1))
    }
}

/// The marks of slots. A slot without one has 0 in its piece.
#[derive(Debug, Default)]
pub(super) struct PageMarks {
    pieces: Vec<Option<Box<[u64; PIECE_MARKS]>>>,
}

impl PageMarks {
    const fn place(slot: Slot) -> (usize, usize) {
        let number = slot.number() as usize;
        (number / PIECE_MARKS, number % PIECE_MARKS)
    }

    /// The mark of a slot.
    pub(super) fn get(&self, slot: Slot) -> Option<PageMark> {
        let (piece, at) = Self::place(slot);
        let mark = self.pieces.get(piece)?.as_deref()?.get(at).copied()?;
        (mark > 0).then_some(PageMark(mark))
    }

    /// Sets the mark of a slot.
    pub(super) fn set(&mut self, slot: Slot, mark: PageMark) {
        let (piece, at) = Self::place(slot);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let piece = self.pieces.get_mut(piece);
        let piece = piece.map(|piece| piece.get_or_insert_with(|| Box::new([0; PIECE_MARKS])));
        if let Some(place) = piece.and_then(|piece| piece.get_mut(at)) {
            *place = mark.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(slot: u32, checksum: u64) -> NodeRef {
        NodeRef { slot: Slot::new(slot).unwrap(), checksum }
    }

    #[test]
    fn a_page_is_known_by_its_slot_and_its_mark_tells_its_checksum_and_its_place() {
        let mut marks = PageMarks::default();
        let slots = [1, 2, 1023, 1024, 9000, u32::MAX];
        for (number, slot) in slots.into_iter().enumerate() {
            let at = node(slot, 7);
            assert_eq!(marks.get(at.slot), None, "slot {slot}");
            marks.set(at.slot, PageMark::of(at, &(0..number as u64)));
        }
        for (number, slot) in slots.into_iter().enumerate() {
            let at = node(slot, 7);
            assert_eq!(marks.get(at.slot), Some(PageMark::of(at, &(0..number as u64))));
        }
        let (at, lbns) = (node(3, 7), 512..1024);
        let others = [(node(3, 8), lbns.clone()), (at, 0..1024), (at, 512..1025)];
        for (other, of) in others {
            assert!(PageMark::of(other, &of) != PageMark::of(at, &lbns), "{other:?} {of:?}");
        }
    }

    #[test]
    fn the_maps_of_a_tebibyte_take_four_mebibytes_of_marks() {
        let mut marks = PageMarks::default();
        for slot in 1..=1 << 19 {
            let at = node(slot, u64::from(slot));
            marks.set(at.slot, PageMark::of(at, &(0..1)));
        }
        let pieces = marks.pieces.iter().flatten().count();
        assert!(pieces * size_of::<[u64; PIECE_MARKS]>() <= (4 << 20) + (8 << 10), "{pieces}");
    }
}
