//! Reads a checkpoint. Usually only the pages that say which slots are in use are read. Salvage of
//! a damaged pool reads all pages.

use super::by_pbn::ByPbn;
use super::catch_up::Unread;
use super::family::Place;
use super::layout::{IndexState, Layout, StoredIndex, Visitor};
use super::map::{MapState, NodeKey};
use super::pages::Pages;
use super::parents::Parents;
use super::{CachedBackend, CachedVolume, Version};
use crate::error::{MetadataError, Result};
use crate::slots::SlotMap;
use crate::{BackendContext, Damage, LoadOptions, NewMetadata};
use gemelo_base::units::format_counted;
use gemelo_format::{
    Fingerprint, Identity, Lbn, MapEntry, NodeRef, Part, Pbn, PoolSeed, Root, Slot, StoreTable,
    Tree, WordForm, read_chain,
};
use parking_lot::Mutex;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

/// The most LBNs that one lost page may cost for them to be marked one by one: 256 GiB of blocks of
/// 4 KiB.
const MAX_LOST_BLOCKS: u64 = 1 << 26;

/// Values by key, and ranges of keys whose values cannot be read.
type Values = Vec<(u64, u128)>;
type Lost = Vec<Range<u64>>;

/// The pages of maps, some of which share them.
#[derive(Default)]
struct MapPages {
    slots: SlotMap,
    parents: Parents,
}

impl MapPages {
    /// Marks a page of a map as used. Returns whether it is a new one, with the pages below it.
    fn claim(&mut self, pages: &Pages, at: NodeRef) -> Result<bool> {
        if self.slots.claim(at.slot) {
            claim(pages, at.slot)?;
            return Ok(true);
        }
        self.parents.add(NodeKey::Page(at.slot));
        Ok(false)
    }
}

/// Marks the slots of a tree as used.
struct Claim<'c> {
    pages: &'c Pages,
    /// The pages of all maps, if the tree is a map that shares them.
    maps: Option<&'c mut MapPages>,
    what: String,
    damage: &'c mut Damage,
}

impl Visitor for Claim<'_> {
    fn node(&mut self, at: NodeRef) -> Result<bool> {
        match &mut self.maps {
            Some(maps) => maps.claim(self.pages, at),
            None => claim(self.pages, at.slot).map(|()| true),
        }
    }

    fn wants_values(&self) -> bool {
        false
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    fn wants(&self, at: NodeRef) -> bool {
        self.maps.as_ref().is_none_or(|maps| !maps.slots.has(at.slot))
    }

    fn lost(&mut self, _keys: Range<u64>, _error: MetadataError) -> Result<()> {
        self.damage.lost.push(format!("a part of {}", self.what));
        Ok(())
    }
}

fn claim(pages: &Pages, slot: Slot) -> Result<()> {
    if pages.claim(slot) {
        return Ok(());
    }
    Err(MetadataError::damaged(format!("slot {} is used twice", slot.number())))
}

/// Collects every value that can be read, and retires the pages that hold them.
struct Salvage<'s> {
    pages: &'s Pages,
    /// The pages of all maps, if the tree is a map that shares them.
    maps: Option<&'s mut MapPages>,
    values: Values,
    lost: Lost,
}

impl Visitor for Salvage<'_> {
    fn node(&mut self, at: NodeRef) -> Result<bool> {
        let is_new = match &mut self.maps {
            Some(maps) => maps.claim(self.pages, at)?,
            None => claim(self.pages, at.slot).map(|()| true)?,
        };
        if is_new {
            self.pages.retire(at.slot);
        }
        Ok(true)
    }

    fn value(&mut self, key: u64, value: u128) -> ControlFlow<()> {
        self.values.push((key, value));
        ControlFlow::Continue(())
    }

    fn lost(&mut self, keys: Range<u64>, _error: MetadataError) -> Result<()> {
        self.lost.push(keys);
        Ok(())
    }
}

