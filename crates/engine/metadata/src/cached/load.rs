//! Reads a checkpoint: only the pages that say which slots are in use, unless a damaged pool is
//! salvaged ([`super::salvage`]).

use super::array;
use super::catch_up::Unread;
use super::family::Place;
use super::layout::{IndexState, Layout, StoredIndex, Visitor};
use super::map::{MapState, NodeKey};
use super::pages::Pages;
use super::parents::Parents;
use super::{CachedBackend, CachedVolume, Version, image};
use crate::error::{MetadataError, Result};
use crate::{BackendContext, Damage, LoadOptions, NewMetadata};
use gemelo_base::locks::Mutex;
use gemelo_base::units::format_counted;
use gemelo_format::{NodeRef, Part, PoolSeed, Root, Slot, StoreTable, Tree, read_chain};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The pages of maps, some of which share them.
#[derive(Default)]
pub(super) struct MapPages {
    /// The checksum and the LBNs of each page. They are the same in all maps that share it.
    known: HashMap<Slot, (u64, Range<u64>)>,
    pub(super) parents: Parents,
}

impl MapPages {
    /// Marks a page of a map as used.
    fn claim(&mut self, pages: &Pages, at: NodeRef, lbns: &Range<u64>) -> Result<Claimed> {
        match self.known.entry(at.slot) {
            Entry::Vacant(new) => {
                claim(pages, at.slot)?;
                new.insert((at.checksum, lbns.clone()));
                Ok(Claimed::New)
            }
            Entry::Occupied(known) => {
                self.parents.add(NodeKey::Page(at.slot));
                let (checksum, known) = known.get();
                let is_same = (*checksum, known) == (at.checksum, lbns);
                Ok(if is_same { Claimed::Shared } else { Claimed::Elsewhere })
            }
        }
    }
}

/// The outcome of a claim of a page of a map.
enum Claimed {
    /// It is a new one, with the pages below it.
    New,
    /// Another map has it in the same place.
    Shared,
    /// A map has it in another place, or with another checksum.
    Elsewhere,
}

/// Marks the slots of a tree as used.
pub(super) struct Claim<'c> {
    pages: &'c Pages,
    /// The pages of all maps, if the tree is a map that shares them.
    maps: Option<&'c mut MapPages>,
    /// `true` to read also leaves.
    reads_leaves: bool,
    /// The page that was visited last.
    last: Option<NodeRef>,
    /// Pages that cannot be read, and the keys that may be in them.
    pub(super) lost: Vec<(NodeRef, Range<u64>)>,
}

impl<'c> Claim<'c> {
    pub(super) const fn new(
        pages: &'c Pages,
        maps: Option<&'c mut MapPages>,
        reads_leaves: bool,
    ) -> Self {
        Self { pages, maps, reads_leaves, last: None, lost: Vec::new() }
    }
}

impl Visitor for Claim<'_> {
    fn node(&mut self, at: NodeRef, keys: Range<u64>) -> Result<bool> {
        self.last = Some(at);
        let Some(maps) = &mut self.maps else { return claim(self.pages, at.slot).map(|()| true) };
        match maps.claim(self.pages, at, &keys)? {
            Claimed::New => Ok(true),
            Claimed::Shared => Ok(false),
            // A checkpoint does not write this, and it is unknown which place is right.
            Claimed::Elsewhere => {
                let slot = at.slot.number();
                Err(MetadataError::damaged(format!("slot {slot} is used in two ways")))
            }
        }
    }

    fn wants_values(&self) -> bool {
        self.reads_leaves
    }

    fn reads_ahead(&self) -> bool {
        true
    }

    fn wants(&self, at: NodeRef) -> bool {
        self.maps.as_ref().is_none_or(|maps| !maps.known.contains_key(&at.slot))
    }

    fn lost(&mut self, keys: Range<u64>, _error: MetadataError) -> Result<()> {
        assert!(self.last.is_some(), "a page is visited before it is read");
        self.lost.extend(self.last.map(|at| (at, keys)));
        Ok(())
    }
}

fn claim(pages: &Pages, slot: Slot) -> Result<()> {
    if pages.claim(slot) {
        return Ok(());
    }
    Err(MetadataError::damaged(format!("slot {} is used twice", slot.number())))
}

