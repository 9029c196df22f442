//! The state of a member's blocks, in memory.

mod withdrawal;

use crate::bits::Bits;
use crate::borrowed::Borrowed;
use crate::in_flight::InFlight;
use crate::record::{BlockState, Elsewhere};
use crate::stats::BlockStats;
use gemelo_domain::Action;
use gemelo_format::{Fingerprint, Pbn};
use gemelo_store::EachPbn;
use std::collections::{BTreeMap, HashMap};

/// Kept blocks that are listed together.
const KEPT_AT_ONCE: usize = 4096;

/// A state that few blocks have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aside {
    /// The content lies here, and the reference to the other place is to be released.
    Restored(Elsewhere),
    /// The content lies here and is never shared.
    Alone,
}

/// The progress of a change that the member asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No intent has it: it can be given up.
    Planned,
    /// An intent has it: its fate has to be found out.
    Recorded,
}

/// A block whose content this member has found damaged, or good again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) pbn: Pbn,
    /// Another block of this member that may have the content.
    pub(crate) copy: Option<Pbn>,
}

/// The state of a member's blocks; see the module. A block that is kept and in no other table is
/// published.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    /// Blocks that the pool must not give to another content.
    kept: Bits,
    /// Kept blocks to which the pool does not refer.
    unreferenced: Bits,
    /// Identified blocks that are not kept and may be published.
    candidates: Bits,
    /// Kept blocks whose reference is to be released, or that are to be freed.
    due: Bits,
    /// Kept blocks that the index has and to which this member does not refer.
    lent: Bits,
    /// Kept blocks whose contents were found damaged, or good again.
    doubted: Bits,
    /// Other blocks that may have the contents of doubted ones.
    copies: BTreeMap<Pbn, Pbn>,
    /// Blocks that were not published, or whose references were not released, for a reason that may
    /// pass.
    postponed: Bits,
    borrowed: Borrowed,
    aside: BTreeMap<Pbn, Aside>,
    /// Blocks that are being published.
    publishing: HashMap<Pbn, Progress>,
    /// Blocks whose references are being released, by content.
    by_content: HashMap<[u8; 16], Pbn>,
    /// The same blocks.
    releasing: HashMap<Pbn, Progress>,
    /// Blocks that are free and not given back to the pool yet.
    freed: Vec<Pbn>,
    /// Contents that have left blocks in which borrowed ones may be alone now.
    loosened: Bits,
    /// Published blocks whose contents the pool wants to move, which are to be withdrawn.
    wanted: Bits,
    /// Published blocks that were not withdrawn, because other members use them.
    used_by_others: Bits,
}

impl Blocks {
    /// Takes a block from the ledger. There are many when a member is taken over, and most are
    /// published.
    pub(crate) fn load(&mut self, pbn: Pbn, kind: BlockState) {
        self.kept.insert(pbn);
        if kind != BlockState::Published {
            self.set_kind(pbn, kind);
        }
    }

    /// Takes the intents in flight from the ledger, after all blocks.
    pub(crate) fn load_in_flight(&mut self, in_flight: &[InFlight]) {
        for one in in_flight {
            for (step, released) in one.intent.steps.iter().zip(&one.released) {
                if let Action::Publish(pbn) = step.change.action {
                    self.kept.insert(pbn);
                    self.publishing.insert(pbn, Progress::Recorded);
                }
                if let Some(pbn) = released {
                    self.due.remove(*pbn);
                    self.by_content.insert(step.change.fingerprint.to_bytes(), *pbn);
                    self.releasing.insert(*pbn, Progress::Recorded);
                }
            }
        }
    }

    /// Notes which blocks the opened pool refers to. Returns the kept ones to which it does not.
    pub(crate) fn note_used(
        &mut self,
        each_used: &EachPbn<'_>,
        is_used: &dyn Fn(Pbn) -> bool,
    ) -> Vec<Pbn> {
        each_used(&mut |pbn| self.identify(pbn));
        let (mut held, mut last) = (Vec::new(), None);
        while let kept @ [.., end] = self.kept.after(last, KEPT_AT_ONCE).as_slice() {
            last = Some(*end);
            held.extend(kept.iter().filter(|pbn| !is_used(**pbn)));
        }
        held.iter().for_each(|pbn| self.lose_last_reference(*pbn));
        held
    }

