//! The volumes of a pool and their maps, in memory as far as no checkpoint has written them.
//!
//! The order of the volumes in their families is in [`super::family`], and the sharing of nodes in
//! [`super::sharing`].

use super::family::Place;
use super::layer::{LEAF_LBNS, LayerId};
use super::layer_words::Added;
use super::map::{self, MapState, MapView, Words};
use super::merge::Merged;
use super::moved::{MovedBlocks, Relocations};
use super::pages::Pages;
use super::parents::Parents;
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Lbn, MAX_VOLUME_BLOCKS, Pbn, StoreTable, StoreVolume, Superblock, Tree, VolumeId, VolumeRecord,
    WordForm,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Memory of a word in the table of its piece, the mean from one growth to the next, and that of a
/// piece of a layer.
pub(super) const WORD_BYTES: u64 = 19;
const PIECE_BYTES: u64 = 90;
/// Memory of a mark or a cut in a layer, with its share of the nodes.
const MARK_BYTES: u64 = 40;

pub(super) struct CachedVolume {
    pub(super) record: VolumeRecord,
    /// The number of LBNs that are not unmapped, and of those that have a block. While a volume is
    /// being removed, they may be too large.
    pub(super) mapped: u64,
    pub(super) stored: u64,
    pub(super) map: MapState,
    pub(super) place: Place,
}

impl CachedVolume {
    pub(super) fn new(record: VolumeRecord, map: MapState) -> Self {
        Self { record, mapped: 0, stored: 0, map, place: Place::default() }
    }

    /// Returns whether the numbers of the volume's LBNs follow its map. Those of a volume that is
    /// being removed stay until its end, so that nodes which other maps have need not be read.
    pub(super) const fn is_counted(&self) -> bool {
        !self.record.is_hidden
    }

    /// The volume as a checkpoint has it.
    fn frozen(&mut self) -> Self {
        self.map.seal();
        Self {
            record: self.record.clone(),
            mapped: self.mapped,
            stored: self.stored,
            map: self.map.share(),
            place: self.place,
        }
    }
}

/// Changes of maps that no checkpoint has begun to write, counted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fresh {
    pub(super) words: u64,
    /// Pieces and leaves of layers that have words.
    pieces: u64,
    pub(super) leaves: u64,
    /// Pages directly above these leaves.
    pub(super) directories: u64,
    pub(super) cuts: u64,
    pub(super) marks: u64,
    /// Layers that volumes share.
    pub(super) shared_layers: u64,
    /// Leaves that a replay of the changes reads, at most.
    pub(super) read_leaves: u64,
    /// References to blocks whose contents were moved.
    pub(super) moved: u64,
}

impl Fresh {
    /// Adds a word of a layer of a volume in this place.
    pub(super) fn add(&mut self, added: Added, place: Place) {
        self.words += u64::from(added.word);
        self.pieces += u64::from(added.piece);
        self.leaves += u64::from(added.leaf);
        if added.leaf {
            self.read_leaf(place);
        }
    }

    /// Notes that a change reads a leaf of a volume in this place, and those of its neighbours.
    pub(super) fn read_leaf(&mut self, Place { before, after, .. }: Place) {
        self.read_leaves += 1 + before.into_iter().chain(after).count() as u64;
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.words * WORD_BYTES + self.pieces * PIECE_BYTES + (self.cuts + self.marks) * MARK_BYTES
    }

    const fn and(self, other: Self) -> Self {
        Self {
            words: self.words + other.words,
            pieces: self.pieces + other.pieces,
            leaves: self.leaves + other.leaves,
            directories: self.directories + other.directories,
            cuts: self.cuts + other.cuts,
            marks: self.marks + other.marks,
            shared_layers: self.shared_layers + other.shared_layers,
            read_leaves: self.read_leaves + other.read_leaves,
            moved: self.moved + other.moved,
        }
    }
}

/// The maps that a checkpoint writes.
pub(super) struct FrozenMaps {
    pub(super) volumes: BTreeMap<VolumeId, CachedVolume>,
    /// The maps of removed volumes.
    pub(super) removed: Vec<MapState>,
    pub(super) moved: Arc<Relocations>,
    fresh: Fresh,
}

