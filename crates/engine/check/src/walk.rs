//! The metadata of a checkpoint, read without a cache or other optimisations.

use crate::CheckReport;
use crate::map::WalkMap;
use crate::packed;
use crate::pages::Pages;
use crate::store::{KnownNodes, TreeReader, compare_counts, compare_index, decode_counts};
use crate::tree::{LostLbns, MapReader};
use gemelo_base::units::format_counted;
use gemelo_format::{
    AtLoss, Checksum, DiskRole, Fingerprint, FormatError, Identity, Layout, MapEntry, Part, Pbn,
    PoolSeed, RECORD_PAGE_ENTRIES, Reading, ReplayOptions, Replayed, StoreTable, StoreVolume,
    Superblock, Table, VolumeId, VolumeRecord, find_roots, read_chain, replay_journal,
};
use gemelo_store::{Contents, PoolDisks};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// The most LBNs of one lost page that are counted as lost.
const MAX_LOST_BLOCKS: u64 = 1 << 26;

/// A volume with its map.
#[derive(Clone)]
pub struct WalkVolume {
    /// The record of the volume.
    pub record: VolumeRecord,
    /// Places of the LBNs that are not unmapped.
    pub map: WalkMap,
}

impl WalkVolume {
    pub(crate) fn new(record: VolumeRecord) -> Self {
        Self { record, map: WalkMap::default() }
    }

    /// Returns the volume's size in blocks.
    pub(crate) const fn blocks(&self, block_bytes: u64) -> u64 {
        self.record.size_bytes / block_bytes
    }
}

/// The state of a pool that recovery reaches.
pub struct Walk {
    /// Identity and shape of the pool.
    pub superblock: Superblock,
    /// Size of the data store in blocks, block 0 included.
    pub data_blocks: u64,
    /// Blocks that fit on the data disk at its present length.
    pub(crate) present_blocks: u64,
    /// The volumes and their maps, by the number of the volume.
    pub volumes: BTreeMap<VolumeId, WalkVolume>,
    /// Fingerprints by PBN.
    pub fingerprints: HashMap<u64, Fingerprint>,
    /// References of volumes that are being removed which the totals have and the maps do not.
    pub(crate) leaving: u64,
    /// Blocks that are marked as damaged.
    pub(crate) suspects: HashSet<u64>,
    /// Contents that the journal carries, and that the data store may lack.
    pub(crate) replayed_data: Arc<Contents>,
    /// The bytes that these take in the data store.
    pub(crate) replayed_bytes: HashMap<Pbn, u64>,
}