impl<L: Layout> CachedBackend<L> {
    /// Reads the checkpoint of a root.
    pub(super) fn load(
        home: &BackendContext<'_>,
        root: &Root,
        options: LoadOptions,
        damage: &mut Damage,
    ) -> Result<Self> {
        let LoadOptions { cache_bytes, salvages } = options;
        let superblock = home.superblock;
        let seed = PoolSeed::of(superblock);
        let chain = read_chain(&*home.disk, superblock, root, seed)?;
        for slot in &chain.damaged_copies {
            damage.harmless.push(format!("a copy of a page of the table (slot {})", slot.number()));
        }
        let table = StoreTable::decode(&chain.stream)
            .ok_or_else(|| MetadataError::damaged("the checkpoint's table is malformed"))?;
        let (data_blocks, next_volume) = (root.data_blocks, root.next_volume);
        let mut backend = Self::new(home, NewMetadata { data_blocks, next_volume, cache_bytes });
        for slot in &chain.slots {
            claim(&backend.pages, *slot)?;
        }
        backend.table = chain.slots;
        Self::check_table(home, root, &table)?;
        backend.list_volumes(&table)?;
        if salvages {
            backend.salvage(&table, damage)?;
        } else {
            (backend.references, backend.physical) = (root.references, root.physical);
            backend.claim_all(&table, damage)?;
        }
        let halved = backend.pages.damaged_copies();
        if halved > 0 {
            damage
                .harmless
                .push(format!("one of two copies of {}", format_counted(halved, "page")));
        }
        Ok(backend)
    }

    /// Checks the table's numbers against their bounds, so later arithmetic cannot overflow.
    fn check_table(home: &BackendContext<'_>, root: &Root, table: &StoreTable) -> Result<()> {
        let pbn_end = home.superblock.pbn_end(root.data_blocks);
        let is_possible = root.physical < pbn_end
            && table.index_entries < pbn_end
            && u64::from(table.buckets) <= pbn_end
            && root.references >= root.physical;
        if is_possible {
            Ok(())
        } else {
            Err(MetadataError::damaged("the checkpoint's table has numbers out of bounds"))
        }
    }

    fn list_volumes(&mut self, table: &StoreTable) -> Result<()> {
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
        self.link_families()
    }

    fn claim_all(&mut self, table: &StoreTable, damage: &mut Damage) -> Result<()> {
        let pages = &self.pages;
        let mut maps = MapPages::default();
        let mut claim = |tree: &Tree, part: Part, what: String| {
            let maps = (part == Part::Map && L::SHARES_MAPS).then_some(&mut maps);
            let mut claim = Claim { pages, maps, what, damage: &mut *damage };
            L::walk(pages, tree, part, 0, &mut claim)
        };
        for volume in &table.volumes {
            claim(&volume.map, Part::Map, format!("the map of volume '{}'", volume.record.name))?;
        }
        claim(&table.counts, Part::Counts, "the reference counts".into())?;
        claim(&table.many, Part::Many, "the large reference counts".into())?;
        claim(&table.fingerprints, Part::Fingerprints, "the fingerprints".into())?;
        claim(&table.index, Part::Index, "the index".into())?;
        self.parents = maps.parents;
        let stored =
            StoredIndex { tree: table.index, buckets: table.buckets, entries: table.index_entries };
        self.version = Version {
            counts: table.counts,
            many: table.many,
            fingerprints: table.fingerprints,
            index: L::Index::load(stored, self.pbn_end(), self.sampling)?,
        };
        if self.version.index.in_memory().is_some() {
            self.unread = Mutex::new(Unread::From(0));
        }
        Ok(())
    }

