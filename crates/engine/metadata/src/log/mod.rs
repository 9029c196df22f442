//! The default backend: all metadata in memory in a compact form, and copy-on-write pages on disk
//! at a checkpoint.
//!
//! The memory per block of the data store is 20 bytes for the record and 6 to 12 for the index. A
//! mapped LBN takes 8 bytes where most LBNs are mapped, and 16 to 32 where few are. Maps that were
//! cloned share their nodes, in memory as on disk. Reference counts and the index are not on disk:
//! [`load`] computes them.

mod apply;
mod blocks;
mod checkpoint;
mod index;
mod leaf;
mod load;
mod nodes;
mod pager;
mod prove;
mod records;
mod settle;
#[cfg(test)]
mod tests;
mod tree;
mod validate;
mod walk;

use super::registry::{NewMetadata, Registration};
use super::slots::{SlotSpace, Slots};
use super::{
    CacheStats, Index, Map, MetadataBackend, MissingPages, Record, Repair, Totals, Volumes,
};
use crate::error::{MetadataError, Result};
use blocks::Blocks;
use gemelo_format::{
    BackendKind, Change, Fingerprint, Lbn, MAP_PAGE_ENTRIES, MapEntry, Pbn, PoolSeed,
    RECORD_PAGE_ENTRIES, StoreKind, Superblock, Table, TableVolume, VolumeId, VolumeRecord,
};
use nodes::{NodeId, Nodes};
use pager::{PageKey, Pager};
use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;
use std::ops::Range;
use tree::Tree;

/// The backend `log`: a checkpoint writes the pages that changed.
pub(super) const LOG: Registration = Registration {
    about: "In memory, compactly, with a journal; checkpoints write what changed",
    empty: |home, new| Box::new(LogBackend::new(home.superblock, &home.slots, new, false)),
    load: |home, root, options, damage| {
        Ok(Box::new(LogBackend::load(home, root, false, options, damage)?))
    },
};

/// The backend `ram`: a checkpoint writes all pages.
pub(super) const RAM: Registration = Registration {
    about: "In memory; checkpoints write everything",
    empty: |home, new| Box::new(LogBackend::new(home.superblock, &home.slots, new, true)),
    load: |home, root, options, damage| {
        Ok(Box::new(LogBackend::load(home, root, true, options, damage)?))
    },
};

struct LogVolume {
    record: VolumeRecord,
    map: Tree,
}

/// The backends `log` and `ram`.
pub(super) struct LogBackend {
    block_bytes: u64,
    data_blocks: u64,
    store: StoreKind,
    next_volume: u32,
    volumes: BTreeMap<VolumeId, LogVolume>,
    nodes: Nodes,
    blocks: Blocks,
    pager: Pager,
    /// LBNs of all volumes that have a PBN.
    references: u64,
    /// The volumes as the checkpoint under way has them.
    frozen_volumes: Vec<(VolumeRecord, Option<NodeId>)>,
    /// Pages with a damaged copy, until [`Self::settle`]. The next checkpoint writes them
    /// anew.
    to_rewrite: Vec<PageKey>,
    /// Numbers of the record pages that were lost. The fingerprints of their PBNs are unknown.
    lost_records: HashSet<u32>,
    /// The backend `ram`: a checkpoint writes all pages.
    writes_image: bool,
}

impl LogBackend {
    /// Makes the backend of an empty pool.
    fn new(
        superblock: &Superblock,
        slots: &SlotSpace,
        new: NewMetadata,
        writes_image: bool,
    ) -> Self {
        let NewMetadata { data_blocks, next_volume, .. } = new;
        Self {
            block_bytes: u64::from(superblock.block_bytes),
            data_blocks,
            store: superblock.store,
            next_volume,
            volumes: BTreeMap::new(),
            nodes: Nodes::default(),
            blocks: Blocks::new(),
            pager: Pager::new(PoolSeed::of(superblock), Slots::of(slots)),
            references: 0,
            frozen_volumes: Vec::new(),
            to_rewrite: Vec::new(),
            lost_records: HashSet::new(),
            writes_image,
        }
    }

    /// A number above all PBNs of the data store.
    pub(super) const fn pbn_end(&self) -> u64 {
        self.store.pbn_end(self.data_blocks)
    }

    fn volume(&self, id: VolumeId) -> Result<&LogVolume> {
        self.volumes.get(&id).ok_or_else(|| {
            MetadataError::damaged(format!(
                "the metadata refer to volume {id}, which does not exist"
            ))
        })
    }

    /// Marks every page as changed.
    fn touch_all(&mut self) {
        let ids: Vec<NodeId> = self.nodes.all().map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| self.nodes.touch_again(&mut self.pager, id));
        for (number, entry) in self.blocks.records.entries_mut() {
            self.pager.touch_again(PageKey::Record(number), &mut entry.state);
        }
    }

    /// The table of the checkpoint whose pages were gathered.
    fn table(&self) -> Table {
        let root_of = |id: &NodeId| {
            let written = self.nodes.get(*id).written;
            assert!(written.is_some(), "a checkpoint writes the roots of all maps");
            written
        };
        let frozen = |(record, root): &(VolumeRecord, Option<NodeId>)| TableVolume {
            record: record.clone(),
            root: root.as_ref().and_then(root_of),
        };
        let volumes = self.frozen_volumes.iter().map(frozen).collect();
        Table { volumes, records: self.blocks.records.page_refs() }
    }
}

