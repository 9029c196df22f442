//! Checks changes before they are made, and reads what they need: what is refused leaves the state
//! as it is, and a page that cannot be read does not leave a change half made.

use super::compare::{FamilyComparison, Parting};
use super::maps::Maps;
use super::records::Records;
use super::unmap::{CheckedLeave, counts_after_leave};
use crate::error::{MetadataError, Result};
use gemelo_format::{Change, Lbn, Pbn, VolumeId};
use std::ops::Range;

/// A bound above every LBN.
const END: u64 = u64::MAX;

/// Prepares changes.
pub(super) struct Preparation<'p> {
    pub(super) maps: &'p Maps,
    pub(super) records: &'p Records,
}

impl<'p> Preparation<'p> {
    pub(super) const fn new(maps: &'p Maps, records: &'p Records) -> Self {
        Self { maps, records }
    }

    /// Does the work of [`crate::MetadataBackend::check_change`]. Returns what the change need not
    /// compute again.
    pub(super) fn check(&self, change: &Change) -> Result<Option<CheckedLeave>> {
        match change {
            // The read of a single LBN precedes its change.
            Change::Unmap { volume, first, count } if *count > 1 => {
                self.read_cut(*volume, first.0..first.0.saturating_add(*count), false)
            }
            Change::Remove { volume } => self.read_cut(*volume, 0..END, true),
            Change::Resize { volume, size_bytes, .. } => {
                self.maps.check_size(*size_bytes)?;
                self.read_cut(*volume, self.maps.blocks(*size_bytes)..END, false)
            }
            _ => self.check_plain(change).map(|()| None),
        }
    }

    /// Checks a change that reads little.
    fn check_plain(&self, change: &Change) -> Result<()> {
        let maps = self.maps;
        match change {
            Change::Store { volume, lbn, pbn, .. } | Change::Share { volume, lbn, pbn, .. } => {
                self.check_place(*volume, *lbn, *pbn)
            }
            Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => {
                self.records.check_pbn(*pbn)
            }
            Change::Unmap { volume, .. }
            | Change::Remove { volume }
            | Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::SetCompression { volume, .. }
            | Change::SetLimits { volume, .. }
            | Change::Hold { volume, .. }
            | Change::Hide { volume }
            | Change::Receive { volume, .. }
            | Change::Lose { volume, .. } => maps.volume(*volume).map(drop),
            Change::Resize { volume, size_bytes, .. }
            | Change::Shrink { volume, size_bytes, .. } => {
                maps.check_size(*size_bytes)?;
                maps.volume(*volume).map(drop)
            }
            Change::Create(record) => {
                maps.check_size(record.size_bytes)?;
                maps.check_unused(record.id)
            }
            Change::Clone { source, volume, .. } => {
                maps.volume(*source)?;
                maps.check_unused(*volume)
            }
            Change::Rollback { volume, source, left } => {
                maps.check_rollback(*volume, *source, *left)
            }
            Change::Move { from, to, .. } => self.check_move(*from, *to),
            Change::JournalData { .. } | Change::Grow { .. } | Change::Cut { .. } => Ok(()),
        }
    }

    fn check_place(&self, id: VolumeId, lbn: Lbn, pbn: Pbn) -> Result<()> {
        self.records.check_pbn(pbn)?;
        if lbn.0 >= self.maps.blocks(self.maps.volume(id)?.record.size_bytes) {
            return Err(MetadataError::damaged(format!(
                "volume {id} is too small to have a block {}",
                lbn.0
            )));
        }
        Ok(())
    }

    fn check_move(&self, from: Pbn, to: Pbn) -> Result<()> {
        self.records.check_pbn(from)?;
        self.records.check_pbn(to)?;
        if from == to || self.maps.moved.has(to) {
            let number = to.number();
            let what = format!("a change moves a content to block {number}, which was moved");
            return Err(MetadataError::damaged(what));
        }
        Ok(())
    }

    /// Fails if a commit of the journal stores to a block, one of the store, to which something
    /// refers. The allocation of blocks sees to it elsewhere.
    pub(super) fn check_stored_block(&self, change: &Change) -> Result<()> {
        let (Change::Store { pbn, .. } | Change::Move { to: pbn, .. }) = change else {
            return Ok(());
        };
        if !self.records.is_counting || self.records.count(pbn.number())? == 0 {
            return Ok(());
        }
        let number = pbn.number();
        Err(MetadataError::damaged(format!("a commit stores to block {number}, which is in use")))
    }

    /// Reads everything that the unmapping of these LBNs needs.
    fn read_cut(
        &self,
        id: VolumeId,
        lbns: Range<u64>,
        is_removed: bool,
    ) -> Result<Option<CheckedLeave>> {
        let lbns = self.maps.with_edges(id, lbns)?;
        let left = self.maps.volume(id)?.place.left;
        if is_removed || self.maps.leaves_family(id, lbns.start)? {
            let lbns = left..lbns.end;
            let counts = counts_after_leave(self.maps, self.records, id, lbns.clone())?;
            return Ok(Some(CheckedLeave { id, lbns, counts }));
        }
        let unmapped = FamilyComparison::new(self.maps, id, Parting::Unmap);
        let found = unmapped.difference(lbns.start.max(left)..lbns.end)?;
        self.records.counts_after(&found.gains).map(|_| None)
    }
}
