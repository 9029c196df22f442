//! The slots of the metadata disk that are in use.

use gemelo_format::Slot;
use std::ops::Range;

/// SlotWords of a piece of the bitmap.
const PIECE_WORDS: usize = 512;

/// The words of a bitmap, in pieces. A damaged link may name any slot, so a piece takes memory only
/// if one of its slots is in use.
#[derive(Debug, Default)]
struct SlotWords {
    pieces: Vec<Option<Box<[u64; PIECE_WORDS]>>>,
    /// The number of words up to the last one that was in use.
    len: usize,
}

impl SlotWords {
    fn get(&self, word: usize) -> u64 {
        let piece = self.pieces.get(word / PIECE_WORDS).and_then(Option::as_deref);
        piece.map_or(0, |words| words[word % PIECE_WORDS])
    }

    fn get_mut(&mut self, word: usize) -> &mut u64 {
        self.len = self.len.max(word + 1);
        let piece = word / PIECE_WORDS;
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let words = self.pieces[piece].get_or_insert_with(|| Box::new([0; PIECE_WORDS]));
        &mut words[word % PIECE_WORDS]
    }

    /// The first word of a range that has a free slot.
    fn first_free(&self, mut words: Range<usize>) -> Option<usize> {
        words.find(|word| self.get(*word) != u64::MAX)
    }
}

/// A bitmap of slots.
///
/// A checkpoint of random changes frees slots far from each other. Were they filled in their order,
/// each page of a later checkpoint would be a write of its own. So a checkpoint takes the emptiest
/// words first, as long as they are on the disk: many pages go into one write, and the slots that
/// are left have time to become more.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// A set bit is a slot in use; bit n of word w is slot 64·w + n + 1.
    words: SlotWords,
    in_use: u64,
    /// SlotWords that the checkpoint fills first, in this order, and the one that is its turn.
    order: Vec<u32>,
    turn: usize,
    /// The order is yet to be made.
    has_begun: bool,
    /// The first slots, which are on the disk.
    allocated: u64,
    /// Other words are filled from this one on.
    cursor: usize,
}

impl Slots {
    /// Notes that the first slots have their space on the disk.
    pub(crate) const fn note_allocated(&mut self, slots: u64) {
        self.allocated = slots;
    }

    pub(crate) const fn in_use(&self) -> u64 {
        self.in_use
    }

    /// Begins a checkpoint. Its order is made when it takes its first slot, without the locks that
    /// others need now.
    pub(crate) fn rewind(&mut self) {
        (self.has_begun, self.cursor, self.turn) = (true, 0, 0);
        self.order.clear();
    }

    /// Orders the words whose slots are all on the disk, the emptiest first.
    fn make_order(&mut self) {
        let words = u32::try_from(self.allocated / 64).unwrap_or(u32::MAX);
        let mut by_use = [const { Vec::new() }; 64];
        for word in 0..words {
            let bits = self.words.get(word as usize);
            if let Some(words) = by_use.get_mut(bits.count_ones() as usize) {
                words.push(word);
            }
        }
        self.order = by_use.concat();
    }

    /// Returns the next word of the order with a free slot.
    fn next_in_order(&mut self) -> Option<usize> {
        if std::mem::take(&mut self.has_begun) {
            self.make_order();
        }
        while let Some(word) = self.order.get(self.turn).map(|word| *word as usize) {
            if self.words.get(word) != u64::MAX {
                return Some(word);
            }
            self.turn += 1;
        }
        None
    }

    /// Returns the first word with a free slot from the cursor on, or a new one.
    fn next_of_all(&mut self) -> usize {
        let (start, end) = (self.cursor, self.words.len);
        let found = self.words.first_free(start..end);
        let word = found.or_else(|| self.words.first_free(0..start)).unwrap_or(end);
        self.cursor = word;
        word
    }

