//! The places on the metadata disk. Everything there is kept twice, with the copies so far apart
//! that one damaged run leaves one of them.
//!
//! The pages have numbers, and the place of each copy follows from the number: first copies take
//! the first half of each 4 MiB of the disk, and second ones the other half. A store of objects of
//! that length therefore writes both copies in one operation. The heads come first, so that a
//! superblock is found without knowing anything else; then the journal, and then the slots.

use super::{NodeRef, PAGE_BYTES, Page, PoolSeed, Slot};
use crate::DiskRole;
use crate::error::{FormatError, Result};
use gemelo_disk::Disk;
use std::io;
use std::ops::Range;

/// The number of copies of everything on the metadata disk.
pub const COPIES: usize = 2;
/// The longest damaged run, in bytes, that leaves a copy of everything wherever it lies.
pub const MAX_DAMAGED_BYTES: u64 = 1 << 20;
/// Pages of a head: the superblock, two roots and a flush mark.
const HEAD_PAGES: u64 = 4;
/// Pages whose first copies lie side by side. Their second copies follow, also side by side.
const STRETCH_PAGES: u64 = 512;
/// Slots that a new pool overwrites.
const FIRST_SLOTS: u64 = 272;
const PAGE: u64 = PAGE_BYTES as u64;

const _: () = assert!(
    STRETCH_PAGES * PAGE >= MAX_DAMAGED_BYTES + PAGE,
    "a damaged run that touches the first copy of a page ends before the second one"
);

/// The pages of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadPage {
    Superblock,
    /// The root of the checkpoints of even (`false`) or odd (`true`) generation.
    Root {
        is_odd: bool,
    },
    FlushMark,
}

/// Returns the byte offsets of both copies of a page of the head.
pub(crate) const fn head_offsets(page: HeadPage) -> [u64; COPIES] {
    copies_of(match page {
        HeadPage::Superblock => 0,
        HeadPage::Root { is_odd } => 1 + is_odd as u64,
        HeadPage::FlushMark => 3,
    })
}

/// Returns the byte offsets of both copies of a page.
const fn copies_of(page: u64) -> [u64; COPIES] {
    let (stretch, within) = (page / STRETCH_PAGES, page % STRETCH_PAGES);
    let first = stretch * STRETCH_PAGES * COPIES as u64 + within;
    [first * PAGE, (first + STRETCH_PAGES) * PAGE]
}

/// Cuts a range of pages at the borders of stretches.
fn stretches(pages: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut next = pages.start;
    std::iter::from_fn(move || {
        let begin = next;
        next = (begin / STRETCH_PAGES + 1).saturating_mul(STRETCH_PAGES).min(pages.end);
        (begin < pages.end).then_some(begin..next)
    })
}

/// The places on the metadata disk of a pool. They follow from the length of its journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regions {
    ring_pages: u64,
}

/// A range of bytes of the journal whose copies lie side by side each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingPiece {
    /// The bytes, from the beginning of the range that was cut.
    pub bytes: Range<usize>,
    /// The byte offsets of both copies on the disk.
    pub offsets: [u64; COPIES],
}

impl Regions {
    /// Returns the places of a pool whose journal has this many pages.
    #[must_use]
    pub const fn new(ring_pages: u64) -> Self {
        Self { ring_pages }
    }

    /// Returns the length of the journal in bytes.
    #[must_use]
    pub const fn ring_bytes(self) -> u64 {
        self.ring_pages * PAGE
    }

    /// Cuts a range of the journal into pieces. Offset and length are whole pages.
    pub fn ring(self, offset: u64, length: usize) -> impl Iterator<Item = RingPiece> {
        let end = offset + length as u64;
        assert!(
            end <= self.ring_bytes() && offset.is_multiple_of(PAGE) && end.is_multiple_of(PAGE),
            "{length} bytes from {offset} are pages of the journal"
        );
        let first = HEAD_PAGES + offset / PAGE;
        stretches(first..first + (length as u64) / PAGE).map(move |pages| {
            let bytes = [pages.start, pages.end].map(|page| (page - first) as usize * PAGE_BYTES);
            RingPiece { bytes: bytes[0]..bytes[1], offsets: copies_of(pages.start) }
        })
    }

