//! The finder, as `engine/finder.rs` is: it takes a mark, lists blocks without a fingerprint,
//! examines each without a lock, and settles it under the lock of the state. Threads that write
//! contents out may take fingerprints meanwhile, which are remembered for the finder.
//!
//! The engine examines the blocks of a chunk together and settles them in one hold of the lock.
//! Here each block goes its own way, in any order, which includes that one.

use crate::bounds::spend;
use crate::change::Change;
use crate::clients;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, FINDER, Fingerprint, LBNS, Mode, Pbn};
use crate::protocol::Step;
use crate::state::{Candidate, Entry, Remembered, Search, Taking};

/// The finder takes the mark of one LBN of a volume that has others.
pub(crate) fn search_one(step: &mut Step<'_>, one: Cell) -> Option<()> {
    let has_others = step.state.marked_in(one.volume()).any(|cell| cell != one);
    if !step.state.dirty.has(one.0) || !has_others {
        return None;
    }
    search(step, one.volume() as u8, |cell| cell == one)
}

/// The finder takes marks of a volume, pins, and lists blocks.
pub(crate) fn search(step: &mut Step<'_>, volume: u8, takes: impl Fn(Cell) -> bool) -> Option<()> {
    if step.state.finder.is_some()
        || step.state.mode(volume.into()) != Some(Mode::Offline)
        || !step.state.marked_volumes().any(|marked| marked == volume)
    {
        return None;
    }
    let mut candidates = [Candidate::Done; LBNS];
    let slots = candidates.iter_mut().zip(Cell::of(volume.into()));
    for (slot, cell) in slots.filter(|(_, cell)| takes(*cell)) {
        let entry = step.state.live.map[cell.at()].filter(|_| step.state.dirty.has(cell.0));
        step.state.dirty.remove(cell.0);
        let is_unknown = |entry: &Entry| step.state.live.fingerprints[entry.pbn.at()].is_none();
        if let Some(own) = entry.filter(is_unknown) {
            *slot = Candidate::Listed { own, round: 1 };
        }
    }
    step.state.finder = Some(Search { volume, candidates });
    end_search(step);
    Some(())
}

fn set_candidate(step: &mut Step<'_>, at: usize, to: Candidate) {
    if let Some(search) = &mut step.state.finder {
        search.candidates[at] = to;
    }
}

/// The finder looks the content of a listed block up. It reads the block unless the fingerprint
/// is remembered and proves enough.
pub(crate) fn examine(step: &mut Step<'_>, at: usize) -> Option<()> {
    let Candidate::Listed { own, round } = step.state.finder?.candidates[at] else {
        return None;
    };
    let remembered = match step.state.remembered[own.pbn.at()] {
        Remembered::Fingerprint(fingerprint) => Some(fingerprint),
        Remembered::Nothing | Remembered::Ticket(_) => None,
    };
    let known = |fingerprint: &Fingerprint| step.state.index[fingerprint.at()].is_some();
    let proves = |fingerprint: &Fingerprint| !step.model.bounds.compares || !known(fingerprint);
    if let Some(fingerprint) = remembered.filter(proves) {
        let entry = step.state.index[fingerprint.at()];
        let is_equal = entry.is_some();
        let examined = Candidate::Examined { own, round, fingerprint, entry, is_equal };
        set_candidate(step, at, examined);
        return Some(());
    }
    if step.state.store[own.pbn.at()].content != own.checksum {
        // A good block is judged damaged.
        step.state.is_misread = true;
        set_candidate(step, at, Candidate::Done);
        end_search(step);
        return Some(());
    }
    let fingerprint = step.model.fingerprint(own.checksum);
    let entry = step.state.index[fingerprint.at()];
    let is_equal = entry.is_some_and(|pbn| clients::is_equal(step, pbn, own.checksum));
    let examined = Candidate::Examined { own, round, fingerprint, entry, is_equal };
    set_candidate(step, at, examined);
    Some(())
}

