//! All metadata, read and replayed in the plainest way.

use super::CheckReport;
use super::store::{TreeReader, compare_counts, compare_index};
use crate::error::{DiskRole, Result, VolumeError};
use crate::format::{
    Change, MAP_PAGE_ENTRIES, MAP_PAGE_ENTRIES_V1, PAGE_BYTES, Page, PageRef, Part, PoolSeed,
    RECORD_PAGE_ENTRIES, Root, Slot, StoreTable, StoreVolume, Superblock, Table, TableVolume,
    Version, find_roots, read_chain, read_superblock,
};
use crate::journal::Journal;
use crate::pool::PoolDisks;
use crate::types::{DedupMode, Fingerprint, Identity, Layout, Lbn, Place, VolumeId};
use gemelo_disk::Disk;
use std::collections::{BTreeMap, HashMap, HashSet};

/// LBNs of one lost page that are counted as lost.
const MOST_LOST_BLOCKS: u64 = 1 << 26;

/// A volume with its map, without the gaps.
#[derive(Clone)]
pub(crate) struct WalkVolume {
    pub(crate) name: String,
    /// Its size in blocks.
    pub(crate) blocks: u64,
    pub(crate) mode: DedupMode,
    pub(crate) read_only: bool,
    pub(crate) is_hidden: bool,
    pub(crate) map: BTreeMap<u64, Place>,
}

/// The state that recovery reaches.
pub(crate) struct Walk {
    pub(crate) superblock: Superblock,
    pub(crate) data_blocks: u64,
    /// Blocks that the data disk is long enough for.
    pub(super) present_blocks: u64,
    pub(crate) volumes: BTreeMap<VolumeId, WalkVolume>,
    pub(crate) fingerprints: HashMap<u32, Fingerprint>,
}

