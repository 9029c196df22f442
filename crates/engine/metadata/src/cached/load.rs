//! Reads a checkpoint: only the pages that say which slots are in use, unless a damaged pool is
//! salvaged ([`super::salvage`]).

use super::array;
use super::catch_up::Unread;
use super::layout::{IndexState, Layout, Visitor};
use super::map::NodeKey;
use super::marks::{PageMark, PageMarks};
use super::pages::Pages;
use super::parents::Parents;
use super::records::StoredRecords;
use super::salvage::salvage;
use super::{CachedBackend, image};
use crate::error::{MetadataError, Result};
use crate::{BackendContext, Damage, LoadOptions, NewMetadata};
use gemelo_base::units::format_counted;
use gemelo_format::{LAST_NUMBER, NodeRef, Part, PoolSeed, Root, Slot, StoreTable, read_chain};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// The pages of maps, some of which share them.
#[derive(Default)]
pub(super) struct MapPages {
    /// What each page is, which is the same in all maps that share it.
    known: PageMarks,
    pub(super) parents: Parents,
}

impl MapPages {
    /// Marks a page of a map as used.
    fn claim(&mut self, pages: &Pages, at: NodeRef, lbns: &Range<u64>) -> Result<Claimed> {
        let mark = PageMark::of(at, lbns);
        match self.known.get(at.slot) {
            None => {
                claim(pages, at.slot)?;
                self.known.set(at.slot, mark);
                Ok(Claimed::New)
            }
            Some(known) => {
                self.parents.add(NodeKey::Page(at.slot));
                Ok(if known == mark { Claimed::Shared } else { Claimed::Elsewhere })
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
        self.maps.as_ref().is_none_or(|maps| maps.known.get(at.slot).is_none())
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

/// Reads the checkpoint of a root.
pub(super) fn load<L: Layout>(
    home: &BackendContext<'_>,
    root: &Root,
    options: LoadOptions,
    damage: &mut Damage,
) -> Result<CachedBackend<L>> {
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
    let new = NewMetadata { data_blocks, next_volume, cache };
    let mut backend = CachedBackend::<L>::new(root.policy, home, new);
    for slot in &chain.slots {
        claim(&backend.pages, *slot)?;
    }
    backend.table = chain.slots;
    check_table(home, root, &table)?;
    backend.maps.list(&table, salvages)?;
    if salvages {
        salvage(&mut backend, &table, damage)?;
    } else {
        (backend.maps.references, backend.records.physical) = (root.references, root.physical);
        claim_all(&mut backend, &table, damage)?;
    }
    let halved = backend.pages.damaged_copies();
    if halved > 0 {
        damage.harmless.push(format!("one of two copies of {}", format_counted(halved, "page")));
    }
    Ok(backend)
}

/// Checks the table's numbers against their bounds, so later arithmetic cannot overflow.
fn check_table(home: &BackendContext<'_>, root: &Root, table: &StoreTable) -> Result<()> {
    let pbn_end = home.superblock.pbn_end(root.data_blocks);
    let is_possible = root.physical < pbn_end
        && table.index_entries < pbn_end
        && u64::from(table.buckets) <= home.superblock.pbn_end(home.superblock.max_blocks())
        && (root.physical..LAST_NUMBER).contains(&root.references);
    if !is_possible {
        return Err(MetadataError::damaged("the checkpoint's table has numbers out of bounds"));
    }
    if root.policy.is_image() && table.index.root.is_some() {
        let what = format!("the policy '{}' has no index on disk", root.policy.name());
        return Err(MetadataError::damaged(what));
    }
    Ok(())
}

fn claim_all<L: Layout>(
    backend: &mut CachedBackend<L>,
    table: &StoreTable,
    damage: &mut Damage,
) -> Result<()> {
    let pages = Arc::clone(&backend.pages);
    let mut maps = MapPages::default();
    let mut note = |claim: Claim<'_>, what: &str| {
        damage.lost.extend(claim.lost.iter().map(|_| format!("a part of the {what}")));
    };
    for volume in &table.volumes {
        let mut claim = Claim::new(&pages, Some(&mut maps), false);
        array::walk(&pages, &volume.map, Part::Map, 0, &mut claim)?;
        note(claim, &format!("map of volume '{}'", volume.record.name));
    }
    let stored = StoredRecords::of(table);
    for (array, part, what) in stored.arrays() {
        let mut claim = Claim::new(&pages, None, false);
        array::walk(&pages, array, part, 0, &mut claim)?;
        note(claim, what);
    }
    let index = backend.index.named_by(table, backend.records.pbn_end())?;
    if index.in_memory().is_none() {
        let mut claim = Claim::new(&pages, None, false);
        L::walk_index(&pages, &index, &mut claim)?;
        note(claim, "index");
    }
    backend.maps.parents = maps.parents;
    if backend.policy.is_image() {
        let mut seen = HashSet::new();
        let maps = table.volumes.iter().map(|volume| &volume.map);
        for tree in maps.chain([&table.counts, &table.many, &table.fingerprints]) {
            image::read_all(&pages, tree, &mut seen)?;
        }
    }
    backend.take_stored(stored, index);
    if let Some(loading) = backend.index.state.begin_loading(&pages, table.index) {
        *backend.index.unread.get_mut() = Unread::Saved(loading);
    }
    Ok(())
}
