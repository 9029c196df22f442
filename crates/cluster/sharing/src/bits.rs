//! A set of PBNs as a bitmap: one bit for each block of the store.

use gemelo_format::Pbn;

/// A set of PBNs. It grows with the largest PBN.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    words: Vec<u64>,
    count: u64,
    /// The word at which [`Self::take`] goes on.
    cursor: usize,
}

const fn place(pbn: Pbn) -> (usize, u64) {
    (pbn.index() / 64, 1 << (pbn.index() % 64))
}

impl Bits {
    /// Adds a PBN. Returns whether it is new.
    pub(crate) fn insert(&mut self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let Some(bits) = self.words.get_mut(word) else { return false };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Removes a PBN. Returns whether it was there.
    pub(crate) fn remove(&mut self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        let Some(bits) = self.words.get_mut(word) else { return false };
        let was_there = *bits & bit != 0;
        *bits &= !bit;
        self.count -= u64::from(was_there);
        was_there
    }

    pub(crate) fn contains(&self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns all PBNs in ascending order.
    pub(crate) fn all(&self) -> Vec<Pbn> {
        let in_word = |(word, bits): (usize, &u64)| {
            let set = (0..64).filter(move |bit| bits >> bit & 1 == 1);
            set.filter_map(move |bit| Pbn::new(word as u32 * 64 + bit)).collect::<Vec<Pbn>>()
        };
        self.words.iter().enumerate().filter(|(_, bits)| **bits != 0).flat_map(in_word).collect()
    }

    /// Returns the next PBNs in ascending order, at most `most`.
    pub(crate) fn after(&self, pbn: Option<Pbn>, most: usize) -> Vec<Pbn> {
        let first = pbn.map_or(0, |pbn| pbn.index() + 1);
        let words = self.words.iter().enumerate().skip(first / 64).filter(|(_, bits)| **bits != 0);
        let numbers = words.flat_map(|(word, bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word * 64 + bit)
        });
        let numbers = numbers.filter(|number| *number >= first);
        numbers.filter_map(|number| Pbn::new(number as u32)).take(most).collect()
    }

    pub(crate) const fn len(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of memory.
    pub(crate) const fn bytes(&self) -> u64 {
        self.words.capacity() as u64 * 8
    }

    /// Removes and returns the next PBNs in ascending order, at most `most`. It goes on where the
    /// last call ended, and begins at the front again after the end.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Pbn> {
        let mut taken = Vec::new();
        let words = self.words.len();
        let mut left = words;
        while taken.len() < most && self.count > 0 && left > 0 {
            if self.cursor >= words {
                self.cursor = 0;
            }
            let Some(bits) = self.words.get_mut(self.cursor) else { break };
            while *bits != 0 && taken.len() < most {
                let number = self.cursor as u32 * 64 + bits.trailing_zeros();
                *bits &= *bits - 1;
                self.count -= 1;
                taken.extend(Pbn::new(number));
            }
            if *bits == 0 {
                self.cursor += 1;
                left -= 1;
            }
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
                let pbn = Pbn::new(number).unwrap();
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
