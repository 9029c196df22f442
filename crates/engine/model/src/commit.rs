//! Commits and checkpoints, as `engine/log/` makes them.
//!
//! One commit at a time goes to the journal: it is closed, the contents are synced if it refers to
//! new ones, it is written, and the journal is synced. Then the flush is acknowledged, and the
//! blocks that it freed are retired. A commit without room waits for a root that contains it.

use crate::bounds::spend;
use crate::guard::Guard;
use crate::numbers::{Cell, Pbn};
use crate::protocol::Step;
use crate::set::Set;
use crate::state::{Checkpoint, Phase};

impl Step<'_> {
    /// A flush, the interval or a checkpoint closes the open commit.
    pub(crate) fn close(&mut self, for_checkpoint: bool) -> Option<()> {
        let log = &self.state.log;
        if log.phase != Phase::Idle || !log.is_changed {
            return None;
        }
        if for_checkpoint {
            if log.checkpoint != Checkpoint::None || !spend(&mut self.state.budget.checkpoints) {
                return None;
            }
            self.state.log.checkpoint = Checkpoint::Frozen;
        }
        self.state.log.phase = Phase::Closed;
        self.freeze();
        Some(())
    }

    /// Moves the changes of the open commit to the closed one.
    fn freeze(&mut self) {
        let state = &mut self.state;
        state.log.closed = state.live;
        state.log.closed_stores |= state.log.open_stores;
        state.log.open_stores = false;
        state.log.is_changed = false;
        state.space.closed = state.space.closed.and(state.space.open);
        state.space.open = Set::EMPTY;
        state.history.iter_mut().for_each(|history| history.since = Set::EMPTY);
    }

    /// The sync of the contents begins. It covers what was written until now.
    pub(crate) fn begin_sync(&mut self) -> Option<()> {
        if self.state.log.phase != Phase::Closed || !self.state.log.closed_stores {
            return None;
        }
        self.state.log.phase = Phase::Syncing(Set::below(self.model.bounds.blocks));
        Some(())
    }

    /// A block that is written during a sync is not covered by it.
    pub(crate) fn uncover(&mut self, pbn: Pbn) {
        if let Phase::Syncing(covered) = &mut self.state.log.phase {
            covered.remove(pbn.0);
        }
    }

    /// The sync of the contents ends.
    pub(crate) fn end_sync(&mut self) -> Option<()> {
        let Phase::Syncing(covered) = self.state.log.phase else { return None };
        for number in covered.numbers() {
            let stored = &mut self.state.store[usize::from(number)];
            stored.medium = Set::of(stored.content.0);
        }
        self.state.log.phase = Phase::Synced;
        self.state.log.closed_stores = false;
        if !self.has(Guard::CloseBeforeSync) {
            self.freeze();
            self.state.log.closed_stores = false;
        }
        Some(())
    }

    /// The commit is written to the journal, if it has room.
    pub(crate) fn write_commit(&mut self) -> Option<()> {
        if !self.is_ready() {
            return None;
        }
        let has_room = self.state.log.used < self.model.bounds.journal;
        let is_frozen = self.state.log.checkpoint == Checkpoint::Frozen;
        self.state.log.phase = match (has_room, is_frozen) {
            (true, _) => Phase::Written,
            (false, true) => Phase::RootWritten,
            (false, false) => Phase::NoRoom,
        };
        if !has_room && !self.has(Guard::FreedWaitsForRoot) {
            self.retire_closed();
        }
        if has_room {
            self.tear();
            if !self.has(Guard::AckAfterSync) {
                self.promise();
            }
        }
        Some(())
    }

    /// Returns whether nothing has to be done before the closed commit is written.
    pub(crate) fn is_ready(&self) -> bool {
        match self.state.log.phase {
            Phase::Synced => true,
            Phase::Closed => !self.state.log.closed_stores || !self.has(Guard::DataBeforeCommit),
            _ => false,
        }
    }

    /// A commit is written over one that the durable root still needs, if a guard is out.
    const fn tear(&mut self) {
        let log = &mut self.state.log;
        if log.ghosts.given_up + log.used >= self.model.bounds.journal {
            log.ghosts.is_torn = log.ghosts.root.is_some();
        }
    }

    /// The state is frozen for a root that has the commit for which the journal had no room. It
    /// waits for a checkpoint that is under way.
    pub(crate) fn freeze_for_root(&mut self) -> Option<()> {
        if self.state.log.phase != Phase::NoRoom || self.state.log.checkpoint != Checkpoint::None {
            return None;
        }
        self.state.log.checkpoint = Checkpoint::Frozen;
        self.state.log.phase = Phase::Closed;
        self.freeze();
        Some(())
    }

    /// The journal is synced: the commit is durable, and those who waited for it go on.
    pub(crate) fn sync_commit(&mut self) -> Option<()> {
        if self.state.log.phase != Phase::Written {
            return None;
        }
        self.state.log.used += 1;
        let log = &mut self.state.log;
        log.checkpoint = match log.checkpoint {
            Checkpoint::None => Checkpoint::None,
            Checkpoint::Frozen => Checkpoint::Pages(0),
            Checkpoint::Pages(after) => Checkpoint::Pages(after + 1),
            Checkpoint::Root(after) => Checkpoint::Root(after + 1),
        };
        if log.checkpoint == Checkpoint::Pages(0) && !self.has(Guard::TrimAfterRoot) {
            let log = &mut self.state.log;
            log.ghosts.given_up = std::mem::take(&mut log.used);
        }
        self.end_commit();
        Some(())
    }

    /// The root with the commit is synced.
    pub(crate) fn sync_root(&mut self) -> Option<()> {
        if self.state.log.phase != Phase::RootWritten {
            return None;
        }
        self.state.log.used = 0;
        self.state.log.checkpoint = Checkpoint::None;
        self.end_commit();
        Some(())
    }

    fn end_commit(&mut self) {
        self.state.log.durable = self.state.log.closed;
        self.state.log.phase = Phase::Idle;
        self.state.log.ghosts.before_opening = None;
        self.promise();
        self.retire_closed();
    }

    /// Checks what a flush acknowledges: each block has the content of the commit, or a later one.
    fn promise(&mut self) {
        for cell in Cell::all() {
            let history = &mut self.state.history[cell.at()];
            history.allowed = if self.model.has(Guard::FollowerWaitsForOwnCommit) {
                Set::of(self.state.log.closed.content(cell).0).and(history.since)
            } else {
                Set::of(self.state.live.content(cell).0)
            };
        }
    }

    fn retire_closed(&mut self) {
        let freed = std::mem::take(&mut self.state.space.closed);
        freed.numbers().for_each(|number| self.retire(Pbn(number)));
    }

    /// The pages of a checkpoint are durable, and its root is written.
    pub(crate) fn write_checkpoint(&mut self) -> Option<()> {
        let Checkpoint::Pages(after) = self.state.log.checkpoint else { return None };
        self.state.log.checkpoint = Checkpoint::Root(after);
        Some(())
    }

    /// The root of a checkpoint is durable: the journal before it is given up.
    pub(crate) fn sync_checkpoint(&mut self) -> Option<()> {
        let Checkpoint::Root(after) = self.state.log.checkpoint else { return None };
        // A commit that is being written keeps its place.
        self.state.log.used = after;
        self.state.log.checkpoint = Checkpoint::None;
        let log = &mut self.state.log;
        log.ghosts.given_up = 0;
        log.ghosts.is_torn = false;
        if log.ghosts.root.is_some() {
            log.ghosts.root = Some(log.durable);
        }
        Some(())
    }
}
