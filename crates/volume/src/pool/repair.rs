//! Writing what is left of a damaged pool, so that it is whole again and says what it lost.
//!
//! Every map entry has a checksum of its content, so each block is judged on its own: it is kept if its
//! content passes, whatever else was damaged.

use super::open::{Recovered, each_place, recover};
use super::{Pool, Tuning};
use crate::backend::Map;
use crate::engine::Wanted;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, SystemClock, Unit};
use gemelo_format::{
    DiskRole, Fingerprint, Fingerprinter, Lbn, PAGE_BYTES, Pbn, Place, PoolSeed, VolumeId,
    VolumeRecord, read_superblock,
};
use gemelo_store::{ContentRead, PoolDisks, Store};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The blocks of a volume that a repair gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairCost {
    /// The name of the volume.
    pub volume: String,
    /// Blocks that give an error afterwards, because their content is lost.
    pub lost_blocks: u64,
    /// Blocks that go back to an older content, because a commit that changed them, or one before
    /// it, is lost.
    pub undone_blocks: u64,
}

/// The outcome of a look at all contents that a repair has to judge.
#[derive(Default)]
struct Assessment {
    /// Fingerprints that were lost with their records.
    computed: Vec<(Pbn, Fingerprint)>,
    /// Map entries whose contents are lost.
    lost: HashSet<Place>,
    /// LBNs of each volume that are lost.
    lost_blocks: BTreeMap<VolumeId, u64>,
}

