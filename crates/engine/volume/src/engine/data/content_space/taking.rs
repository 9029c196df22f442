//! Free blocks that a packer takes.

use super::ContentSpace;
use gemelo_store::{FreeBlocks, block_number};

/// With fewer free blocks none is taken ahead.
const MIN_FREE_AHEAD: u64 = 32;

/// Free blocks that a packer takes for writers.
pub(in super::super) struct Taking<F> {
    /// Calls with the locked space.
    pub(in super::super) with: F,
    pub(in super::super) taken: Vec<u32>,
}

impl<F: FnMut(&mut dyn FnMut(&mut ContentSpace))> FreeBlocks for Taking<F> {
    fn take(&mut self) -> Option<u32> {
        let mut pbns = Vec::new();
        (self.with)(&mut |space| {
            if space.blocks.free() > 0 {
                space.blocks.take(1, &mut pbns);
            }
        });
        let block = pbns.first()?.narrow();
        self.taken.push(block);
        Some(block)
    }

    fn take_this(&mut self, block: u32, ahead: bool) -> bool {
        let kept = if ahead { MIN_FREE_AHEAD } else { 0 };
        let mut was_free = false;
        (self.with)(&mut |space| {
            was_free = u64::from(block) < space.blocks.blocks()
                && space.blocks.free() > kept
                && block_number(block).is_some_and(|number| space.blocks.claim(number));
        });
        if was_free {
            self.taken.push(block);
        }
        was_free
    }
}

/// Blocks that were taken before, in runs.
pub(in super::super) struct Runs(pub(in super::super) std::vec::IntoIter<u32>);

impl FreeBlocks for Runs {
    fn take(&mut self) -> Option<u32> {
        self.0.next()
    }

    fn take_this(&mut self, block: u32, _ahead: bool) -> bool {
        self.0.as_slice().first() == Some(&block) && self.0.next().is_some()
    }
}
