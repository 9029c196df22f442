//! Makes changes: of the maps, in the layers, and of the counts and identities of blocks, in the
//! delta.

use super::family::NewCount;
use super::map::{MapState, Words};
use super::maps::{CachedVolume, Maps};
use super::records::Records;
use super::sharing::CopiedNode;
use super::unmap::CheckedLeave;
use crate::error::Result;
use gemelo_format::{
    Change, Checksum, Fingerprint, Identity, Lbn, MapEntry, Pbn, VolumeId, WordForm,
};

/// An LBN before a change.
struct Before {
    word: u64,
    /// The copies of shared nodes that the change needs.
    copies: Vec<CopiedNode>,
    /// The counts that the change gives to blocks, except to a fresh one.
    counts: [Option<NewCount>; 2],
}

/// A bound above every LBN.
const END: u64 = u64::MAX;

/// Makes changes one after another.
pub(super) struct Changer<'c> {
    pub(super) maps: &'c mut Maps,
    pub(super) records: &'c mut Records,
    /// The blocks that have lost their last reference.
    freed: &'c mut Vec<Pbn>,
    /// What was computed when the next change was checked.
    pub(super) checked: Option<CheckedLeave>,
}

impl<'c> Changer<'c> {
    pub(super) const fn new(
        maps: &'c mut Maps,
        records: &'c mut Records,
        freed: &'c mut Vec<Pbn>,
        checked: Option<CheckedLeave>,
    ) -> Self {
        Self { maps, records, freed, checked }
    }

    pub(super) fn apply(&mut self, change: &Change) -> Result<()> {
        let applied = self.make(change);
        self.checked = None;
        applied
    }