    /// Notes an identified block.
    pub(crate) fn identify(&mut self, pbn: Pbn) {
        if !self.kept.contains(pbn) {
            self.candidates.insert(pbn);
        }
    }

    /// Notes that the pool does not refer to a block any more. Returns whether it is kept.
    pub(crate) fn drop_reference(&mut self, pbn: Pbn) -> bool {
        self.candidates.remove(pbn);
        let is_kept = self.kept.contains(pbn);
        if is_kept {
            self.lose_last_reference(pbn);
        } else {
            self.postponed.remove(pbn);
        }
        is_kept
    }

    fn lose_last_reference(&mut self, pbn: Pbn) {
        self.unreferenced.insert(pbn);
        self.note_due(pbn);
    }

    /// Marks a block as due if the next release has something to do for it.
    fn note_due(&mut self, pbn: Pbn) {
        let is_in_flight = self.publishing.contains_key(&pbn) || self.releasing.contains_key(&pbn);
        let is_unreferenced = self.unreferenced.contains(pbn);
        let is_due = match self.aside.get(&pbn) {
            Some(Aside::Restored(_)) => true,
            Some(Aside::Alone) => is_unreferenced,
            None => is_unreferenced && !self.lent.contains(pbn),
        };
        if is_due && !is_in_flight {
            self.due.insert(pbn);
        }
    }

    /// Notes that the content of a block has to be looked at, and another block that may have it.
    pub(crate) fn doubt(&mut self, Noticed { pbn, copy }: Noticed) {
        if self.kept.contains(pbn) {
            self.doubted.insert(pbn);
            self.copies.extend(copy.map(|copy| (pbn, copy)));
        }
    }

    /// Takes blocks whose contents have to be looked at.
    pub(crate) fn take_doubted(&mut self, most: usize) -> Vec<Noticed> {
        let pbns = self.doubted.take(most);
        pbns.into_iter().map(|pbn| Noticed { pbn, copy: self.copies.remove(&pbn) }).collect()
    }

    /// Returns the next blocks that other members use, and this one does not.
    pub(crate) fn lent_after(&self, pbn: Option<Pbn>, most: usize) -> Vec<Pbn> {
        self.lent.after(pbn, most)
    }

    pub(crate) fn is_kept(&self, pbn: Pbn) -> bool {
        self.kept.contains(pbn)
    }

    /// Returns whether a block is one that the index may name: its content lies here, and the
    /// ledger has it for the domain, or an intent that is not settled publishes it.
    pub(crate) fn may_be_in_index(&self, pbn: Pbn) -> bool {
        let is_planned = self.publishing.get(&pbn) == Some(&Progress::Planned);
        self.kept.contains(pbn) && !self.is_other(pbn) && !is_planned
    }

    /// Returns whether an intent that is not settled publishes the block.
    pub(crate) fn is_publishing(&self, pbn: Pbn) -> bool {
        self.publishing.contains_key(&pbn)
    }

    pub(crate) const fn borrowed(&self) -> &Borrowed {
        &self.borrowed
    }

    /// Returns the relation of a block to the domain, if it is kept and not being published.
    pub(crate) fn kind(&self, pbn: Pbn) -> Option<BlockState> {
        if !self.kept.contains(pbn) || self.publishing.contains_key(&pbn) && !self.is_other(pbn) {
            return None;
        }
        Some(match (self.aside.get(&pbn), self.borrowed.get(pbn)) {
            (Some(Aside::Restored(place)), _) => BlockState::Restored(*place),
            (Some(Aside::Alone), _) => BlockState::Alone,
            (None, Some(place)) => BlockState::Borrowed(place),
            (None, None) if self.lent.contains(pbn) => BlockState::Lent,
            (None, None) => BlockState::Published,
        })
    }

    fn is_other(&self, pbn: Pbn) -> bool {
        self.aside.contains_key(&pbn) || self.borrowed.get(pbn).is_some()
    }