/// The volumes and their maps.
pub(super) struct Maps {
    pub(super) pages: Arc<Pages>,
    pub(super) form: WordForm,
    block_bytes: u64,
    pub(super) volumes: BTreeMap<VolumeId, CachedVolume>,
    pub(super) next_volume: u32,
    /// LBNs of all volumes that have a block.
    pub(super) references: u64,
    pub(super) parents: Parents,
    pub(super) next_layer: LayerId,
    pub(super) fresh: Fresh,
    pub(super) moved: MovedBlocks,
    /// The maps of volumes that were removed. The next checkpoint retires their pages.
    removed: Vec<MapState>,
    frozen: Option<Arc<FrozenMaps>>,
}

impl Maps {
    /// The maps of a pool without volumes.
    pub(super) fn new(pages: &Arc<Pages>, superblock: &Superblock, next_volume: u32) -> Self {
        Self {
            pages: Arc::clone(pages),
            form: superblock.words,
            block_bytes: u64::from(superblock.block_bytes),
            volumes: BTreeMap::new(),
            next_volume,
            references: 0,
            parents: Parents::default(),
            next_layer: LayerId(1),
            fresh: Fresh::default(),
            moved: MovedBlocks::default(),
            removed: Vec::new(),
            frozen: None,
        }
    }

    /// Takes the volumes of a table. A salvage counts all references anew, so it needs no order of
    /// them, and drops one that cannot be.
    pub(super) fn list(&mut self, table: &StoreTable, salvages: bool) -> Result<()> {
        for volume in &table.volumes {
            let new = CachedVolume {
                mapped: volume.mapped,
                stored: volume.stored,
                place: Place { before: volume.follows, after: None, left: volume.left },
                ..CachedVolume::new(volume.record.clone(), MapState::of(volume.map))
            };
            let id = new.record.id;
            self.check_size(new.record.size_bytes)?;
            if id.0 >= self.next_volume || self.volumes.insert(id, new).is_some() {
                return Err(MetadataError::damaged(format!(
                    "the checkpoint's table has volume {id} twice, or an id that was never assigned"
                )));
            }
        }
        match self.link_families() {
            Err(MetadataError::Damaged { .. }) if salvages => {
                self.volumes.values_mut().for_each(|volume| volume.place = Place::default());
                Ok(())
            }
            linked => linked,
        }
    }

    pub(super) fn volume(&self, id: VolumeId) -> Result<&CachedVolume> {
        self.volumes.get(&id).ok_or_else(|| unknown(id))
    }

    pub(super) fn volume_mut(&mut self, id: VolumeId) -> Result<&mut CachedVolume> {
        self.volumes.get_mut(&id).ok_or_else(|| unknown(id))
    }

    pub(super) fn ids(&self) -> Vec<VolumeId> {
        self.volumes.keys().copied().collect()
    }

    /// Adds a volume.
    pub(super) fn insert(&mut self, volume: CachedVolume) -> Result<()> {
        let id = volume.record.id;
        if self.volumes.contains_key(&id) {
            return Err(MetadataError::damaged(format!("the metadata have volume {id} twice")));
        }
        self.volumes.insert(id, volume);
        self.next_volume = self.next_volume.max(id.0.saturating_add(1));
        Ok(())
    }

    /// Removes a volume without any mapped LBN.
    pub(super) fn remove(&mut self, id: VolumeId) -> Result<()> {
        self.quit_family(id)?;
        if let Some(mut volume) = self.volumes.remove(&id) {
            self.references = self.references.saturating_sub(volume.stored);
            volume.map.seal();
            self.removed.push(volume.map);
        }
        Ok(())
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

    pub(super) fn check_size(&self, size_bytes: u64) -> Result<()> {
        if self.blocks(size_bytes) <= MAX_VOLUME_BLOCKS {
            return Ok(());
        }
        Err(MetadataError::damaged(format!(
            "the metadata hold a volume of {size_bytes} bytes, which is too large"
        )))
    }

    /// The blocks of this many bytes.
    pub(super) const fn blocks(&self, bytes: u64) -> u64 {
        bytes / self.block_bytes
    }

    pub(super) fn view<'m>(&'m self, map: &'m MapState) -> MapView<'m> {
        MapView { pages: &self.pages, map, form: self.form, moved: &self.moved }
    }

    pub(super) fn view_of(&self, id: VolumeId) -> Result<MapView<'_>> {
        Ok(self.view(&self.volume(id)?.map))
    }

