//! A set of PBNs as a bitmap: one bit for each block of the store.
//!
//! The bits are in pages. In a store that compresses, PBNs of the same slot follow one another for
//! a page at least, so slots that few blocks use take no memory.

use gemelo_base::PagedBits;
use gemelo_format::Pbn;

/// Words of a page.
const PAGE_WORDS: usize = 64;

/// A set of PBNs. It grows with the largest PBN.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    numbers: PagedBits<PAGE_WORDS>,
    /// The number at which [`Self::take`] goes on.
    cursor: u64,
}

impl Bits {
    /// Adds a PBN. Returns whether it is new.
    pub(crate) fn insert(&mut self, pbn: Pbn) -> bool {
        self.numbers.insert(pbn.number())
    }

    /// Removes a PBN. Returns whether it was there.
    pub(crate) fn remove(&mut self, pbn: Pbn) -> bool {
        self.numbers.remove(pbn.number())
    }

    pub(crate) fn contains(&self, pbn: Pbn) -> bool {
        self.numbers.has(pbn.number())
    }

    /// Returns all PBNs in ascending order.
    pub(crate) fn all(&self) -> Vec<Pbn> {
        self.after(None, usize::MAX)
    }

    /// Returns the next PBNs in ascending order, at most `most`.
    pub(crate) fn after(&self, pbn: Option<Pbn>, most: usize) -> Vec<Pbn> {
        let first = self.numbers.next(pbn.map_or(0, |pbn| pbn.number() + 1));
        let numbers = std::iter::successors(first, |number| self.numbers.next(number + 1));
        numbers.filter_map(Pbn::new).take(most).collect()
    }

    pub(crate) const fn len(&self) -> u64 {
        self.numbers.ones()
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.numbers.bytes()
    }

    /// Removes and returns the next PBNs in ascending order, at most `most`. It goes on where the
    /// last call ended, and begins at the front again after the end.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Pbn> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let next = self.numbers.next(self.cursor).or_else(|| self.numbers.next(0));
            let Some(number) = next else { break };
            self.numbers.remove(number);
            self.cursor = number;
            taken.extend(Pbn::new(number));
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_does_what_a_set_does(steps in prop::collection::vec((0..4u8, 1..400u32), 1..300)) {
            let (mut bits, mut set) = (Bits::default(), BTreeSet::new());
            for (kind, number) in steps {
                let pbn = Pbn::new(number.into()).unwrap();
                match kind {
                    0 | 1 => prop_assert_eq!(bits.insert(pbn), set.insert(pbn)),
                    2 => prop_assert_eq!(bits.remove(pbn), set.remove(&pbn)),
                    _ => {
                        let most = number as usize % 7;
                        let taken = bits.take(most);
                        prop_assert_eq!(taken.len(), set.len().min(most));
                        for pbn in taken {
                            prop_assert!(set.remove(&pbn));
                        }
                    }
                }
                prop_assert_eq!(bits.len(), set.len() as u64);
                prop_assert_eq!(bits.contains(pbn), set.contains(&pbn));
            }
            prop_assert!(bits.all().into_iter().eq(set.iter().copied()));
            let (mut listed, mut last) = (Vec::new(), None);
            while let some @ [.., end] = bits.after(last, 3).as_slice() {
                prop_assert!(some.len() <= 3);
                last = Some(*end);
                listed.extend_from_slice(some);
            }
            prop_assert_eq!(listed, bits.all());
            bits.cursor = 0;
            prop_assert!(bits.take(usize::MAX).into_iter().eq(set));
        }
    }
}
