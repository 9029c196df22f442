//! Applies changes to the delta and the layers.

use super::family::{Gains, NewCount};
use super::layout::Layout;
use super::map::{MapState, Words};
use super::sharing::CopiedNode;
use super::{CachedBackend, CachedVolume};
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Change, Checksum, Fingerprint, Identity, Lbn, MAX_VOLUME_BLOCKS, MapEntry, Pbn, VolumeId,
    WordForm,
};

/// An LBN before a change.
pub(super) struct Before {
    word: u64,
    /// The copies of shared nodes that the change needs.
    copies: Vec<CopiedNode>,
    /// The counts that the change gives to blocks, except to a fresh one.
    counts: [Option<NewCount>; 2],
}

/// A bound above every LBN.
const END: Lbn = Lbn(u64::MAX);

impl<L: Layout> CachedBackend<L> {
    pub(super) fn apply_one(&mut self, change: &Change, freed: &mut Vec<Pbn>) -> Result<()> {
        let applied = self.make_change(change, freed);
        *self.checked.get_mut() = None;
        applied
    }

    fn make_change(&mut self, change: &Change, freed: &mut Vec<Pbn>) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.store((*volume, *lbn), (*pbn, *checksum), *fingerprint, freed)
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.share((*volume, *lbn), (*pbn, *checksum), freed)
            }
            Change::Unmap { volume, first, count } => {
                self.unmap(*volume, *first, Lbn(first.0.saturating_add(*count)), freed)
            }
            Change::Create(record) => {
                self.check_size(record.size_bytes)?;
                self.insert_volume(CachedVolume::new(record.clone(), MapState::default()))
            }
            Change::Remove { volume } => self.remove(*volume, freed),
            Change::Resize { volume, size_bytes, padding_bytes } => {
                self.check_size(*size_bytes)?;
                self.unmap(*volume, Lbn(size_bytes / self.block_bytes), END, freed)?;
                self.volume_mut(*volume)?.record.resize(*size_bytes, *padding_bytes);
                Ok(())
            }
            Change::Clone { source, volume, name, read_only, created_s } => {
                let copy =
                    self.volume(*source)?.record.cloned(*volume, name, *read_only, *created_s);
                self.share_map(*source, copy)
            }
            Change::Rollback { volume, source, left } => self.roll_back(*volume, *source, *left),
            // It concerns the data store alone.
            Change::JournalData { .. } => Ok(()),
            Change::Grow { data_blocks } => {
                if *data_blocks > self.store.max_blocks(self.words) {
                    return Err(MetadataError::damaged("a change enlarges the store too much"));
                }
                self.data_blocks = self.data_blocks.max(*data_blocks);
                Ok(())
            }
            Change::Identify { pbn, fingerprint } => {
                self.check_pbn(*pbn)?;
                self.active.set_identity(pbn.number(), Identity::of(*fingerprint));
                Ok(())
            }
            Change::Suspect { pbn, is_suspect } => self.suspect(*pbn, *is_suspect),
            Change::Lose { volume, first, count } => self.lose(*volume, *first, *count, freed),
            Change::Rename { .. }
            | Change::SetMode { .. }
            | Change::SetCompression { .. }
            | Change::SetLimits { .. }
            | Change::Hold { .. }
            | Change::Hide { .. }
            | Change::Receive { .. }
            | Change::Shrink { .. } => self.describe(change),
        }
    }

    /// Applies a change of a volume's description: its name, its size or its visibility.
    fn describe(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Rename { volume, name } => {
                self.volume_mut(*volume)?.record.name.clone_from(name);
            }
            Change::SetMode { volume, mode } => self.volume_mut(*volume)?.record.mode = *mode,
            Change::SetCompression { volume, compression } => {
                self.volume_mut(*volume)?.record.compression = *compression;
            }
            Change::SetLimits { volume, limits } => {
                self.volume_mut(*volume)?.record.limits = *limits;
            }
            Change::Hold { volume, tag, is_held } => {
                self.volume_mut(*volume)?.record.holds.set(tag, *is_held);
            }
            Change::Hide { volume } => self.volume_mut(*volume)?.record.is_hidden = true,
            Change::Receive { volume, name, identity, source, created_s, receiving } => {
                let record = &mut self.volume_mut(*volume)?.record;
                record.receive(name, (*identity, *source), *created_s, *receiving);
            }
            Change::Shrink { volume, size_bytes, padding_bytes } => {
                self.check_size(*size_bytes)?;
                self.volume_mut(*volume)?.record.resize(*size_bytes, *padding_bytes);
            }
            _ => {}
        }
        Ok(())
    }

    pub(super) fn check_size(&self, size_bytes: u64) -> Result<()> {
        if size_bytes / self.block_bytes <= MAX_VOLUME_BLOCKS {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata hold a volume of {size_bytes} bytes, which is too large"
        )))
    }

    pub(super) fn volume_mut(&mut self, id: VolumeId) -> Result<&mut CachedVolume> {
        self.volumes.get_mut(&id).ok_or_else(|| Self::unknown(id))
    }

    /// Maps an LBN to a block that was free. Such a block has no earlier record to look up.
    fn store(
        &mut self,
        at: (VolumeId, Lbn),
        (pbn, checksum): (Pbn, Checksum),
        fingerprint: Fingerprint,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let before = self.before(at, None)?;
        self.active.set_identity(pbn.number(), Identity::of(fingerprint));
        if self.is_counting {
            self.active.counts.insert(pbn.number(), 1);
            self.physical = self.physical.saturating_add(1);
        }
        self.put_word(at, self.words.word(MapEntry::Stored(pbn, checksum)), before, freed)
    }

    fn share(
        &mut self,
        at: (VolumeId, Lbn),
        (pbn, checksum): (Pbn, Checksum),
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let before = self.before(at, Some(pbn))?;
        self.put_word(at, self.words.word(MapEntry::Stored(pbn, checksum)), before, freed)
    }

    fn suspect(&mut self, pbn: Pbn, is_suspect: bool) -> Result<()> {
        self.check_pbn(pbn)?;
        if !self.is_counting || self.count(pbn.number())? > 0 {
            let identity = self.identity(pbn.number())?.with_suspect(is_suspect);
            self.active.set_identity(pbn.number(), identity);
        }
        Ok(())
    }

    /// Marks LBNs whose contents are lost.
    fn lose(&mut self, id: VolumeId, first: Lbn, count: u64, freed: &mut Vec<Pbn>) -> Result<()> {
        let blocks = self.volume(id)?.record.size_bytes / self.block_bytes;
        for lbn in first.0..first.0.saturating_add(count).min(blocks) {
            self.set_word((id, Lbn(lbn)), WordForm::DAMAGED, freed)?;
        }
        Ok(())
    }

    /// Reads what a change of an LBN needs to know, after which the LBN shares this block, if any.
    /// Everything is read before anything is changed, so that damage refuses the change as a whole.
    pub(super) fn before(&self, (id, lbn): (VolumeId, Lbn), shared: Option<Pbn>) -> Result<Before> {
        let volume = self.volume(id)?;
        let word = Words::new(self.view(&volume.map)).get(lbn.0)?;
        let copies = self.copies_for(id, lbn)?;
        let (own, shared) = (self.pbn_of(word), shared.map_or(0, Pbn::number));
        let mut counts = [None; 2];
        // A block that the LBN has already keeps its references, and LBNs that have left their
        // family have none.
        let is_counted = self.is_counting && lbn.0 >= volume.place.left;
        if is_counted && own != shared {
            let entries = self.entries(id, lbn, own)?;
            let count_after = |pbn: u64, gain: i64| match gain {
                _ if pbn == 0 => Ok(None),
                0 => Ok(None),
                gain => NewCount::after(pbn, self.count(pbn)?, gain).map(Some),
            };
            counts =
                [count_after(own, entries.loss())?, count_after(shared, entries.gain(shared))?];
        }
        Ok(Before { word, copies, counts })
    }

    /// The counts of blocks after they got these references. None change while they are not
    /// counted.
    pub(super) fn counts_after(&self, gains: &Gains) -> Result<Vec<NewCount>> {
        if !self.is_counting {
            return Ok(Vec::new());
        }
        gains.counts(&self.counts_of(&gains.pbns())?)
    }

    /// Changes the word of an LBN.
    fn put_word(
        &mut self,
        (id, lbn): (VolumeId, Lbn),
        word: u64,
        before: Before,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        self.copy_nodes(id, before.copies)?;
        self.put_in_layer(id, lbn, word)?;
        let form = self.words;
        let volume = self.volume_mut(id)?;
        if Self::is_counted(volume) {
            let [is_stored, was_stored] = [word, before.word].map(|word| form.pbn(word).is_some());
            let count = |sum: u64, is: bool, was: bool| {
                sum.saturating_add(u64::from(is)).saturating_sub(u64::from(was))
            };
            volume.mapped = count(volume.mapped, word != 0, before.word != 0);
            volume.stored = count(volume.stored, is_stored, was_stored);
            self.references = count(self.references, is_stored, was_stored);
        }
        let [own, shared] = before.counts;
        own.into_iter().for_each(|count| self.set_count(count, freed));
        shared.into_iter().for_each(|count| self.set_count(count, freed));
        Ok(())
    }

    /// Gives blocks new counts. A block without references is free.
    pub(super) fn set_counts(
        &mut self,
        counts: impl IntoIterator<Item = NewCount>,
        freed: &mut Vec<Pbn>,
    ) {
        counts.into_iter().for_each(|count| self.set_count(count, freed));
    }

    fn set_count(&mut self, NewCount { pbn, before, after }: NewCount, freed: &mut Vec<Pbn>) {
        self.active.counts.insert(pbn, after);
        self.active.read_counts.add(pbn, before);
        if after == 0 {
            self.physical = self.physical.saturating_sub(1);
            self.active.forget_identity(pbn);
            freed.extend(Pbn::new(pbn));
        }
    }

    pub(super) fn set_word(
        &mut self,
        at: (VolumeId, Lbn),
        word: u64,
        freed: &mut Vec<Pbn>,
    ) -> Result<()> {
        let before = self.before(at, None)?;
        self.put_word(at, word, before, freed)
    }

    fn unmap(&mut self, id: VolumeId, first: Lbn, end: Lbn, freed: &mut Vec<Pbn>) -> Result<()> {
        self.volume(id)?;
        self.cut(id, first.0..end.0, freed)
    }

    fn remove(&mut self, id: VolumeId, freed: &mut Vec<Pbn>) -> Result<()> {
        self.volume_mut(id)?.record.is_hidden = true;
        self.unmap(id, Lbn(0), END, freed)?;
        self.quit_family(id)?;
        if let Some(mut volume) = self.volumes.remove(&id) {
            self.references = self.references.saturating_sub(volume.stored);
            volume.map.seal();
            self.removed.push(volume.map);
        }
        Ok(())
    }

    pub(super) fn insert_volume(&mut self, volume: CachedVolume) -> Result<()> {
        let id = volume.record.id;
        if self.volumes.contains_key(&id) {
            return Err(MetadataError::damaged(format!("the metadata have volume {id} twice")));
        }
        self.volumes.insert(id, volume);
        self.next_volume = self.next_volume.max(id.0.saturating_add(1));
        Ok(())
    }
}
