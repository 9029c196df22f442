//! Merges frozen layers and a frozen delta into the pages, which is the main part of a checkpoint.
//! It holds no lock that writers need.

use super::array;
use super::counts::{CountEdits, StoredCounts};
use super::delta::Delta;
use super::image::{self, Moved};
use super::layer::LayerId;
use super::layout::{IndexEdit, IndexState, Layout};
use super::map::MapState;
use super::maps::FrozenMaps;
use super::merge_layer::merge_layer;
use super::moved;
use super::pages::Pages;
use super::parents::Made;
use super::records::{FrozenRecords, StoredRecords};
use super::stale::{FreedEntries, sweep};
use super::stored::Reader;
use crate::error::Result;
use gemelo_format::{Fingerprint, Identity, Part, Tree, VolumeId, WordForm};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A merge of so many values is divided between two threads, and a third one writes.
const MIN_DIVIDED: u64 = 4096;

/// The state that a checkpoint has written.
pub(super) struct Merged<I> {
    pub(super) records: StoredRecords,
    pub(super) index: I,
    /// The maps of the volumes.
    pub(super) maps: BTreeMap<VolumeId, Tree>,
    /// The maps with each layer, and the pages that were made of it.
    pub(super) layers: HashMap<LayerId, Tree>,
    pub(super) made: Made,
    /// The pages that were written anew although no change of their map has touched them.
    pub(super) moved: Moved,
}

/// Makes pages of maps and their layers. A layer that maps share is merged once.
struct MergeMaps<'p> {
    pages: &'p Pages,
    layers: HashMap<LayerId, Tree>,
    made: Made,
}

impl MergeMaps<'_> {
    fn merge(&mut self, map: &MapState) -> Result<Tree> {
        let mut tree = *map.base;
        for layer in &map.sealed {
            tree = match self.layers.get(&layer.id) {
                Some(known) => *known,
                None => {
                    let made = self.made.entry(layer.id).or_default();
                    let merged = merge_layer(self.pages, &tree, layer, made)?;
                    self.layers.insert(layer.id, merged);
                    merged
                }
            };
        }
        Ok(tree)
    }

    /// Retires the pages that only the map of a removed volume has.
    fn remove(&mut self, map: &MapState) -> Result<()> {
        let left = self.merge(map)?;
        assert!(left.root.is_none(), "a volume that is removed maps nothing");
        Ok(())
    }
}

/// The state that a checkpoint writes, and the one on disk before it.
pub(super) struct Frozen<I> {
    pub(super) maps: Arc<FrozenMaps>,
    pub(super) records: Arc<FrozenRecords>,
    pub(super) before: StoredRecords,
    pub(super) index: I,
    pub(super) form: WordForm,
    /// `true` if the index is written for the next opening.
    pub(super) saves_index: bool,
    /// `true` if all pages are written.
    pub(super) is_image: bool,
}

impl<I: IndexState> Frozen<I> {
    pub(super) fn merge<L: Layout<Index = I>>(&self, pages: &Pages) -> Result<Merged<I>> {
        // The maps need nothing of the counts and records, nor these of the maps.
        let of_records = || self.merge_records::<L>(pages);
        let ((of_volumes, maps), (records, mut index)) =
            if self.records.delta.entries() < MIN_DIVIDED {
                (merge_maps(pages, &self.maps)?, of_records()?)
            } else {
                pages.write_beside(|| {
                    std::thread::scope(|scope| {
                        let beside = std::thread::Builder::new().spawn_scoped(scope, of_records);
                        let maps = merge_maps(pages, &self.maps)?;
                        let records = match beside {
                            Ok(beside) => beside
                                .join()
                                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                            Err(_) => of_records(),
                        };
                        Ok((maps, records?))
                    })
                })?
            };
        if self.saves_index {
            index = pages.write_beside(|| index.save(pages))?;
        }
        let MergeMaps { layers, made, .. } = maps;
        let maps = of_volumes;
        let mut merged = Merged { records, index, maps, layers, made, moved: Moved::new() };
        moved::rewrite(pages, (&self.maps.moved, self.form), &mut merged)?;
        if self.is_image {
            image::write_all(pages, &mut merged)?;
        }
        Ok(merged)
    }

    fn merge_records<L: Layout<Index = I>>(&self, pages: &Pages) -> Result<(StoredRecords, I)> {
        let (before, delta) = (&self.before, &self.records.delta);
        let changed = ChangedRecords::of(delta);
        let in_memory = self.index.in_memory();
        // Computed from the state before this checkpoint, whose pages are all still on disk.
        let freed = match in_memory {
            Some(_) => FreedEntries::choose(&self.records, &changed.counts),
            None => FreedEntries::Remove,
        };
        let edits = index_edits(pages, before, &changed, freed, in_memory.is_some())?;
        let index = L::merge_index(pages, &self.index, edits)?;
        if let (FreedEntries::Leave { pages: most }, Some(in_memory)) = (freed, in_memory) {
            sweep(pages, in_memory, before, delta, most)?;
        }
        let CountEdits { small, many } = CountEdits::new(pages, before, &changed.counts)?;
        let merge = |tree: &Tree, part: Part, edits: &mut dyn Iterator<Item = (u64, u128)>| {
            if self.records.lost.is_empty() {
                return array::merge(pages, tree, part, edits);
            }
            let all = self.replace_lost(part, edits);
            array::merge(pages, tree, part, &mut all.into_iter())
        };
        let identities = changed.identities.iter();
        let mut identities = identities.map(|(pbn, bytes)| (*pbn, u128::from_le_bytes(*bytes)));
        let records = StoredRecords {
            counts: merge(&before.counts, Part::Counts, &mut small.into_iter())?.into(),
            many: merge(&before.many, Part::Many, &mut many.into_iter())?.into(),
            fingerprints: merge(&before.fingerprints, Part::Fingerprints, &mut identities)?.into(),
        };
        Ok((records, index))
    }

