//! The default backend: everything in memory, compactly; the journal behind it; copy-on-write pages at a checkpoint.
//!
//! Per block of the data store it takes 20 bytes for the record and 6 to 12 for the index, per LBN of a touched
//! page of a map 8 bytes. Reference counts and index are not on disk: [`load`] computes them.

mod apply;
mod index;
mod load;
mod map;
mod pager;
mod prove;
mod records;
#[cfg(test)]
mod tests;

use super::{
    CacheFigures, Garbage, MetadataBackend, PageWrites, Record, SlotNeed, Totals, VolumeInfo,
};
use crate::error::{Result, VolumeError};
use gemelo_format::{
    Change, DedupMode, Fingerprint, Lbn, Link, Pbn, Place, PoolSeed, RECORD_PAGE_ENTRIES, Table,
    TableVolume, VolumeId, build_chain,
};
use index::Index;
use map::{Map, MapPage};
use pager::{PageKey, Pager};
use records::Records;
use std::collections::{BTreeMap, HashSet};
use std::hint::black_box;

/// Bytes that the table has for each page, and for each volume with the longest name: upper bounds.
const TABLE_PAGE_BYTES: u64 = 24;
const TABLE_VOLUME_BYTES: u64 = 512;
/// Bytes of the table in a page of its own, which is written twice: a lower bound.
const TABLE_PIECE_BYTES: u64 = 2048;

/// Slots that a table of this many pages and volumes takes at most.
const fn table_slots(pages: u64, volumes: u64) -> u64 {
    2 * ((pages * TABLE_PAGE_BYTES + volumes * TABLE_VOLUME_BYTES) / TABLE_PIECE_BYTES + 1)
}

struct LogVolume {
    name: String,
    size_bytes: u64,
    mode: DedupMode,
    read_only: bool,
    is_hidden: bool,
    map: Map,
}

/// The backend `log`, and `ram`.
pub struct LogBackend {
    block_bytes: u64,
    data_blocks: u64,
    next_volume: u32,
    volumes: BTreeMap<VolumeId, LogVolume>,
    records: Records,
    index: Index,
    pager: Pager,
    /// Entries of maps whose page is another volume's as well, but one for each such page.
    shared_pages: u64,
    physical: u64,
    /// Off while a journal is replayed: counts and index are computed at its end.
    is_counting: bool,
    /// Pages that failed their checksums, until [`Self::settle`].
    damaged_pages: Vec<PageKey>,
    /// Record pages that were lost: the fingerprints of their PBNs are not known.
    lost_records: HashSet<u32>,
    /// The backend `ram`: a checkpoint writes all pages.
    writes_image: bool,
}

impl LogBackend {
    /// An empty one, for a data store of this many blocks.
    #[must_use]
    pub fn new(block_bytes: u32, data_blocks: u64, seed: PoolSeed, writes_image: bool) -> Self {
        Self {
            block_bytes: u64::from(block_bytes),
            data_blocks,
            next_volume: 1,
            volumes: BTreeMap::new(),
            records: Records::default(),
            index: Index::new(),
            pager: Pager::new(seed),
            shared_pages: 0,
            physical: 0,
            is_counting: true,
            damaged_pages: Vec::new(),
            lost_records: HashSet::new(),
            writes_image,
        }
    }

    fn volume(&self, id: VolumeId) -> Result<&LogVolume> {
        self.volumes
            .get(&id)
            .ok_or_else(|| VolumeError::damaged(format!("volume {id} is not there")))
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
        let volumes = self.volumes.iter().map(|(id, volume)| TableVolume {
            id: *id,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            mode: volume.mode,
            read_only: volume.read_only,
            is_hidden: volume.is_hidden,
            pages: volume.map.page_refs(),
        });
        Table { volumes: volumes.collect(), records: self.records.page_refs() }
    }
}

