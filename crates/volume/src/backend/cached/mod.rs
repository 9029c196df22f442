//! The backends `table` and `btree`: metadata on disk, behind a cache of a set size.
//!
//! Changes gather in a delta in memory. A checkpoint freezes it, and while the next one fills, merges it into the pages on
//! disk in the order of their keys, so that each page is read, changed and written once. A look-up asks the delta, the
//! frozen one, and then the pages. What is on disk is exactly the state of the last checkpoint.

mod apply;
mod array;
mod btree;
mod cache;
mod delta;
mod layout;
mod load;
mod merge;
mod pages;
mod prove;
mod table;

pub(crate) use btree::BTreeLayout;
pub(crate) use table::TableLayout;

use super::{
    Garbage, Merge, MetadataBackend, PageWrites, Pressure, Record, SlotNeed, Totals, VolumeInfo,
};
use crate::error::{Result, VolumeError};
use delta::{Delta, Words};
use gemelo_disk::Disk;
use gemelo_format::{
    Change, DedupMode, Fingerprint, Identity, Lbn, Link, Part, Pbn, Place, PoolSeed, Slot,
    StoreTable, StoreVolume, Superblock, Tree, VolumeId,
};
use layout::{Cursor, Index, Layout, MOST_CANDIDATES, Values};
use pages::Pages;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Of the memory that is set, half is for pages, an eighth each for the delta and the frozen one; the rest is what a merge
/// takes, and what maps in memory take while they grow.
const CACHE_SHARE: u64 = 2;
const DELTA_SHARE: u64 = 8;
/// The least memory that can be set.
const LEAST_CACHE_BYTES: u64 = 64 << 10;
/// Bytes of the delta for each LBN that is unmapped or copied at once: what they take, several times over.
const PIECE_SHARE: u64 = 512;

/// Entries of a delta that need a page more than those they change: a leaf of the largest entries, half full.
const LEAF_ENTRIES: u64 = 64;
/// One page in this many is above others, at most.
const ABOVE_PART: u64 = 64;
/// Pages from the roots of all trees down, those that split included.
const PATH_PAGES: u64 = 64;
/// Bytes of the table for each volume with the longest name, at most.
const TABLE_VOLUME_BYTES: u64 = 512;
/// Bytes of the table in a page of its own, which is written twice: a lower bound.
const TABLE_PIECE_BYTES: u64 = 2048;

#[derive(Debug, Clone)]
struct CachedVolume {
    name: String,
    size_bytes: u64,
    mode: DedupMode,
    read_only: bool,
    is_hidden: bool,
    mapped: u64,
}

/// What is on disk, as of a checkpoint.
#[derive(Debug, Clone, Default)]
struct Version {
    maps: BTreeMap<VolumeId, Tree>,
    counts: Tree,
    fingerprints: Tree,
    index: Index,
}

/// What a checkpoint writes.
struct Frozen {
    delta: Delta,
    volumes: BTreeMap<VolumeId, CachedVolume>,
}

/// See the module.
pub(crate) struct Overlay<L> {
    block_bytes: u64,
    data_blocks: u64,
    next_volume: u32,
    volumes: BTreeMap<VolumeId, CachedVolume>,
    references: u64,
    physical: u64,
    active: Delta,
    /// What the delta had of volumes that were removed, to be freed after a checkpoint.
    forgotten: Vec<Words>,
    frozen: Option<Arc<Frozen>>,
    version: Version,
    /// What the checkpoint under way has made.
    merged: Arc<Mutex<Option<Version>>>,
    pages: Arc<Pages>,
    /// The slots of the table, and of the one that the checkpoint under way has made.
    table: Vec<Slot>,
    sealed: Option<Vec<Slot>>,
    most_delta_bytes: u64,
    /// Where fingerprints were lost, of a damaged pool that is salvaged.
    lost_fingerprints: Vec<Range<u64>>,
    layout: PhantomData<L>,
}

const fn tag(fingerprint: Fingerprint) -> u32 {
    (fingerprint.low() >> 32) as u32
}