    /// Takes a free slot. Returns `None` if all slot numbers are in use.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let word = self.next_in_order().unwrap_or_else(|| self.next_of_all());
        let bits = self.words.get_mut(word);
        let bit = bits.trailing_ones();
        assert!(bit < u64::BITS, "a word that was found has a free slot");
        let slot = Slot::new(u32::try_from(word as u64 * 64 + u64::from(bit) + 1).ok()?)?;
        *bits |= 1 << bit;
        self.in_use += 1;
        Some(slot)
    }

    /// Marks a slot as used. Returns whether it was free.
    pub(crate) fn claim(&mut self, slot: Slot) -> bool {
        let (word, bit) = Self::place(slot);
        let bits = self.words.get_mut(word);
        let was_free = *bits & bit == 0;
        *bits |= bit;
        self.in_use += u64::from(was_free);
        was_free
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let (word, bit) = Self::place(slot);
        let bits = self.words.get_mut(word);
        assert!(*bits & bit != 0, "slot {} is in use until it is released", slot.number());
        *bits &= !bit;
        self.in_use -= 1;
    }

    fn place(slot: Slot) -> (usize, u64) {
        let bit = slot.number() - 1;
        ((bit / 64) as usize, 1 << (bit % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_given_in_order_and_again_when_released() {
        let mut slots = Slots::default();
        let given: Vec<u32> = (0..130).map(|_| slots.take().unwrap().number()).collect();
        assert_eq!(given, (1..=130).collect::<Vec<_>>());
        slots.release(Slot::new(7).unwrap());
        assert_eq!(slots.in_use(), 129);
        slots.rewind();
        assert_eq!(slots.take().map(Slot::number), Some(7));
        assert_eq!(slots.take().map(Slot::number), Some(131));
        assert!(!slots.claim(Slot::new(7).unwrap()));
        assert!(slots.claim(Slot::new(1000).unwrap()));
    }

    #[test]
    fn a_slot_far_from_all_others_takes_little_memory() {
        let mut slots = Slots::default();
        assert!(slots.claim(Slot::new(u32::MAX).unwrap()));
        assert!(!slots.claim(Slot::new(u32::MAX).unwrap()));
        let pieces = slots.words.pieces.iter().filter(|piece| piece.is_some()).count();
        assert_eq!(pieces, 1);
        assert_eq!(slots.take().map(Slot::number), Some(1), "those before it are free");
        assert_eq!(slots.in_use(), 2);
    }

    #[test]
    fn a_checkpoint_fills_the_emptiest_words_that_are_on_the_disk() {
        let mut slots = Slots::default();
        let take = |slots: &mut Slots, count| {
            (0..count).filter_map(|_| slots.take()).map(Slot::number).collect::<Vec<_>>()
        };
        assert_eq!(take(&mut slots, 256), (1..=256).collect::<Vec<_>>());
        let release = |slots: &mut Slots, numbers: &mut dyn Iterator<Item = u32>| {
            numbers.for_each(|number| slots.release(Slot::new(number).unwrap()));
        };
        release(&mut slots, &mut [3, 70, 100].into_iter());
        release(&mut slots, &mut (129..=190));
        slots.note_allocated(5 * 64 + 63);
        slots.rewind();
        assert_eq!(take(&mut slots, 64), (257..=320).collect::<Vec<_>>(), "a word without a page");
        assert_eq!(take(&mut slots, 62), (129..=190).collect::<Vec<_>>());
        assert_eq!(
            take(&mut slots, 4),
            [70, 100, 3, 321],
            "the sixth word is not there as a whole"
        );
        slots.rewind();
        assert_eq!(take(&mut slots, 1), [322]);
    }

    #[test]
    #[should_panic(expected = "in use until it is released")]
    fn a_slot_is_not_released_twice() {
        let mut slots = Slots::default();
        let slot = slots.take().unwrap();
        slots.release(slot);
        slots.release(slot);
    }
}