impl Walk {
    /// Reads it. `None` if it is too damaged to be counted.
    pub(crate) fn of(disks: &PoolDisks, report: &mut CheckReport) -> Result<Option<Self>> {
        let mut damage = Vec::new();
        let superblock = read_superblock(&*disks.metadata, &mut damage)?;
        damage.into_iter().for_each(|what| report.add(false, what));
        let store = disks.store(&superblock);
        for label in store.check_labels()? {
            report.add(false, format!("{label} is damaged"));
        }
        let walked = Self::read_all(disks, superblock, report);
        match walked {
            Ok(walk) => Ok(Some(walk)),
            Err(VolumeError::Damaged { what }) => {
                report.add(true, what);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_all(
        disks: &PoolDisks,
        superblock: Superblock,
        report: &mut CheckReport,
    ) -> Result<Self> {
        let disk = &*disks.metadata;
        let seed = PoolSeed::of(&superblock);
        let found = find_roots(disk, &superblock, seed)?;
        for offset in &found.to_repair {
            report
                .add(false, format!("the root at byte {offset} is damaged; another copy is whole"));
        }
        let root = found.newest;
        let chain = read_chain(disk, superblock.journal_pages, root.table, root.table_bytes, seed)?;
        for (slot, _) in &chain.damaged_copies {
            report.add(
                false,
                format!(
                    "a copy of a page of the table (slot {}) fails its checksum",
                    slot.number()
                ),
            );
        }
        let mut slots = Slots { seen: HashSet::new(), report };
        for slot in &chain.slots {
            slots.add(*slot);
        }
        let (volumes, fingerprints) = (BTreeMap::new(), HashMap::new());
        let store = disks.store(&superblock);
        let present_blocks = store.blocks().map_err(VolumeError::io(DiskRole::Data, "measure"))?;
        let mut walk = Self {
            data_blocks: root.data_blocks,
            present_blocks,
            superblock,
            volumes,
            fingerprints,
        };
        let makes_no_sense =
            || VolumeError::damaged("the table of the checkpoint cannot be decoded");
        let is_whole = if walk.superblock.backend.layout() != Layout::Pages {
            let table = StoreTable::decode(&chain.stream).ok_or_else(makes_no_sense)?;
            walk.read_trees(disk, seed, &table, &mut slots)?
        } else {
            let table = Table::decode(&chain.stream).ok_or_else(makes_no_sense)?;
            walk.read_pages(disk, seed, &table, &mut slots)?
        };
        if is_whole {
            walk.compare_totals(&root, report);
        }
        let mut journal = Journal::new(&walk.superblock, &root, seed);
        let replayed = journal.replay(disk, &root, |changes| {
            report.commits += 1;
            changes.into_iter().try_for_each(|change| walk.replay(change))
        })?;
        if let Some(what) = replayed.lost {
            report.add(true, what);
        }
        report.volumes = walk.volumes.len() as u64;
        Ok(walk)
    }

    /// Reads the trees of a cached backend; whether all maps were good.
    fn read_trees(
        &mut self,
        disk: &dyn Disk,
        seed: PoolSeed,
        table: &StoreTable,
        slots: &mut Slots<'_>,
    ) -> Result<bool> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let mut reader = TreeReader {
            disk,
            journal_pages: self.superblock.journal_pages,
            seed,
            is_table: self.superblock.backend.layout() == Layout::Arrays,
            buckets: table.buckets,
            slots,
        };
        let mut is_whole = true;
        let part = if self.superblock.version == Version::V1 { Part::MapV1 } else { Part::Map };
        for volume in &table.volumes {
            let blocks = volume.size_bytes / block_bytes;
            let found = reader.read(volume.map, part)?;
            let mut map: BTreeMap<u64, Place> = BTreeMap::new();
            map.extend(
                found.values.iter().map(|(lbn, word)| (*lbn, Place::from_word(*word as u64))),
            );
            if found.lost.is_empty() && map.len() as u64 != volume.mapped {
                let what = format!(
                    "volume '{}' maps {} blocks, not {}",
                    volume.name,
                    map.len(),
                    volume.mapped
                );
                reader.slots.report.add(false, what);
            }
            for lost in found.lost {
                is_whole = false;
                let what = format!(
                    "the map of blocks {} and after of volume '{}' is lost",
                    lost.start, volume.name
                );
                reader.slots.report.add(true, what);
                let end = lost.end.min(blocks).min(lost.start.saturating_add(MOST_LOST_BLOCKS));
                map.extend((lost.start..end).map(|lbn| (lbn, Place::Damaged)));
            }
            let StoreVolume { name, mode, read_only, is_hidden, .. } = volume.clone();
            let walked = WalkVolume { name, blocks, mode, read_only, is_hidden, map };
            self.volumes.insert(volume.id, walked);
        }
        let counts = reader.read(table.counts, Part::Counts)?;
        let fingerprints = reader.read(table.fingerprints, Part::Fingerprints)?;
        let index = reader.read(table.index, Part::Index)?;
        for (found, what) in
            [(&counts, "reference counts"), (&fingerprints, "fingerprints"), (&index, "index")]
        {
            for lost in &found.lost {
                slots
                    .report
                    .add(false, format!("a page of the {what}, from {} on, is lost", lost.start));
            }
        }
        let bits = |(pbn, bits): &(u64, u128)| {
            (*pbn as u32, Identity::from_bytes(bits.to_le_bytes()).fingerprint())
        };
        self.fingerprints = fingerprints.values.iter().map(bits).collect();
        let references = self.reference_counts();
        if is_whole && counts.lost.is_empty() {
            compare_counts(&counts.values, &references, slots);
        }
        if is_whole && index.lost.is_empty() && fingerprints.lost.is_empty() {
            compare_index(&index.values, table, &self.fingerprints, &references, slots);
        }
        Ok(is_whole)
    }

    /// Reads the pages of maps and records; whether all maps were good.
    fn read_pages(
        &mut self,
        disk: &dyn Disk,
        seed: PoolSeed,
        table: &Table,
        slots: &mut Slots<'_>,
    ) -> Result<bool> {
        let mut is_whole = true;
        let block_bytes = u64::from(self.superblock.block_bytes);
        let version = self.superblock.version;
        let entries = match version {
            Version::V1 => MAP_PAGE_ENTRIES_V1,
            Version::V2 => MAP_PAGE_ENTRIES,
        };
        for volume in &table.volumes {
            let blocks = volume.size_bytes / block_bytes;
            let mut map = BTreeMap::new();
            for page in &volume.pages {
                slots.add(page.slot);
                let first = u64::from(page.number) * entries as u64;
                let image = self.read_page(disk, seed, page)?;
                if image.is_none() {
                    is_whole = false;
                    let what = format!(
                        "the map page of blocks {first} and after of volume '{}' is lost",
                        volume.name
                    );
                    slots.report.add(true, what);
                }
                for at in 0..entries {
                    let place =
                        image.as_ref().map_or(Place::Damaged, |image| place_in(image, at, version));
                    let lbn = first + at as u64;
                    if place == Place::Unmapped || image.is_none() && lbn >= blocks {
                        continue;
                    }
                    if lbn >= blocks {
                        slots.report.add(
                            true,
                            format!("volume '{}' maps block {lbn}, beyond its end", volume.name),
                        );
                    }
                    map.insert(lbn, place);
                }
            }
            let TableVolume { name, mode, read_only, is_hidden, .. } = volume.clone();
            let walked = WalkVolume { name, blocks, mode, read_only, is_hidden, map };
            self.volumes.insert(volume.id, walked);
        }
        for page in &table.records {
            slots.add(page.slot);
            let first = u64::from(page.number) * RECORD_PAGE_ENTRIES as u64;
            if first >= self.data_blocks {
                slots.report.add(true, format!("record page {} is out of range", page.number));
                continue;
            }
            let Some(image) = self.read_page(disk, seed, page)? else {
                let what = format!(
                    "the fingerprints of 256 blocks (record page {}) are lost",
                    page.number
                );
                slots.report.add(false, what);
                continue;
            };
            for (number, bytes) in (first..).zip(image.as_chunks::<16>().0) {
                let fingerprint = Identity::from_bytes(*bytes).fingerprint();
                if !fingerprint.is_none() {
                    self.fingerprints.insert(number as u32, fingerprint);
                }
            }
        }
        Ok(is_whole)
    }

    /// A page, or `None` if it fails its checksum.
    fn read_page(
        &self,
        disk: &dyn Disk,
        seed: PoolSeed,
        page: &PageRef,
    ) -> Result<Option<Box<Page>>> {
        let mut image = Box::new([0; PAGE_BYTES]);
        match disk.read_at(page.slot.offset(self.superblock.journal_pages), image.as_mut_slice()) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other.map_err(VolumeError::io(DiskRole::Metadata, "read"))?,
        }
        Ok((seed.checksum(&*image) == page.checksum).then_some(image))
    }

    /// What the engine had counted at the checkpoint, and what is there.
    fn compare_totals(&self, root: &Root, report: &mut CheckReport) {
        let counts = self.reference_counts();
        let references: u64 = counts.values().sum();
        if (references, counts.len() as u64) != (root.references, root.physical) {
            let what = format!(
                "the checkpoint has {references} references to {} blocks, but its root says {} to {}",
                counts.len(),
                root.references,
                root.physical
            );
            report.add(false, what);
        }
    }

    /// References to each PBN.
    pub(super) fn reference_counts(&self) -> HashMap<u32, u64> {
        let mut counts = HashMap::new();
        for place in self.volumes.values().flat_map(|volume| volume.map.values()) {
            if let Some(pbn) = place.pbn() {
                *counts.entry(pbn.number()).or_default() += 1;
            }
        }
        counts
    }

    fn replay(&mut self, change: Change) -> Result<()> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        match change {
            Change::Store { volume, lbn, pbn, fingerprint, checksum } => {
                self.fingerprints.remove(&pbn.number());
                if !fingerprint.is_none() {
                    self.fingerprints.insert(pbn.number(), fingerprint);
                }
                self.set(volume, lbn, Place::Stored(pbn, checksum))?;
            }
            Change::Share { volume, lbn, pbn, checksum } => {
                self.set(volume, lbn, Place::Stored(pbn, checksum))?;
            }
            Change::Unmap { volume, first, count } => {
                let end = first.0.saturating_add(count);
                self.volume(volume)?.map.retain(|lbn, _| !(first.0..end).contains(lbn));
            }
            Change::Create { volume, name, size_bytes, mode } => {
                let (blocks, map) = (size_bytes / block_bytes, BTreeMap::new());
                let (read_only, is_hidden) = (false, false);
                self.volumes
                    .insert(volume, WalkVolume { name, blocks, mode, read_only, is_hidden, map });
            }
            Change::Remove { volume } => drop(self.volumes.remove(&volume)),
            Change::Rename { volume, name } => self.volume(volume)?.name = name,
            Change::Resize { volume, size_bytes } => {
                let blocks = size_bytes / block_bytes;
                let volume = self.volume(volume)?;
                volume.blocks = blocks;
                volume.map.retain(|lbn, _| *lbn < blocks);
            }
            Change::Clone { source, volume, name, read_only } => {
                let copy = WalkVolume { name, read_only, ..self.volume(source)?.clone() };
                self.volumes.insert(volume, copy);
            }
            Change::Begin { source, volume, name, read_only } => {
                let WalkVolume { blocks, mode, .. } = *self.volume(source)?;
                let map = BTreeMap::new();
                self.volumes.insert(
                    volume,
                    WalkVolume { name, blocks, mode, read_only, is_hidden: true, map },
                );
            }
            Change::Copy { source, volume, first, count } => {
                let lbns = first.0..first.0.saturating_add(count);
                let copied: Vec<_> = self
                    .volume(source)?
                    .map
                    .range(lbns)
                    .map(|(lbn, place)| (*lbn, *place))
                    .collect();
                self.volume(volume)?.map.extend(copied);
            }
            Change::Shrink { volume, size_bytes } => {
                self.volume(volume)?.blocks = size_bytes / block_bytes;
            }
            Change::SetMode { volume, mode } => self.volume(volume)?.mode = mode,
            Change::Hide { volume } => self.volume(volume)?.is_hidden = true,
            Change::Show { volume } => self.volume(volume)?.is_hidden = false,
            Change::Suspect { .. } => {}
            Change::Lose { volume, first, count } => {
                let volume = self.volume(volume)?;
                let end = first.0.saturating_add(count).min(volume.blocks);
                volume.map.extend((first.0..end).map(|lbn| (lbn, Place::Damaged)));
            }
            Change::Grow { data_blocks } => self.data_blocks = self.data_blocks.max(data_blocks),
            Change::Identify { pbn, fingerprint } => {
                self.fingerprints.insert(pbn.number(), fingerprint);
            }
        }
        Ok(())
    }