    pub(super) fn words(&self, id: VolumeId) -> Result<Words<'_>> {
        Ok(Words::new(self.view_of(id)?))
    }

    pub(super) fn word(&self, id: VolumeId, lbn: Lbn) -> Result<u64> {
        self.words(id)?.get(lbn.0)
    }

    /// The PBN of a word; 0 for none.
    pub(super) fn pbn_of(&self, word: u64) -> u64 {
        self.form.pbn(word).map_or(0, Pbn::number)
    }

    /// Returns the next LBN before `end` that is mapped.
    pub(super) fn next_word(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        Ok(map::next_mapped(self.view_of(id)?, from.0, end.0)?.map(Lbn))
    }

    /// Extends a range to whole leaves where nothing else of these leaves is mapped.
    pub(super) fn with_edges(&self, id: VolumeId, lbns: Range<u64>) -> Result<Range<u64>> {
        let Range { mut start, mut end } = lbns;
        let first = start / LEAF_LBNS * LEAF_LBNS;
        if self.next_word(id, Lbn(first), Lbn(start))?.is_none() {
            start = first;
        }
        let last = end.checked_next_multiple_of(LEAF_LBNS).unwrap_or(end);
        if start < end && self.next_word(id, Lbn(end), Lbn(last))?.is_none() {
            end = last;
        }
        Ok(start..end)
    }

    /// The changes that no durable checkpoint has.
    pub(super) fn unwritten(&self) -> Fresh {
        self.frozen.as_ref().map_or(self.fresh, |frozen| self.fresh.and(frozen.fresh))
    }

    /// All maps whose pages are in use.
    pub(super) fn all(&self) -> impl Iterator<Item = &MapState> {
        let frozen = self.frozen.iter().flat_map(|frozen| &frozen.removed);
        self.volumes.values().map(|volume| &volume.map).chain(&self.removed).chain(frozen)
    }

    /// Begins a checkpoint of the present maps.
    pub(super) fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one checkpoint at a time");
        let volumes = self.volumes.iter_mut().map(|(id, volume)| (*id, volume.frozen())).collect();
        self.frozen = Some(Arc::new(FrozenMaps {
            volumes,
            removed: std::mem::take(&mut self.removed),
            moved: self.moved.freeze(),
            fresh: std::mem::take(&mut self.fresh),
        }));
    }

    pub(super) const fn frozen(&self) -> Option<&Arc<FrozenMaps>> {
        self.frozen.as_ref()
    }

    /// The volumes as the table of the checkpoint under way has them, with the maps that it made.
    pub(super) fn stored_volumes(&self, made: &BTreeMap<VolumeId, Tree>) -> Vec<StoreVolume> {
        let volumes = self.frozen.as_ref().map_or(&self.volumes, |frozen| &frozen.volumes);
        let volume = |(id, volume): (&VolumeId, &CachedVolume)| StoreVolume {
            record: volume.record.clone(),
            mapped: volume.mapped,
            stored: volume.stored,
            follows: volume.place.before,
            left: volume.place.left,
            map: made.get(id).copied().unwrap_or(*volume.map.base),
        };
        volumes.iter().map(volume).collect()
    }

    /// Ends a checkpoint that is durable: its pages take the place of layers. Returns what it has
    /// written.
    pub(super) fn finish<I>(&mut self, merged: &Merged<I>) -> Option<Arc<FrozenMaps>> {
        self.parents.name_pages(&merged.made);
        let maps = self.volumes.values_mut().map(|volume| &mut volume.map);
        for map in maps.chain(&mut self.removed) {
            map.rebase(&merged.layers);
            map.follow(&merged.moved);
        }
        self.parents.follow(&merged.moved);
        self.moved.finish();
        self.frozen.take()
    }

    /// Gives up a checkpoint. The next one writes its changes too.
    pub(super) fn abandon(&mut self) {
        if let Some(frozen) = self.frozen.take() {
            self.removed.extend(frozen.removed.iter().map(MapState::share));
            self.fresh = self.fresh.and(frozen.fresh);
            self.moved.abandon();
        }
    }
}

#[cold]
pub(super) fn unknown(id: VolumeId) -> MetadataError {
    MetadataError::damaged(format!("the metadata refer to volume {id}, which does not exist"))
}