    /// Returns the end, in bytes, of what a new pool overwrites: heads, journal, and the first
    /// slots.
    #[must_use]
    pub const fn fixed_bytes(self) -> u64 {
        let [_, last] = copies_of(self.first_slot() + FIRST_SLOTS - 1);
        last + PAGE
    }

    /// Returns the byte offsets of both copies of a slot.
    #[must_use]
    pub const fn slot(self, slot: Slot) -> [u64; COPIES] {
        copies_of(self.first_slot() + slot.number() as u64 - 1)
    }

    /// The page of slot 1.
    const fn first_slot(self) -> u64 {
        HEAD_PAGES + self.ring_pages
    }

    /// Returns the ranges of bytes of both copies of slots, given by their indices from 0.
    pub fn slot_ranges(self, slots: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        assert!(slots.start <= slots.end, "slots {slots:?} are a range");
        let first = self.first_slot();
        stretches(first + slots.start..first + slots.end).flat_map(|pages| {
            let bytes = (pages.end - pages.start) * PAGE;
            copies_of(pages.start).map(|start| start..start + bytes)
        })
    }
}

/// The copies of a page as they were read.
pub(crate) struct Copied<T> {
    /// The first copy that is good.
    pub(crate) good: Option<T>,
    /// The byte offsets of the copies that were read and are not good.
    pub(crate) bad: Vec<u64>,
    /// The error of a copy that the disk could not read, if none is good.
    error: Option<io::Error>,
}

impl<T> Copied<T> {
    /// Returns the good copy. Fails with the error of the disk if it may have one.
    pub(crate) fn or_error(self) -> Result<Option<T>> {
        match (self.good, self.error) {
            (None, Some(error)) => Err(FormatError::io(DiskRole::Metadata, "read")(error)),
            (good, _) => Ok(good),
        }
    }
}

/// The copies of a page to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The first good one.
    OneGood,
    /// All of them, so that damaged ones are found.
    All,
}