/// The finder applies the outcome for one block, if it still holds.
pub(crate) fn settle(step: &mut Step<'_>, at: usize) -> Option<()> {
    let search = step.state.finder?;
    let Candidate::Examined { own, round, fingerprint, entry, is_equal } = search.candidates[at]
    else {
        return None;
    };
    let cell = Cell(search.volume * LBNS as u8 + at as u8);
    let place = step.state.live.map[cell.at()];
    let now = step.state.index[fingerprint.at()];
    let is_as_before = now == entry;
    let mut next = Candidate::Done;
    if place != Some(own) && step.has(Guard::FinderChecksPlace) {
        // A write has overtaken the finder, and has marked the LBN again.
    } else if step.state.live.fingerprints[own.pbn.at()].is_some() {
        // Another LBN with the same block was examined first.
    } else if !is_as_before && step.model.bounds.compares && step.has(Guard::FinderChecksEntry) {
        next = examine_again(step, own, round, cell);
    } else {
        // A block that became known since the look-up is equal if fingerprints prove it.
        let (known, is_equal) = match step.has(Guard::FinderChecksEntry) {
            true if !is_as_before => (now, now.is_some()),
            _ => (entry, is_equal),
        };
        share_or_identify(step, (cell, own), fingerprint, known.filter(|_| is_equal));
    }
    set_candidate(step, at, next);
    end_search(step);
    Some(())
}

fn share_or_identify(
    step: &mut Step<'_>,
    (cell, own): (Cell, Entry),
    fingerprint: Fingerprint,
    known: Option<Pbn>,
) {
    if let Some(pbn) = known.filter(|pbn| may_find(step, *pbn, fingerprint)) {
        step.apply(Change::Share { cell, pbn, content: own.checksum });
    } else {
        step.apply(Change::Identify { pbn: own.pbn, fingerprint });
    }
}

/// The index has another answer than before: the block goes through another round, or is left
/// for a later search.
fn examine_again(step: &mut Step<'_>, own: Entry, round: u8, cell: Cell) -> Candidate {
    if round < step.model.bounds.rounds {
        return Candidate::Listed { own, round: round + 1 };
    }
    if step.has(Guard::FinderMarksLeft) {
        step.state.dirty.add(cell.0);
    }
    Candidate::Done
}

fn may_find(step: &Step<'_>, pbn: Pbn, fingerprint: Fingerprint) -> bool {
    !step.has(Guard::FinderChecksEntry)
        || step.state.counts[pbn.at()] > 0
            && step.state.live.fingerprints[pbn.at()] == Some(fingerprint)
}

/// A fresh block is about to be written: its fingerprint is wanted in an off-line volume, and
/// what was remembered of an earlier content is forgotten.
pub(crate) fn forget_remembered(step: &mut Step<'_>, pbn: Pbn, content: Content, volume: usize) {
    if let Some(taking) = step.state.taking.as_mut().filter(|taking| taking.pbn == pbn) {
        taking.has_ticket = false;
    }
    let remembered = step.state.remembered[pbn.at()];
    if remembered != Remembered::Nothing && !step.has(Guard::WriteForgetsRemembered) {
        return;
    }
    let is_wanted = step.state.mode(volume) == Some(Mode::Offline) && step.state.budget.takes > 0;
    step.state.remembered[pbn.at()] =
        if is_wanted { Remembered::Ticket(content) } else { Remembered::Nothing };
}

/// A thread that has written a content out begins to take its fingerprint.
pub(crate) fn begin_take(step: &mut Step<'_>, pbn: Pbn) -> Option<()> {
    let Remembered::Ticket(content) = step.state.remembered[pbn.at()] else { return None };
    if step.state.taking.is_some() || !spend(&mut step.state.budget.takes) {
        return None;
    }
    step.state.taking = Some(Taking { pbn, content, has_ticket: true });
    Some(())
}

/// The fingerprint is remembered, unless the block was written again meanwhile.
pub(crate) fn end_take(step: &mut Step<'_>) -> Option<()> {
    let Taking { pbn, content, has_ticket } = step.state.taking.take()?;
    if has_ticket || !step.has(Guard::TicketTiesFingerprint) {
        let fingerprint = step.model.fingerprint(content);
        step.state.remembered[pbn.at()] = Remembered::Fingerprint(fingerprint);
    }
    Some(())
}

/// Ends the search after its last block.
fn end_search(step: &mut Step<'_>) {
    let is_over = |search: &Search| search.candidates.iter().all(|one| *one == Candidate::Done);
    if step.state.finder.as_ref().is_some_and(is_over) {
        step.state.finder = None;
        step.unpin(FINDER);
    }
}
