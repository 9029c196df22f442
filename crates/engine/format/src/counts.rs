//! Counts of references, packed into values of groups of PBNs. Most blocks have one reference or
//! none, so two bits are enough for almost all of them, and a gigabyte has the counts of 16 TiB.

use super::{Page, Part};

/// Bits of a count in a value of [`Part::Counts`].
const COUNT_BITS: u32 = 2;
const COUNTS_OF_BYTE: u64 = (u8::BITS / COUNT_BITS) as u64;
/// The count that stands for as many references and more. [`Part::Many`] has their number.
pub const MANY: u32 = (1 << COUNT_BITS) - 1;
/// PBNs whose counts are in one page of an array of [`Part::Counts`].
pub const COUNT_PAGE_PBNS: u64 = Part::Counts.array_entries() as u64 * CountAt::GROUP_PBNS;

/// The place of a PBN's count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountAt {
    /// The number of the PBN's group.
    pub group: u64,
    shift: u32,
}

impl CountAt {
    /// PBNs of a group, whose counts are one value of [`Part::Counts`].
    pub const GROUP_PBNS: u64 = (u128::BITS / COUNT_BITS) as u64;

    /// The place of the count of this PBN.
    #[must_use]
    pub const fn of(pbn: u64) -> Self {
        Self { group: pbn / Self::GROUP_PBNS, shift: (pbn % Self::GROUP_PBNS) as u32 * COUNT_BITS }
    }

    /// The bits of the count in the value of its group.
    #[must_use]
    pub const fn mask(self) -> u128 {
        (MANY as u128) << self.shift
    }

    /// The bits of the counts of the PBNs before this one in its group.
    #[must_use]
    pub const fn mask_before(self) -> u128 {
        (1 << self.shift) - 1
    }

    /// The count of a PBN in its page: [`MANY`] for as many references and more.
    #[must_use]
    pub const fn in_page(page: &Page, pbn: u64) -> u32 {
        let byte = page[(pbn % COUNT_PAGE_PBNS / COUNTS_OF_BYTE) as usize];
        (byte >> (pbn % COUNTS_OF_BYTE * COUNT_BITS as u64)) as u32 & MANY
    }

    /// The count in the value of its group: [`MANY`] for as many references and more.
    #[must_use]
    pub const fn get(self, counts: u128) -> u32 {
        (counts >> self.shift) as u32 & MANY
    }

    /// The value of its group with this number of references.
    #[must_use]
    pub const fn set(self, counts: u128, references: u32) -> u128 {
        let count = if references < MANY { references } else { MANY };
        counts & !self.mask() | (count as u128) << self.shift
    }
}

/// The PBNs of a group that have references, in order, with their counts.
pub fn counted_pbns(group: u64, counts: u128) -> impl Iterator<Item = (u64, u32)> {
    let first = group.saturating_mul(CountAt::GROUP_PBNS);
    let mut left = counts;
    std::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() / COUNT_BITS)?;
        let at = CountAt { group, shift: place * COUNT_BITS };
        left &= !at.mask();
        Some((first.checked_add(u64::from(place))?, at.get(counts)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PAGE_BYTES, array_value, set_array_value};
    use proptest::prelude::*;

    #[test]
    fn a_count_in_a_page_is_that_in_the_value_of_its_group() {
        let mut page = [0; PAGE_BYTES];
        let first = 3 * COUNT_PAGE_PBNS;
        let count_of = |pbn: u64| (pbn % 5 + pbn / 64) as u32 % (MANY + 1);
        for pbn in first..first + COUNT_PAGE_PBNS {
            let at = CountAt::of(pbn);
            let place = (at.group % Part::Counts.array_entries() as u64) as usize;
            let bytes = Part::Counts.value_bytes();
            let value = at.set(array_value(&page, place, bytes), count_of(pbn));
            set_array_value(&mut page, place, bytes, value);
        }
        for pbn in first..first + COUNT_PAGE_PBNS {
            assert_eq!(CountAt::in_page(&page, pbn), count_of(pbn), "{pbn}");
        }
    }

    proptest! {
        #[test]
        fn counts_of_a_group_are_those_that_were_set(changes: Vec<(u8, u32)>) {
            let (mut counts, mut right) = (0, std::collections::BTreeMap::new());
            let first = 7 * CountAt::GROUP_PBNS;
            for (place, references) in changes {
                let pbn = first + u64::from(place) % CountAt::GROUP_PBNS;
                let references = references % 6;
                let at = CountAt::of(pbn);
                counts = at.set(counts, references);
                right.insert(pbn, references.min(MANY));
                prop_assert_eq!(at.get(counts), references.min(MANY));
                prop_assert_eq!(at.group, 7);
                let before: Vec<(u64, u32)> = counted_pbns(7, counts & at.mask_before()).collect();
                prop_assert!(before.iter().all(|(other, _)| *other < pbn));
            }
            right.retain(|_, count| *count > 0);
            prop_assert_eq!(counted_pbns(7, counts).collect::<Vec<_>>(), Vec::from_iter(right));
        }
    }
}
