//! The metadata of a checkpoint, read without a cache or other optimisations.

use crate::bits::UsedPbns;
use crate::family::Runs;
use crate::map::{LbnTally, WalkMap};
use crate::order::Sharers;
use crate::pages::Pages;
use crate::references::compare_counts;
use crate::source::{Entries, Source};
use crate::store::{KnownNodes, TreeReader};
use crate::values::{Identities, Leaves};
use crate::work::Work;
use crate::{CheckError, CheckReport, MEMORY_BYTES, packed};
use gemelo_base::units::format_counted;
use gemelo_base::{Silent, StopFlag};
use gemelo_format::{
    AtLoss, Change, Checksum, DiskRole, FormatError, IndexForm, MapEntry, Part, Pbn, PoolSeed,
    ReadChain, Reading, ReplayOptions, Replayed, ReplayedCommit, Root, StoreTable, StoreVolume,
    Superblock, VolumeId, VolumeRecord, find_roots, read_chain, replay_journal,
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
    pub(crate) map: WalkMap,
}

impl WalkVolume {
    pub(crate) fn new(record: VolumeRecord) -> Self {
        Self { record, map: WalkMap::default() }
    }

    /// The entries of LBNs that are not unmapped, in their order.
    pub(crate) fn entries(
        &self,
        source: &Source,
        lbns: &Range<u64>,
    ) -> Result<Entries, CheckError> {
        let regions: Vec<_> = self.map.regions_of(lbns).collect();
        let entries = source.entries(&regions)?.into_iter().flatten();
        Ok(entries.filter(|(lbn, _)| lbns.contains(lbn)).collect())
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
    pub(crate) identities: Identities,
    pub(crate) source: Source,
    /// References of volumes that are being removed which the totals have and the maps do not.
    pub(crate) leaving: u64,
    /// Contents that the journal carries, and that the data store may lack.
    pub(crate) replayed_data: Arc<Contents>,
    /// The bytes that these take in the data store.
    pub(crate) replayed_bytes: HashMap<Pbn, u64>,
    /// LBNs of the blocks that commits store or share.
    pub(crate) sharers: Sharers,
}

impl Walk {
    /// Reads all metadata, and adds faults to the report. Returns `None` if the metadata is too
    /// damaged to be counted.
    ///
    /// # Errors
    /// Fails if the disks hold no pool, or if a disk cannot be read.
    pub fn of(disks: &PoolDisks, report: &mut CheckReport) -> Result<Option<Self>, CheckError> {
        Self::read(disks, Work::new(MEMORY_BYTES, &Silent, &StopFlag::new()), report)
    }

    /// The places of the LBNs of a volume that are not unmapped, in their order.
    ///
    /// # Errors
    /// Fails if a disk cannot be read.
    pub fn places(&self, volume: &WalkVolume) -> Result<Vec<MapEntry>, CheckError> {
        let entries = volume.entries(&self.source, &(0..u64::MAX))?;
        Ok(entries.into_iter().map(|(_, place)| place).collect())
    }

