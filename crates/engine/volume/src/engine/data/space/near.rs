//! Free PBNs near given ones: the holes that overwritten blocks have left among their neighbours.

use super::used::WORD_BLOCKS;
use super::{Space, place};
use gemelo_format::Pbn;

/// Words that are looked at on each side: 1 MiB of blocks of 4 KiB in all.
const WORDS_ASIDE: u64 = 2;

impl Space {
    /// Takes a PBN near this one that was freed; [`None`] if there is none. One that was never used
    /// has no space yet, which the write would wait for. Words of which all PBNs are free are left
    /// alone: they are for those who write much in a row.
    pub(crate) fn take_near(&mut self, pbn: Pbn) -> Option<Pbn> {
        let middle = pbn.number() / WORD_BLOCKS;
        let aside =
            (1..=WORDS_ASIDE).flat_map(|by| [middle.checked_add(by), middle.checked_sub(by)]);
        let words = std::iter::once(Some(middle)).chain(aside).flatten();
        let number = words.into_iter().find_map(|word| {
            let free = self.freed.word(word.checked_mul(WORD_BLOCKS)?);
            if free == 0 || free == u64::MAX {
                return None;
            }
            // From the beginning of a word behind it, and from the end of one before it.
            let last = u64::BITS - 1 - free.leading_zeros();
            let bit = if word < middle { last } else { free.trailing_zeros() };
            Some(word * WORD_BLOCKS + u64::from(bit))
        })?;
        let (word, bit) = place(number);
        let before = self.change(word, |used| used | bit);
        assert!(before & bit == 0, "block {number} was given out twice");
        Pbn::new(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pbn(number: u64) -> Pbn {
        Pbn::new(number).unwrap()
    }

    #[test]
    fn a_hole_near_a_block_is_taken_and_a_free_run_is_left_alone() {
        let mut space = Space::new(1000);
        let mut taken = Vec::new();
        space.take(511, &mut taken);
        assert_eq!(space.take_near(pbn(300)), None, "nothing was freed");
        assert_eq!(space.take_near(pbn(511)), None, "what is behind it has no space");
        (128..192).for_each(|number| space.release(pbn(number)));
        assert_eq!(space.take_near(pbn(130)), None, "a run is left alone");
        taken.clear();
        assert!(space.take_free_run(128, 64, 64).0.is_some());
        for number in [100, 200, 210, 500] {
            space.release(pbn(number));
        }
        let free = space.free();
        assert_eq!(space.take_near(pbn(300)), Some(pbn(210)));
        assert_eq!(space.take_near(pbn(300)), Some(pbn(200)));
        assert_eq!(space.take_near(pbn(300)), None, "the others are too far");
        assert_eq!(space.take_near(pbn(101)), Some(pbn(100)));
        assert_eq!(space.take_near(pbn(400)), Some(pbn(500)));
        assert_eq!(space.free(), free - 4);
        assert_eq!(space.freed(), 0, "what was taken has no space to give back");
        let number = |number: u64| space.is_used(pbn(number));
        assert!([100, 200, 210, 500].map(number) == [true; 4]);
    }

    #[test]
    fn the_ends_of_a_store_have_nothing_beyond_them() {
        let mut space = Space::new(130);
        let mut taken = Vec::new();
        space.take(129, &mut taken);
        assert_eq!((space.take_near(pbn(1)), space.take_near(pbn(129))), (None, None));
        assert_eq!(space.take_near(pbn(5000)), None);
        space.release(pbn(1));
        space.release(pbn(129));
        assert_eq!(space.take_near(pbn(2)), Some(pbn(1)));
        assert_eq!(space.take_near(pbn(128)), Some(pbn(129)));
    }
}
