//! The collector's second half: the space of free blocks is given back to the system.
//!
//! Its first half, that a block without a reference becomes free, is a part of commits and pins.

use crate::bounds::spend;
use crate::guard::Guard;
use crate::numbers::{Content, Pbn};
use crate::protocol::Step;
use crate::set::Set;

/// The collector takes a free block, whose space is given back.
pub(crate) fn begin_discard(step: &mut Step<'_>, pbn: Pbn) -> Option<()> {
    if !step.state.space.free.has(pbn.0)
        || !step.state.space.discarding.is_empty()
        || !spend(&mut step.state.budget.discards)
    {
        return None;
    }
    step.state.space.discarding.add(pbn.0);
    if step.has(Guard::DiscardTakesBlocks) {
        step.state.space.free.remove(pbn.0);
    }
    Some(())
}

/// The space of the block was given back: its content is lost.
pub(crate) fn end_discard(step: &mut Step<'_>) -> Option<()> {
    let number = step.state.space.discarding.numbers().next()?;
    step.state.space.discarding = Set::EMPTY;
    let stored = &mut step.state.store[usize::from(number)];
    stored.content = Content::ZEROS;
    stored.medium = Set::of(Content::ZEROS.0);
    if step.has(Guard::DiscardTakesBlocks) {
        step.free(Pbn(number));
    }
    Some(())
}
