//! Applies changes to the map, the records and the index.

use super::map::{MapPage, PagedMap, is_shared};
use super::{LogBackend, LogVolume};
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Change, Fingerprint, Identity, Lbn, MAX_VOLUME_BLOCKS, Pbn, Place, VolumeId, VolumeRecord,
};
use std::sync::Arc;

/// A saturated reference count, which no longer changes.
pub(super) const FULL_COUNT: u32 = u32::MAX;

impl LogBackend {
    pub(super) fn apply_one(&mut self, change: &Change, freed: &mut Vec<Pbn>) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.store((*volume, *lbn), Place::Stored(*pbn, *checksum), *fingerprint, freed)
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.check_pbn(*pbn)?;
                self.add_reference(*pbn);
                self.set_place(*volume, *lbn, Place::Stored(*pbn, *checksum), freed)
            }
            Change::Unmap { volume, first, count } => self.unmap(*volume, *first, *count, freed),
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.insert_volume(record.clone(), PagedMap::default())
            }
            Change::Remove { volume } => self.remove_volume(*volume, freed),
            Change::Rename { volume, name } => {
                self.volume_mut(*volume)?.record.name.clone_from(name);
                Ok(())
            }
            Change::Resize { volume, size_bytes } => self.resize(*volume, *size_bytes, freed),
            Change::Clone { source, volume, name, read_only, created_s } => {
                let copy =
                    self.volume(*source)?.record.cloned(*volume, name, *read_only, *created_s);
                self.clone_volume(*source, copy)
            }
            Change::SetMode { volume, mode } => {
                self.volume_mut(*volume)?.record.mode = *mode;
                Ok(())
            }
            // It concerns the data store alone.
            Change::Carry { .. } => Ok(()),
            Change::Grow { data_blocks } => {
                self.data_blocks = self.data_blocks.max(*data_blocks);
                Ok(())
            }
            Change::Identify { pbn, fingerprint } => {
                self.check_pbn(*pbn)?;
                self.identify(*pbn, *fingerprint);
                Ok(())
            }
            Change::Suspect { pbn, is_suspect } => {
                self.check_pbn(*pbn)?;
                let identity = self.records.identity(*pbn).with_suspect(*is_suspect);
                self.records.set_identity(&mut self.pager, *pbn, identity);
                Ok(())
            }
            Change::Lose { volume, first, count } => self.lose(*volume, *first, *count, freed),
            Change::Hide { volume } => {
                self.volume_mut(*volume)?.record.is_hidden = true;
                Ok(())
            }
            // In this backend every other change of a whole volume is a single change.
            Change::Show { .. }
            | Change::Begin { .. }
            | Change::Copy { .. }
            | Change::Shrink { .. } => Err(Self::foreign_change()),
        }
    }

    fn volume_mut(&mut self, id: VolumeId) -> Result<&mut LogVolume> {
        self.volumes.get_mut(&id).ok_or_else(|| {
            MetadataError::damaged(format!(
                "the metadata refer to volume {id}, which does not exist"
            ))
        })
    }

    pub(super) fn check_size(&self, size_bytes: u64) -> Result<()> {
        if size_bytes / self.block_bytes <= MAX_VOLUME_BLOCKS {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata hold a volume of {size_bytes} bytes, which is too large"
        )))
    }

    fn store(
        &mut self,
        (volume, lbn): (VolumeId, Lbn),
        place: Place,
        fingerprint: Fingerprint,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        if let Some(pbn) = place.pbn() {
            self.check_pbn(pbn)?;
            self.identify(pbn, fingerprint);
            self.add_reference(pbn);
        }
        self.set_place(volume, lbn, place, freed)
    }

    /// Marks LBNs whose contents are lost.
    fn lose(&mut self, id: VolumeId, first: Lbn, count: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let blocks = self.volume_mut(id)?.record.size_bytes / self.block_bytes;
        for lbn in first.0..first.0.saturating_add(count).min(blocks) {
            self.set_place(id, Lbn(lbn), Place::Damaged, freed)?;
        }
        Ok(())
    }

    fn identify(&mut self, pbn: Pbn, fingerprint: Fingerprint) {
        self.records.set_identity(&mut self.pager, pbn, Identity::of(fingerprint));
        if self.is_counting {
            self.index.insert(fingerprint, pbn, &self.records);
        }
    }

    fn add_reference(&mut self, pbn: Pbn) {
        if !self.is_counting {
            return;
        }
        let count = self.records.count_mut(pbn);
        self.physical += u64::from(*count == 0);
        *count = count.saturating_add(1);
    }

    fn drop_reference(&mut self, pbn: Pbn, freed: &mut Vec<Pbn>) {
        let count = self.records.count_mut(pbn);
        if *count == FULL_COUNT {
            // The true number is unknown until the next opening counts all references.
            return;
        }
        assert!(*count > 0, "block {} has a reference to drop", pbn.number());
        *count -= 1;
        if *count == 0 {
            self.physical -= 1;
            self.index.remove(self.records.fingerprint(pbn), pbn);
            freed.push(pbn);
        }
    }

    fn set_place(
        &mut self,
        id: VolumeId,
        lbn: Lbn,
        place: Place,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        if self.shared_pages > 0 {
            self.own_page(id, lbn);
        }
        let block_bytes = self.block_bytes;
        let volume = self
            .volumes
            .get_mut(&id)
            .filter(|volume| lbn.0 < volume.record.size_bytes / block_bytes)
            .ok_or_else(|| {
                MetadataError::damaged(format!(
                    "volume {id} is too small to have a block {}",
                    lbn.0
                ))
            })?;
        let before = volume.map.set(id, &mut self.pager, lbn, place);
        if let (Place::Stored(pbn, _), true) = (before, self.is_counting) {
            self.drop_reference(pbn, freed);
        }
        Ok(())
    }

    /// Gives the volume its own copy of the page of this LBN, if other volumes share that page. The
    /// copy adds one reference to every block that the page refers to.
    #[cold]
    fn own_page(&mut self, id: VolumeId, lbn: Lbn) {
        let Some(words) = self.volumes.get_mut(&id).and_then(|volume| volume.map.own(lbn)) else {
            return;
        };
        self.shared_pages -= 1;
        for word in words {
            if let Some(pbn) = Place::from_word(word).pbn() {
                self.add_reference(pbn);
            }
        }
    }

    fn unmap(&mut self, id: VolumeId, first: Lbn, count: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let end = Lbn(first.0.saturating_add(count));
        let mut next = first;
        while let Some(lbn) = self.volume_mut(id)?.map.next_mapped(next, end) {
            let (page, after) = PagedMap::page_of(lbn);
            let is_whole = first <= page && after <= end;
            if is_whole {
                self.unmap_page(id, lbn, freed)?;
                next = after;
            } else {
                self.set_place(id, lbn, Place::Unmapped, freed)?;
                next = Lbn(lbn.0 + 1);
            }
        }
        Ok(())
    }

    /// Unmaps all LBNs of a page. If other volumes share the page, no reference is dropped.
    fn unmap_page(&mut self, id: VolumeId, lbn: Lbn, freed: &mut Vec<Pbn>) -> Result<()> {
        let volume = self.volumes.get_mut(&id).ok_or_else(|| {
            MetadataError::damaged(format!(
                "the metadata refer to volume {id}, which does not exist"
            ))
        })?;
        if let Some(page) = volume.map.take_page(id, &mut self.pager, lbn) {
            self.drop_page(&page, freed);
        }
        Ok(())
    }

    fn drop_page(&mut self, page: &Arc<MapPage>, freed: &mut Vec<Pbn>) {
        if is_shared(page) {
            self.shared_pages -= 1;
        } else if self.is_counting {
            for word in page.words {
                if let Some(pbn) = Place::from_word(word).pbn() {
                    self.drop_reference(pbn, freed);
                }
            }
        }
    }

    fn insert_volume(&mut self, record: VolumeRecord, map: PagedMap) -> Result<()> {
        let id = record.id;
        if self.volumes.contains_key(&id) {
            return Err(MetadataError::damaged(format!("the metadata have volume {id} twice")));
        }
        self.volumes.insert(id, LogVolume { record, map });
        self.next_volume = self.next_volume.max(id.0.saturating_add(1));
        Ok(())
    }

    fn remove_volume(&mut self, id: VolumeId, freed: &mut Vec<Pbn>) -> Result<()> {
        let volume = self.volumes.remove(&id).ok_or_else(|| {
            MetadataError::damaged(format!(
                "the metadata refer to volume {id}, which does not exist"
            ))
        })?;
        for slot in volume.map.slots() {
            self.pager.retire(slot);
        }
        for (_, page) in volume.map.pages() {
            self.drop_page(page, freed);
        }
        Ok(())
    }

    fn resize(&mut self, id: VolumeId, size_bytes: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        self.check_size(size_bytes)?;
        let blocks_before = self.volume_mut(id)?.record.size_bytes / self.block_bytes;
        let blocks = size_bytes / self.block_bytes;
        if blocks < blocks_before {
            self.unmap(id, Lbn(blocks), blocks_before - blocks, freed)?;
        }
        self.volume_mut(id)?.record.size_bytes = size_bytes;
        Ok(())
    }

    fn clone_volume(&mut self, source: VolumeId, copy: VolumeRecord) -> Result<()> {
        if self.volumes.contains_key(&copy.id) {
            return Err(MetadataError::damaged(format!(
                "the metadata have volume {} twice",
                copy.id
            )));
        }
        let from = self.volumes.remove(&source).ok_or_else(|| {
            MetadataError::damaged(format!(
                "the metadata refer to volume {source}, which does not exist"
            ))
        })?;
        let map = from.map.share(copy.id, &mut self.pager);
        self.shared_pages += map.page_count();
        self.volumes.insert(source, from);
        self.insert_volume(copy, map)
    }
}
