//! The slots of the metadata disk that are in use.

use gemelo_base::SparseBits;
use gemelo_format::Slot;

/// Slots of a word of the bitmap.
const WORD_SLOTS: u64 = u64::BITS as u64;

/// A bitmap of slots. A damaged link may name any slot, so it takes memory only near those in use.
///
/// A checkpoint of random changes frees slots far from each other. Were they filled in their order,
/// each page of a later checkpoint would be a write of its own. So a checkpoint takes the emptiest
/// words first, as long as they are on the disk: many pages go into one write, and the slots that
/// are left have time to become more.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// A set bit is a slot in use; bit n of word w is slot 64·w + n + 1.
    bits: SparseBits,
    /// The number of words up to the last one that was in use.
    words: u64,
    /// Words that the checkpoint fills first, in this order, and the one that is its turn.
    order: Vec<u32>,
    turn: usize,
    /// The order is yet to be made.
    has_begun: bool,
    /// The first slots, which are on the disk.
    allocated: u64,
    /// Other words are filled from this one on.
    cursor: u64,
}

impl Slots {
    /// Notes that the first slots have their space on the disk.
    pub(crate) const fn note_allocated(&mut self, slots: u64) {
        self.allocated = slots;
    }

    pub(crate) const fn in_use(&self) -> u64 {
        self.bits.ones()
    }

    fn word(&self, word: u64) -> u64 {
        self.bits.word(word * WORD_SLOTS)
    }

    /// Begins a checkpoint. Its order is made when it takes its first slot, without the locks that
    /// others need now.
    pub(crate) fn rewind(&mut self) {
        (self.has_begun, self.cursor, self.turn) = (true, 0, 0);
        self.order.clear();
    }

    /// Orders the words whose slots are all on the disk, the emptiest first.
    fn make_order(&mut self) {
        let words = u32::try_from(self.allocated / WORD_SLOTS).unwrap_or(u32::MAX);
        let mut by_use = [const { Vec::new() }; 64];
        for word in 0..words {
            let in_use = self.word(word.into()).count_ones();
            if let Some(words) = by_use.get_mut(in_use as usize) {
                words.push(word);
            }
        }
        self.order = by_use.concat();
    }

    /// Returns the next word of the order with a free slot.
    fn next_in_order(&mut self) -> Option<u64> {
        if std::mem::take(&mut self.has_begun) {
            self.make_order();
        }
        while let Some(word) = self.order.get(self.turn).map(|word| u64::from(*word)) {
            if self.word(word) != u64::MAX {
                return Some(word);
            }
            self.turn += 1;
        }
        None
    }

    /// Returns the first word with a free slot from the cursor on, or a new one.
    fn next_of_all(&mut self) -> u64 {
        let (start, end) = (self.cursor, self.words);
        let has_free = |word: &u64| self.word(*word) != u64::MAX;
        let found = (start..end).find(has_free).or_else(|| (0..start).find(has_free));
        self.cursor = found.unwrap_or(end);
        self.cursor
    }

    /// Takes a free slot. Returns `None` if all slot numbers are in use.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        let word = self.next_in_order().unwrap_or_else(|| self.next_of_all());
        let bit = u64::from(self.word(word).trailing_ones());
        assert!(bit < WORD_SLOTS, "a word that was found has a free slot");
        let slot = Slot::new(u32::try_from(word * WORD_SLOTS + bit + 1).ok()?)?;
        self.claim(slot);
        Some(slot)
    }

    /// Marks a slot as used. Returns whether it was free.
    pub(crate) fn claim(&mut self, slot: Slot) -> bool {
        let bit = Self::bit(slot);
        self.words = self.words.max(bit / WORD_SLOTS + 1);
        self.bits.insert(bit)
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        let was_in_use = self.bits.remove(Self::bit(slot));
        assert!(was_in_use, "slot {} is in use until it is released", slot.number());
    }

    fn bit(slot: Slot) -> u64 {
        u64::from(slot.number()) - 1
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
        assert!(slots.bits.bytes() < 4 << 20);
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