    fn volume(&mut self, id: VolumeId) -> Result<&mut WalkVolume> {
        self.volumes.get_mut(&id).ok_or_else(|| {
            VolumeError::damaged(format!("a commit changes volume {id}, which is not there"))
        })
    }

    fn set(&mut self, id: VolumeId, lbn: Lbn, place: Place) -> Result<()> {
        let volume = self.volume(id)?;
        if lbn.0 >= volume.blocks {
            return Err(VolumeError::damaged(format!(
                "a commit maps block {} of volume {id}, beyond its end",
                lbn.0
            )));
        }
        volume.map.insert(lbn.0, place);
        Ok(())
    }

    /// Counts all, and finds what cannot be.
    pub(super) fn count(&self, report: &mut CheckReport) {
        let counts = self.reference_counts();
        report.references = counts.values().sum();
        report.physical_blocks = counts.len() as u64;
        let reserved = self.superblock.reserved_blocks();
        report.free_blocks = self.data_blocks.saturating_sub(reserved + report.physical_blocks);
        let mut contents: HashMap<Fingerprint, u64> = HashMap::new();
        for (pbn, references) in &counts {
            if u64::from(*pbn) >= self.data_blocks {
                report.add(
                    true,
                    format!("{references} blocks are in block {pbn}, outside of the data store"),
                );
            }
            if let Some(fingerprint) = self.fingerprints.get(pbn) {
                *contents.entry(*fingerprint).or_default() += 1;
            }
        }
        self.count_absent(report);
        report.repeated_contents = contents.values().filter(|copies| **copies > 1).count() as u64;
        for volume in self.volumes.values() {
            let lost = volume.map.values().filter(|place| **place == Place::Damaged).count();
            report.lost_blocks += lost as u64;
        }
    }

