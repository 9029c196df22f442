//! Published blocks that the pool wants to move: they are taken out of the index before.

use super::Blocks;
use crate::record::BlockState;
use gemelo_format::Pbn;

impl Blocks {
    /// Returns whether a block may become the pool's own when [`Self::want`] asks for it.
    pub(crate) fn may_come_back(&self, pbn: Pbn) -> bool {
        self.kind(pbn) == Some(BlockState::Published)
            && !self.unreferenced.contains(pbn)
            && !self.used_by_others.contains(pbn)
    }

    /// Has blocks withdrawn, as far as no other member uses them.
    pub(crate) fn want(&mut self, pbns: &[Pbn]) {
        for pbn in pbns {
            if self.may_come_back(*pbn) && !self.releasing.contains_key(pbn) {
                self.wanted.insert(*pbn);
            }
        }
    }

    /// Returns blocks that are to be withdrawn.
    pub(crate) fn wanted(&self, most: usize) -> Vec<Pbn> {
        self.wanted.after(None, most)
    }

    /// Notes that it is decided about these blocks.
    pub(crate) fn end_wanted(&mut self, pbns: &[Pbn]) {
        for pbn in pbns {
            self.wanted.remove(*pbn);
        }
    }

    /// Returns whether blocks are to be withdrawn.
    pub(crate) const fn has_wanted(&self) -> bool {
        self.wanted.len() > 0
    }

    /// Ends the withdrawal of a block that other members use.
    pub(crate) fn keep_published(&mut self, pbn: Pbn) {
        self.used_by_others.insert(pbn);
        self.note_due(pbn);
    }

    /// Notes that a block has left the index. A content that stays there nevertheless is published
    /// again by [`Self::retry`].
    pub(crate) fn withdraw(&mut self, pbn: Pbn) {
        let is_referenced = self.kept.contains(pbn) && !self.unreferenced.contains(pbn);
        self.free(pbn);
        if is_referenced {
            self.postponed.insert(pbn);
        }
    }
}
