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

/// A flush, the interval or a checkpoint closes the open commit.
pub(crate) fn close(step: &mut Step<'_>, for_checkpoint: bool) -> Option<()> {
    let log = &step.state.log;
    if log.phase != Phase::Idle || !log.is_changed {
        return None;
    }
    if for_checkpoint {
        if log.checkpoint != Checkpoint::None || !spend(&mut step.state.budget.checkpoints) {
            return None;
        }
        step.state.log.checkpoint = Checkpoint::Frozen;
    }
    step.state.log.phase = Phase::Closed;
    freeze(step);
    Some(())
}

/// Moves the changes of the open commit to the closed one.
fn freeze(step: &mut Step<'_>) {
    let state = &mut step.state;
    state.log.closed = state.live;
    state.log.closed_stores |= state.log.open_stores;
    state.log.open_stores = false;
    state.log.is_changed = false;
    state.space.closed = state.space.closed.and(state.space.open);
    state.space.open = Set::EMPTY;
    state.history.iter_mut().for_each(|history| history.since = Set::EMPTY);
}

/// The sync of the contents begins. It covers what was written until now.
pub(crate) fn begin_sync(step: &mut Step<'_>) -> Option<()> {
    if step.state.log.phase != Phase::Closed || !step.state.log.closed_stores {
        return None;
    }
    step.state.log.phase = Phase::Syncing(Set::below(step.model.bounds.blocks));
    Some(())
}

/// A block that is written during a sync is not covered by it.
pub(crate) fn uncover(step: &mut Step<'_>, pbn: Pbn) {
    if let Phase::Syncing(covered) = &mut step.state.log.phase {
        covered.remove(pbn.0);
    }
}

/// The sync of the contents ends.
pub(crate) fn end_sync(step: &mut Step<'_>) -> Option<()> {
    let Phase::Syncing(covered) = step.state.log.phase else { return None };
    for number in covered.numbers() {
        let stored = &mut step.state.store[usize::from(number)];
        stored.medium = Set::of(stored.content.0);
    }
    step.state.log.phase = Phase::Synced;
    step.state.log.closed_stores = false;
    if !step.has(Guard::CloseBeforeSync) {
        freeze(step);
        step.state.log.closed_stores = false;
    }
    Some(())
}

/// The commit is written to the journal, if it has room.
pub(crate) fn write_commit(step: &mut Step<'_>) -> Option<()> {
    if !is_ready(step) {
        return None;
    }
    let has_room = step.state.log.used < step.model.bounds.journal;
    let is_frozen = step.state.log.checkpoint == Checkpoint::Frozen;
    step.state.log.phase = match (has_room, is_frozen) {
        (true, _) => Phase::Written,
        (false, true) => Phase::RootWritten,
        (false, false) => Phase::NoRoom,
    };
    if !has_room && !step.has(Guard::FreedWaitsForRoot) {
        retire_closed(step);
    }
    if has_room {
        tear(step);
        if !step.has(Guard::AckAfterSync) {
            promise(step);
        }
    }
    Some(())
}

/// Returns whether nothing has to be done before the closed commit is written.
pub(crate) fn is_ready(step: &Step<'_>) -> bool {
    match step.state.log.phase {
        Phase::Synced => true,
        Phase::Closed => !step.state.log.closed_stores || !step.has(Guard::DataBeforeCommit),
        _ => false,
    }
}

/// A commit is written over one that the durable root still needs, if a guard is out.
const fn tear(step: &mut Step<'_>) {
    let log = &mut step.state.log;
    if log.ghosts.given_up + log.used >= step.model.bounds.journal {
        log.ghosts.is_torn = log.ghosts.root.is_some();
    }
}

/// The state is frozen for a root that has the commit for which the journal had no room. It
/// waits for a checkpoint that is under way.
pub(crate) fn freeze_for_root(step: &mut Step<'_>) -> Option<()> {
    if step.state.log.phase != Phase::NoRoom || step.state.log.checkpoint != Checkpoint::None {
        return None;
    }
    step.state.log.checkpoint = Checkpoint::Frozen;
    step.state.log.phase = Phase::Closed;
    freeze(step);
    Some(())
}

/// The journal is synced: the commit is durable, and those who waited for it go on.
pub(crate) fn sync_commit(step: &mut Step<'_>) -> Option<()> {
    if step.state.log.phase != Phase::Written {
        return None;
    }
    step.state.log.used += 1;
    let log = &mut step.state.log;
    log.checkpoint = match log.checkpoint {
        Checkpoint::None => Checkpoint::None,
        Checkpoint::Frozen => Checkpoint::Pages(0),
        Checkpoint::Pages(after) => Checkpoint::Pages(after + 1),
        Checkpoint::Root(after) => Checkpoint::Root(after + 1),
    };
    if log.checkpoint == Checkpoint::Pages(0) && !step.has(Guard::TrimAfterRoot) {
        let log = &mut step.state.log;
        log.ghosts.given_up = std::mem::take(&mut log.used);
    }
    end_commit(step);
    Some(())
}

/// The root with the commit is synced.
pub(crate) fn sync_root(step: &mut Step<'_>) -> Option<()> {
    if step.state.log.phase != Phase::RootWritten {
        return None;
    }
    step.state.log.used = 0;
    step.state.log.checkpoint = Checkpoint::None;
    end_commit(step);
    Some(())
}

fn end_commit(step: &mut Step<'_>) {
    step.state.log.durable = step.state.log.closed;
    step.state.log.phase = Phase::Idle;
    step.state.log.ghosts.before_opening = None;
    promise(step);
    retire_closed(step);
}

/// Checks what a flush acknowledges: each block has the content of the commit, or a later one.
fn promise(step: &mut Step<'_>) {
    for cell in Cell::all() {
        let history = &mut step.state.history[cell.at()];
        history.allowed = if step.model.has(Guard::FollowerWaitsForOwnCommit) {
            Set::of(step.state.log.closed.content(cell).0).and(history.since)
        } else {
            Set::of(step.state.live.content(cell).0)
        };
    }
}

fn retire_closed(step: &mut Step<'_>) {
    let freed = std::mem::take(&mut step.state.space.closed);
    freed.numbers().for_each(|number| step.retire(Pbn(number)));
}

/// The pages of a checkpoint are durable, and its root is written.
pub(crate) fn write_checkpoint(step: &mut Step<'_>) -> Option<()> {
    let Checkpoint::Pages(after) = step.state.log.checkpoint else { return None };
    step.state.log.checkpoint = Checkpoint::Root(after);
    Some(())
}

/// The root of a checkpoint is durable: the journal before it is given up.
pub(crate) fn sync_checkpoint(step: &mut Step<'_>) -> Option<()> {
    let Checkpoint::Root(after) = step.state.log.checkpoint else { return None };
    // A commit that is being written keeps its place.
    step.state.log.used = after;
    step.state.log.checkpoint = Checkpoint::None;
    let log = &mut step.state.log;
    log.ghosts.given_up = 0;
    log.ghosts.is_torn = false;
    if log.ghosts.root.is_some() {
        log.ghosts.root = Some(log.durable);
    }
    Some(())
}
