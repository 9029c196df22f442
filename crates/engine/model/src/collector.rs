//! The collector's second half: the space of free blocks is given back to the system.
//!
//! Its first half, that a block without a reference becomes free, is a part of commits and pins.

use crate::bounds::spend;
use crate::guard::Guard;
use crate::numbers::{Content, Pbn};
use crate::protocol::Step;
use crate::set::Set;

impl Step<'_> {
    /// The collector takes a free block, whose space is given back.
    pub(crate) fn begin_discard(&mut self, pbn: Pbn) -> Option<()> {
        if !self.state.space.free.has(pbn.0)
            || !self.state.space.discarding.is_empty()
            || !spend(&mut self.state.budget.discards)
        {
            return None;
        }
        self.state.space.discarding.add(pbn.0);
        if self.has(Guard::DiscardTakesBlocks) {
            self.state.space.free.remove(pbn.0);
        }
        Some(())
    }

    /// The space of the block was given back: its content is lost.
    pub(crate) fn end_discard(&mut self) -> Option<()> {
        let number = self.state.space.discarding.numbers().next()?;
        self.state.space.discarding = Set::EMPTY;
        let stored = &mut self.state.store[usize::from(number)];
        stored.content = Content::ZEROS;
        stored.medium = Set::of(Content::ZEROS.0);
        if self.has(Guard::DiscardTakesBlocks) {
            self.free(Pbn(number));
        }
        Some(())
    }
}