    /// Sets the relation of a kept block to the domain.
    pub(crate) fn set_kind(&mut self, pbn: Pbn, kind: BlockState) {
        assert!(self.kept.contains(pbn), "block {} is not kept", pbn.number());
        self.borrowed.remove(pbn);
        self.aside.remove(&pbn);
        self.lent.remove(pbn);
        match kind {
            BlockState::Published => {}
            BlockState::Lent => {
                self.lent.insert(pbn);
            }
            BlockState::Borrowed(other) => self.borrowed.insert(pbn, other),
            BlockState::Restored(place) => {
                self.aside.insert(pbn, Aside::Restored(place));
            }
            BlockState::Alone => {
                self.aside.insert(pbn, Aside::Alone);
            }
        }
        self.note_due(pbn);
    }

    /// Takes candidates, which are kept from now on.
    pub(crate) fn take_candidates(&mut self, most: usize) -> Vec<Pbn> {
        let taken = self.candidates.take(most);
        for pbn in &taken {
            self.kept.insert(*pbn);
            self.publishing.insert(*pbn, Progress::Planned);
        }
        taken
    }

    /// Ends the publishing of a block that no intent has. It is a candidate again if
    /// `is_candidate`, and free if the pool does not refer to it any more.
    pub(crate) fn give_up(&mut self, pbn: Pbn, is_candidate: bool) {
        if self.publishing.get(&pbn) != Some(&Progress::Planned) {
            return;
        }
        self.publishing.remove(&pbn);
        if self.unreferenced.contains(pbn) {
            self.free(pbn);
        } else {
            self.kept.remove(pbn);
            if is_candidate {
                self.candidates.insert(pbn);
            }
        }
    }

    /// Ends the publishing of a block that is not shared at present. [`Self::retry`] tries again.
    /// Returns whether it is the first time.
    pub(crate) fn set_aside(&mut self, pbn: Pbn) -> bool {
        self.give_up(pbn, true);
        // A block without a reference is free now, and no candidate.
        self.candidates.remove(pbn) && self.postponed.insert(pbn)
    }

    /// Has the postponed blocks published and their references released with the next ones.
    pub(crate) fn retry(&mut self) {
        // Other members may have given up their references.
        self.used_by_others = Bits::default();
        for pbn in self.postponed.all() {
            match self.kept.contains(pbn) {
                true => self.note_due(pbn),
                false => drop(self.candidates.insert(pbn)),
            }
        }
    }

    /// Returns the blocks that no intent has and that are being published.
    pub(crate) fn planned(&self) -> Vec<Pbn> {
        let planned = self.publishing.iter().filter(|(_, state)| **state == Progress::Planned);
        planned.map(|(pbn, _)| *pbn).collect()
    }

    /// Sets the progress of a block that is being published.
    pub(crate) fn note_publishing(&mut self, pbn: Pbn, progress: Progress) {
        if let Some(state) = self.publishing.get_mut(&pbn) {
            *state = progress;
        }
    }

    /// Ends the publishing of a block whose relation was set.
    pub(crate) fn end_publishing(&mut self, pbn: Pbn) {
        self.publishing.remove(&pbn);
        self.postponed.remove(pbn);
        self.note_due(pbn);
    }

    /// Takes blocks that are due.
    pub(crate) fn take_due(&mut self, most: usize) -> Vec<Pbn> {
        self.due.take(most)
    }

    /// Returns the number of blocks that the next rounds have something to do for.
    pub(crate) const fn waiting(&self) -> u64 {
        self.candidates.len() + self.due.len()
    }

    /// Returns the number of blocks that may become free soon.
    pub(crate) fn soon_free(&self) -> u64 {
        self.due.len() + self.releasing.len() as u64 + self.freed.len() as u64
    }

    /// Puts a block back that was due, unless it is free by now.
    pub(crate) fn put_back_due(&mut self, pbn: Pbn) {
        if self.kept.contains(pbn) {
            self.due.insert(pbn);
        }
    }

