//! PBNs that are not given out any more, because the store becomes smaller.
//!
//! A *barred* PBN that nobody uses is *parked*: it counts as used, and is given out to nobody. One
//! that is in use is parked when it becomes free.

use super::{Space, WORD_BLOCKS, bits, place, word_end};
use gemelo_base::SparseBits;
use gemelo_format::Pbn;
use std::ops::Range;

/// The PBNs that are barred, and those of them that nobody uses.
#[derive(Debug, Default)]
pub(super) struct BarredPbns {
    all: SparseBits,
    parked: SparseBits,
}

impl BarredPbns {
    /// Parks a PBN that becomes free, if it is barred.
    pub(super) fn parks(&mut self, number: u64) -> bool {
        self.all.has(number) && {
            let is_new = self.parked.insert(number);
            assert!(is_new, "block {number} is freed twice");
            true
        }
    }
}

impl Space {
    /// Bars the PBNs of a range. None of them is being discarded.
    pub(crate) fn bar(&mut self, pbns: Range<u64>) {
        let (mut number, end) = (pbns.start.max(1), pbns.end.min(self.blocks));
        while number < end {
            let word = number..word_end(number).min(end);
            let barred = bits(word.clone());
            let before = self.change(place(number).0, |used| used | barred);
            let free = barred & !before;
            self.barred.all.set(word.clone(), true);
            for number in word.clone().filter(|number| free & 1 << (number % WORD_BLOCKS) != 0) {
                self.barred.parked.insert(number);
            }
            number = word.end;
        }
        self.check();
    }

    /// Gives all parked PBNs out again. Their space was not given back to the system.
    pub(crate) fn unbar(&mut self) {
        let BarredPbns { parked, .. } = std::mem::take(&mut self.barred);
        let mut number = parked.skip_empty_piece(0);
        while number < self.blocks {
            if parked.has(number)
                && let Some(pbn) = Pbn::new(number)
            {
                self.release(pbn);
            }
            number = parked.skip_empty_piece(number + 1);
        }
    }

    /// Parks a PBN in place of another one, which is in use for ever from then on.
    pub(crate) fn move_fixed(&mut self, from: u64, to: u64) {
        assert!(self.is_parked(to) && self.is_barred(from), "blocks {from} and {to} are barred");
        self.barred.parked.set(to..to + 1, false);
        self.barred.parked.insert(from);
    }

    /// The number of free PBNs in a range.
    pub(crate) fn free_in(&self, pbns: &Range<u64>) -> u64 {
        let (mut number, end) = (pbns.start, pbns.end.min(self.blocks));
        let mut free = 0;
        while number < end {
            let word = number..word_end(number).min(end);
            let used = self.used.word(place(number).0);
            free += u64::from((bits(word.clone()) & !used).count_ones());
            number = word.end;
        }
        free
    }

    /// The number of parked PBNs.
    pub(crate) const fn parked(&self) -> u64 {
        self.barred.parked.ones()
    }

    pub(crate) fn is_parked(&self, number: u64) -> bool {
        self.barred.parked.has(number)
    }

    pub(crate) fn is_barred(&self, number: u64) -> bool {
        self.barred.all.has(number)
    }

    /// Forgets the PBNs from this one on, of which none is free.
    pub(crate) fn cut(&mut self, blocks: u64) {
        assert!(blocks <= self.blocks, "a store is cut to a smaller size");
        self.used.resize(blocks.div_ceil(WORD_BLOCKS) as usize);
        (self.blocks, self.unswept) = (blocks, self.unswept.min(blocks));
        (self.barred, self.run) = (BarredPbns::default(), 0..0);
        self.check();
    }
}