    /// Adds an edit for each lost page, so that it is replaced. Such a page has no value.
    fn replace_lost(
        &self,
        of: Part,
        edits: &mut dyn Iterator<Item = (u64, u128)>,
    ) -> BTreeMap<u64, u128> {
        let lost = self.records.lost.iter().filter(|(part, _)| *part == of);
        lost.map(|(_, key)| (*key, 0)).chain(edits).collect()
    }
}

/// Makes pages of the maps of all volumes.
fn merge_maps<'p>(
    pages: &'p Pages,
    frozen: &FrozenMaps,
) -> Result<(BTreeMap<VolumeId, Tree>, MergeMaps<'p>)> {
    let mut maps = MergeMaps { pages, layers: HashMap::new(), made: Made::new() };
    let mut of_volumes = BTreeMap::new();
    for (id, volume) in &frozen.volumes {
        of_volumes.insert(*id, maps.merge(&volume.map)?);
    }
    frozen.removed.iter().try_for_each(|map| maps.remove(map))?;
    Ok((of_volumes, maps))
}

/// The counts and the identities that a delta changes, in the order of their PBNs.
struct ChangedRecords {
    counts: Vec<(u64, u32)>,
    /// Identities as their bytes.
    identities: Vec<(u64, [u8; 16])>,
}

impl ChangedRecords {
    fn of(delta: &Delta) -> Self {
        Self { counts: delta.counts.sorted(), identities: delta.sorted_identities() }
    }

    /// The blocks in order, each with what changes.
    fn blocks(&self) -> impl Iterator<Item = NewRecord> {
        let mut counts = self.counts.iter().peekable();
        let mut identities = self.identities.iter().peekable();
        std::iter::from_fn(move || {
            let counted = counts.peek().map(|(pbn, _)| *pbn);
            let identified = identities.peek().map(|(pbn, _)| *pbn);
            let pbn = counted.into_iter().chain(identified).min()?;
            let count = counts.next_if(|(of, _)| *of == pbn).map(|(_, count)| *count);
            let identity = identities.next_if(|(of, _)| *of == pbn);
            let fingerprint = |bytes: [u8; 16]| Identity::from_bytes(bytes).fingerprint();
            Some(NewRecord { pbn, count, fresh: identity.map(|(_, bytes)| fingerprint(*bytes)) })
        })
    }
}

/// PBNs whose counts and fingerprints are read in lists.
const PBNS_AT_ONCE: usize = 1024;

/// A block with its new count, and its new fingerprint, if they were set.
struct NewRecord {
    pbn: u64,
    count: Option<u32>,
    fresh: Option<Fingerprint>,
}

/// A block whose record a checkpoint changes.
struct ChangedBlock {
    pbn: u64,
    was_live: bool,
    is_live: bool,
    /// The new fingerprint, if it was set.
    fresh: Option<Fingerprint>,
}

impl ChangedBlock {
    fn new(new: &NewRecord, was_live: bool) -> Self {
        let is_live = new.count.map_or(was_live, |count| count > 0);
        Self { pbn: new.pbn, was_live, is_live, fresh: new.fresh }
    }

    /// Returns whether the index may change.
    fn may_change_index(&self, freed: FreedEntries) -> bool {
        let is_freed = self.was_live && !self.is_live;
        let is_removed = is_freed && freed == FreedEntries::Remove;
        self.fresh.is_some() || is_removed || (self.is_live && !self.was_live)
    }

    /// The index entries that are removed and added. The stored fingerprint is that before the
    /// checkpoint. The index may have it, or not, if the block had no references.
    fn edits(&self, stored: Fingerprint, may_be_stale: bool) -> impl Iterator<Item = IndexEdit> {
        let old = if self.was_live || may_be_stale { stored } else { Fingerprint::NONE };
        let new = if self.is_live { self.fresh.unwrap_or(stored) } else { Fingerprint::NONE };
        let pbn = self.pbn;
        let edit = move |found: Fingerprint, comes, is_changed| {
            let is_edit = is_changed && !found.is_none();
            is_edit.then(|| IndexEdit { hash: found.low(), pbn, comes })
        };
        let comes = edit(new, true, old != new || !self.was_live);
        [edit(old, false, old != new), comes].into_iter().flatten()
    }
}

/// Computes which index entries are added and removed. The index has every referenced PBN that has
/// a fingerprint. One in memory may have others as well.
fn index_edits(
    pages: &Pages,
    before: &StoredRecords,
    changed: &ChangedRecords,
    freed: FreedEntries,
    may_be_stale: bool,
) -> Result<Vec<IndexEdit>> {
    let mut edits = Vec::new();
    let mut fingerprints = Reader::new(pages, &before.fingerprints, Part::Fingerprints);
    let mut counts = StoredCounts::new(pages, before);
    let mut all = changed.blocks();
    loop {
        let some: Vec<NewRecord> = all.by_ref().take(PBNS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(edits);
        }
        let keys: Vec<u64> = some.iter().map(|new| new.pbn).collect();
        let mut changed = Vec::with_capacity(some.len());
        for (new, was_live) in some.iter().zip(counts.are_live(&keys)) {
            let block = ChangedBlock::new(new, was_live?);
            changed.extend(block.may_change_index(freed).then_some(block));
        }
        let keys: Vec<u64> = changed.iter().map(|block| block.pbn).collect();
        for (block, bits) in changed.iter().zip(fingerprints.get_all(&keys)) {
            let stored = Identity::from_bytes(bits?.to_le_bytes()).fingerprint();
            edits.extend(block.edits(stored, may_be_stale));
        }
    }
}