impl<L: Layout> Overlay<L> {
    /// An empty one.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        superblock: &Superblock,
        data_blocks: u64,
        cache_bytes: u64,
    ) -> Self {
        let cache_bytes = cache_bytes.max(LEAST_CACHE_BYTES);
        let seed = PoolSeed::of(superblock);
        Self {
            block_bytes: u64::from(superblock.block_bytes),
            data_blocks,
            next_volume: 1,
            volumes: BTreeMap::new(),
            references: 0,
            physical: 0,
            active: Delta::default(),
            forgotten: Vec::new(),
            frozen: None,
            version: Version::default(),
            merged: Arc::default(),
            pages: Arc::new(Pages::new(
                disk,
                superblock.journal_pages,
                seed,
                cache_bytes / CACHE_SHARE,
            )),
            table: Vec::new(),
            sealed: None,
            most_delta_bytes: cache_bytes / DELTA_SHARE,
            lost_fingerprints: Vec::new(),
            layout: PhantomData,
        }
    }

    fn volume(&self, id: VolumeId) -> Result<&CachedVolume> {
        self.volumes
            .get(&id)
            .ok_or_else(|| VolumeError::damaged(format!("volume {id} is not there")))
    }

    fn frozen(&self) -> Option<&Delta> {
        self.frozen.as_ref().map(|frozen| &frozen.delta)
    }

    fn cursor(&self, part: Part, tree: Tree) -> Cursor<'_, L> {
        Cursor::new(&self.pages, tree, part)
    }

    fn map(&self, id: VolumeId) -> Cursor<'_, L> {
        self.cursor(Part::Map, self.version.maps.get(&id).copied().unwrap_or_default())
    }

    fn counts(&self) -> Cursor<'_, L> {
        self.cursor(Part::Counts, self.version.counts)
    }

    fn fingerprints(&self) -> Cursor<'_, L> {
        self.cursor(Part::Fingerprints, self.version.fingerprints)
    }

    fn word(&self, id: VolumeId, lbn: Lbn) -> Result<u64> {
        self.word_by(&mut self.map(id), id, lbn)
    }

    fn word_by(&self, stored: &mut Cursor<'_, L>, id: VolumeId, lbn: Lbn) -> Result<u64> {
        let recent = self.active.word(id, lbn);
        match recent.or_else(|| self.frozen().and_then(|delta| delta.word(id, lbn))) {
            Some(word) => Ok(word),
            None => Ok(stored.get(lbn.0)? as u64),
        }
    }

    fn count(&self, pbn: u32) -> Result<u32> {
        self.count_by(&mut self.counts(), pbn)
    }

    fn count_by(&self, stored: &mut Cursor<'_, L>, pbn: u32) -> Result<u32> {
        let recent = self.active.counts.get(&pbn);
        match recent.or_else(|| self.frozen().and_then(|delta| delta.counts.get(&pbn))) {
            Some(count) => Ok(*count),
            None => Ok(stored.get(u64::from(pbn))? as u32),
        }
    }

    fn identity(&self, pbn: u32) -> Result<Identity> {
        self.identity_by(&mut self.fingerprints(), pbn)
    }

    fn identity_by(&self, stored: &mut Cursor<'_, L>, pbn: u32) -> Result<Identity> {
        let recent = self.active.identities.get(&pbn);
        match recent.or_else(|| self.frozen().and_then(|delta| delta.identities.get(&pbn))) {
            Some(found) => Ok(*found),
            None => Ok(Identity::from_bytes(stored.get(u64::from(pbn))?.to_le_bytes())),
        }
    }

    /// A referenced PBN with this fingerprint: of several, an intact one, and of those the one with
    /// the fewest references.
    fn find_one(&self, wanted: Fingerprint, candidates: &mut Vec<u32>) -> Result<Option<Pbn>> {
        if wanted.is_none() {
            return Ok(None);
        }
        let recent = self.active.find(wanted);
        let is_intact = |pbn: &u32| {
            self.active.identities.get(pbn).is_some_and(|identity| !identity.is_suspect())
        };
        if let Some(pbn) = recent.filter(is_intact) {
            return Ok(Pbn::new(pbn));
        }
        candidates.clear();
        candidates.extend(recent);
        candidates.extend(self.frozen().and_then(|delta| delta.find(wanted)));
        L::candidates(&self.pages, &self.version.index, tag(wanted), candidates)?;
        let mut best: Option<(bool, u32, u32)> = None;
        for pbn in candidates.iter().take(MOST_CANDIDATES + 2) {
            // An index entry may be older than the deltas.
            let count = self.count(*pbn)?;
            if count == 0 {
                continue;
            }
            let identity = self.identity(*pbn)?;
            let rank = (identity.is_suspect(), count, *pbn);
            if identity.fingerprint() == wanted && best.is_none_or(|best| rank < best) {
                best = Some(rank);
            }
        }
        Ok(best.and_then(|(_, _, pbn)| Pbn::new(pbn)))
    }

    /// The first LBN from here on that has a word in a delta.
    fn next_recent(&self, id: VolumeId, from: u64) -> Option<u64> {
        let first = |delta: &Delta| Some(*delta.words.get(&id)?.range(from..).next()?.0);
        [first(&self.active), self.frozen().and_then(first)].into_iter().flatten().min()
    }

    fn next_word(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        let map = self.version.maps.get(&id).copied().unwrap_or_default();
        let mut stored = layout::next::<L>(&self.pages, &map, Part::Map, from.0)?;
        let mut next = from.0;
        loop {
            let recent = self.next_recent(id, next);
            if stored.is_some_and(|stored| stored < next) {
                stored = layout::next::<L>(&self.pages, &map, Part::Map, next)?;
            }
            let Some(lbn) = [recent, stored].into_iter().flatten().min().filter(|lbn| *lbn < end.0)
            else {
                return Ok(None);
            };
            if self.word(id, Lbn(lbn))? != 0 {
                return Ok(Some(Lbn(lbn)));
            }
            next = lbn + 1;
        }
    }

    fn table(&self) -> StoreTable {
        let merged = self.merged.lock();
        let version = merged.as_ref().unwrap_or(&self.version);
        let volumes = self.frozen.as_ref().map_or(&self.volumes, |frozen| &frozen.volumes);
        let volume = |(id, volume): (&VolumeId, &CachedVolume)| StoreVolume {
            id: *id,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            mode: volume.mode,
            read_only: volume.read_only,
            is_hidden: volume.is_hidden,
            mapped: volume.mapped,
            map: version.maps.get(id).copied().unwrap_or_default(),
        };
        StoreTable {
            volumes: volumes.iter().map(volume).collect(),
            counts: version.counts,
            fingerprints: version.fingerprints,
            index: version.index.tree,
            buckets: version.index.buckets,
            index_entries: version.index.entries,
        }
    }

    /// Whether a frozen or an active change is the reason not to look at what is stored for a PBN.
    fn has_recent_count(&self, pbn: u32) -> bool {
        self.active.counts.contains_key(&pbn)
            || self.frozen().is_some_and(|delta| delta.counts.contains_key(&pbn))
    }
}