    /// Begins the release of a block's reference to a content. Returns `false` if another block's
    /// reference to the content is being released.
    pub(crate) fn begin_release(&mut self, fingerprint: Fingerprint, pbn: Pbn) -> bool {
        let content = fingerprint.to_bytes();
        if self.by_content.contains_key(&content) {
            return false;
        }
        self.by_content.insert(content, pbn);
        self.releasing.insert(pbn, Progress::Planned);
        true
    }

    /// Returns the block whose reference to a content is being released.
    pub(crate) fn released(&self, fingerprint: Fingerprint) -> Option<Pbn> {
        self.by_content.get(&fingerprint.to_bytes()).copied()
    }

    /// Sets the progress of a release.
    pub(crate) fn note_releasing(&mut self, fingerprint: Fingerprint, progress: Progress) {
        let pbn = self.released(fingerprint);
        if let Some(state) = pbn.and_then(|pbn| self.releasing.get_mut(&pbn)) {
            *state = progress;
        }
    }

    /// Ends the release of a reference.
    pub(crate) fn end_release(&mut self, fingerprint: Fingerprint) {
        if let Some(pbn) = self.by_content.remove(&fingerprint.to_bytes()) {
            self.releasing.remove(&pbn);
            self.postponed.remove(pbn);
        }
    }

    /// Ends the release of a reference that could not be decided. [`Self::retry`] tries again.
    pub(crate) fn postpone_release(&mut self, fingerprint: Fingerprint) {
        let Some(pbn) = self.released(fingerprint) else { return };
        if self.releasing.get(&pbn) == Some(&Progress::Planned) {
            self.end_release(fingerprint);
            self.postponed.insert(pbn);
        }
    }

    /// Gives up the releases that no intent has: their blocks are due again.
    pub(crate) fn give_up_releases(&mut self) {
        let planned = self.releasing.extract_if(|_, state| *state == Progress::Planned);
        let planned: Vec<Pbn> = planned.map(|(pbn, _)| pbn).collect();
        self.by_content.retain(|_, pbn| self.releasing.contains_key(pbn));
        planned.into_iter().for_each(|pbn| self.note_due(pbn));
    }

    /// Frees a kept block that has no ledger record any more. A block to which the pool
    /// refers is the pool's own again.
    pub(crate) fn free(&mut self, pbn: Pbn) {
        if !self.kept.remove(pbn) {
            return;
        }
        self.borrowed.remove(pbn);
        self.aside.remove(&pbn);
        self.lent.remove(pbn);
        self.due.remove(pbn);
        self.doubted.remove(pbn);
        self.copies.remove(&pbn);
        self.postponed.remove(pbn);
        self.wanted.remove(pbn);
        self.used_by_others.remove(pbn);
        if self.unreferenced.remove(pbn) {
            self.freed.push(pbn);
        }
    }

    /// Notes a content that has left its block, in which borrowed ones may be alone now.
    pub(crate) fn loosen(&mut self, pbn: Pbn) {
        if self.borrowed.len() > 0 {
            self.loosened.insert(pbn);
        }
    }

    /// Takes contents that have left their blocks.
    pub(crate) fn take_loosened(&mut self, most: usize) -> Vec<Pbn> {
        self.loosened.take(most)
    }

    /// Takes the blocks that are free, to give them back to the pool.
    pub(crate) fn take_freed(&mut self) -> Vec<Pbn> {
        std::mem::take(&mut self.freed)
    }

    /// Returns the counts of blocks.
    pub(crate) fn figures(&self) -> BlockStats {
        let bits = [
            &self.kept,
            &self.unreferenced,
            &self.candidates,
            &self.due,
            &self.lent,
            &self.doubted,
            &self.postponed,
            &self.loosened,
            &self.wanted,
            &self.used_by_others,
        ];
        BlockStats {
            kept: self.kept.len(),
            borrowed: self.borrowed.len(),
            lent: self.lent.len(),
            waiting: self.candidates.len(),
            due: self.due.len(),
            memory_bytes: bits.iter().map(|bits| bits.bytes()).sum::<u64>() + self.borrowed.bytes(),
        }
    }
}

#[cfg(test)]
mod tests;
