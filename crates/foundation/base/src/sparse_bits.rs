//! A set of numbers as a bitmap, which takes memory only near the numbers that it has.

use std::ops::Range;

/// Numbers of a word.
const WORD_BITS: u64 = u64::BITS as u64;

#[derive(Debug)]
struct Piece<const WORDS: usize> {
    words: [u64; WORDS],
    ones: u32,
}

impl<const WORDS: usize> Piece<WORDS> {
    fn new() -> Box<Self> {
        Box::new(Self { words: [0; WORDS], ones: 0 })
    }
}

/// A set of numbers, in pieces of `WORDS` words of 64 numbers: one where it has a number, and a
/// pointer for each below the highest.
#[derive(Debug, Default)]
pub struct PagedBits<const WORDS: usize> {
    pieces: Vec<Option<Box<Piece<WORDS>>>>,
    ones: u64,
}

/// A set of numbers in pieces of 4 KiB.
pub type SparseBits = PagedBits<512>;

impl<const WORDS: usize> PagedBits<WORDS> {
    /// Numbers of a piece.
    const PIECE_BITS: u64 = WORDS as u64 * WORD_BITS;

    /// The piece of a number, and the word there.
    const fn place(number: u64) -> (usize, usize) {
        let word = (number / WORD_BITS) as usize;
        (word / WORDS, word % WORDS)
    }

    /// The number of numbers in the set.
    #[must_use]
    pub const fn ones(&self) -> u64 {
        self.ones
    }

    /// The bytes of memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let pieces = self.pieces.iter().flatten().count() * size_of::<Piece<WORDS>>();
        (pieces + self.pieces.capacity() * size_of::<Option<Box<Piece<WORDS>>>>()) as u64
    }

    fn piece(&self, piece: usize) -> Option<&Piece<WORDS>> {
        self.pieces.get(piece)?.as_deref()
    }

    /// Returns whether it has a number.
    #[inline]
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        self.word(number) & (1 << (number % WORD_BITS)) != 0
    }

    /// The bits of the word with this number, which is a bit of it.
    #[inline]
    #[must_use]
    pub fn word(&self, number: u64) -> u64 {
        let (piece, word) = Self::place(number);
        self.piece(piece).and_then(|piece| piece.words.get(word)).copied().unwrap_or(0)
    }

    /// The first number at or after this one that it may have: the same one, or that of another
    /// piece.
    #[must_use]
    pub fn skip_empty_piece(&self, number: u64) -> u64 {
        let (piece, _) = Self::place(number);
        if self.piece(piece).is_some() { number } else { (piece as u64 + 1) * Self::PIECE_BITS }
    }

    /// The first number at or after this one that it has.
    #[must_use]
    pub fn next(&self, from: u64) -> Option<u64> {
        let end = self.pieces.len() as u64 * Self::PIECE_BITS;
        let mut next = from;
        while next < end {
            next = self.skip_empty_piece(next);
            let ahead = self.word(next) >> (next % WORD_BITS);
            if ahead != 0 {
                return Some(next + u64::from(ahead.trailing_zeros()));
            }
            next = (next / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }

    /// Adds a number. Returns whether it is new.
    pub fn insert(&mut self, number: u64) -> bool {
        self.change(number, |before| before | 1 << (number % WORD_BITS))
    }

    /// Removes a number. Returns whether it was there.
    pub fn remove(&mut self, number: u64) -> bool {
        self.has(number) && self.change(number, |before| before & !(1 << (number % WORD_BITS)))
    }

    /// Removes numbers: those of the set bits, in the word with this number.
    pub fn remove_in_word(&mut self, number: u64, bits: u64) {
        if self.word(number) & bits != 0 {
            self.change(number, |before| before & !bits);
        }
    }

    /// Adds or removes a range of numbers.
    pub fn set(&mut self, numbers: Range<u64>, is_member: bool) {
        let mut number = numbers.start;
        while number < numbers.end {
            let end = (number / WORD_BITS * WORD_BITS + WORD_BITS).min(numbers.end);
            let bits = u64::MAX >> (WORD_BITS - (end - number)) << (number % WORD_BITS);
            if is_member {
                self.change(number, |before| before | bits);
            } else {
                self.remove_in_word(number, bits);
            }
            number = end;
        }
    }

    /// Changes the word with this number. Returns whether that changes anything.
    fn change(&mut self, number: u64, change: impl FnOnce(u64) -> u64) -> bool {
        let (at, word) = Self::place(number);
        if at >= self.pieces.len() {
            self.pieces.resize_with(at + 1, || None);
        }
        let Some(slot) = self.pieces.get_mut(at) else { return false };
        let piece = slot.get_or_insert_with(Piece::new);
        let Some(word) = piece.words.get_mut(word) else { return false };
        let before = *word;
        *word = change(before);
        let (fewer, more) = (before.count_ones(), word.count_ones());
        let has_changed = before != *word;
        piece.ones = piece.ones + more - fewer;
        self.ones = self.ones + u64::from(more) - u64::from(fewer);
        if piece.ones == 0 {
            *slot = None;
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn it_does_what_a_set_does_and_takes_memory_where_it_has_numbers() {
        let (mut bits, mut set, mut random) =
            (SparseBits::default(), BTreeSet::new(), Random::new(4));
        let far = 1 << 36;
        for _ in 0..3000 {
            let first = [0, far - 200_000][random.below(2) as usize] + random.below(200_000);
            let end = first + random.below(300);
            match random.below(4) {
                0 => assert_eq!(bits.insert(first), set.insert(first)),
                1 if random.below(2) == 0 => {
                    assert_eq!(bits.remove(first), set.remove(&first));
                }
                1 => {
                    bits.set(first..end, true);
                    set.extend(first..end);
                }
                2 => {
                    bits.set(first..end, false);
                    set.retain(|number| !(first..end).contains(number));
                }
                _ => {
                    bits.remove_in_word(first, u64::MAX);
                    set.retain(|number| number / 64 != first / 64);
                }
            }
            assert_eq!((bits.ones(), bits.has(first)), (set.len() as u64, set.contains(&first)));
            assert_eq!(bits.next(end), set.range(end..).next().copied());
        }
        assert!((0..200_000).all(|number| bits.has(number) == set.contains(&number)));
        assert!((far - 200_000..far + 9).all(|number| bits.has(number) == set.contains(&number)));
        assert!(bits.pieces.iter().flatten().count() <= 16);
        assert_eq!(bits.skip_empty_piece(far / 2 + 5), far / 2 + SparseBits::PIECE_BITS);
        bits.set(0..far, false);
        assert_eq!((bits.ones(), bits.pieces.iter().flatten().count()), (0, 0));
        assert_eq!(bits.next(0), None);
    }
}