/// The arrays of a table that are no maps, with their names for people.
pub(super) fn arrays(table: &StoreTable) -> [(&Tree, Part, &'static str); 3] {
    [
        (&table.counts, Part::Counts, "reference counts"),
        (&table.many, Part::Many, "large reference counts"),
        (&table.fingerprints, Part::Fingerprints, "fingerprints"),
    ]
}

impl<L: Layout> CachedBackend<L> {
    /// Reads the checkpoint of a root.
    pub(super) fn load(
        home: &BackendContext<'_>,
        root: &Root,
        options: LoadOptions,
        damage: &mut Damage,
    ) -> Result<Self> {
        let LoadOptions { cache, salvages } = options;
        let superblock = home.superblock;
        let seed = PoolSeed::of(superblock);
        let chain = read_chain(&*home.disk, superblock, root, seed)?;
        for slot in &chain.damaged_copies {
            damage.harmless.push(format!("a copy of a page of the table (slot {})", slot.number()));
        }
        let table = StoreTable::decode(&chain.stream)
            .ok_or_else(|| MetadataError::damaged("the checkpoint's table is malformed"))?;
        let (data_blocks, next_volume) = (root.data_blocks, root.next_volume);
        let mut backend =
            Self::new(root.policy, home, NewMetadata { data_blocks, next_volume, cache });
        for slot in &chain.slots {
            claim(&backend.pages, *slot)?;
        }
        backend.table = chain.slots;
        Self::check_table(home, root, &table)?;
        backend.list_volumes(&table, salvages)?;
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

    /// Takes the volumes of a table. A salvage counts all references anew, so it needs no order of
    /// them, and drops one that cannot be.
    fn list_volumes(&mut self, table: &StoreTable, salvages: bool) -> Result<()> {
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

    fn claim_all(&mut self, table: &StoreTable, damage: &mut Damage) -> Result<()> {
        let pages = &self.pages;
        let mut maps = MapPages::default();
        let mut note = |claim: Claim<'_>, what: &str| {
            damage.lost.extend(claim.lost.iter().map(|_| format!("a part of the {what}")));
        };
        for volume in &table.volumes {
            let mut claim = Claim::new(pages, Some(&mut maps), false);
            array::walk(pages, &volume.map, Part::Map, 0, &mut claim)?;
            note(claim, &format!("map of volume '{}'", volume.record.name));
        }
        for (tree, part, what) in arrays(table) {
            let mut claim = Claim::new(pages, None, false);
            array::walk(pages, tree, part, 0, &mut claim)?;
            note(claim, what);
        }
        let index = self.index_of(table)?;
        if index.in_memory().is_none() {
            let mut claim = Claim::new(pages, None, false);
            L::walk_index(pages, &index, &mut claim)?;
            note(claim, "index");
        }
        self.parents = maps.parents;
        if self.policy.is_image() {
            let mut seen = HashSet::new();
            let maps = table.volumes.iter().map(|volume| &volume.map);
            for tree in maps.chain([&table.counts, &table.many, &table.fingerprints]) {
                image::read_all(pages, tree, &mut seen)?;
            }
        }
        self.take_version(table, index);
        if let Some(loading) = self.version.index.begin_loading(&self.pages, table.index) {
            self.unread = Mutex::new(Unread::Saved(loading));
        }
        Ok(())
    }

    /// The index that a table names.
    pub(super) fn index_of(&self, table: &StoreTable) -> Result<L::Index> {
        let stored =
            StoredIndex { tree: table.index, buckets: table.buckets, entries: table.index_entries };
        L::Index::load(stored, self.pbn_end(), self.sampling)
    }

    /// Takes the trees of a table that are no maps.
    pub(super) fn take_version(&mut self, table: &StoreTable, index: L::Index) {
        self.version = Version {
            counts: table.counts.into(),
            many: table.many.into(),
            fingerprints: table.fingerprints.into(),
            index,
        };
        self.pages.note_fit();
        self.grow_cache();
        if self.version.index.in_memory().is_some() {
            self.unread = Mutex::new(Unread::ALL);
        }
    }
}
