//! What a change does to map, records and index.

use super::map::{Map, MapPage};
use super::pager::PageKey;
use super::{LogBackend, LogVolume};
use crate::error::{Result, VolumeError};
use crate::format::Change;
use crate::types::{Fingerprint, Lbn, Pbn, Place, VolumeId};

impl LogBackend {
    pub(super) fn apply_one(&mut self, change: &Change, freed: &mut Vec<Pbn>) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint } => {
                self.store(*volume, *lbn, *pbn, *fingerprint, freed)
            }
            Change::Share { volume, lbn, pbn } => {
                self.check_pbn(*pbn)?;
                self.add_reference(*pbn);
                self.set_place(*volume, *lbn, Place::Stored(*pbn), freed)
            }
            Change::Unmap { volume, first, count } => self.unmap(*volume, *first, *count, freed),
            Change::Create { volume, name, size_bytes, mode } => {
                let map = Map::default();
                let new = LogVolume {
                    name: name.clone(),
                    size_bytes: *size_bytes,
                    mode: *mode,
                    read_only: false,
                    map,
                };
                self.insert_volume(*volume, new)
            }
            Change::Remove { volume } => self.remove_volume(*volume, freed),
            Change::Rename { volume, name } => {
                self.volume_mut(*volume)?.name.clone_from(name);
                Ok(())
            }
            Change::Resize { volume, size_bytes } => self.resize(*volume, *size_bytes, freed),
            Change::Clone { source, volume, name, read_only } => {
                self.clone_volume(*source, *volume, name, *read_only)
            }
            Change::SetMode { volume, mode } => {
                self.volume_mut(*volume)?.mode = *mode;
                Ok(())
            }
            Change::Grow { data_blocks } => {
                self.data_blocks = self.data_blocks.max(*data_blocks);
                Ok(())
            }
            // Here volumes change as a whole, in one change.
            Change::Hide { .. }
            | Change::Show { .. }
            | Change::Begin { .. }
            | Change::Copy { .. }
            | Change::Shrink { .. } => Err(VolumeError::damaged("a change is one of another backend")),
        }
    }

    fn volume_mut(&mut self, id: VolumeId) -> Result<&mut LogVolume> {
        self.volumes.get_mut(&id).ok_or_else(|| VolumeError::damaged(format!("volume {id} is not there")))
    }

    fn check_pbn(&self, pbn: Pbn) -> Result<()> {
        if u64::from(pbn.number()) < self.data_blocks {
            return Ok(());
        }
        Err(VolumeError::damaged(format!("block {} is outside of the data store", pbn.number())))
    }

    fn store(
        &mut self,
        volume: VolumeId,
        lbn: Lbn,
        pbn: Pbn,
        fingerprint: Fingerprint,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        self.check_pbn(pbn)?;
        self.records.set_fingerprint(&mut self.pager, pbn, fingerprint);
        self.add_reference(pbn);
        if self.is_counting {
            self.index.insert(fingerprint, pbn, &self.records);
        }
        self.set_place(volume, lbn, Place::Stored(pbn), freed)
    }

    fn add_reference(&mut self, pbn: Pbn) {
        if !self.is_counting {
            return;
        }
        if let Some(count) = self.records.count_mut(pbn) {
            self.physical += u64::from(*count == 0);
            self.references += 1;
            *count = count.saturating_add(1);
        }
    }

    fn drop_reference(&mut self, pbn: Pbn, freed: &mut Vec<Pbn>) {
        let Some(count) = self.records.count_mut(pbn) else { return };
        *count = count.saturating_sub(1);
        self.references -= 1;
        if *count == 0 {
            self.physical -= 1;
            self.index.remove(self.records.fingerprint(pbn), pbn);
            freed.push(pbn);
        }
    }

    fn set_place(&mut self, id: VolumeId, lbn: Lbn, place: Place, freed: &mut Vec<Pbn>) -> Result<()> {
        let block_bytes = self.block_bytes;
        let volume = self
            .volumes
            .get_mut(&id)
            .filter(|volume| lbn.0 < volume.size_bytes / block_bytes)
            .ok_or_else(|| VolumeError::damaged(format!("volume {id} has no block {}", lbn.0)))?;
        let before = Place::from_word(volume.map.set(id, &mut self.pager, lbn, place.word()));
        if let (Place::Stored(pbn), true) = (before, self.is_counting) {
            self.drop_reference(pbn, freed);
        }
        Ok(())
    }

    fn unmap(&mut self, id: VolumeId, first: Lbn, count: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let end = Lbn(first.0.saturating_add(count));
        let mut next = first;
        while let Some(lbn) = self.volume_mut(id)?.map.next_mapped(next, end) {
            self.set_place(id, lbn, Place::Unmapped, freed)?;
            next = Lbn(lbn.0 + 1);
        }
        Ok(())
    }

    fn insert_volume(&mut self, id: VolumeId, volume: LogVolume) -> Result<()> {
        if self.volumes.insert(id, volume).is_some() {
            return Err(VolumeError::damaged(format!("volume {id} is there twice")));
        }
        self.next_volume = self.next_volume.max(id.0.saturating_add(1));
        Ok(())
    }

    fn remove_volume(&mut self, id: VolumeId, freed: &mut Vec<Pbn>) -> Result<()> {
        let volume = self
            .volumes
            .remove(&id)
            .ok_or_else(|| VolumeError::damaged(format!("volume {id} is not there")))?;
        for slot in volume.map.slots() {
            self.pager.retire(slot);
        }
        if self.is_counting {
            for (_, page) in volume.map.pages() {
                for word in page.words {
                    if let Place::Stored(pbn) = Place::from_word(word) {
                        self.drop_reference(pbn, freed);
                    }
                }
            }
        }
        Ok(())
    }

    fn resize(&mut self, id: VolumeId, size_bytes: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let blocks_before = self.volume_mut(id)?.size_bytes / self.block_bytes;
        let blocks = size_bytes / self.block_bytes;
        if blocks < blocks_before {
            self.unmap(id, Lbn(blocks), blocks_before - blocks, freed)?;
        }
        self.volume_mut(id)?.size_bytes = size_bytes;
        Ok(())
    }

    fn clone_volume(&mut self, source: VolumeId, id: VolumeId, name: &str, read_only: bool) -> Result<()> {
        let from = self
            .volumes
            .remove(&source)
            .ok_or_else(|| VolumeError::damaged(format!("volume {source} is not there")))?;
        let mut map = Map::default();
        for (number, page) in from.map.pages() {
            self.clone_page(id, &mut map, number, page);
        }
        let (name, size_bytes, mode) = (name.to_owned(), from.size_bytes, from.mode);
        let copy = LogVolume { name, size_bytes, mode, read_only, map };
        self.volumes.insert(source, from);
        self.insert_volume(id, copy)
    }

    fn clone_page(&mut self, id: VolumeId, map: &mut Map, number: u32, page: &MapPage) {
        let Some(entry) = map.entry_or_new(number) else { return };
        self.pager.touch(PageKey::Map(id, number), entry);
        entry.page_mut().words = page.words;
        map.count_words(&page.words);
        for word in page.words {
            if let Place::Stored(pbn) = Place::from_word(word) {
                self.add_reference(pbn);
            }
        }
    }
}