impl Map for LogBackend {
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<MapEntry>) -> Result<()> {
        self.nodes.look_up(self.volume(volume)?.map.root, lbns, places);
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        let root = self.volume(volume)?.map.root;
        Ok(self.nodes.next_mapped(root, &(from.0..end.0)).map(Lbn))
    }

    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool {
        let root = self.volumes.get(&volume).and_then(|volume| volume.map.root);
        self.nodes.is_in_shared(root, lbn)
    }

    fn shared_end(&self, volume: VolumeId, other: VolumeId, lbn: Lbn) -> Result<Option<Lbn>> {
        let [own, other] = [self.volume(volume)?.map.root, self.volume(other)?.map.root];
        Ok(self.nodes.end_of_common(own, other, lbn.0).map(Lbn))
    }

    fn piece_end(&self, volume: VolumeId, from: Lbn, most: u64) -> Lbn {
        let root = self.volumes.get(&volume).and_then(|volume| volume.map.root);
        let leaves = most / MAP_PAGE_ENTRIES as u64;
        Lbn(self.nodes.end_of_leaves(root, from.0, leaves.max(1)))
    }

    fn next_piece(&self, volume: VolumeId, from: Lbn, most: u64) -> Result<Option<Range<Lbn>>> {
        let first = self.next_mapped(volume, from, Lbn(u64::MAX))?;
        Ok(first.map(|first| first..self.piece_end(volume, first, most)))
    }

    fn warm(&self, _volume: VolumeId, _from: Lbn, end: Lbn) -> Result<Lbn> {
        Ok(end)
    }
}

impl Index for LogBackend {
    fn missing_pages(&self) -> Option<MissingPages> {
        None
    }

    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()> {
        found.extend(
            fingerprints.iter().map(|wanted| self.blocks.index.find(*wanted, &self.blocks.records)),
        );
        Ok(())
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        records.extend(pbns.iter().map(|pbn| self.blocks.records.get(*pbn)));
        Ok(())
    }

    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()> {
        counts.extend(pbns.iter().map(|pbn| self.blocks.records.get(*pbn).references));
        Ok(())
    }

    fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        self.blocks.records.visit(&mut |pbn, record| {
            if record.references > 0 && pbn >= first {
                visit(pbn);
            }
        });
        Ok(())
    }

    fn prefetch(&self, _volume: VolumeId, _lbns: &[Lbn], places: &[MapEntry]) -> Result<()> {
        let stored = |place: &MapEntry| place.pbn().map(|pbn| self.blocks.records.get(pbn));
        for record in places.iter().filter_map(stored) {
            if record.references == 1 {
                black_box(self.blocks.index.find(record.fingerprint, &self.blocks.records));
            }
        }
        Ok(())
    }

    fn catch_up(&self) -> Result<bool> {
        Ok(false)
    }
}

impl Volumes for LogBackend {
    fn volumes(&self) -> Vec<VolumeRecord> {
        self.volumes.values().map(|volume| volume.record.clone()).collect()
    }

    fn description(&self, volume: VolumeId) -> Option<VolumeRecord> {
        self.volumes.get(&volume).map(|volume| volume.record.clone())
    }

    fn describe(&mut self, record: VolumeRecord) -> Result<()> {
        self.check_size(record.size_bytes)?;
        let id = record.id;
        self.volume_mut(id)?.record = record;
        Ok(())
    }

    fn skip_ids(&mut self, next_volume: u32) {
        self.next_volume = self.next_volume.max(next_volume);
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.map.tally.mapped)
    }

    fn blocks_to_remove(&self, volume: VolumeId) -> u64 {
        self.mapped_blocks(volume)
    }

    fn clones_add_references(&self) -> bool {
        false
    }

    fn piece_blocks(&self) -> Option<u64> {
        None
    }
}

impl Repair for LogBackend {
    fn is_record_lost(&self, pbn: Pbn) -> bool {
        self.lost_records.contains(&(pbn.narrow() / RECORD_PAGE_ENTRIES as u32))
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<MapEntry>) -> Result<()> {
        self.restore_all(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        Ok(self.prove_counts(most))
    }
}

impl MetadataBackend for LogBackend {
    fn kind(&self) -> BackendKind {
        if self.writes_image { BackendKind::Ram } else { BackendKind::Log }
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        self.check_one(change)
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply_one(change, freed))
    }

    fn replay(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        self.apply(changes, freed)
    }

    fn settle(&mut self) -> Result<()> {
        self.settle_all()
    }

    fn totals(&self) -> Totals {
        Totals {
            references: self.references,
            physical: self.blocks.physical,
            data_blocks: self.data_blocks,
            next_volume: self.next_volume,
            index_entries: self.blocks.index.entries(),
            memory_bytes: self.nodes.memory_bytes() + self.blocks.memory_bytes(),
            pages: self.pager.slots.in_use(),
            cache: CacheStats::default(),
        }
    }
}
