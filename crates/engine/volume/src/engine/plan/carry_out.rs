//! Carries out a plan: notes where contents were stored, and then tells the change that each block
//! needs and the assumptions that must still hold when the change is made.

use super::{Block, BlockFate, Plan, Tally};
use crate::engine::State;
use crate::engine::damage::Healer;
use crate::engine::data::NewPlace;
use crate::engine::item::Failed;
use crate::error::{Result, VolumeError};
use gemelo_format::{Change, DiskRole, Fingerprint, Lbn, MapEntry, Pbn, VolumeId};

/// The block that is to be shared, and the fingerprint that it must still have.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Shared {
    pub(in crate::engine) pbn: Pbn,
    pub(in crate::engine) fingerprint: Fingerprint,
}

impl<'p> Plan<'p> {
    /// The contents that need PBNs of their own.
    pub(in crate::engine) fn fresh_contents(&self) -> Vec<&'p [u8]> {
        let mut contents = Vec::with_capacity(self.blocks.len());
        let fresh = self.blocks.iter().filter(|block| block.step == BlockFate::Fresh);
        contents.extend(fresh.map(|block| block.content));
        contents
    }

    /// The LBN and the PBN of each fresh block that replaces a stored one, unless it is in a row of
    /// at least this many LBNs.
    pub(in crate::engine) fn scattered(
        &self,
        row_blocks: usize,
    ) -> impl Iterator<Item = Option<(Lbn, Pbn)>> {
        let rows = self.blocks.chunk_by(|one, next| one.lbn.0 + 1 == next.lbn.0);
        rows.flat_map(move |row| {
            let fresh = row.iter().filter(|block| block.step == BlockFate::Fresh);
            let stored = |block: &Block<'p>| Some((block.lbn, block.place.pbn()?));
            fresh.map(move |block| stored(block).filter(|_| row.len() < row_blocks))
        })
    }

    /// Gives each fresh block the place where its content was stored. The request of one that could
    /// not be written fails.
    pub(in crate::engine) fn place(&mut self, places: Vec<NewPlace>, failed: &mut Failed<'_>) {
        assert_eq!(places.len(), self.fresh_blocks(), "each fresh block gets a PBN of its own");
        let fresh = self.blocks.iter_mut().filter(|block| block.step == BlockFate::Fresh);
        for (block, NewPlace { pbn, outcome }) in fresh.zip(places) {
            block.step = match outcome {
                Ok(()) => BlockFate::Store(pbn),
                Err(error) => {
                    failed(block.request, &VolumeError::io(DiskRole::Data, "write")(error));
                    BlockFate::Lost(pbn)
                }
            };
        }
        assert_eq!(self.fresh_blocks(), 0, "a fresh block has no place");
    }

    /// Writes the contents of suspect blocks there again. A block whose leader was not healed was
    /// never tried itself; it goes through another pass.
    pub(in crate::engine) fn heal(&mut self, healer: &Healer) {
        for block in &mut self.blocks {
            if let BlockFate::Heal(pbn) = block.step
                && !healer.heal(Some(pbn), block.content)
            {
                block.step = BlockFate::Retry;
            }
        }
    }

    /// Returns whether the request of a block has failed.
    pub(in crate::engine) fn has_failed(&self, at: usize) -> bool {
        matches!(self.step_of(at), BlockFate::Failed | BlockFate::Lost(_))
    }

    /// Returns whether a block is done if its assumptions still hold. Others have failed or need
    /// another pass.
    pub(in crate::engine) fn is_ready(&self, at: usize) -> bool {
        let step = self.step_of(at);
        assert_ne!(step, BlockFate::Fresh, "a fresh block has no place");
        !self.has_failed(at) && step != BlockFate::Retry
    }

    fn step_of(&self, at: usize) -> BlockFate {
        let block = self.blocks.get(at);
        assert!(block.is_some(), "a plan has no block {at}");
        block.map_or(BlockFate::Failed, |block| block.step)
    }

    /// The suspect block whose content was written anew.
    pub(in crate::engine) fn healed(&self, at: usize) -> Option<Pbn> {
        match self.step_of(at) {
            BlockFate::Heal(pbn) => Some(pbn),
            _ => None,
        }
    }

    /// Notes that the change of a block was made.
    pub(in crate::engine) fn set_done(&mut self, at: usize) {
        if let Some(block) = self.blocks.get_mut(at) {
            assert!(!block.is_done, "a block is done once");
            block.is_done = true;
        }
    }

    fn is_done(&self, at: usize) -> bool {
        self.blocks.get(at).is_some_and(|block| block.is_done)
    }

    /// The LBNs of the blocks that were done and have a PBN of their own.
    pub(in crate::engine) fn stored(&self) -> impl Iterator<Item = Lbn> {
        let stored = self.blocks.iter().filter(|block| block.is_done && block.taken().is_some());
        stored.map(|block| block.lbn)
    }

    /// The PBN allocated to a block.
    pub(in crate::engine) fn taken(&self, at: usize) -> Option<Pbn> {
        self.blocks.get(at)?.taken()
    }

    /// The PBNs allocated to blocks that were not done.
    pub(in crate::engine) fn unstored(&self) -> Vec<Pbn> {
        let undone = self.blocks.iter().filter(|block| !block.is_done);
        undone.filter_map(Block::taken).collect()
    }

    /// The LBN of a patched block, and the place that it must still have when the change is made.
    pub(in crate::engine) fn patched(&self, at: usize) -> Option<(Lbn, MapEntry)> {
        let block = self.blocks.get(at)?;
        Some((block.lbn, block.base?))
    }

    /// Returns whether the block follows an earlier one that was not done.
    pub(in crate::engine) fn has_lost_leader(&self, at: usize) -> bool {
        match self.step_of(at) {
            BlockFate::Follow(leader) => !self.is_done(leader),
            _ => false,
        }
    }

    /// The block that is to be shared.
    pub(in crate::engine) fn shared(&self, at: usize) -> Option<Shared> {
        let block = self.blocks.get(at)?;
        let pbn = match block.step {
            BlockFate::Share(pbn) | BlockFate::Heal(pbn) => pbn,
            BlockFate::Follow(leader) => self.blocks.get(leader)?.target()?,
            _ => return None,
        };
        Some(Shared { pbn, fingerprint: block.fingerprint })
    }

    /// Returns whether a block shares one that was looked up, and that has room for a reference of
    /// each block of the plan.
    pub(in crate::engine) fn is_shareable(&self, at: usize) -> bool {
        let most = u64::from(self.max_references).saturating_sub(self.blocks.len() as u64);
        let has_room = |block: &Block<'_>| {
            let is_below = |found: super::KnownContent| u64::from(found.record.references) < most;
            block.base.is_none() && block.found.is_some_and(is_below)
        };
        matches!(self.step_of(at), BlockFate::Share(_)) && self.blocks.get(at).is_some_and(has_room)
    }

    /// Returns for each block whether another writer has stored its content since the look-up. Such
    /// blocks go through another pass, and are shared there. `None` if nothing has changed since
    /// the look-up.
    pub(in crate::engine) fn stored_meanwhile(&self, state: &State) -> Result<Option<Vec<bool>>> {
        if state.version() == self.version {
            return Ok(None);
        }
        let now = state.find(&self.fingerprints())?;
        let before_and_now = self.blocks.iter().zip(now);
        Ok(Some(
            before_and_now.map(|(block, now)| block.found.is_none() && now.is_some()).collect(),
        ))
    }

    /// Returns whether a block that was stored gets another content.
    pub(in crate::engine) fn replaces(&self, at: usize) -> bool {
        let is_content = |block: &&Block<'_>| {
            !matches!(
                block.step,
                BlockFate::Unmap | BlockFate::Unchanged | BlockFate::Failed | BlockFate::Lost(_)
            )
        };
        let block = self.blocks.get(at).filter(is_content);
        block.is_some_and(|block| matches!(block.place, MapEntry::Stored(..)))
    }

    /// The change of the metadata that carries out the decision for a block; `None` if nothing has
    /// to be changed.
    pub(in crate::engine) fn change(&self, volume: VolumeId, at: usize) -> Option<Change> {
        let block = self.blocks.get(at)?;
        let (lbn, fingerprint) = (block.lbn, block.fingerprint);
        let change = match block.step {
            BlockFate::Unchanged => return None,
            BlockFate::Heal(pbn) if block.place.pbn() == Some(pbn) => return None,
            BlockFate::Unmap => Some(Change::Unmap { volume, first: lbn, count: 1 }),
            BlockFate::Share(_) | BlockFate::Heal(_) | BlockFate::Follow(_) => self
                .shared(at)
                .zip(block.checksum)
                .map(|(Shared { pbn, .. }, checksum)| Change::Share { volume, lbn, pbn, checksum }),
            BlockFate::Store(pbn) => block.checksum.map(|checksum| Change::Store {
                volume,
                lbn,
                pbn,
                fingerprint,
                checksum,
            }),
            BlockFate::Failed | BlockFate::Lost(_) | BlockFate::Retry | BlockFate::Fresh => None,
        };
        assert!(change.is_some(), "a block would be acknowledged whose content is nowhere");
        change
    }

    /// Counts the blocks that were done by their outcome.
    pub(in crate::engine) fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for block in self.blocks.iter().filter(|block| block.is_done) {
            tally.patched += u64::from(block.base.is_some());
            tally.zero += u64::from(block.is_zero);
            match block.step {
                BlockFate::Failed
                | BlockFate::Lost(_)
                | BlockFate::Retry
                | BlockFate::Fresh
                | BlockFate::Unmap => {}
                BlockFate::Unchanged => tally.unchanged += u64::from(!block.is_zero),
                BlockFate::Share(_) | BlockFate::Heal(_) | BlockFate::Follow(_) => {
                    tally.duplicate += 1;
                }
                BlockFate::Store(_) => {
                    tally.unique += 1;
                    tally.cow += u64::from(matches!(block.place, MapEntry::Stored(..)));
                }
            }
        }
        tally
    }
}