impl<L: Layout> MetadataBackend for Overlay<L> {
    fn volumes(&self) -> Vec<VolumeInfo> {
        let info = |(id, volume): (&VolumeId, &CachedVolume)| VolumeInfo {
            id: *id,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            mode: volume.mode,
            read_only: volume.read_only,
            is_hidden: volume.is_hidden,
            mapped_blocks: volume.mapped,
        };
        self.volumes.iter().map(info).collect()
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.mapped)
    }

    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<Place>) -> Result<()> {
        self.volume(volume)?;
        let mut stored = self.map(volume);
        for lbn in lbns {
            places.push(match self.word_by(&mut stored, volume, *lbn) {
                Ok(word) => Place::from_word(word),
                Err(VolumeError::Damaged { .. }) => Place::Damaged,
                Err(error) => return Err(error),
            });
        }
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.volume(volume)?;
        self.next_word(volume, from, end)
    }

    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()> {
        let mut candidates = Vec::new();
        for wanted in fingerprints {
            found.push(self.find_one(*wanted, &mut candidates)?);
        }
        Ok(())
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        let (mut counts, mut fingerprints) = (self.counts(), self.fingerprints());
        for pbn in pbns {
            let references = self.count_by(&mut counts, pbn.number())?;
            let identity = self.identity_by(&mut fingerprints, pbn.number())?;
            records.push(Record::new(identity, references));
        }
        Ok(())
    }

    fn warm(&self, places: &[Place]) -> Result<()> {
        let mut counts = self.counts();
        for place in places {
            if let Some(pbn) = place.pbn() {
                self.count_by(&mut counts, pbn.number())?;
            }
        }
        if self.pages.is_damaged() {
            return Err(VolumeError::damaged("a page was damaged when it was read"));
        }
        Ok(())
    }

    fn visit_used(&self, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        let mut stored = Values(|pbn: u64, _| {
            if let Some(pbn) =
                Pbn::new(pbn as u32).filter(|pbn| !self.has_recent_count(pbn.number()))
            {
                visit(pbn);
            }
        });
        L::walk(&self.pages, &self.version.counts, Part::Counts, 0, &mut stored)?;
        for delta in self.frozen().into_iter().chain([&self.active]) {
            for pbn in delta.counts.keys() {
                let is_shown = std::ptr::eq(delta, &raw const self.active)
                    || !self.active.counts.contains_key(pbn);
                if is_shown && self.count(*pbn)? > 0 {
                    Pbn::new(*pbn).into_iter().for_each(&mut *visit);
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply_one(change, freed))
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_record_lost(&self, pbn: Pbn) -> bool {
        self.lost_fingerprints.iter().any(|lost| lost.contains(&u64::from(pbn.number())))
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<Place>) -> Result<()> {
        self.restore_all(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        self.prove_counts(most)
    }

    fn totals(&self) -> Totals {
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let recent: u64 = deltas.clone().map(Delta::index_entries).sum();
        Totals {
            references: self.references,
            physical: self.physical,
            data_blocks: self.data_blocks,
            next_volume: self.next_volume,
            index_entries: self.version.index.entries + recent,
            memory_bytes: deltas.map(Delta::bytes).sum::<u64>() + self.pages.cache().memory_bytes(),
            pages: self.pages.in_use(),
            cache: self.pages.cache().figures(),
        }
    }

    fn pressure(&self) -> Pressure {
        match self.active.bytes() {
            bytes if bytes >= self.most_delta_bytes => Pressure::Full,
            bytes if bytes >= self.most_delta_bytes / 2 => Pressure::High,
            _ => Pressure::Low,
        }
    }

    fn piece_blocks(&self) -> Option<u64> {
        Some((self.most_delta_bytes / PIECE_SHARE).max(1))
    }

    fn slots(&self) -> SlotNeed {
        let in_use = self.pages.in_use();
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let entries: u64 = deltas.map(Delta::entries).sum();
        // Each entry changes a page of a leaf, and adds to it; those above are few of many.
        let leaves = entries.min(in_use) + entries / LEAF_ENTRIES;
        let above = leaves.min(in_use / ABOVE_PART) + PATH_PAGES * u64::from(entries > 0);
        let table = 2 * (self.volumes.len() as u64 * TABLE_VOLUME_BYTES / TABLE_PIECE_BYTES + 1);
        SlotNeed { in_use, next: leaves + above + table }
    }

    fn freeze(&mut self) {
        self.pages.begin();
        let frozen =
            Frozen { delta: std::mem::take(&mut self.active), volumes: self.volumes.clone() };
        self.frozen = Some(Arc::new(frozen));
    }

    fn merge(&self) -> Option<Merge> {
        let frozen = Arc::clone(self.frozen.as_ref()?);
        let (pages, version, merged) =
            (Arc::clone(&self.pages), self.version.clone(), Arc::clone(&self.merged));
        Some(Box::new(move || {
            let after = merge::merge::<L>(&pages, &version, &frozen)?;
            *merged.lock() = Some(after);
            pages.flush()
        }))
    }

    fn gather(&mut self, _most: usize, _writes: &mut PageWrites) -> Result<bool> {
        Ok(false)
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<(Link, u64)> {
        let stream = self.table().encode();
        let (pages, link) = self.pages.chain(&stream)?;
        self.table.iter().for_each(|slot| self.pages.retire(*slot));
        self.sealed = Some(pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(pages);
        Ok((link, stream.len() as u64))
    }

    fn finish(&mut self) -> Garbage {
        let garbage = (self.frozen.take(), std::mem::take(&mut self.forgotten));
        if let Some(version) = self.merged.lock().take() {
            self.version = version;
        }
        if let Some(table) = self.sealed.take() {
            self.table = table;
        }
        self.pages.finish();
        Some(Box::new(garbage))
    }

    fn abandon(&mut self) {
        *self.merged.lock() = None;
        self.sealed = None;
        if let Some(frozen) = self.frozen.take() {
            self.active.put_under(&frozen.delta);
        }
        self.pages.abandon();
    }
}
