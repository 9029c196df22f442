//! The default backend: all metadata in memory in a compact form, and copy-on-write pages on disk
//! at a checkpoint.
//!
//! The memory per block of the data store is 20 bytes for the record and 6 to 12 for the index.
//! Each LBN of a map page in use takes 8 bytes. Reference counts and the index are not on disk:
//! [`load`] computes them.

mod apply;
mod checkpoint;
mod index;
mod load;
mod map;
mod pager;
mod prove;
mod records;
#[cfg(test)]
mod tests;
mod validate;

use super::registry::Registration;
use super::{CacheFigures, Index, Map, MetadataBackend, Record, Repair, Totals, Volumes};
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Change, Fingerprint, Lbn, Pbn, Place, PoolSeed, RECORD_PAGE_ENTRIES, Superblock, Table,
    TableVolume, VolumeId, VolumeRecord,
};
use index::HashIndex;
use map::{MapPage, PagedMap};
use pager::{PageKey, Pager};
use records::Records;
use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;

/// The backend `log`: a checkpoint writes the pages that changed.
pub(super) const LOG: Registration = Registration {
    about: "In memory, compactly, with a journal; checkpoints write what changed",
    empty: |home, data_blocks| Box::new(LogBackend::new(home.superblock, data_blocks, false)),
    load: |home, root, options, damage| {
        Ok(Box::new(LogBackend::load(home, root, false, options, damage)?))
    },
};

/// The backend `ram`: a checkpoint writes all pages.
pub(super) const RAM: Registration = Registration {
    about: "In memory; checkpoints write everything",
    empty: |home, data_blocks| Box::new(LogBackend::new(home.superblock, data_blocks, true)),
    load: |home, root, options, damage| {
        Ok(Box::new(LogBackend::load(home, root, true, options, damage)?))
    },
};

struct LogVolume {
    record: VolumeRecord,
    map: PagedMap,
}

/// The backends `log` and `ram`.
pub(super) struct LogBackend {
    block_bytes: u64,
    data_blocks: u64,
    next_volume: u32,
    volumes: BTreeMap<VolumeId, LogVolume>,
    records: Records,
    index: HashIndex,
    pager: Pager,
    /// Entries of maps whose page another entry has too, not counting one entry of each such page.
    shared_pages: u64,
    physical: u64,
    /// `false` while the journal is replayed. Counts and the index are computed after the replay.
    is_counting: bool,
    /// Pages with a damaged copy, until [`Self::settle`]. The next checkpoint writes them
    /// anew.
    to_rewrite: Vec<PageKey>,
    /// Numbers of the record pages that were lost. The fingerprints of their PBNs are unknown.
    lost_records: HashSet<u32>,
    /// The backend `ram`: a checkpoint writes all pages.
    writes_image: bool,
}

impl LogBackend {
    /// Makes the backend of an empty pool, for a data store of this many blocks.
    fn new(superblock: &Superblock, data_blocks: u64, writes_image: bool) -> Self {
        Self {
            block_bytes: u64::from(superblock.block_bytes),
            data_blocks,
            next_volume: 1,
            volumes: BTreeMap::new(),
            records: Records::default(),
            index: HashIndex::new(),
            pager: Pager::new(PoolSeed::of(superblock)),
            shared_pages: 0,
            physical: 0,
            is_counting: true,
            to_rewrite: Vec::new(),
            lost_records: HashSet::new(),
            writes_image,
        }
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
        for (id, volume) in &mut self.volumes {
            for (number, entry) in volume.map.entries_mut() {
                self.pager.touch_again(PageKey::Map(*id, number), entry);
            }
        }
        for (number, entry) in self.records.entries_mut() {
            self.pager.touch_again(PageKey::Record(number), entry);
        }
    }

    fn table(&self) -> Table {
        let volumes = self.volumes.values().map(|volume| TableVolume {
            record: volume.record.clone(),
            pages: volume.map.page_refs(),
        });
        Table { volumes: volumes.collect(), records: self.records.page_refs() }
    }
}

impl Map for LogBackend {
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<Place>) -> Result<()> {
        let map = &self.volume(volume)?.map;
        places.extend(lbns.iter().map(|lbn| Place::from_word(map.word(*lbn))));
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        Ok(self.volume(volume)?.map.next_mapped(from, end))
    }

    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool {
        self.volumes.get(&volume).is_some_and(|volume| volume.map.is_in_shared_page(lbn))
    }
}

impl Index for LogBackend {
    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()> {
        found.extend(fingerprints.iter().map(|wanted| self.index.find(*wanted, &self.records)));
        Ok(())
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        records.extend(pbns.iter().map(|pbn| self.records.get(*pbn)));
        Ok(())
    }

    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()> {
        counts.extend(pbns.iter().map(|pbn| self.records.get(*pbn).references));
        Ok(())
    }

    fn visit_used(&self, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        self.records.visit(&mut |pbn, record| {
            if record.references > 0 {
                visit(pbn);
            }
        });
        Ok(())
    }

    fn prefetch(&self, places: &[Place]) -> Result<()> {
        let stored = |place: &Place| place.pbn().map(|pbn| self.records.get(pbn));
        for record in places.iter().filter_map(stored) {
            if record.references == 1 {
                black_box(self.index.find(record.fingerprint, &self.records));
            }
        }
        Ok(())
    }
}

impl Volumes for LogBackend {
    fn volumes(&self) -> Vec<VolumeRecord> {
        self.volumes.values().map(|volume| volume.record.clone()).collect()
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.map.mapped())
    }
}

impl Repair for LogBackend {
    fn is_record_lost(&self, pbn: Pbn) -> bool {
        self.lost_records.contains(&(pbn.number() / RECORD_PAGE_ENTRIES as u32))
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<Place>) -> Result<()> {
        self.restore_all(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        Ok(self.prove_counts(most))
    }
}

impl MetadataBackend for LogBackend {
    fn check_change(&self, change: &Change) -> Result<()> {
        self.check_one(change)
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply_one(change, freed))
    }

    fn settle(&mut self) -> Result<()> {
        self.settle_all()
    }

    fn totals(&self) -> Totals {
        let maps = self.volumes.values().map(|volume| &volume.map);
        let map_bytes: u64 = maps.clone().map(PagedMap::memory_bytes).sum();
        let shared_bytes = self.shared_pages * size_of::<MapPage>() as u64;
        Totals {
            references: maps.map(PagedMap::stored).sum(),
            physical: self.physical,
            data_blocks: self.data_blocks,
            next_volume: self.next_volume,
            index_entries: self.index.entries(),
            memory_bytes: map_bytes - shared_bytes
                + self.records.memory_bytes()
                + self.index.memory_bytes(),
            pages: self.pager.slots.in_use(),
            cache: CacheFigures::default(),
        }
    }
}
