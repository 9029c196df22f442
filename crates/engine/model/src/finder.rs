//! The finder, as `engine/finder.rs` is: it takes a mark, lists blocks without a fingerprint,
//! examines each without a lock, and settles it under the lock of the state. Threads that write
//! contents out may take fingerprints meanwhile, which are remembered for the finder.
//!
//! The engine examines the blocks of a chunk together and settles them in one hold of the lock.
//! Here each block goes its own way, in any order, which includes that one.

use crate::bounds::spend;
use crate::change::Change;
use crate::guard::Guard;
use crate::numbers::{Cell, Content, FINDER, Fingerprint, LBNS, Mode, Pbn};
use crate::protocol::Step;
use crate::state::{Candidate, Entry, Remembered, Search, Taking};

impl Step<'_> {
    /// The finder takes the mark of one LBN of a volume that has others.
    pub(crate) fn search_one(&mut self, one: Cell) -> Option<()> {
        let has_others = self.state.marked_in(one.volume()).any(|cell| cell != one);
        if !self.state.dirty.has(one.0) || !has_others {
            return None;
        }
        self.search(one.volume() as u8, |cell| cell == one)
    }

    /// The finder takes marks of a volume, pins, and lists blocks.
    pub(crate) fn search(&mut self, volume: u8, takes: impl Fn(Cell) -> bool) -> Option<()> {
        if self.state.finder.is_some()
            || self.state.mode(volume.into()) != Some(Mode::Offline)
            || !self.state.marked_volumes().any(|marked| marked == volume)
        {
            return None;
        }
        let mut candidates = [Candidate::Done; LBNS];
        let slots = candidates.iter_mut().zip(Cell::of(volume.into()));
        for (slot, cell) in slots.filter(|(_, cell)| takes(*cell)) {
            let entry = self.state.live.map[cell.at()].filter(|_| self.state.dirty.has(cell.0));
            self.state.dirty.remove(cell.0);
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

    /// The finder looks the content of a listed block up. It reads the block unless the fingerprint
    /// is remembered and proves enough.
    pub(crate) fn examine(&mut self, at: usize) -> Option<()> {
        let Candidate::Listed { own, round } = self.state.finder?.candidates[at] else {
            return None;
        };
        let remembered = match self.state.remembered[own.pbn.at()] {
            Remembered::Fingerprint(fingerprint) => Some(fingerprint),
            Remembered::Nothing | Remembered::Ticket(_) => None,
        };
        let known = |fingerprint: &Fingerprint| self.state.index[fingerprint.at()].is_some();
        let proves = |fingerprint: &Fingerprint| !self.model.bounds.compares || !known(fingerprint);
        if let Some(fingerprint) = remembered.filter(proves) {
            let entry = self.state.index[fingerprint.at()];
            let is_equal = entry.is_some();
            let examined = Candidate::Examined { own, round, fingerprint, entry, is_equal };
            self.set_candidate(at, examined);
            return Some(());
        }
        if self.state.store[own.pbn.at()].content != own.checksum {
            // A good block is judged damaged.
            self.state.is_misread = true;
            self.set_candidate(at, Candidate::Done);
            self.end_search();
            return Some(());
        }
        let fingerprint = self.model.fingerprint(own.checksum);
        let entry = self.state.index[fingerprint.at()];
        let is_equal = entry.is_some_and(|pbn| self.is_equal(pbn, own.checksum));
        let examined = Candidate::Examined { own, round, fingerprint, entry, is_equal };
        self.set_candidate(at, examined);
        Some(())
    }

    /// The finder applies the outcome for one block, if it still holds.
    pub(crate) fn settle(&mut self, at: usize) -> Option<()> {
        let search = self.state.finder?;
        let Candidate::Examined { own, round, fingerprint, entry, is_equal } =
            search.candidates[at]
        else {
            return None;
        };
        let cell = Cell(search.volume * LBNS as u8 + at as u8);
        let place = self.state.live.map[cell.at()];
        let now = self.state.index[fingerprint.at()];
        let is_as_before = now == entry;
        let mut next = Candidate::Done;
        if place != Some(own) && self.has(Guard::FinderChecksPlace) {
            // A write has overtaken the finder, and has marked the LBN again.
        } else if self.state.live.fingerprints[own.pbn.at()].is_some() {
            // Another LBN with the same block was examined first.
        } else if !is_as_before && self.model.bounds.compares && self.has(Guard::FinderChecksEntry)
        {
            next = self.examine_again(own, round, cell);
        } else {
            // A block that became known since the look-up is equal if fingerprints prove it.
            let (known, is_equal) = match self.has(Guard::FinderChecksEntry) {
                true if !is_as_before => (now, now.is_some()),
                _ => (entry, is_equal),
            };
            self.share_or_identify((cell, own), fingerprint, known.filter(|_| is_equal));
        }
        self.set_candidate(at, next);
        self.end_search();
        Some(())
    }

    fn share_or_identify(
        &mut self,
        (cell, own): (Cell, Entry),
        fingerprint: Fingerprint,
        known: Option<Pbn>,
    ) {
        if let Some(pbn) = known.filter(|pbn| self.may_find(*pbn, fingerprint)) {
            self.apply(Change::Share { cell, pbn, content: own.checksum });
        } else {
            self.apply(Change::Identify { pbn: own.pbn, fingerprint });
        }
    }

    /// The index has another answer than before: the block goes through another round, or is left
    /// for a later search.
    fn examine_again(&mut self, own: Entry, round: u8, cell: Cell) -> Candidate {
        if round < self.model.bounds.rounds {
            return Candidate::Listed { own, round: round + 1 };
        }
        if self.has(Guard::FinderMarksLeft) {
            self.state.dirty.add(cell.0);
        }
        Candidate::Done
    }

    fn may_find(&self, pbn: Pbn, fingerprint: Fingerprint) -> bool {
        !self.has(Guard::FinderChecksEntry)
            || self.state.counts[pbn.at()] > 0
                && self.state.live.fingerprints[pbn.at()] == Some(fingerprint)
    }

    /// A fresh block is about to be written: its fingerprint is wanted in an off-line volume, and
    /// what was remembered of an earlier content is forgotten.
    pub(crate) fn forget_remembered(&mut self, pbn: Pbn, content: Content, volume: usize) {
        if let Some(taking) = self.state.taking.as_mut().filter(|taking| taking.pbn == pbn) {
            taking.has_ticket = false;
        }
        let remembered = self.state.remembered[pbn.at()];
        if remembered != Remembered::Nothing && !self.has(Guard::WriteForgetsRemembered) {
            return;
        }
        let is_wanted =
            self.state.mode(volume) == Some(Mode::Offline) && self.state.budget.takes > 0;
        self.state.remembered[pbn.at()] =
            if is_wanted { Remembered::Ticket(content) } else { Remembered::Nothing };
    }

    /// A thread that has written a content out begins to take its fingerprint.
    pub(crate) fn begin_take(&mut self, pbn: Pbn) -> Option<()> {
        let Remembered::Ticket(content) = self.state.remembered[pbn.at()] else { return None };
        if self.state.taking.is_some() || !spend(&mut self.state.budget.takes) {
            return None;
        }
        self.state.taking = Some(Taking { pbn, content, has_ticket: true });
        Some(())
    }

    /// The fingerprint is remembered, unless the block was written again meanwhile.
    pub(crate) fn end_take(&mut self) -> Option<()> {
        let Taking { pbn, content, has_ticket } = self.state.taking.take()?;
        if has_ticket || !self.has(Guard::TicketTiesFingerprint) {
            let fingerprint = self.model.fingerprint(content);
            self.state.remembered[pbn.at()] = Remembered::Fingerprint(fingerprint);
        }
        Some(())
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
