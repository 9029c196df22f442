//! Carries out a plan: writes the contents, and then tells the change that each block needs and the
//! assumptions that must still hold when the change is made.

use super::{Block, Plan, Step, Tally};
use crate::engine::write::Failed;
use crate::engine::{Engine, State};
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, DiskRole, Fingerprint, Lbn, Pbn, Place, VolumeId};
use gemelo_store::ContentWrite;
use std::num::NonZeroU64;

impl<'p, 'a: 'p> Plan<'p, 'a> {
    /// Gives each fresh block its PBN, and the ticket with which it is written.
    pub(in crate::engine) fn place(&mut self, pbns: Vec<Pbn>, ticket: Option<NonZeroU64>) {
        self.ticket = ticket;
        let fresh = self.blocks.iter_mut().filter(|block| block.step == Step::Fresh);
        for (block, pbn) in fresh.zip(pbns) {
            block.pbn = Some(pbn);
        }
    }

    /// Writes the fresh blocks, and the suspect blocks whose contents are in the list.
    pub(in crate::engine) fn write(&mut self, engine: &Engine, failed: &mut Failed<'_>) {
        let target = |block: &Block<'p>| match block.step {
            Step::Heal(pbn) => Some(pbn),
            _ => block.pbn,
        };
        let ticketed = |block: &Block<'p>| {
            let ticket = self.ticket.filter(|_| block.pbn.is_some());
            let write = ContentWrite::new(target(block)?, block.content);
            Some(ContentWrite { ticket, ..write })
        };
        let mut writes: Vec<ContentWrite<'_>> = self.blocks.iter().filter_map(ticketed).collect();
        engine.data.write(&mut writes);
        let mut lost: Vec<Pbn> = Vec::new();
        for write in writes {
            let Err(error) = write.outcome else { continue };
            let error = VolumeError::io(DiskRole::Data, "write")(error);
            let fresh = self.blocks.iter().find(|block| block.pbn == Some(write.pbn));
            fresh.into_iter().for_each(|block| failed(block.request, &error));
            lost.push(write.pbn);
        }
        if lost.is_empty() {
            return;
        }
        // A block whose leader failed was never tried itself; it goes through another pass.
        for block in self
            .blocks
            .iter_mut()
            .filter(|block| target(block).is_some_and(|pbn| lost.contains(&pbn)))
        {
            block.step = match block.step {
                Step::Heal(pbn) => {
                    engine.damages.note_unwritable(pbn);
                    Step::Retry
                }
                _ => Step::Failed,
            };
        }
    }

    /// Returns whether the block needs another pass.
    pub(in crate::engine) fn must_retry(&self, at: usize) -> bool {
        self.blocks.get(at).is_some_and(|block| block.step == Step::Retry)
    }

    /// The suspect block whose content was written anew.
    pub(in crate::engine) fn healed(&self, at: usize) -> Option<Pbn> {
        match self.blocks.get(at)?.step {
            Step::Heal(pbn) => Some(pbn),
            _ => None,
        }
    }

    pub(in crate::engine) fn has_failed(&self, at: usize) -> bool {
        self.blocks.get(at).is_none_or(|block| block.step == Step::Failed)
    }

    /// The LBN of a block.
    pub(in crate::engine) fn lbn(&self, at: usize) -> Option<Lbn> {
        Some(self.blocks.get(at)?.lbn)
    }

    /// The PBN taken for a block.
    pub(in crate::engine) fn fresh(&self, at: usize) -> Option<Pbn> {
        self.blocks.get(at)?.pbn
    }

    /// The LBN of a patched block, and the place that it must still have when the change is made.
    pub(in crate::engine) fn patched(&self, at: usize) -> Option<(Lbn, Place)> {
        let block = self.blocks.get(at)?;
        Some((block.lbn, block.base?))
    }

    /// The earlier block of the list with the same content.
    pub(in crate::engine) fn leader(&self, at: usize) -> Option<usize> {
        match self.blocks.get(at)?.step {
            Step::Follow(leader) => Some(leader),
            _ => None,
        }
    }

    /// The block that is to be shared, and the fingerprint that it must still have.
    pub(in crate::engine) fn shared(&self, at: usize) -> Option<(Pbn, Fingerprint)> {
        let pbn = match self.blocks.get(at)?.step {
            Step::Share(pbn) | Step::Heal(pbn) => pbn,
            Step::Follow(leader) => self.fresh(leader).or_else(|| self.healed(leader))?,
            _ => return None,
        };
        Some((pbn, self.fingerprint(at)))
    }

    /// Returns for each block whether another writer has stored its content since the look-up. Such
    /// blocks go through another pass, and are shared there. The list is empty if nothing has
    /// changed since the look-up.
    pub(in crate::engine) fn stored_meanwhile(&self, state: &State) -> Result<Vec<bool>> {
        if state.version() == self.version {
            return Ok(Vec::new());
        }
        let mut now = Vec::with_capacity(self.blocks.len());
        state.backend().find(&self.fingerprints, &mut now)?;
        let before_and_now = self.found.iter().zip(now);
        Ok(before_and_now.map(|(before, now)| before.is_none() && now.is_some()).collect())
    }

    /// Returns whether a block that was stored gets another content.
    pub(in crate::engine) fn replaces(&self, at: usize) -> bool {
        let is_stored = matches!(self.places.get(at), Some(Place::Stored(..)));
        let is_content =
            |block: &Block<'_>| !matches!(block.step, Step::Unmap | Step::Unchanged | Step::Failed);
        is_stored && self.blocks.get(at).is_some_and(is_content)
    }

    /// The change of the metadata that carries out the decision for a block.
    pub(in crate::engine) fn change(&self, volume: VolumeId, at: usize) -> Option<Change> {
        let block = self.blocks.get(at)?;
        let lbn = block.lbn;
        match block.step {
            Step::Failed | Step::Retry | Step::Unchanged => None,
            Step::Heal(pbn) if self.places.get(at)?.pbn() == Some(pbn) => None,
            Step::Unmap => Some(Change::Unmap { volume, first: lbn, count: 1 }),
            Step::Share(_) | Step::Heal(_) | Step::Follow(_) => {
                let (pbn, checksum) = (self.shared(at)?.0, self.checksum(at));
                Some(Change::Share { volume, lbn, pbn, checksum })
            }
            Step::Fresh => {
                let (pbn, fingerprint, checksum) =
                    (block.pbn?, self.fingerprint(at), self.checksum(at));
                Some(Change::Store { volume, lbn, pbn, fingerprint, checksum })
            }
        }
    }

    /// Counts the blocks by their outcome.
    pub(in crate::engine) fn tally(&self, done: &[bool]) -> Tally {
        let mut tally = Tally::default();
        for (at, block) in
            self.blocks.iter().enumerate().filter(|(at, _)| done.get(*at) == Some(&true))
        {
            tally.patched += u64::from(block.base.is_some());
            tally.zero += u64::from(block.is_zero);
            match block.step {
                Step::Failed | Step::Retry | Step::Unmap => {}
                Step::Unchanged => tally.unchanged += u64::from(!block.is_zero),
                Step::Share(_) | Step::Heal(_) | Step::Follow(_) => tally.duplicate += 1,
                Step::Fresh => {
                    tally.unique += 1;
                    tally.cow += u64::from(matches!(self.places.get(at), Some(Place::Stored(..))));
                }
            }
        }
        tally
    }
}