/// Repairs the pool on two disks, which no process may have open: rewrites what is intact, marks the
/// rest as lost, and returns what was given up. With `data`, all contents are read and judged.
///
/// # Errors
/// If there is no pool that can be repaired, a disk cannot be read or written, or the work was
/// stopped.
pub fn repair(
    disks: &PoolDisks,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Vec<RepairCost>> {
    let mut recovered = recover(disks, true, Tuning::default().cache_bytes)?;
    let assessment = assess(&recovered, data, monitor, stop)?;
    let costs = costs(&recovered, &assessment);
    recovered.backend.restore(&assessment.computed, &assessment.lost)?;
    rewrite_headers(disks)?;
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = Pool::of_recovered(disks.clone(), recovered, tuning, Arc::new(SystemClock::new()))?;
    pool.close()?;
    Ok(costs)
}

/// Returns what [`repair`] would give up, and writes nothing. The list is empty for a pool that
/// cannot be repaired: it is damaged beyond that, or has to be converted first.
///
/// # Errors
/// If there is no pool, a disk cannot be read, or the work was stopped.
pub fn repair_cost(
    disks: &PoolDisks,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Vec<RepairCost>> {
    let recovered = match recover(disks, true, Tuning::default().cache_bytes) {
        Ok(recovered) => recovered,
        // A check reports both.
        Err(VolumeError::Damaged { .. } | VolumeError::OldFormat { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let assessment = assess(&recovered, data, monitor, stop)?;
    Ok(costs(&recovered, &assessment))
}

/// Marks blocks of the pool on two disks, which no process may have open, as damaged, so that their
/// contents are not shared before they are written anew. It leaves a pool with damaged metadata
/// alone, because a repair comes first.
///
/// # Errors
/// If there is no pool, or a disk cannot be read or written.
pub fn record_damage(disks: &PoolDisks, blocks: &[u32]) -> Result<()> {
    let damaged: Vec<Pbn> = blocks.iter().copied().filter_map(Pbn::new).collect();
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = match Pool::open_disks(disks.clone(), tuning, Arc::new(SystemClock::new())) {
        Ok(pool) => pool,
        Err(VolumeError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    if pool.is_read_only() {
        return Ok(());
    }
    pool.suspect(&damaged);
    pool.close()
}

/// Judges the contents: those that may have been used again since the state that is left, those beyond
/// the end of the data disk, and with `data` all of them. Computes fingerprints that were lost.
fn assess(
    recovered: &Recovered,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<Assessment> {
    let backend = &*recovered.backend;
    let superblock = &recovered.superblock;
    let must_scrub = data || recovered.has_lost_history;
    let present = recovered.store.blocks().map_err(VolumeError::io(DiskRole::Data, "measure"))?;
    let mut judge = Judge {
        store: &*recovered.store,
        seed: PoolSeed::of(superblock),
        fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
        content: vec![0; superblock.block_bytes as usize],
        judged: HashMap::new(),
        computed: Vec::new(),
    };
    let mut assessment = Assessment::default();
    monitor.begin("Looking at what a repair keeps", Unit::Items, Some(backend.totals().references));
    for volume in backend.volumes() {
        each_place(backend, volume.id, |lbn, place| {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(1);
            let Place::Stored(pbn, checksum) = place else { return Ok(()) };
            let is_record_lost = backend.is_record_lost(pbn);
            let is_present = u64::from(pbn.number()) < present;
            let is_good = is_present
                && (!must_scrub && !is_record_lost
                    || judge.is_good(Wanted { lbn, pbn, checksum }, is_record_lost));
            if !is_good {
                assessment.lost.insert(place);
                *assessment.lost_blocks.entry(volume.id).or_default() += 1;
            }
            Ok(())
        })?;
    }
    monitor.finish();
    assessment.computed = judge.computed;
    Ok(assessment)
}

/// Reads contents and compares them with the checksums in the maps, each once.
struct Judge<'j> {
    store: &'j dyn Store,
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    judged: HashMap<(Pbn, u32), bool>,
    computed: Vec<(Pbn, Fingerprint)>,
}

impl Judge<'_> {
    fn is_good(&mut self, wanted: Wanted, is_record_lost: bool) -> bool {
        let Wanted { pbn, checksum, .. } = wanted;
        if let Some(known) = self.judged.get(&(pbn, checksum.0)) {
            return *known;
        }
        let mut reads = [ContentRead::new(pbn, 0, &mut self.content)];
        self.store.read(&mut reads);
        let [read] = reads;
        let is_good = read.outcome.is_ok() && self.seed.of_content(&self.content) == checksum;
        self.judged.insert((pbn, checksum.0), is_good);
        if is_good && is_record_lost {
            self.computed.push((pbn, self.fingerprinter.of(&self.content)));
        }
        is_good
    }
}

fn costs(recovered: &Recovered, assessment: &Assessment) -> Vec<RepairCost> {
    let cost = |volume: VolumeRecord| {
        let of_map = lost_in_map(&*recovered.backend, volume.id);
        let lost_blocks = assessment.lost_blocks.get(&volume.id).copied().unwrap_or(0) + of_map;
        let undone_blocks = recovered.undone.get(&volume.id).copied().unwrap_or(0);
        RepairCost { volume: volume.name, lost_blocks, undone_blocks }
    };
    let is_cost = |cost: &RepairCost| cost.lost_blocks > 0 || cost.undone_blocks > 0;
    recovered.backend.volumes().into_iter().map(cost).filter(is_cost).collect()
}

/// LBNs whose map entries are lost. A map that cannot be read has none that could be counted.
fn lost_in_map(backend: &dyn Map, volume: VolumeId) -> u64 {
    let mut lost = 0;
    let counted = each_place(backend, volume, |_: Lbn, place| {
        lost += u64::from(place == Place::Damaged);
        Ok(())
    });
    if counted.is_ok() { lost } else { 0 }
}

/// Writes both superblocks and both headers of the data store as the good ones are.
fn rewrite_headers(disks: &PoolDisks) -> Result<()> {
    let io = |action| VolumeError::io(DiskRole::Metadata, action);
    let superblock = read_superblock(&*disks.metadata, &mut Vec::new())?;
    let page = superblock.encode();
    for copy in 0..2 {
        disks.metadata.write_at(copy * PAGE_BYTES as u64, page.as_slice()).map_err(io("write"))?;
        disks.metadata.sync().map_err(io("sync"))?;
    }
    Ok(disks.store(&superblock).write_labels()?)
}
