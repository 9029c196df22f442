//! The blocks that the cleaner has for itself.
//!
//! Contents are packed densely in free blocks in a row alone, and writers leave no such run in a
//! pool that is nearly full. So the map of free blocks counts those of the reserve as used. The
//! cleaner moves contents to them, and takes blocks that it has emptied in their place.

use super::{ContentSpace, Space};
use std::collections::BTreeSet;
use std::ops::Range;

/// Fewest and most blocks of the reserve. Between them it has the square root of the store's: each
/// window that is emptied wastes a part of a block at the end of a run, so windows of fewer blocks
/// waste as much as a longer reserve takes.
const MIN_BLOCKS: u64 = 8;
const MAX_BLOCKS: u64 = 256;

/// The blocks of the cleaner; see the module.
#[derive(Debug, Default)]
pub(super) struct CleanerBlocks {
    /// They have no contents.
    blocks: BTreeSet<u32>,
    /// Blocks that the cleaner empties.
    expected: BTreeSet<u32>,
    /// The blocks that are kept.
    goal: u32,
}

impl CleanerBlocks {
    /// Returns whether a block that has just lost its last content belongs to the reserve.
    pub(super) fn adopts(&mut self, block: u32) -> bool {
        let is_expected = self.expected.remove(&block);
        if is_expected || self.blocks.len() < self.goal as usize {
            return self.blocks.insert(block);
        }
        false
    }

    pub(super) fn has(&self, block: u32) -> bool {
        self.blocks.contains(&block)
    }

    pub(super) fn len(&self) -> u64 {
        self.blocks.len() as u64
    }

    /// The blocks in runs, the longest ones last.
    fn runs(&self) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for block in self.blocks.iter().copied() {
            match runs.last_mut().filter(|run| run.end == block) {
                Some(run) => run.end += 1,
                None => runs.push(block..block + 1),
            }
        }
        runs.sort_by_key(Range::len);
        runs
    }

    fn longest_run(&self) -> Range<u32> {
        self.runs().pop().unwrap_or_default()
    }

    /// Takes out the blocks that are barred.
    pub(super) fn take_barred(&mut self, space: &Space) -> Vec<u32> {
        let is_barred = |block: &u32| space.is_barred(u64::from(*block));
        self.expected.retain(|block| !is_barred(block));
        let barred = self.blocks.iter().copied().filter(is_barred).collect();
        self.blocks.retain(|block| !is_barred(block));
        barred
    }

    /// Takes out what is more than the reserve keeps, the shortest runs first.
    fn take_surplus(&mut self) -> Vec<u32> {
        let mut surplus = self.blocks.len().saturating_sub(self.goal as usize);
        let mut taken = Vec::with_capacity(surplus);
        if surplus == 0 {
            return taken;
        }
        for run in self.runs() {
            let part = run.rev().take(surplus);
            surplus -= part.len();
            taken.extend(part);
        }
        taken.iter().for_each(|block| assert!(self.blocks.remove(block), "it was in a run"));
        taken
    }
}

impl ContentSpace {
    /// The blocks that the reserve keeps.
    pub(crate) fn reserve_goal(&self) -> u32 {
        self.slots.as_ref().map_or(0, |slots| slots.reserve.goal)
    }

    /// The lengths of the runs of the reserve, the longest one first.
    pub(crate) fn reserved_runs(&self) -> Vec<u64> {
        let runs = self.slots.as_ref().map(|slots| slots.reserve.runs()).unwrap_or_default();
        runs.into_iter().rev().map(|run| run.len() as u64).collect()
    }

    /// Sets the length of the reserve by the size of the store.
    pub(crate) fn set_reserve(&mut self) {
        let goal = self.blocks.blocks().isqrt().clamp(MIN_BLOCKS, MAX_BLOCKS) as u32;
        self.slots.iter_mut().for_each(|slots| slots.reserve.goal = goal);
    }

    /// Looks for a free run of at least `least` blocks if the reserve has none, in a part of the
    /// store. Returns where to go on.
    pub(crate) fn fit_reserve(&mut self, from: u32, least: u32) -> Option<u32> {
        let reserve = &mut self.slots.as_mut()?.reserve;
        if reserve.longest_run().len() >= least as usize && reserve.len() >= u64::from(reserve.goal)
        {
            return None;
        }
        let (run, next) = self.blocks.take_free_run(from.into(), least, reserve.goal);
        if let Some((first, count)) = run {
            reserve.blocks.extend(first.narrow()..first.narrow() + count);
            self.give_surplus();
        }
        next.map(|next| next as u32)
    }

    /// Gives blocks to writers that are more than the reserve keeps.
    pub(crate) fn give_surplus(&mut self) {
        let Some(slots) = &mut self.slots else { return };
        let surplus = slots.reserve.take_surplus();
        let numbers = surplus.into_iter().filter_map(gemelo_store::block_number);
        numbers.for_each(|number| self.blocks.release(number));
    }

    /// Notes that the cleaner moves all contents of these blocks. An earlier note is forgotten if
    /// `is_first`.
    pub(crate) fn expect_emptied(&mut self, blocks: &[u32], is_first: bool) {
        let Some(slots) = &mut self.slots else { return };
        if is_first {
            slots.reserve.expected.clear();
        }
        slots.reserve.expected.extend(blocks);
    }

    /// Takes blocks in a row out of the reserve, from the shortest run that has as many, so that
    /// the longest one stays. Without one it takes all blocks, the longest runs first.
    pub(crate) fn take_reserved(&mut self, count: u64) -> Vec<u32> {
        let Some(slots) = &mut self.slots else { return Vec::new() };
        let reserve = &mut slots.reserve;
        let runs = reserve.runs();
        let taken: Vec<u32> = match runs.iter().find(|run| run.len() as u64 >= count) {
            Some(run) => run.clone().take(count as usize).collect(),
            None => runs.into_iter().rev().flatten().collect(),
        };
        taken.iter().for_each(|block| assert!(reserve.blocks.remove(block), "it was in a run"));
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_runs_stay() {
        let blocks = [3, 4, 5, 9, 20, 21, 22, 23].into_iter().collect();
        let mut reserve = CleanerBlocks { blocks, goal: 5, ..CleanerBlocks::default() };
        assert_eq!(reserve.longest_run(), 20..24);
        assert_eq!(reserve.take_surplus(), [9, 5, 4]);
        assert_eq!((reserve.len(), reserve.take_surplus()), (5, vec![]));
    }

    #[test]
    fn blocks_are_adopted_that_are_expected_or_missing() {
        let mut reserve = CleanerBlocks { goal: 1, ..CleanerBlocks::default() };
        reserve.expected.insert(7);
        assert!(reserve.adopts(3), "it has too few");
        assert!(!reserve.adopts(4));
        assert!(reserve.adopts(7), "it is expected");
        assert!(!reserve.adopts(7));
    }
}
