//! The places on the metadata disk. Everything there is kept twice, with the copies so far apart
//! that one damaged run leaves one of them.
//!
//! The heads lie at fixed places, so that a superblock is found without knowing anything else. The
//! two rings, and the two copies of each slot, have at least a group of slots between them.

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
/// Slots of a group. The first copies of a group lie side by side, and so do the second ones.
const GROUP_SLOTS: u64 = 272;
const PAGE: u64 = PAGE_BYTES as u64;

const _: () = assert!(
    GROUP_SLOTS * PAGE >= MAX_DAMAGED_BYTES + PAGE,
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
    let number = match page {
        HeadPage::Superblock => 0,
        HeadPage::Root { is_odd } => 1 + is_odd as u64,
        HeadPage::FlushMark => 3,
    };
    [number * PAGE, (HEAD_PAGES + GROUP_SLOTS + number) * PAGE]
}

/// The places on the metadata disk of a pool. They follow from the length of its rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regions {
    ring_pages: u64,
}

impl Regions {
    /// Returns the places of a pool with rings of this many pages.
    #[must_use]
    pub const fn new(ring_pages: u64) -> Self {
        Self { ring_pages }
    }

    /// Returns the length of each ring in bytes.
    #[must_use]
    pub const fn ring_bytes(self) -> u64 {
        self.ring_pages * PAGE
    }

    /// Returns the byte offsets of the two rings of the journal.
    #[must_use]
    pub const fn rings(self) -> [u64; COPIES] {
        let first = 2 * HEAD_PAGES + GROUP_SLOTS;
        [first * PAGE, (first + self.ring_pages + GROUP_SLOTS) * PAGE]
    }

    /// Returns the end, in bytes, of what a new pool overwrites: heads, rings, and the first group
    /// of slots.
    #[must_use]
    pub const fn fixed_bytes(self) -> u64 {
        (2 * HEAD_PAGES + 2 * GROUP_SLOTS + 2 * self.ring_pages) * PAGE
    }

    /// Returns the byte offsets of both copies of a slot.
    #[must_use]
    pub const fn slot(self, slot: Slot) -> [u64; COPIES] {
        let index = (slot.number() - 1) as u64;
        let (group, within) = (index / GROUP_SLOTS, index % GROUP_SLOTS);
        let starts = self.group(group);
        [(starts[0] + within) * PAGE, (starts[1] + within) * PAGE]
    }

    /// Returns the pages at which the first and the second copies of a group begin.
    const fn group(self, group: u64) -> [u64; COPIES] {
        if group == 0 {
            return [HEAD_PAGES, 2 * HEAD_PAGES + GROUP_SLOTS + self.ring_pages];
        }
        let first = self.fixed_bytes() / PAGE + (group - 1) * 2 * GROUP_SLOTS;
        [first, first + GROUP_SLOTS]
    }

    /// Returns the ranges of bytes of both copies of slots, given by their indices from 0.
    pub fn slot_ranges(self, slots: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        assert!(slots.start <= slots.end, "slots {slots:?} are a range");
        let groups = slots.start / GROUP_SLOTS..slots.end.div_ceil(GROUP_SLOTS);
        groups.flat_map(move |group| {
            let first = (group * GROUP_SLOTS).max(slots.start) % GROUP_SLOTS;
            let count = slots.end.min((group + 1) * GROUP_SLOTS) - (group * GROUP_SLOTS + first);
            self.group(group).map(|start| (start + first) * PAGE..(start + first + count) * PAGE)
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
        let rings = regions.rings().map(|start| start..start + regions.ring_bytes());
        let slots = (1..=slots).map(|number| regions.slot(Slot::new(number).unwrap()).map(page));
        heads.into_iter().chain([rings]).chain(slots).collect()
    }

    #[test]
    fn no_two_places_overlap_and_none_is_left_out() {
        for ring_pages in [1, 8, 100, 1000] {
            let mut all: Vec<Range<u64>> =
                pairs(ring_pages, 3 * GROUP_SLOTS as u32).into_iter().flatten().collect();
            all.sort_unstable_by_key(|range| range.start);
            assert_eq!(all.first().map(|first| first.start), Some(0));
            assert!(all.is_sorted_by(|a, b| a.end == b.start), "rings of {ring_pages} pages");
        }
    }

    #[test]
    fn a_damaged_run_never_touches_both_copies() {
        for ring_pages in [1, 8, 1000] {
            for [first, second] in pairs(ring_pages, 3 * GROUP_SLOTS as u32) {
                // The run that ends with the last byte between both, and begins in the first copy.
                let between = second.start - first.end;
                assert!(between + 2 > MAX_DAMAGED_BYTES, "{first:?} and {second:?}");
            }
        }
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