    /// Copies the whole state into the delta and layers, so that the next checkpoint writes it
    /// anew. Maps and fingerprints are those that can be read; reference counts and the index are
    /// computed from them.
    ///
    /// Maps share nothing any more, and volumes have no families.
    fn salvage(&mut self, table: &StoreTable, damage: &mut Damage) -> Result<()> {
        let mut maps = MapPages::default();
        for volume in &table.volumes {
            let shared = L::SHARES_MAPS.then_some(&mut maps);
            let (values, lost) = self.read_all(&volume.map, Part::Map, shared)?;
            let blocks = volume.record.size_bytes / self.block_bytes;
            let id = volume.record.id;
            let anew = self.volume_mut(id)?;
            (anew.map, anew.place) = (MapState::default(), Place::default());
            for (lbn, word) in values {
                self.put_in_layer(id, Lbn(lbn), word as u64)?;
            }
            for keys in lost {
                if keys.end.min(blocks).saturating_sub(keys.start) > MAX_LOST_BLOCKS {
                    let what = format!("almost all of the map of volume '{}'", volume.record.name);
                    return Err(MetadataError::damaged(what));
                }
                for lbn in keys.start..keys.end.min(blocks) {
                    self.put_in_layer(id, Lbn(lbn), WordForm::DAMAGED)?;
                }
                damage.lost.push(format!("a part of the map of volume '{}'", volume.record.name));
            }
        }
        let (values, lost) = self.read_all(&table.fingerprints, Part::Fingerprints, None)?;
        damage.harmless.extend(lost.iter().map(|_| String::from("a part of the fingerprints")));
        self.lost_fingerprints = lost;
        for (pbn, bits) in values {
            self.active.set_identity(pbn, Identity::from_bytes(bits.to_le_bytes()));
        }
        self.is_counting = false;
        for (tree, part, what) in [
            (&table.counts, Part::Counts, "reference counts"),
            (&table.many, Part::Many, "large reference counts"),
            (&table.index, Part::Index, "index"),
        ] {
            let (_, lost) = self.read_all(tree, part, None)?;
            damage.harmless.extend(lost.iter().map(|_| format!("a part of the {what}")));
        }
        Ok(())
    }

    fn read_all(
        &self,
        tree: &Tree,
        part: Part,
        maps: Option<&mut MapPages>,
    ) -> Result<(Values, Lost)> {
        let mut salvage =
            Salvage { pages: &self.pages, maps, values: Vec::new(), lost: Vec::new() };
        L::walk(&self.pages, tree, part, 0, &mut salvage)?;
        Ok((salvage.values, salvage.lost))
    }

    /// Ends the replay of the journal: counts the references of a pool that is salvaged.
    pub(super) fn settle_all(&mut self) -> Result<()> {
        if self.is_counting {
            return Ok(());
        }
        self.is_counting = true;
        self.count_again()?;
        let identities = self.active.identities.pbns();
        let unused: Vec<u64> = identities.filter(|pbn| !self.active.counts.has(*pbn)).collect();
        unused.into_iter().for_each(|pbn| self.active.forget_identity(pbn));
        Ok(())
    }

    /// Counts the references again from the words of the layers, which hold the whole state after
    /// a salvage.
    fn count_again(&mut self) -> Result<()> {
        self.active.counts = ByPbn::default();
        (self.references, self.physical) = (0, 0);
        let (pbn_end, form) = (self.pbn_end(), self.words);
        for volume in self.volumes.values_mut() {
            (volume.mapped, volume.stored) = (0, 0);
            for word in volume.map.open.iter().flat_map(|layer| layer.words.values()) {
                volume.mapped += u64::from(*word != 0);
                let Some(pbn) = form.pbn(*word) else { continue };
                if pbn.number() >= pbn_end {
                    return Err(MetadataError::damaged(format!(
                        "a map refers to block {}, which is outside of the data store",
                        pbn.number()
                    )));
                }
                let count = self.active.counts.value_mut(pbn.number());
                self.physical += u64::from(*count == 0);
                volume.stored += 1;
                *count = count.checked_add(1).ok_or(MetadataError::TooManyReferences)?;
            }
            self.references += volume.stored;
        }
        Ok(())
    }

    /// Restores fingerprints and marks lost contents in a pool that was salvaged.
    pub(super) fn restore_all(
        &mut self,
        computed: &[(Pbn, Fingerprint)],
        lost: &HashSet<MapEntry>,
    ) -> Result<()> {
        for (pbn, fingerprint) in computed {
            self.active.set_identity(pbn.number(), Identity::of(*fingerprint));
        }
        let form = self.words;
        let layers = self.volumes.values_mut().filter_map(|volume| volume.map.open.as_mut());
        for word in layers.flat_map(|layer| layer.words.values_mut()) {
            if lost.contains(&form.entry(*word)) {
                *word = WordForm::DAMAGED;
            }
        }
        self.count_again()?;
        // A block without references must not be found by its fingerprint.
        for pbn in lost.iter().filter_map(|place| place.pbn()) {
            if !self.active.counts.has(pbn.number()) {
                self.active.forget_identity(pbn.number());
            }
        }
        Ok(())
    }
}
