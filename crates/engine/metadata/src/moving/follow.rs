//! Has the new backend follow the changes of the old one.

use super::Mirror;
use super::copy::{Copying, END_OF_PBNS};
use super::differ::END;
use crate::error::Result;
use crate::traits::MetadataBackend;
use gemelo_format::{Change, Lbn, VolumeId};

impl Mirror {
    /// Follows a change that the old backend has made. A failure ends the move and not the change.
    pub(super) fn follow(&mut self, from: &dyn MetadataBackend, change: &Change) {
        if !self.failure.is_set() {
            let followed = self.follow_one(from, change);
            self.failure.catch(followed);
        }
    }

    /// Fails if the new backend has failed after the state that its own root has, which may be
    /// durable: there is no way back to the old one.
    pub(super) fn check_root(&self) -> Result<()> {
        let is_last = self.is_switching && self.is_frozen;
        let failure = if is_last { self.failure.0.lock().take() } else { None };
        failure.map_or(Ok(()), Err)
    }

    fn follow_one(&mut self, from: &dyn MetadataBackend, change: &Change) -> Result<()> {
        match change {
            Change::Store { volume, lbn, .. } | Change::Share { volume, lbn, .. } => {
                self.put(from, *volume, *lbn)
            }
            Change::Unmap { volume, first, count } => {
                let end = Lbn(first.0.saturating_add(*count));
                self.unmap(from, *volume, *first, end)
            }
            Change::Copy { volume, first, count, .. } | Change::Lose { volume, first, count } => {
                self.put_all(from, *volume, *first, Lbn(first.0.saturating_add(*count)))
            }
            Change::Create(record) => {
                self.copied.insert(record);
                self.make(change)
            }
            Change::Clone { source, volume, .. } => {
                self.clone_volume(from, *source, *volume, change)
            }
            // It is hidden until it is complete, and copied then.
            Change::Begin { .. } => Ok(()),
            Change::Hide { volume } => {
                self.copied.hide(*volume);
                self.restart_if_base(*volume)?;
                self.describe(from, *volume)
            }
            Change::Resize { volume, size_bytes } => {
                self.unmap(from, *volume, Lbn(size_bytes / self.block_bytes), END)?;
                self.describe(from, *volume)
            }
            Change::Show { volume }
            | Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::SetCompression { volume, .. }
            | Change::Shrink { volume, .. } => self.describe(from, *volume),
            Change::Remove { volume } => self.remove(*volume, change),
            Change::Identify { pbn, .. } | Change::Suspect { pbn, .. } => {
                // The record of a block comes with its first reference.
                if self.count(*pbn)? > 0 { self.make(change) } else { Ok(()) }
            }
            Change::Grow { .. } | Change::JournalData { .. } => self.make(change),
        }
    }

    /// The copy whose base is this volume.
    fn copy_of(&self, volume: VolumeId) -> Option<&Copying> {
        self.copying.as_ref().filter(|copy| copy.base == Some(volume))
    }

    /// Sets an LBN that the old backend has changed, with the record of its block: a block that is
    /// fresh was not there when records were listed.
    fn put(&mut self, from: &dyn MetadataBackend, volume: VolumeId, lbn: Lbn) -> Result<()> {
        if self.has(volume) {
            self.set(from, (volume, lbn), END_OF_PBNS)?;
        }
        let copy = self.copy_of(volume).filter(|copy| lbn >= copy.cursor);
        match copy.map(|copy| copy.volume) {
            Some(copy) => self.set(from, (copy, lbn), END_OF_PBNS),
            None => Ok(()),
        }
    }

    /// Sets the LBNs of a range that are mapped.
    fn put_all(
        &mut self,
        from: &dyn MetadataBackend,
        volume: VolumeId,
        first: Lbn,
        end: Lbn,
    ) -> Result<()> {
        if !self.has(volume) && self.copy_of(volume).is_none() {
            return Ok(());
        }
        let mut next = first;
        while let Some(lbn) = from.next_mapped(volume, next, end)? {
            self.put(from, volume, lbn)?;
            next = Lbn(lbn.0 + 1);
        }
        Ok(())
    }

    /// Unmaps LBNs. A copy of the volume loses what it has of them from its base; what the volume
    /// itself has there differs from the base from now on.
    fn unmap(
        &mut self,
        from: &dyn MetadataBackend,
        volume: VolumeId,
        first: Lbn,
        end: Lbn,
    ) -> Result<()> {
        let unmap = |volume, first: Lbn| {
            let count = end.0.saturating_sub(first.0);
            Change::Unmap { volume, first, count }
        };
        if self.has(volume) {
            self.make(&unmap(volume, first))?;
        }
        if let Some(Copying { volume: copy, cursor, .. }) = self.copy_of(volume) {
            let (copy, first) = (*copy, first.max(*cursor));
            self.version += 1;
            if first < end {
                self.make(&unmap(copy, first))?;
            }
        }
        // A volume that is being removed keeps, in some backends, entries that it has given up.
        let is_hidden = from.description(volume).is_some_and(|record| record.is_hidden);
        let own = self.copying.as_mut().filter(|copy| copy.volume == volume && is_hidden);
        own.into_iter().for_each(|copy| copy.cursor = copy.cursor.max(end));
        Ok(())
    }

    /// Clones a volume if both backends do it in one change. Otherwise the clone is copied later.
    fn clone_volume(
        &mut self,
        from: &dyn MetadataBackend,
        source: VolumeId,
        volume: VolumeId,
        change: &Change,
    ) -> Result<()> {
        let shares = !from.clones_add_references() && !self.backend.clones_add_references();
        if shares && self.copied.has(source) {
            from.description(volume).iter().for_each(|record| self.copied.insert(record));
            return self.make(change);
        }
        Ok(())
    }

    /// Gives a volume the record that the old backend has. One that is being copied gets it at the
    /// end.
    fn describe(&mut self, from: &dyn MetadataBackend, volume: VolumeId) -> Result<()> {
        match from.description(volume).filter(|_| self.copied.has(volume)) {
            Some(record) => self.backend.describe(record),
            None => Ok(()),
        }
    }

    /// Gives up a copy whose base is about to be removed. It begins again with another base.
    fn restart_if_base(&mut self, volume: VolumeId) -> Result<()> {
        match self.copying.take_if(|copy| copy.base == Some(volume)) {
            Some(copy) => self.make(&Change::Remove { volume: copy.volume }),
            None => Ok(()),
        }
    }

    fn remove(&mut self, volume: VolumeId, change: &Change) -> Result<()> {
        self.restart_if_base(volume)?;
        let has = self.has(volume);
        self.copying.take_if(|copy| copy.volume == volume);
        self.copied.remove(volume);
        if has { self.make(change) } else { Ok(()) }
    }
}
