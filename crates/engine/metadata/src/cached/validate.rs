//! Checks changes before they are made: what is refused leaves the state as it is.

use super::CachedBackend;
use super::layout::Layout;
use crate::error::{MetadataError, Result};
use gemelo_format::{Change, Lbn, Pbn, VolumeId};
use std::collections::BTreeMap;

/// A bound above every LBN.
const END: Lbn = Lbn(u64::MAX);

impl<L: Layout> CachedBackend<L> {
    /// Does the work of [`crate::MetadataBackend::check_change`].
    pub(super) fn check_one(&self, change: &Change) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } => {
                self.check_place(*volume, *lbn, *pbn)
            }
            Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => self.check_pbn(*pbn),
            Change::Unmap { volume, first, count } => {
                self.volume(*volume)?;
                // The read of a single LBN precedes its change.
                let end = Lbn(first.0.saturating_add(*count));
                if *count > 1 { self.read_ahead_of(*volume, *first, end) } else { Ok(()) }
            }
            Change::Remove { volume } => self.read_ahead_of_cut(*volume, 0..END.0, true),
            Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::SetCompression { volume, .. }
            | Change::SetLimits { volume, .. }
            | Change::Hold { volume, .. }
            | Change::Hide { volume }
            | Change::Receive { volume, .. }
            | Change::Lose { volume, .. } => self.volume(*volume).map(drop),
            Change::Resize { volume, size_bytes, .. } => {
                self.check_size(*size_bytes)?;
                self.volume(*volume)?;
                self.read_ahead_of(*volume, Lbn(size_bytes / self.block_bytes), END)
            }
            Change::Shrink { volume, size_bytes, .. } => {
                self.check_size(*size_bytes)?;
                self.volume(*volume).map(drop)
            }
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.check_unused(record.id)
            }
            Change::Clone { source, volume, .. } => {
                self.volume(*source)?;
                self.check_unused(*volume)
            }
            Change::Rollback { volume, source, left } => {
                self.check_rollback(*volume, *source, *left)
            }
            Change::JournalData { .. } | Change::Grow { .. } => Ok(()),
        }
    }

    /// Reads everything that a change of these LBNs needs. A page that cannot be read then refuses
    /// the change as a whole, and does not leave it half made.
    fn read_ahead_of(&self, id: VolumeId, first: Lbn, end: Lbn) -> Result<()> {
        self.read_ahead_of_cut(id, first.0..end.0, false)
    }

    /// Reads what the first changes of each LBN in the journal need, in lists. A page that cannot
    /// be read is found by the change itself.
    pub(super) fn read_ahead_of_replay(&self, changes: &[Change]) {
        let mut by_volume: BTreeMap<VolumeId, Vec<Lbn>> = BTreeMap::new();
        let mut shared = Vec::new();
        for change in changes {
            match change {
                Change::Store { volume, lbn, pbn, .. } => {
                    by_volume.entry(*volume).or_default().push(*lbn);
                    shared.push(pbn.number());
                }
                Change::Share { volume, lbn, pbn, .. } => {
                    by_volume.entry(*volume).or_default().push(*lbn);
                    shared.push(pbn.number());
                }
                _ => {}
            }
        }
        for (volume, lbns) in by_volume {
            let Ok(mut words) = self.words(volume) else { continue };
            let words: Result<Vec<u64>> = words.get_all(&lbns).into_iter().collect();
            let own = words
                .map(|words| words.into_iter().map(|word| self.pbn_of(word)).collect::<Vec<_>>());
            let pbns = own.and_then(|own| self.pbns_to_change(volume, &lbns, &own));
            shared.extend(pbns.unwrap_or_default());
        }
        if self.is_counting {
            let _ = self.counts_of(&shared);
        }
    }

    /// Fails if a commit of the journal stores to a block, one of the store, to which something
    /// refers. The allocation of blocks sees to it elsewhere.
    pub(super) fn check_stored_block(&self, change: &Change) -> Result<()> {
        let Change::Store { pbn, .. } = change else { return Ok(()) };
        if !self.is_counting || self.count(pbn.number())? == 0 {
            return Ok(());
        }
        let number = pbn.number();
        Err(MetadataError::damaged(format!("a commit stores to block {number}, which is in use")))
    }

    pub(super) fn check_unused(&self, id: VolumeId) -> Result<()> {
        if !id.is_possible() {
            return Err(MetadataError::damaged(format!("no volume can have the id {id}")));
        }
        match self.volumes.contains_key(&id) {
            false => Ok(()),
            true => Err(MetadataError::damaged(format!("the metadata have volume {id} twice"))),
        }
    }

    pub(super) fn check_pbn(&self, pbn: Pbn) -> Result<()> {
        if self.store.has(pbn, self.data_blocks) {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata refer to block {}, which is outside of the data store",
            pbn.number()
        )))
    }

    pub(super) fn check_place(&self, id: VolumeId, lbn: Lbn, pbn: Pbn) -> Result<()> {
        self.check_pbn(pbn)?;
        if lbn.0 >= self.volume(id)?.record.size_bytes / self.block_bytes {
            return Err(MetadataError::damaged(format!(
                "volume {id} is too small to have a block {}",
                lbn.0
            )));
        }
        Ok(())
    }
}
