//! The promises of the engine as properties of each state.

use crate::numbers::{Cell, Mode, Pbn};
use crate::protocol::Protocol;
use crate::rest::comes_to_rest;
use crate::set::Set;
use crate::state::{Candidate, State};
use stateright::Property;

/// A read returns the content that was acknowledged last.
pub const READ: &str = "a read returns the content that was acknowledged last";
/// No block shows a content that was written to another.
pub const BLOCKS: &str = "no block shows a content that was not written there";
/// A power cut keeps what was flushed.
pub const CRASH: &str = "a power cut leaves what was flushed, or was written since";
/// Reference counts equal references.
pub const REFERENCES: &str = "reference counts equal references";
/// A block is reused only when no durable state refers to it.
pub const REUSE: &str = "a block is reused only when no durable state refers to it";
/// Index entries are true.
pub const INDEX: &str = "an index entry leads to a referenced block with the content";
/// Each block has one owner.
pub const OWNERS: &str = "each block has one owner";
/// A content is stored once.
pub const ONCE: &str = "no two blocks are known for one content";
/// The finder forgets no block.
pub const FORGOTTEN: &str = "the finder forgets no block";
/// The pool comes to rest.
pub const REST: &str = "the pool comes to rest, and then nothing is leaked";

pub(crate) fn all(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut properties = vec![
        Property::always(READ, reads_last),
        Property::always(BLOCKS, shows_own),
        Property::always(CRASH, keeps_flushed),
        Property::always(REFERENCES, counts_references),
        Property::always(REUSE, reuses_late),
        Property::always(INDEX, has_true_index),
        Property::always(OWNERS, has_one_owner),
        Property::always(FORGOTTEN, forgets_none),
    ];
    if !protocol.bounds.collisions {
        properties.push(Property::always(ONCE, stores_once));
    }
    if protocol.bounds.checks_rest {
        properties.push(Property::always(REST, comes_to_rest));
    }
    properties
}

fn reads_last(_: &Protocol, state: &State) -> bool {
    !state.is_misread
        && Cell::all().all(|cell| state.live.content(cell) == state.history[cell.at()].last)
}

fn shows_own(_: &Protocol, state: &State) -> bool {
    let mut entries = state.live.map.iter().flatten();
    entries.all(|entry| state.store[entry.pbn.at()].content == entry.checksum)
}

fn keeps_flushed(_: &Protocol, state: &State) -> bool {
    state.outcomes().all(|left| {
        let is_allowed = |cell: Cell| state.history[cell.at()].allowed.has(left.content(cell).0);
        let mut entries = left.map.iter().flatten();
        Cell::all().all(is_allowed)
            && entries.all(|entry| state.store[entry.pbn.at()].medium == Set::of(entry.checksum.0))
    })
}

fn counts_references(protocol: &Protocol, state: &State) -> bool {
    (0..protocol.bounds.blocks).map(Pbn).all(|pbn| {
        let entries = state.live.map.iter().flatten();
        let references = entries.filter(|entry| entry.pbn == pbn).count();
        references == usize::from(state.counts[pbn.at()])
    })
}

fn reuses_late(_: &Protocol, state: &State) -> bool {
    let unowned = state.space.free.and(state.taken()).and(state.space.discarding);
    !unowned.meets(state.live.referenced())
        && !unowned.meets(state.log.closed.referenced())
        && state.outcomes().all(|left| !unowned.meets(left.referenced()))
}

fn has_true_index(protocol: &Protocol, state: &State) -> bool {
    (0..).zip(state.index).all(|(number, entry)| {
        entry.is_none_or(|pbn| {
            let content = state.store[pbn.at()].content;
            state.counts[pbn.at()] > 0
                && content.0 > 0
                && protocol.fingerprint(content).0 == number
                && state.live.fingerprints[pbn.at()].is_some_and(|known| known.0 == number)
        })
    })
}

fn has_one_owner(protocol: &Protocol, state: &State) -> bool {
    let space = &state.space;
    (0..protocol.bounds.blocks).all(|number| {
        let at = usize::from(number);
        let owners = [
            state.counts[at] > 0,
            space.open.has(number),
            space.closed.has(number),
            !space.retired[at].is_empty(),
            space.free.has(number),
            space.discarding.has(number),
            state.taken().has(number),
        ];
        owners.into_iter().filter(|is_owner| *is_owner).count() == 1
    })
}

fn stores_once(protocol: &Protocol, state: &State) -> bool {
    let mut known = Set::EMPTY;
    (0..usize::from(protocol.bounds.blocks)).all(|at| match state.live.fingerprints[at] {
        Some(fingerprint) if state.counts[at] > 0 => {
            let is_new = !known.has(fingerprint.0);
            known.add(fingerprint.0);
            is_new
        }
        _ => true,
    })
}

/// A block without a fingerprint in an off-line volume is marked, or the finder has it.
fn forgets_none(_: &Protocol, state: &State) -> bool {
    let has = |cell: Cell| {
        let entry = state.live.map[cell.at()];
        state.finder.is_some_and(|search| {
            let cells = Cell::of(search.volume.into()).zip(search.candidates);
            cells.into_iter().any(|(own_cell, candidate)| {
                own_cell == cell
                    && match candidate {
                        Candidate::Done => false,
                        Candidate::Listed { own, .. } | Candidate::Examined { own, .. } => {
                            entry == Some(own)
                        }
                    }
            })
        })
    };
    Cell::all().all(|cell| {
        let is_unknown = state.live.map[cell.at()]
            .is_some_and(|entry| state.live.fingerprints[entry.pbn.at()].is_none());
        !is_unknown
            || state.mode(cell.volume()) != Some(Mode::Offline)
            || state.dirty.has(cell.0)
            || has(cell)
    })
}