    /// Reads all metadata with these bounds.
    pub(crate) fn read(
        disks: &PoolDisks,
        work: Work<'_>,
        report: &mut CheckReport,
    ) -> Result<Option<Self>, CheckError> {
        let mut damage = Vec::new();
        let superblock = disks.read_superblock(&mut damage)?;
        for what in damage {
            report.add(false, format!("{what} is damaged; another copy is whole"));
        }
        let store = disks.store(&superblock);
        for label in store.check_labels()? {
            report.add(false, format!("{label} is damaged"));
        }
        match Self::read_all(disks, superblock, (work, &mut *report)) {
            Ok(walk) => Ok(Some(walk)),
            Err(CheckError::Format(FormatError::Damaged { what })) => {
                report.add(true, what);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn read_all(
        disks: &PoolDisks,
        superblock: Superblock,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<Self, CheckError> {
        let disk = &*disks.metadata;
        let seed = PoolSeed::of(&superblock);
        let found = find_roots(disk, &superblock, seed)?;
        for offset in &found.to_repair {
            report
                .add(false, format!("the root at byte {offset} is damaged; another copy is whole"));
        }
        let root = found.newest;
        let chain = read_chain(disk, &superblock, &root, seed)?;
        let store = disks.store(&superblock);
        let present_blocks = store.blocks().map_err(FormatError::io(DiskRole::Data, "measure"))?;
        let (disk, regions) = (Arc::clone(&disks.metadata), superblock.regions());
        let mut walk = Self {
            sharers: Sharers::new(UsedPbns::new(&superblock, root.data_blocks)),
            data_blocks: root.data_blocks,
            present_blocks,
            source: Source { disk, regions, seed, words: superblock.words, moved: HashMap::new() },
            superblock,
            volumes: BTreeMap::new(),
            identities: Identities::new(Leaves::new(Part::Fingerprints, true)),
            leaving: 0,
            replayed_data: Arc::default(),
            replayed_bytes: HashMap::new(),
        };
        walk.read_checkpoint(&root, &chain, (work, &mut *report))?;
        work.begin("Reading the journal", (1, 1), 0);
        let superblock = walk.superblock.clone();
        let options = ReplayOptions { at_loss: AtLoss::Stop, reading: Reading::All };
        let prove =
            |contents: &[(Pbn, Checksum)]| Ok(packed::has_all(disks, &superblock, contents)?);
        let mut shared = HashSet::new();
        let note = |commit: ReplayedCommit| {
            shared.extend(commit.changes.iter().filter_map(|change| match change {
                Change::Share { pbn, .. } | Change::Move { from: pbn, .. } => Some(*pbn),
                _ => None,
            }));
            Ok::<_, CheckError>(())
        };
        replay_journal(&*disks.metadata, &superblock, &root, options, prove, note)?;
        walk.sharers.expect(shared);
        let apply = |commit| {
            report.commits += 1;
            walk.replay_commit(commit)
        };
        let replayed = replay_journal::<CheckError>(
            &*disks.metadata,
            &superblock,
            &root,
            options,
            prove,
            apply,
        )?;
        report_journal(replayed, report);
        let source = walk.source.clone();
        walk.identities.find_moved((&source, work))?;
        report.volumes = walk.volumes.len() as u64;
        Ok(walk)
    }

    /// Reads the pages of a checkpoint.
    fn read_checkpoint(
        &mut self,
        root: &Root,
        chain: &ReadChain,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<(), CheckError> {
        let makes_no_sense =
            || FormatError::damaged("the table of the checkpoint cannot be decoded");
        work.begin("Reading the metadata", (1, 1), 0);
        let source = self.source.clone();
        let mut pages = Pages::new(&source, work, report);
        pages.add_chain(chain);
        if !root.policy.has_words(self.superblock.words) {
            let name = root.policy.name();
            let what = format!("the pool is too large for the policy '{name}'");
            return Err(FormatError::damaged(what).into());
        }
        let mut used = UsedPbns::new(&self.superblock, self.data_blocks);
        let form = root.policy.index();
        let table = StoreTable::decode(&chain.stream).ok_or_else(makes_no_sense)?;
        if root.policy.is_image() && table.index.root.is_some() {
            let what = format!("the policy '{}' has no index on disk", root.policy.name());
            return Err(FormatError::damaged(what).into());
        }
        let trees = self.read_trees(&table, form, &mut used, &mut pages)?;
        pages.finish();
        if trees.is_whole {
            self.compare_trees(&trees, (&table, form), &used, (work, &mut *report))?;
            self.compare_totals(root, &used, report);
        }
        self.sharers = Sharers::new(used);
        Ok(())
    }

    /// Reads the trees of a checkpoint.
    fn read_trees(
        &mut self,
        table: &StoreTable,
        form: IndexForm,
        used: &mut UsedPbns,
        pages: &mut Pages<'_>,
    ) -> Result<Trees, CheckError> {
        let block_bytes = u64::from(self.superblock.block_bytes);
        let (buckets, words) = (table.buckets, self.superblock.words);
        let has_tree = form == IndexForm::BTree;
        let mut reader = TreeReader { has_tree, buckets, words, pages, used };
        let mut is_whole = true;
        let (mut known, mut maps) = (KnownNodes::default(), HashMap::new());
        for volume in &table.volumes {
            let blocks = volume.record.size_bytes / block_bytes;
            let below = reader.map(volume.map, &mut known)?;
            // Maps with one root are one map in memory as well.
            let same = maps
                .entry(Arc::as_ptr(&below))
                .or_insert_with(|| (WalkMap::of(below.chunks.iter().cloned()), Arc::clone(&below)));
            let mut map = same.0.clone();
            for lbns in &below.lost {
                is_whole = false;
                let what = format!(
                    "the map of blocks {} and after of volume '{}' is lost",
                    lbns.start, volume.record.name
                );
                reader.pages.report.add(true, what);
                lose(&mut map, lbns.clone(), blocks);
            }
            if below.lost.is_empty() {
                let is_leaving = volume.record.is_hidden;
                self.leaving += compare_mapped(volume, &map, is_leaving, reader.pages);
            }
            let record = volume.record.clone();
            self.volumes.insert(record.id, WalkVolume { record, map });
        }
        let counts = reader.read(table.counts, Part::Counts)?;
        let many = reader.read(table.many, Part::Many)?;
        let fingerprints = reader.read(table.fingerprints, Part::Fingerprints)?;
        let part = if form == IndexForm::Memory { Part::Saved } else { Part::Index };
        let index = reader.read(table.index, part)?;
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
        self.identities = Identities::new(fingerprints);
        if form == IndexForm::Memory && (table.buckets, table.index_entries) != (0, 0) {
            let what = "the table names an index of another policy than the root does";
            pages.report.add(false, what.into());
        }
        Ok(Trees { is_whole, counts, many, index })
    }

    /// Compares counts and index with the maps, which are whole.
    fn compare_trees(
        &self,
        trees: &Trees,
        (table, form): (&StoreTable, IndexForm),
        used: &UsedPbns,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<(), CheckError> {
        let Trees { counts, many, index, .. } = trees;
        if counts.lost.is_empty() && many.lost.is_empty() {
            match Runs::of_families(table) {
                Ok(runs) => {
                    compare_counts(self, &runs, (counts, many), used, (work, &mut *report))?;
                }
                Err(fault) => report.add(false, fault),
            }
        }
        let is_whole = index.lost.is_empty() && self.identities.stored.lost.is_empty();
        if form != IndexForm::Memory && is_whole {
            self.identities.compare_index(
                &self.source,
                (index, table, form),
                used,
                (work, report),
            )?;
        }
        Ok(())
    }
}

/// The trees of a checkpoint without the maps and the fingerprints.
struct Trees {
    /// `true` if all maps are whole.
    is_whole: bool,
    counts: Leaves,
    many: Leaves,
    index: Leaves,
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
    let mut tally = LbnTally::default();
    map.regions().filter_map(|(_, region)| region.tally()).for_each(|region| tally.add(region));
    let LbnTally { mapped, stored } = tally;
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
    if lbns.start < end {
        map.lose(lbns.start..end);
    }
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
