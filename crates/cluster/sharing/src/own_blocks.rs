//! The blocks of the open pool, whose space is given back once all of their contents are borrowed.
//!
//! In a store that compresses, contents share blocks. A block stays as long as one of them is read
//! there, and the space of the others with it.

use crate::error::Result;
use crate::shared::Shared;
use gemelo_format::Pbn;
use gemelo_volume::{LeftBlocks, Pool};

/// Contents that are looked at in a round.
const LOOSENED_AT_ONCE: usize = 16_384;

/// The blocks of the open pool.
pub(crate) trait OwnBlocks {
    /// Looks for blocks of these contents all of whose contents lie elsewhere.
    fn left_blocks(&self, pbns: &[Pbn], is_elsewhere: &dyn Fn(&Pbn) -> bool) -> LeftBlocks;

    /// Ends all changes of the pool for a reason in words.
    fn stop(&self, why: String);
}

impl OwnBlocks for Pool {
    fn left_blocks(&self, pbns: &[Pbn], is_elsewhere: &dyn Fn(&Pbn) -> bool) -> LeftBlocks {
        Self::left_blocks(self, pbns, is_elsewhere)
    }

    fn stop(&self, why: String) {
        self.stop_by_owner(why);
    }
}

impl Shared {
    /// Gives up the blocks in which borrowed contents alone are left.
    pub(crate) fn discard_loosened(&self, own: &dyn OwnBlocks) -> Result<()> {
        let pbns = self.blocks.write().take_loosened(LOOSENED_AT_ONCE);
        let discarded = self.discard(pbns.clone(), own);
        if discarded.is_err() {
            let mut blocks = self.blocks.write();
            pbns.into_iter().for_each(|pbn| blocks.loosen(pbn));
        }
        discarded
    }
}