impl MetadataBackend for LogBackend {
    fn volumes(&self) -> Vec<VolumeInfo> {
        let info = |(id, volume): (&VolumeId, &LogVolume)| VolumeInfo {
            id: *id,
            name: volume.name.clone(),
            size_bytes: volume.size_bytes,
            mode: volume.mode,
            read_only: volume.read_only,
            is_hidden: volume.is_hidden,
            mapped_blocks: volume.map.mapped(),
        };
        self.volumes.iter().map(info).collect()
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.map.mapped())
    }

    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<Place>) -> Result<()> {
        let map = &self.volume(volume)?.map;
        places.extend(lbns.iter().map(|lbn| Place::from_word(map.word(*lbn))));
        Ok(())
    }

    fn warm(&self, places: &[Place]) -> Result<()> {
        let stored = |place: &Place| place.pbn().map(|pbn| self.records.get(pbn));
        for record in places.iter().filter_map(stored) {
            if record.references == 1 {
                black_box(self.index.find(record.fingerprint, &self.records));
            }
        }
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        Ok(self.volume(volume)?.map.next_mapped(from, end))
    }

    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()> {
        found.extend(fingerprints.iter().map(|wanted| self.index.find(*wanted, &self.records)));
        Ok(())
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        records.extend(pbns.iter().map(|pbn| self.records.get(*pbn)));
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

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply_one(change, freed))
    }

    fn settle(&mut self) -> Result<()> {
        self.settle_all()
    }

    fn is_record_lost(&self, pbn: Pbn) -> bool {
        self.lost_records.contains(&(pbn.number() / RECORD_PAGE_ENTRIES as u32))
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<Place>) -> Result<()> {
        self.restore_all(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        Ok(self.prove_counts(most))
    }

    fn totals(&self) -> Totals {
        let maps = self.volumes.values().map(|volume| &volume.map);
        let map_bytes: u64 = maps.clone().map(Map::memory_bytes).sum();
        let shared_bytes = self.shared_pages * size_of::<MapPage>() as u64;
        Totals {
            references: maps.map(Map::stored).sum(),
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

    fn slots(&self) -> SlotNeed {
        let in_use = self.pager.slots.in_use();
        let changed = self.pager.changed_pages();
        // The image after the next one has to fit beside that one: pages that are new are in both.
        let pages = if self.writes_image { in_use + 2 * changed } else { changed };
        SlotNeed { in_use, next: pages + table_slots(in_use + pages, self.volumes.len() as u64) }
    }

    fn freeze(&mut self) {
        if self.writes_image {
            self.touch_all();
        }
        for key in self.pager.freeze() {
            match key {
                PageKey::Map(id, number) => {
                    if let Some(entry) =
                        self.volumes.get_mut(&id).and_then(|volume| volume.map.entry_mut(number))
                    {
                        entry.freeze();
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        entry.freeze();
                    }
                }
            }
        }
    }

    fn gather(&mut self, most: usize, writes: &mut PageWrites) -> Result<bool> {
        for _ in 0..most {
            let Some(key) = self.pager.next_frozen() else { return Ok(false) };
            match key {
                PageKey::Map(id, number) => {
                    // A volume that was removed before the freeze has left keys behind.
                    let Some(volume) = self.volumes.get_mut(&id) else { continue };
                    if let Some(entry) = volume.map.entry_mut(number) {
                        self.pager.gather(key, entry, writes)?;
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        self.pager.gather(key, entry, writes)?;
                    }
                }
            }
        }
        Ok(true)
    }

    fn seal(&mut self, writes: &mut PageWrites) -> Result<(Link, u64)> {
        let stream = self.table().encode();
        let pager = &mut self.pager;
        let slots = &mut pager.slots;
        let (pages, link) = build_chain(&stream, pager.seed, || slots.take())
            .ok_or_else(|| VolumeError::damaged("all slots are in use"))?;
        pager.replace_table(pages.iter().map(|(slot, _)| *slot).collect());
        writes.extend(pages);
        Ok((link, stream.len() as u64))
    }

    fn finish(&mut self) -> Garbage {
        self.pager.finish();
        None
    }

    fn abandon(&mut self) {
        for key in self.pager.abandon() {
            match key {
                PageKey::Map(id, number) => {
                    if let Some(entry) =
                        self.volumes.get_mut(&id).and_then(|volume| volume.map.entry_mut(number))
                    {
                        self.pager.touch_again(key, entry);
                    }
                }
                PageKey::Record(number) => {
                    if let Some(entry) = self.records.entry_mut(number) {
                        self.pager.touch_again(key, entry);
                    }
                }
            }
        }
    }
}