    /// Finds contents beyond the end of the data disk.
    fn count_absent(&self, report: &mut CheckReport) {
        let is_absent = |place: &&Place| {
            place.pbn().is_some_and(|pbn| u64::from(pbn.number()) >= self.present_blocks)
        };
        for volume in self.volumes.values() {
            let absent = volume.map.values().filter(is_absent).count();
            if absent > 0 {
                let what = format!(
                    "the data store ends before {absent} of the blocks of volume '{}'",
                    volume.name
                );
                report.add(true, what);
                report.lost_blocks += absent as u64;
            }
        }
    }
}

fn place_in(image: &Page, at: usize, version: Version) -> Place {
    let word = match version {
        Version::V1 => {
            image.as_chunks::<4>().0.get(at).map(|bytes| u64::from(u32::from_le_bytes(*bytes)))
        }
        Version::V2 => image.as_chunks::<8>().0.get(at).map(|bytes| u64::from_le_bytes(*bytes)),
    };
    word.map_or(Place::Damaged, Place::from_word)
}

/// Each slot is used once.
pub(super) struct Slots<'r> {
    seen: HashSet<Slot>,
    pub(super) report: &'r mut CheckReport,
}

impl Slots<'_> {
    /// Whether it was not in use yet.
    pub(super) fn add(&mut self, slot: Slot) -> bool {
        let is_new = self.seen.insert(slot);
        if !is_new {
            self.report.add(true, format!("slot {} is used twice", slot.number()));
        }
        is_new
    }
}