impl Walk {
    /// Reads all metadata, and adds faults to the report. Returns `None` if the metadata is too
    /// damaged to be counted.
    ///
    /// # Errors
    /// Fails if the disks hold no pool, or if a disk cannot be read.
    pub fn of(disks: &PoolDisks, report: &mut CheckReport) -> Result<Option<Self>, FormatError> {
        let mut damage = Vec::new();
        let superblock = disks.read_superblock(&mut damage)?;
        for what in damage {
            report.add(false, format!("{what} is damaged; another copy is whole"));
        }
        let store = disks.store(&superblock);
        for label in store.check_labels()? {
            report.add(false, format!("{label} is damaged"));
        }
        let walked = Self::read_all(disks, superblock, report);
        match walked {
            Ok(walk) => Ok(Some(walk)),
            Err(FormatError::Damaged { what }) => {
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
    ) -> Result<Self, FormatError> {
        let disk = &*disks.metadata;
        let seed = PoolSeed::of(&superblock);
        let found = find_roots(disk, &superblock, seed)?;
        for offset in &found.to_repair {
            report
                .add(false, format!("the root at byte {offset} is damaged; another copy is whole"));
        }
        let root = found.newest;
        let chain = read_chain(disk, &superblock, &root, seed)?;
        let mut pages = Pages::new(disk, superblock.regions(), seed, report);
        pages.add_chain(&chain);
        let store = disks.store(&superblock);
        let present_blocks = store.blocks().map_err(FormatError::io(DiskRole::Data, "measure"))?;
        let mut walk = Self {
            data_blocks: root.data_blocks,
            present_blocks,
            superblock,
            volumes: BTreeMap::new(),
            fingerprints: HashMap::new(),
            leaving: 0,
            suspects: HashSet::new(),
            replayed_data: Arc::default(),
            replayed_bytes: HashMap::new(),
        };
        let makes_no_sense =
            || FormatError::damaged("the table of the checkpoint cannot be decoded");
        if !root.backend.has_words(walk.superblock.words) {
            let name = root.backend.name();
            return Err(FormatError::damaged(format!(
                "the pool is too large for backend '{name}'"
            )));
        }
        let is_whole = if root.backend.layout() != Layout::Pages {
            let table = StoreTable::decode(&chain.stream).ok_or_else(makes_no_sense)?;
            walk.read_trees(&table, root.backend.layout(), &mut pages)?
        } else {
            let table = Table::decode(&chain.stream).ok_or_else(makes_no_sense)?;
            walk.read_pages(&table, &mut pages)?
        };
        pages.finish();
        if is_whole {
            walk.compare_totals(&root, report);
        }
        let superblock = walk.superblock.clone();
        let options = ReplayOptions { at_loss: AtLoss::Stop, reading: Reading::All };
        let prove = |contents: &[(Pbn, Checksum)]| packed::has_all(disks, &superblock, contents);
        let apply = |commit| {
            report.commits += 1;
            walk.replay_commit(commit)
        };
        let replayed = replay_journal(disk, &superblock, &root, options, prove, apply)?;
        report_journal(replayed, report);
        report.volumes = walk.volumes.len() as u64;
        Ok(walk)
    }

    /// Reads the trees of a cached backend. Returns whether all maps were intact.
    fn read_trees(
        &mut self,
        table: &StoreTable,
        layout: Layout,
        pages: &mut Pages<'_>,
    ) -> Result<bool, FormatError> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let (buckets, words) = (table.buckets, self.superblock.words);
        let mut reader = TreeReader { is_table: layout != Layout::Trees, buckets, words, pages };
        let mut is_whole = true;
        let (mut known, mut maps) = (KnownNodes::new(), HashMap::new());
        for volume in &table.volumes {
            let blocks = volume.record.size_bytes / block_bytes;
            let below = reader.map(volume.map, &mut known)?;
            // Maps with one root are one map in memory as well.
            let same = maps.entry(Arc::as_ptr(&below)).or_insert_with(|| {
                (WalkMap::of(below.regions.iter().cloned()), Arc::clone(&below))
            });
            let mut map = same.0.clone();
            for LostLbns { lbns, .. } in &below.lost {
                is_whole = false;
                let what = format!(
                    "the map of blocks {} and after of volume '{}' is lost",
                    lbns.start, volume.record.name
                );
                reader.pages.report.add(true, what);
                lose(&mut map, lbns.clone(), blocks);
            }
            if below.lost.is_empty() {
                let is_leaving = volume.record.is_hidden && layout != Layout::Trees;
                self.leaving += compare_mapped(volume, &map, is_leaving, reader.pages);
            }
            let record = volume.record.clone();
            self.volumes.insert(record.id, WalkVolume { record, map });
        }
        let counts = reader.read(table.counts, Part::Counts)?;
        let many = reader.read(table.many, Part::Many)?;
        let fingerprints = reader.read(table.fingerprints, Part::Fingerprints)?;
        let index = reader.read(table.index, Part::Index)?;
        for (found, what) in [
            (&counts, "reference counts"),
            (&many, "large reference counts"),
            (&fingerprints, "fingerprints"),
            (&index, "index"),
        ] {
            for lost in &found.lost {
                pages
                    .report
                    .add(false, format!("a page of the {what}, from {} on, is lost", lost.start));
            }
        }
        for (pbn, bits) in &fingerprints.values {
            self.identify(*pbn, Identity::from_bytes(bits.to_le_bytes()));
        }
        let references = self.reference_counts();
        if is_whole && counts.lost.is_empty() && many.lost.is_empty() {
            let counts = decode_counts(&counts.values, &many.values, pages);
            match layout {
                Layout::Trees => compare_counts(&counts, &references, pages),
                _ => match self.run_counts(table) {
                    Ok(right) => compare_counts(&counts, &right, pages),
                    Err(fault) => pages.report.add(false, fault),
                },
            }
        }
        if layout == Layout::Records {
            if table.index.root.is_some() || (table.buckets, table.index_entries) != (0, 0) {
                pages.report.add(false, "the table names an index, which is not stored".into());
            }
        } else if is_whole && index.lost.is_empty() && fingerprints.lost.is_empty() {
            compare_index(&index.values, table, &self.fingerprints, &references, pages);
        }
        Ok(is_whole)
    }

    /// Reads the pages of maps and records. Returns whether all maps were intact.
    fn read_pages(&mut self, table: &Table, pages: &mut Pages<'_>) -> Result<bool, FormatError> {
        let mut is_whole = true;
        let block_bytes = u64::from(self.superblock.block_bytes);
        let (mut reader, mut maps) = (MapReader::default(), HashMap::new());
        for volume in &table.volumes {
            let blocks = volume.record.size_bytes / block_bytes;
            let name = &volume.record.name;
            let below = match volume.root {
                Some(root) => reader.read(root, 0, pages)?,
                None => Arc::default(),
            };
            // Maps with one root are one map in memory as well.
            let known = maps.entry(Arc::as_ptr(&below));
            let (map, below) = known.or_insert_with(|| {
                (WalkMap::of(below.regions.iter().cloned()), Arc::clone(&below))
            });
            // LBNs beyond the end are those of a volume that was being shrunk. An opening unmaps
            // them.
            let mut map = map.clone();
            for lost in below.lost.iter().filter(|lost| lost.lbns.start < blocks) {
                if !lost.is_known {
                    is_whole = false;
                    let first = lost.lbns.start;
                    let what = format!(
                        "the map page of blocks {first} and after of volume '{name}' is lost"
                    );
                    pages.report.add(true, what);
                }
                lose(&mut map, lost.lbns.clone(), blocks);
            }
            let record = volume.record.clone();
            self.volumes.insert(record.id, WalkVolume { record, map });
        }
        for page in &table.records {
            let first = u64::from(page.number) * RECORD_PAGE_ENTRIES as u64;
            if first >= self.superblock.pbn_end(self.data_blocks) {
                pages.report.add(true, format!("record page {} is out of range", page.number));
                continue;
            }
            let Some(image) = pages.read(page.at())? else {
                let what = format!(
                    "the fingerprints of 256 blocks (record page {}) are lost",
                    page.number
                );
                pages.report.add(false, what);
                continue;
            };
            for (number, bytes) in (first..).zip(image.as_chunks::<16>().0) {
                self.identify(number, Identity::from_bytes(*bytes));
            }
        }
        Ok(is_whole)
    }

    /// Takes the identity of a block: its fingerprint, and whether it is marked as damaged.
    pub(crate) fn identify(&mut self, pbn: u64, identity: Identity) {
        match identity.fingerprint() {
            fingerprint if fingerprint.is_none() => drop(self.fingerprints.remove(&pbn)),
            fingerprint => drop(self.fingerprints.insert(pbn, fingerprint)),
        }
        if identity.is_suspect() {
            self.suspects.insert(pbn);
        } else {
            self.suspects.remove(&pbn);
        }
    }
}

/// Compares the numbers that the table has for a map with those counted here. Those of a volume
/// that is being removed, and whose map may share pages, are from before the removal began. Returns
/// the number of references by which they are larger.
fn compare_mapped(
    volume: &StoreVolume,
    map: &WalkMap,
    is_leaving: bool,
    pages: &mut Pages<'_>,
) -> u64 {
    let mapped = map.iter().count() as u64;
    let stored = map.values().filter(|place| place.pbn().is_some()).count() as u64;
    let is_right = match is_leaving {
        true => mapped <= volume.mapped && stored <= volume.stored,
        false => (mapped, stored) == (volume.mapped, volume.stored),
    };
    if is_right {
        return volume.stored - stored;
    }
    let what = format!(
        "volume '{}' maps {mapped} blocks, {stored} of them stored, not {} and {}",
        volume.record.name, volume.mapped, volume.stored
    );
    pages.report.add(false, what);
    0
}

/// Marks the LBNs of a volume whose places are lost, up to a bound.
fn lose(map: &mut WalkMap, lbns: Range<u64>, blocks: u64) {
    let end = lbns.end.min(blocks).min(lbns.start.saturating_add(MAX_LOST_BLOCKS));
    (lbns.start..end).for_each(|lbn| map.insert(lbn, MapEntry::Damaged));
}

/// Reports what a replay has found in the journal.
fn report_journal(replayed: Replayed, report: &mut CheckReport) {
    for number in replayed.mended {
        report.add(false, format!("both copies of commit {number} are damaged in part"));
    }
    for number in replayed.half_damaged {
        report.add(false, format!("one of the two copies of commit {number} is damaged"));
    }
    if replayed.unreadable_pages > 0 {
        let pages = format_counted(replayed.unreadable_pages, "page");
        report.add(false, format!("{pages} of the journal cannot be read"));
    }
    if let Some(lost) = replayed.lost {
        report.add(true, lost.what);
    }
}
