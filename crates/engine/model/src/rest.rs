//! Rest: without new requests every state leads to one in which nothing is left to do, nothing is
//! leaked, and no block is forgotten.

use crate::action::Action;
use crate::numbers::{Cell, Mode, Pbn, VOLUMES};
use crate::protocol::Protocol;
use crate::set::Set;
use crate::state::{Candidate, Checkpoint, Client, Phase, Plan, State, Volume};

/// A state that is not at rest after this number of steps never comes to rest.
const MAX_STEPS: usize = 200;

/// Returns whether a state comes to rest without a leak, if what was begun is ended, the finder
/// looks at all marks, and everything is flushed.
pub(crate) fn comes_to_rest(protocol: &Protocol, state: &State) -> bool {
    let mut state = state.clone();
    for _ in 0..MAX_STEPS {
        let Some(action) = next(protocol, &state) else { return is_tidy(protocol, &state) };
        match protocol.step(&state, action) {
            Some((after, _)) => state = after,
            None => return false,
        }
    }
    false
}

/// Returns whether no block is leaked, and none of an off-line volume is unknown.
fn is_tidy(protocol: &Protocol, state: &State) -> bool {
    let mut owned = state.live.referenced();
    owned = owned.and(state.space.free);
    let is_known = |cell: Cell| {
        state.live.map[cell.at()]
            .is_none_or(|entry| state.live.fingerprints[entry.pbn.at()].is_some())
    };
    let is_found =
        |volume: usize| state.mode(volume) != Some(Mode::Offline) || Cell::of(volume).all(is_known);
    let is_hidden = |volume: &Volume| matches!(volume, Volume::Hidden);
    owned == Set::below(protocol.bounds.blocks)
        && (0..VOLUMES).all(is_found)
        && !state.live.volumes.iter().any(is_hidden)
}

/// The next step to rest.
fn next(protocol: &Protocol, state: &State) -> Option<Action> {
    let log = &state.log;
    of_client(state)
        .or_else(|| (!state.space.discarding.is_empty()).then_some(Action::EndDiscard))
        .or_else(|| state.taking.map(|_| Action::EndTake))
        .or_else(|| of_finder(state))
        .or_else(|| of_volume(protocol, state))
        .or(match log.checkpoint {
            Checkpoint::None | Checkpoint::Frozen => None,
            Checkpoint::Pages(_) => Some(Action::WriteCheckpoint),
            Checkpoint::Root(_) => Some(Action::SyncCheckpoint),
        })
        .or(match log.phase {
            Phase::Idle => None,
            Phase::Closed if log.closed_stores => Some(Action::BeginSync),
            Phase::Closed | Phase::Synced => Some(Action::WriteCommit),
            Phase::Syncing(_) => Some(Action::EndSync),
            Phase::NoRoom => Some(Action::FreezeForRoot),
            Phase::Written => Some(Action::SyncCommit),
            Phase::RootWritten => Some(Action::SyncRoot),
        })
        .or_else(|| log.is_changed.then_some(Action::Close))
        .or_else(|| state.marked_volumes().next().map(Action::Search))
}

fn of_client(state: &State) -> Option<Action> {
    (0..).zip(state.clients).find_map(|(number, client)| match client {
        Client::Idle => None,
        Client::Overtaken { .. } => Some(Action::LookUp(number)),
        Client::Reading { .. } => Some(Action::EndRead(number)),
        Client::Planned { plan: Plan::Fresh { pbn: None, .. }, .. } => {
            match state.space.free.numbers().next() {
                Some(free) => Some(Action::Store(number, Pbn(free))),
                None => Some(Action::Refuse(number)),
            }
        }
        Client::Planned { .. } => Some(Action::Change(number)),
    })
}

fn of_finder(state: &State) -> Option<Action> {
    let search = state.finder?;
    (0..).zip(search.candidates).find_map(|(at, candidate)| match candidate {
        Candidate::Done => None,
        Candidate::Listed { .. } => Some(Action::Examine(at)),
        Candidate::Examined { .. } => Some(Action::Settle(at)),
    })
}

fn of_volume(protocol: &Protocol, state: &State) -> Option<Action> {
    let hidden = (0..).zip(state.live.volumes);
    let hidden = hidden.into_iter().find(|(_, volume)| matches!(volume, Volume::Hidden));
    let clear = hidden.map(|(number, _)| Action::ClearHidden(number))?;
    protocol.has(crate::guard::Guard::HiddenAreCleared).then_some(clear)
}
