//! The finder, as `engine/finder.rs` is: it takes a mark, lists blocks without a fingerprint,
//! examines each without a lock, and settles it under the lock of the state.
//!
//! The engine examines the blocks of a chunk together and settles them in one hold of the lock.
//! Here each block goes its own way, in any order, which includes that one.

use crate::change::Change;
use crate::guard::Guard;
use crate::numbers::{Cell, FINDER, LBNS, Mode, Pbn};
use crate::state::{Candidate, Entry, Search};
use crate::step::Step;

impl Step<'_> {
    /// The finder takes the mark of a volume, pins, and lists blocks.
    pub(crate) fn search(&mut self, volume: u8) -> Option<()> {
        if self.state.finder.is_some()
            || !self.state.dirty.has(volume)
            || self.state.mode(volume.into()) != Some(Mode::Offline)
        {
            return None;
        }
        self.state.dirty.remove(volume);
        let mut candidates = [Candidate::Done; LBNS];
        for (slot, cell) in candidates.iter_mut().zip(Cell::of(volume.into())) {
            let entry = self.state.live.map[cell.at()];
            let is_unknown = |entry: &Entry| self.state.live.fingerprints[entry.pbn.at()].is_none();
            if let Some(own) = entry.filter(is_unknown) {
                *slot = Candidate::Listed { own, round: 1 };
            }
        }
        self.state.finder = Some(Search { volume, candidates });
        self.end_search();
        Some(())
    }

    fn set_candidate(&mut self, at: usize, to: Candidate) {
        if let Some(search) = &mut self.state.finder {
            search.candidates[at] = to;
        }
    }

    /// The finder reads a listed block, and looks its content up.
    pub(crate) fn examine(&mut self, at: usize) -> Option<()> {
        let Candidate::Listed { own, round } = self.state.finder?.candidates[at] else {
            return None;
        };
        if self.state.store[own.pbn.at()].content != own.checksum {
            // A good block is taken for a damaged one.
            self.state.is_misread = true;
            self.set_candidate(at, Candidate::Done);
            self.end_search();
            return Some(());
        }
        let fingerprint = self.model.fingerprint(own.checksum);
        let entry = self.state.index[fingerprint.at()];
        let is_equal = entry.is_some_and(|pbn| self.is_equal(pbn, own.checksum));
        self.set_candidate(at, Candidate::Examined { own, round, entry, is_equal });
        Some(())
    }

    /// The finder applies the outcome for one block, if it still holds.
    pub(crate) fn settle(&mut self, at: usize) -> Option<()> {
        let search = self.state.finder?;
        let Candidate::Examined { own, round, entry, is_equal } = search.candidates[at] else {
            return None;
        };
        let cell = Cell(search.volume * LBNS as u8 + at as u8);
        let fingerprint = self.model.fingerprint(own.checksum);
        let place = self.state.live.map[cell.at()];
        let mut next = Candidate::Done;
        if place != Some(own) && self.has(Guard::FinderChecksPlace) {
            // A write has overtaken the finder, and has marked the volume again.
        } else if self.state.live.fingerprints[own.pbn.at()].is_some() {
            // Another LBN with the same block was examined first.
        } else if self.state.index[fingerprint.at()] != entry && self.has(Guard::FinderChecksEntry)
        {
            next = self.examine_again(own, round, search.volume);
        } else if let Some(pbn) = entry.filter(|pbn| is_equal && self.may_find(*pbn, own)) {
            self.apply(Change::Share { cell, pbn, content: own.checksum });
        } else {
            self.apply(Change::Identify { pbn: own.pbn, fingerprint });
        }
        self.set_candidate(at, next);
        self.end_search();
        Some(())
    }

    /// The index has another answer than before: the block goes through another round, or is left
    /// for a later search.
    fn examine_again(&mut self, own: Entry, round: u8, volume: u8) -> Candidate {
        if round < self.model.bounds.rounds {
            return Candidate::Listed { own, round: round + 1 };
        }
        if self.has(Guard::FinderMarksLeft) {
            self.state.dirty.add(volume);
        }
        Candidate::Done
    }

    fn may_find(&self, pbn: Pbn, own: Entry) -> bool {
        let fingerprint = Some(self.model.fingerprint(own.checksum));
        !self.has(Guard::FinderChecksEntry)
            || self.state.counts[pbn.at()] > 0
                && self.state.live.fingerprints[pbn.at()] == fingerprint
    }

    /// Ends the search after its last block.
    fn end_search(&mut self) {
        let is_over = |search: &Search| search.candidates.iter().all(|one| *one == Candidate::Done);
        if self.state.finder.as_ref().is_some_and(is_over) {
            self.state.finder = None;
            self.unpin(FINDER);
        }
    }
}
