//! Applies changes to the map, the records and the index.

use super::tree::Tree;
use super::{LogBackend, LogVolume};
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Change, Fingerprint, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, VolumeId, VolumeRecord, WordForm,
};

impl LogBackend {
    pub(super) fn apply_one(&mut self, change: &Change, freed: &mut Vec<Pbn>) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.store((*volume, *lbn), MapEntry::Stored(*pbn, *checksum), *fingerprint, freed)
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.check_pbn(*pbn)?;
                self.blocks.add_reference(*pbn);
                self.set_place(*volume, *lbn, MapEntry::Stored(*pbn, *checksum), freed)
            }
            Change::Unmap { volume, first, count } => self.unmap(*volume, *first, *count, freed),
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.insert_volume(record.clone(), Tree::default())
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
            Change::SetCompression { volume, compression } => {
                self.volume_mut(*volume)?.record.compression = *compression;
                Ok(())
            }
            // It concerns the data store alone.
            Change::JournalData { .. } => Ok(()),
            Change::Grow { data_blocks } => {
                if *data_blocks > self.store.max_blocks(WordForm::Narrow) {
                    return Err(MetadataError::damaged("a change enlarges the store too much"));
                }
                self.data_blocks = self.data_blocks.max(*data_blocks);
                Ok(())
            }
            Change::Identify { pbn, fingerprint } => {
                self.check_pbn(*pbn)?;
                self.blocks.identify(&mut self.pager, *pbn, *fingerprint);
                Ok(())
            }
            Change::Suspect { pbn, is_suspect } => {
                self.check_pbn(*pbn)?;
                let identity = self.blocks.records.identity(*pbn).with_suspect(*is_suspect);
                self.blocks.records.set_identity(&mut self.pager, *pbn, identity);
                Ok(())
            }
            Change::Lose { volume, first, count } => self.lose(*volume, *first, *count, freed),
            Change::Hide { volume } => {
                self.volume_mut(*volume)?.record.is_hidden = true;
                Ok(())
            }
            // The other backend of a pool that moves needs the rest of the volume in pieces.
            Change::Shrink { volume, size_bytes } => {
                self.check_size(*size_bytes)?;
                self.volume_mut(*volume)?.record.size_bytes = *size_bytes;
                Ok(())
            }
            Change::Show { .. } | Change::Begin { .. } | Change::Copy { .. } => {
                Err(Self::foreign_change())
            }
        }
    }

    pub(super) fn volume_mut(&mut self, id: VolumeId) -> Result<&mut LogVolume> {
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
        place: MapEntry,
        fingerprint: Fingerprint,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        if let Some(pbn) = place.pbn() {
            self.check_pbn(pbn)?;
            self.blocks.identify(&mut self.pager, pbn, fingerprint);
            self.blocks.add_reference(pbn);
        }
        self.set_place(volume, lbn, place, freed)
    }

    /// Marks LBNs whose contents are lost.
    fn lose(&mut self, id: VolumeId, first: Lbn, count: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let blocks = self.volume_mut(id)?.record.size_bytes / self.block_bytes;
        for lbn in first.0..first.0.saturating_add(count).min(blocks) {
            self.set_place(id, Lbn(lbn), MapEntry::Damaged, freed)?;
        }
        Ok(())
    }

    fn set_place(
        &mut self,
        id: VolumeId,
        lbn: Lbn,
        place: MapEntry,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let block_bytes = self.block_bytes;
        let volume = self.volumes.get(&id);
        if volume.is_none_or(|volume| lbn.0 >= volume.record.size_bytes / block_bytes) {
            let what = format!("volume {id} is too small to have a block {}", lbn.0);
            return Err(MetadataError::damaged(what));
        }
        self.put(id, lbn, place, freed);
        Ok(())
    }

    fn put(&mut self, id: VolumeId, lbn: Lbn, place: MapEntry, freed: &mut Vec<Pbn>) {
        let Self { nodes, blocks, pager, references, volumes, .. } = self;
        let Some(volume) = volumes.get_mut(&id) else { return };
        *references -= volume.map.tally.stored;
        if nodes.has_shared()
            && let Some(copied) = nodes.own(pager, &mut volume.map, lbn.0)
        {
            // The copy of a leaf adds one reference to every block that the leaf refers to.
            nodes.get(copied).each_word(|word| {
                if let Some(pbn) = WordForm::Narrow.pbn(word) {
                    blocks.add_reference(pbn);
                }
            });
        }
        let before = nodes.set(pager, &mut volume.map, lbn.0, WordForm::Narrow.word(place));
        *references += volume.map.tally.stored;
        blocks.drop_word(before, freed);
    }

    /// Unmaps LBNs. A part of the map that lies in the range is dropped as a whole, and if other
    /// volumes share the part no reference of its blocks is dropped.
    pub(super) fn unmap(
        &mut self,
        id: VolumeId,
        first: Lbn,
        count: u64,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let mut range = first.0..first.0.saturating_add(count);
        loop {
            let root = self.volume_mut(id)?.map.root;
            let Some(lbn) = self.nodes.next_mapped(root, &range) else { return Ok(()) };
            range.start = match self.drop_part(id, lbn, &(first.0..range.end), freed) {
                Some(after) => after,
                None => {
                    self.put(id, Lbn(lbn), MapEntry::Unmapped, freed);
                    lbn + 1
                }
            };
        }
    }

    /// Drops the largest part of the map that has this LBN and lies in the range. Returns the LBN
    /// after it.
    fn drop_part(
        &mut self,
        id: VolumeId,
        lbn: u64,
        range: &std::ops::Range<u64>,
        freed: &mut Vec<Pbn>,
    ) -> Option<u64> {
        let Self { nodes, blocks, pager, references, volumes, .. } = self;
        let map = &mut volumes.get_mut(&id)?.map;
        *references -= map.tally.stored;
        let taken = nodes.take(pager, map, lbn, range);
        *references += map.tally.stored;
        let (part, after) = taken?;
        nodes.release(pager, part, &mut |word| blocks.drop_word(word, freed));
        Some(after)
    }

    fn insert_volume(&mut self, record: VolumeRecord, map: Tree) -> Result<()> {
        let id = record.id;
        if self.volumes.contains_key(&id) {
            return Err(MetadataError::damaged(format!("the metadata have volume {id} twice")));
        }
        self.references += map.tally.stored;
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
        self.references -= volume.map.tally.stored;
        let Self { nodes, blocks, pager, .. } = self;
        if let Some(root) = volume.map.root {
            nodes.release(pager, root, &mut |word| blocks.drop_word(word, freed));
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
        let map = self.volume(source)?.map;
        if let Some(root) = map.root {
            self.nodes.share(root);
        }
        self.insert_volume(copy, map)
    }
}
