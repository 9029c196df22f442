//! The blocks of the data path that the cleaner has for itself.

use super::DataPath;

impl DataPath {
    /// Fills the cleaner's reserve, with the longest runs of free blocks that there are.
    pub(super) fn fill_reserve(&self) {
        let mut space = self.space.lock();
        if !self.is_packed() {
            return;
        }
        space.set_reserve();
        let goal = space.reserve_goal();
        // Writers begin at the front of a fresh store.
        let end = space.blocks().blocks() as u32;
        space.fit_reserve(end.saturating_sub(goal), goal);
        drop(space);
        let mut least = goal;
        while least > 0 {
            self.fit_reserve(least);
            least /= 2;
        }
    }

    /// Looks for a free run of at least `least` blocks if the cleaner's reserve has none.
    fn fit_reserve(&self, least: u32) {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.space.lock().fit_reserve(from, least);
        }
    }

    /// Prepares the cleaner's reserve for a pass.
    pub(crate) fn begin_cleaning(&self) {
        let mut space = self.space.lock();
        space.expect_emptied(&[], true);
        let goal = space.reserve_goal();
        drop(space);
        self.fit_reserve(goal);
    }

    /// Notes that the cleaner moves all contents of these blocks, which are its own then.
    pub(crate) fn expect_emptied(&self, blocks: &[u32]) {
        self.space.lock().expect_emptied(blocks, false);
    }

    /// Gives blocks to writers that the cleaner does not need.
    pub(crate) fn give_surplus(&self) {
        self.space.lock().give_surplus();
    }

    /// The lengths of the runs of the cleaner's blocks, the longest one first, and of all together
    /// when none is missing.
    pub(crate) fn reserved_runs(&self) -> (Vec<u64>, u64) {
        let space = self.space.lock();
        (space.reserved_runs(), u64::from(space.reserve_goal()))
    }
}