/// Reads a page at one place. Returns `None` if it is not good, or beyond the end of the disk.
pub(crate) fn read_page<T>(
    disk: &dyn Disk,
    offset: u64,
    decode: impl Fn(&Page) -> Option<T>,
) -> io::Result<Option<T>> {
    let mut page = Box::new([0; PAGE_BYTES]);
    match disk.read_at(offset, page.as_mut_slice()) {
        Ok(()) => Ok(decode(&page)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads copies of a page. `decode` returns `None` for a page that is not good. A copy that the
/// disk cannot read, or that lies beyond its end, is not good.
pub(crate) fn read_copies<T>(
    disk: &dyn Disk,
    offsets: [u64; COPIES],
    reading: Reading,
    decode: impl Fn(&Page) -> Option<T>,
) -> Copied<T> {
    let mut found = Copied { good: None, bad: Vec::new(), error: None };
    for offset in offsets {
        match read_page(disk, offset, &decode) {
            Ok(None) => found.bad.push(offset),
            Err(error) => {
                found.bad.push(offset);
                found.error.get_or_insert(error);
            }
            Ok(Some(good)) => {
                found.good.get_or_insert(good);
                if reading == Reading::OneGood {
                    break;
                }
            }
        }
    }
    found
}

/// A page of a slot.
#[derive(Debug)]
pub struct SlotPage {
    /// The page, or `None` if no copy is good.
    pub page: Option<Box<Page>>,
    /// The number of copies that were found damaged.
    pub damaged_copies: usize,
}

/// Reads the page of a slot from its copies.
///
/// # Errors
/// Fails if no copy is good, and the disk could not read one of them.
pub fn read_slot(
    disk: &dyn Disk,
    regions: Regions,
    at: NodeRef,
    seed: PoolSeed,
    reading: Reading,
) -> Result<SlotPage> {
    let decode = |page: &Page| (seed.checksum(page) == at.checksum).then(|| Box::new(*page));
    let copied = read_copies(disk, regions.slot(at.slot), reading, decode);
    let damaged_copies = copied.bad.len();
    let page = copied.or_error()?;
    assert!(
        page.as_ref().is_none_or(|page| seed.checksum(page.as_slice()) == at.checksum),
        "the page of slot {} passes its checksum",
        at.slot.number()
    );
    Ok(SlotPage { page, damaged_copies })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All places that a pool of this shape has, as ranges of bytes with both copies.
    fn pairs(ring_pages: u64, slots: u32) -> Vec<[Range<u64>; COPIES]> {
        let regions = Regions::new(ring_pages);
        let page = |start: u64| start..start + PAGE;
        let head = [
            HeadPage::Superblock,
            HeadPage::Root { is_odd: false },
            HeadPage::Root { is_odd: true },
            HeadPage::FlushMark,
        ];
        let heads = head.map(head_offsets).map(|pair| pair.map(page));
        let rings = regions
            .ring(0, regions.ring_bytes() as usize)
            .map(|piece| piece.offsets.map(|start| start..start + piece.bytes.len() as u64));
        let slots = (1..=slots).map(|number| regions.slot(Slot::new(number).unwrap()).map(page));
        heads.into_iter().chain(rings).chain(slots).collect()
    }

    #[test]
    fn no_two_places_overlap_and_none_is_left_out() {
        for ring_pages in [1, 8, 100, 1000] {
            // All stretches are full.
            let slots = 3 * STRETCH_PAGES - HEAD_PAGES - ring_pages;
            let mut all: Vec<Range<u64>> =
                pairs(ring_pages, slots as u32).into_iter().flatten().collect();
            all.sort_unstable_by_key(|range| range.start);
            assert_eq!(all.first().map(|first| first.start), Some(0));
            assert!(all.is_sorted_by(|a, b| a.end == b.start), "{ring_pages} pages of journal");
        }
    }

    #[test]
    fn a_damaged_run_never_touches_both_copies_and_an_object_of_a_member_has_both() {
        for ring_pages in [1, 8, 1000] {
            for [first, second] in pairs(ring_pages, 3 * FIRST_SLOTS as u32) {
                // The run that ends with the last byte between both, and begins in the first copy.
                let between = second.start - (first.start + PAGE);
                assert!(between + 2 > MAX_DAMAGED_BYTES, "{first:?} and {second:?}");
                let object = |at: u64| at / (4 << 20);
                assert_eq!(object(first.start), object(second.end - 1));
            }
        }
    }

    #[test]
    fn pieces_of_the_journal_make_up_a_range_of_it() {
        let regions = Regions::new(2 * STRETCH_PAGES);
        let begin = (STRETCH_PAGES - HEAD_PAGES - 1) * PAGE;
        let pieces: Vec<RingPiece> = regions.ring(begin, 3 * PAGE_BYTES).collect();
        let stretch = STRETCH_PAGES * PAGE;
        let expected = [
            RingPiece { bytes: 0..PAGE_BYTES, offsets: [stretch - PAGE, 2 * stretch - PAGE] },
            RingPiece { bytes: PAGE_BYTES..3 * PAGE_BYTES, offsets: [2 * stretch, 3 * stretch] },
        ];
        assert_eq!(pieces, expected);
        assert_eq!(regions.ring(begin, 0).count(), 0);
    }

    #[test]
    fn the_copy_of_the_superblock_is_where_a_device_is_searched_for_it() {
        assert_eq!(head_offsets(HeadPage::Superblock), [0, gemelo_disk::FAR_POOL_MARK_BYTE],);
    }

    proptest! {
        #[test]
        fn ranges_of_slots_are_those_of_each_slot(first in 0u64..900, count in 0u64..900) {
            let regions = Regions::new(8);
            let mut by_range: Vec<u64> = regions
                .slot_ranges(first..first + count)
                .flat_map(|range| range.step_by(PAGE_BYTES))
                .collect();
            let mut by_slot: Vec<u64> = (first..first + count)
                .flat_map(|index| regions.slot(Slot::new(index as u32 + 1).unwrap()))
                .collect();
            by_range.sort_unstable();
            by_slot.sort_unstable();
            prop_assert_eq!(by_range, by_slot);
        }
    }
}
