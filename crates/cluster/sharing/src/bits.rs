//! A set of PBNs as a bitmap: one bit for each block of the store.
//!
//! The bits are in pages. In a store that compresses, PBNs of the same slot follow one another for
//! a page at least, so slots that few blocks use take no memory.

use gemelo_format::Pbn;

/// Words of a page.
const PAGE_WORDS: usize = 64;

type Page = Box<[u64; PAGE_WORDS]>;

/// A set of PBNs. It grows with the largest PBN.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    pages: Vec<Option<Page>>,
    count: u64,
    /// The word at which [`Self::take`] goes on.
    cursor: usize,
}

const fn place(pbn: Pbn) -> (usize, u64) {
    (pbn.index() / 64, 1 << (pbn.index() % 64))
}

/// The PBNs of a word, in ascending order.
fn in_word(word: usize, bits: u64) -> impl Iterator<Item = Pbn> {
    let set = (0..64).filter(move |bit| bits >> bit & 1 == 1);
    set.filter_map(move |bit| Pbn::new((word * 64 + bit) as u64))
}

impl Bits {
    fn word(&self, word: usize) -> Option<u64> {
        self.pages.get(word / PAGE_WORDS)?.as_ref()?.get(word % PAGE_WORDS).copied()
    }

    fn word_mut(&mut self, word: usize) -> Option<&mut u64> {
        self.pages.get_mut(word / PAGE_WORDS)?.as_mut()?.get_mut(word % PAGE_WORDS)
    }

    /// The words from this one on that have bits.
    fn words_from(&self, first: usize) -> impl Iterator<Item = (usize, u64)> {
        let pages = self.pages.iter().enumerate().skip(first / PAGE_WORDS);
        let words =
            pages.filter_map(|(at, page)| Some((at, page.as_ref()?))).flat_map(|(at, page)| {
                page.iter().enumerate().map(move |(word, bits)| (at * PAGE_WORDS + word, *bits))
            });
        words.filter(move |(word, bits)| *word >= first && *bits != 0)
    }

    /// Adds a PBN. Returns whether it is new.
    pub(crate) fn insert(&mut self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        let page = word / PAGE_WORDS;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let Some(page) = self.pages.get_mut(page) else { return false };
        let page = page.get_or_insert_with(|| Box::new([0; PAGE_WORDS]));
        let Some(bits) = page.get_mut(word % PAGE_WORDS) else { return false };
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.count += u64::from(is_new);
        is_new
    }

    /// Removes a PBN. Returns whether it was there.
    pub(crate) fn remove(&mut self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        let Some(bits) = self.word_mut(word) else { return false };
        let was_there = *bits & bit != 0;
        *bits &= !bit;
        self.count -= u64::from(was_there);
        was_there
    }

    pub(crate) fn contains(&self, pbn: Pbn) -> bool {
        let (word, bit) = place(pbn);
        self.word(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Returns all PBNs in ascending order.
    pub(crate) fn all(&self) -> Vec<Pbn> {
        self.after(None, usize::MAX)
    }

    /// Returns the next PBNs in ascending order, at most `most`.
    pub(crate) fn after(&self, pbn: Option<Pbn>, most: usize) -> Vec<Pbn> {
        let first = pbn.map_or(0, |pbn| pbn.index() + 1);
        let pbns = self.words_from(first / 64).flat_map(|(word, bits)| in_word(word, bits));
        pbns.filter(|pbn| pbn.index() >= first).take(most).collect()
    }

    pub(crate) const fn len(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        let pages = self.pages.iter().flatten().count() * PAGE_WORDS * size_of::<u64>();
        (pages + self.pages.capacity() * size_of::<Option<Page>>()) as u64
    }

    /// Removes and returns the next PBNs in ascending order, at most `most`. It goes on where the
    /// last call ended, and begins at the front again after the end.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Pbn> {
        let mut taken = Vec::new();
        let mut is_at_front = false;
        while taken.len() < most && self.count > 0 {
            let next = self.words_from(self.cursor).next();
            let Some((word, bits)) = next else {
                if std::mem::replace(&mut is_at_front, true) {
                    break;
                }
                self.cursor = 0;
                continue;
            };
            let some: Vec<Pbn> = in_word(word, bits).take(most - taken.len()).collect();
            for pbn in &some {
                self.remove(*pbn);
            }
            self.cursor = word;
            taken.extend(some);
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