    fn make(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.store((*volume, *lbn), (*pbn, *checksum), *fingerprint)
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.share((*volume, *lbn), (*pbn, *checksum))
            }
            Change::Unmap { volume, first, count } => {
                self.cut(*volume, first.0..first.0.saturating_add(*count))
            }
            Change::Create(record) => {
                self.maps.check_size(record.size_bytes)?;
                self.maps.insert(CachedVolume::new(record.clone(), MapState::default()))
            }
            Change::Remove { volume } => self.remove(*volume),
            Change::Resize { volume, size_bytes, padding_bytes } => {
                self.maps.check_size(*size_bytes)?;
                self.cut(*volume, self.maps.blocks(*size_bytes)..END)?;
                self.maps.volume_mut(*volume)?.record.resize(*size_bytes, *padding_bytes);
                Ok(())
            }
            Change::Clone { source, volume, name, read_only, created_s } => {
                let copy =
                    self.maps.volume(*source)?.record.cloned(*volume, name, *read_only, *created_s);
                self.maps.share_map(*source, copy)
            }
            Change::Rollback { volume, source, left } => {
                self.maps.roll_back(*volume, *source, *left)
            }
            // It concerns the data store alone.
            Change::JournalData { .. } => Ok(()),
            Change::Grow { data_blocks } => self.records.grow(*data_blocks, self.maps.form),
            Change::Cut { data_blocks } => self.records.cut(*data_blocks),
            Change::Move { from, to, .. } => {
                let references = self.records.move_content(*from, *to, self.freed)?;
                self.maps.fresh.moved += u64::from(references.max(1));
                self.maps.moved.note(*from, *to);
                Ok(())
            }
            Change::Identify { pbn, fingerprint } => {
                self.records.check_pbn(*pbn)?;
                self.records.active.set_identity(pbn.number(), Identity::of(*fingerprint));
                Ok(())
            }
            Change::Suspect { pbn, is_suspect } => self.records.suspect(*pbn, *is_suspect),
            Change::Lose { volume, first, count } => self.lose(*volume, *first, *count),
            Change::Shrink { volume, size_bytes, padding_bytes } => {
                self.maps.check_size(*size_bytes)?;
                self.maps.volume_mut(*volume)?.record.resize(*size_bytes, *padding_bytes);
                Ok(())
            }
            Change::Rename { volume, .. }
            | Change::SetMode { volume, .. }
            | Change::SetCompression { volume, .. }
            | Change::SetLimits { volume, .. }
            | Change::Hold { volume, .. }
            | Change::Hide { volume }
            | Change::Receive { volume, .. } => self.describe(*volume, change),
        }
    }

    /// Applies a change of a volume's description: its name, its size or its visibility.
    fn describe(&mut self, id: VolumeId, change: &Change) -> Result<()> {
        let record = &mut self.maps.volume_mut(id)?.record;
        match change {
            Change::Rename { name, .. } => record.name.clone_from(name),
            Change::SetMode { mode, .. } => record.mode = *mode,
            Change::SetCompression { compression, .. } => record.compression = *compression,
            Change::SetLimits { limits, .. } => record.limits = *limits,
            Change::Hold { tag, is_held, .. } => record.holds.set(tag, *is_held),
            Change::Hide { .. } => record.is_hidden = true,
            Change::Receive { name, identity, source, created_s, receiving, .. } => {
                record.receive(name, (*identity, *source), *created_s, *receiving);
            }
            _ => {}
        }
        Ok(())
    }

    /// Maps an LBN to a block that was free. Such a block has no earlier record to look up.
    fn store(
        &mut self,
        at: (VolumeId, Lbn),
        (pbn, checksum): (Pbn, Checksum),
        fingerprint: Fingerprint,
    ) -> Result<()> {
        let before = self.before(at, None)?;
        self.records.store(pbn, Identity::of(fingerprint));
        self.put_word(at, self.maps.form.word(MapEntry::Stored(pbn, checksum)), before)
    }

    fn share(&mut self, at: (VolumeId, Lbn), (pbn, checksum): (Pbn, Checksum)) -> Result<()> {
        let before = self.before(at, Some(pbn))?;
        self.put_word(at, self.maps.form.word(MapEntry::Stored(pbn, checksum)), before)
    }

    /// Marks LBNs whose contents are lost.
    fn lose(&mut self, id: VolumeId, first: Lbn, count: u64) -> Result<()> {
        let blocks = self.maps.blocks(self.maps.volume(id)?.record.size_bytes);
        for lbn in first.0..first.0.saturating_add(count).min(blocks) {
            self.set_word((id, Lbn(lbn)), WordForm::DAMAGED)?;
        }
        Ok(())
    }

    /// Reads what a change of an LBN needs to know, after which the LBN shares this block, if any.
    /// Everything is read before anything is changed, so that damage refuses the change as a whole.
    fn before(&self, (id, lbn): (VolumeId, Lbn), shared: Option<Pbn>) -> Result<Before> {
        let volume = self.maps.volume(id)?;
        let word = Words::new(self.maps.view(&volume.map)).get(lbn.0)?;
        let copies = self.maps.copies_for(id, lbn)?;
        let (own, shared) = (self.maps.pbn_of(word), shared.map_or(0, Pbn::number));
        let mut counts = [None; 2];
        // A block that the LBN has already keeps its references, and LBNs that have left their
        // family have none.
        let is_counted = self.records.is_counting && lbn.0 >= volume.place.left;
        if is_counted && own != shared {
            let entries = self.maps.entries(id, lbn, own)?;
            let count_after = |pbn: u64, gain: i64| match gain {
                _ if pbn == 0 => Ok(None),
                0 => Ok(None),
                gain => NewCount::after(pbn, self.records.count(pbn)?, gain).map(Some),
            };
            counts =
                [count_after(own, entries.loss())?, count_after(shared, entries.gain(shared))?];
        }
        Ok(Before { word, copies, counts })
    }

    /// Changes the word of an LBN.
    fn put_word(&mut self, (id, lbn): (VolumeId, Lbn), word: u64, before: Before) -> Result<()> {
        self.maps.copy_nodes(id, before.copies)?;
        self.maps.put_in_layer(id, lbn, word)?;
        let form = self.maps.form;
        let volume = self.maps.volume_mut(id)?;
        if volume.is_counted() {
            let [is_stored, was_stored] = [word, before.word].map(|word| form.pbn(word).is_some());
            let count = |sum: u64, is: bool, was: bool| {
                sum.saturating_add(u64::from(is)).saturating_sub(u64::from(was))
            };
            volume.mapped = count(volume.mapped, word != 0, before.word != 0);
            volume.stored = count(volume.stored, is_stored, was_stored);
            self.maps.references = count(self.maps.references, is_stored, was_stored);
        }
        let [own, shared] = before.counts;
        self.set_counts(own);
        self.set_counts(shared);
        Ok(())
    }

    /// Gives blocks new counts. A block without references is free.
    pub(super) fn set_counts(&mut self, counts: impl IntoIterator<Item = NewCount>) {
        counts.into_iter().for_each(|count| self.records.set_count(count, self.freed));
    }

    pub(super) fn set_word(&mut self, at: (VolumeId, Lbn), word: u64) -> Result<()> {
        let before = self.before(at, None)?;
        self.put_word(at, word, before)
    }

    fn remove(&mut self, id: VolumeId) -> Result<()> {
        self.maps.volume_mut(id)?.record.is_hidden = true;
        self.cut(id, 0..END)?;
        self.maps.remove(id)
    }
}
