//! Power cuts, kills and recovery.
//!
//! A power cut leaves the state of the last durable commit or root, or the one that was being
//! written. The journal is replayed change by change in the engine; here the state after each
//! commit is kept, which is the same. Of a content that was not synced it leaves any version.

use crate::bounds::spend;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, Mode, PBNS, Pbn};
use crate::protocol::Step;
use crate::set::Set;
use crate::state::{
    Checkpoint, Client, Ghosts, History, Metadata, Phase, Remembered, Space, State, Stored, Volume,
};

impl State {
    /// The metadata states, one of which a power cut leaves.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Metadata> {
        let log = &self.log;
        let is_written = matches!(log.phase, Phase::Written | Phase::RootWritten);
        let root = log.ghosts.root.as_ref().filter(|_| log.ghosts.is_torn);
        [
            Some(&log.durable),
            is_written.then_some(&log.closed),
            log.ghosts.before_opening.as_ref(),
            root,
        ]
        .into_iter()
        .flatten()
    }
}

/// The power is cut, and the pool is opened again.
pub(crate) fn cut_power(step: &mut Step<'_>, survives: bool) -> Option<()> {
    let is_written = matches!(step.state.log.phase, Phase::Written | Phase::RootWritten);
    if survives && !is_written || !spend(&mut step.state.budget.crashes) {
        return None;
    }
    let log = &step.state.log;
    let left = if survives { log.closed } else { log.durable };
    let is_root = log.phase == Phase::RootWritten;
    step.state.log.used = match (survives, is_root) {
        (true, true) => 0,
        (true, false) => log.used + 1,
        (false, _) => log.used,
    };
    recover(step, left);
    Some(())
}

/// The process is killed while its commit is written and not synced. The next one reads the
/// commit. If it does not write the commit again, a power cut may still take it away.
pub(crate) fn kill(step: &mut Step<'_>) -> Option<()> {
    if step.has(Guard::OpeningWritesAgain)
        || step.state.log.phase != Phase::Written
        || !spend(&mut step.state.budget.crashes)
    {
        return None;
    }
    let before = step.state.log.durable;
    step.state.log.used += 1;
    recover(step, step.state.log.closed);
    step.state.log.ghosts.before_opening = Some(before);
    for cell in Cell::all() {
        step.state.history[cell.at()].allowed.add(before.content(cell).0);
    }
    Some(())
}

/// Reads the metadata from disk and computes the rest, as an opening does.
fn recover(step: &mut Step<'_>, left: Metadata) {
    let state = &mut step.state;
    state.live = left;
    let referenced = left.referenced();
    state.counts = [0; PBNS];
    for entry in left.map.iter().flatten() {
        state.counts[entry.pbn.at()] += 1;
    }
    state.index.fill(None);
    for number in (0..step.model.bounds.blocks).rev() {
        let at = usize::from(number);
        if !referenced.has(number) {
            state.live.fingerprints[at] = None;
            state.store[at] = Stored::NOTHING;
            continue;
        }
        if let Some(fingerprint) = left.fingerprints[at] {
            state.index[fingerprint.at()] = Some(Pbn(number));
        }
        let content = state.store[at].medium.numbers().next().unwrap_or_default();
        state.store[at] = Stored { content: Content(content), medium: Set::of(content) };
    }
    let mut free = Set::below(step.model.bounds.blocks);
    referenced.numbers().for_each(|number| free.remove(number));
    state.space = Space {
        free,
        open: Set::EMPTY,
        closed: Set::EMPTY,
        retired: [Set::EMPTY; PBNS],
        discarding: Set::EMPTY,
    };
    state.clients.fill(Client::Idle);
    state.finder = None;
    state.remembered.fill(Remembered::Nothing);
    state.taking = None;
    state.dirty = Set::EMPTY;
    for cell in Cell::all() {
        let is_offline = state.live.volumes[cell.volume()] == Volume::Shown(Mode::Offline);
        if is_offline && state.live.map[cell.at()].is_some() {
            state.dirty.add(cell.0);
        }
    }
    for cell in Cell::all() {
        state.history[cell.at()] = History::of(state.live.content(cell));
    }
    reset_log(step);
}

fn reset_log(step: &mut Step<'_>) {
    let state = &mut step.state;
    let log = &mut state.log;
    log.durable = state.live;
    log.closed = state.live;
    log.phase = Phase::Idle;
    log.open_stores = false;
    log.closed_stores = false;
    log.is_changed = false;
    log.checkpoint = Checkpoint::None;
    let root = log.ghosts.root.map(|_| log.durable);
    log.ghosts = Ghosts { before_opening: None, root, given_up: 0, is_torn: false };
}
