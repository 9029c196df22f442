//! Writing what is left of a damaged pool, so that it is whole again and says what it lost.
//!
//! Every map entry has a checksum of its content, so each block is judged on its own: it is kept if its
//! content passes, whatever else was damaged.

use super::open::{Recovered, each_place, recover};
use super::past_loss::RenamedVolume;
use super::{Pool, Tuning};
use crate::backend::{Map, VolumeInfo};
use crate::engine::Wanted;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, SystemClock, Unit};
use gemelo_format::{
    DiskRole, Fingerprint, Fingerprinter, Lbn, LostHistory, PAGE_BYTES, Pbn, Place, PoolDisks,
    PoolSeed, Superblock, VolumeId, data_header, read_superblock,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::IoSlice;
use std::sync::Arc;

/// What a repair does about a commit of the journal that is lost, where later ones can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossChoice {
    /// Keeps the later commits. Blocks that only the lost commit changed show their content before it, or
    /// give an error. The pool as a whole never was in this state.
    Skip,
    /// Gives up the later commits. The pool goes back to the state before the lost commit.
    RollBack,
}

/// How a pool is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RepairOptions {
    /// Read and judge all contents.
    pub data: bool,
    /// What is done about a lost commit. It makes no difference where no later commit can be read.
    pub choice: LossChoice,
}

/// The blocks of a volume that a repair gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairCost {
    /// The name of the volume.
    pub volume: String,
    /// Blocks that give an error afterwards, because their content is lost.
    pub lost_blocks: u64,
    /// Blocks that go back to an older content, because a commit that changed them, or one before
    /// it, is lost. Blocks that only a lost commit changed are not known and not counted.
    pub undone_blocks: u64,
}

/// What a repair gives up and changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairPlan {
    /// The volumes that lose blocks.
    pub costs: Vec<RepairCost>,
    /// Changes of commits after a lost one that are left out, because they rest on what only the lost
    /// commit made.
    pub left_out_changes: u64,
    /// Volumes that get another name. The lost commit removed or renamed them, and their names were given
    /// to other volumes later.
    pub renamed: Vec<RenamedVolume>,
}

/// What each choice of a repair gives up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairOutlook {
    /// The history that is missing in the journal.
    pub lost_history: Option<LostHistory>,
    /// The repair that keeps no commit after a lost one.
    pub roll_back: RepairPlan,
    /// The repair that keeps the commits after a lost one, where there are any.
    pub skip: Option<RepairPlan>,
}

impl RepairOutlook {
    /// What a repair with this choice gives up.
    #[must_use]
    pub fn plan(&self, choice: LossChoice) -> &RepairPlan {
        match (choice, &self.skip) {
            (LossChoice::Skip, Some(plan)) => plan,
            _ => &self.roll_back,
        }
    }
}

/// The outcome of a look at all contents that a repair has to judge.
#[derive(Default)]
struct Assessment {
    /// Fingerprints that were lost with their records, or that are not those of the contents.
    computed: BTreeMap<Pbn, Fingerprint>,
    /// Map entries whose contents are lost.
    lost: HashSet<Place>,
    /// LBNs of each volume that are lost.
    lost_blocks: BTreeMap<VolumeId, u64>,
}

/// Repairs the pool on two disks, which no process may have open: rewrites what is intact, marks the
/// rest as lost, and returns what was given up. Nothing of the old state is overwritten before the new
/// one is durable, so a repair that is interrupted can be begun again with another choice.
///
/// # Errors
/// If there is no pool that can be repaired, a disk cannot be read or written, or the work was
/// stopped.
pub fn repair(
    disks: &PoolDisks,
    options: RepairOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairPlan> {
    let mut recovered = recover(disks, Some(options.choice), Tuning::default().cache_bytes)?;
    let mut judge = Judge::new(disks, &recovered.superblock)?;
    let assessment = assess(&mut judge, &recovered, options.data, (monitor, stop))?;
    let plan = plan(&mut recovered, &assessment);
    let computed: Vec<(Pbn, Fingerprint)> = assessment.computed.into_iter().collect();
    recovered.backend.restore(&computed, &assessment.lost)?;
    rewrite_headers(disks)?;
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = Pool::of_recovered(disks.clone(), recovered, tuning, Arc::new(SystemClock::new()))?;
    pool.close()?;
    Ok(plan)
}

/// Returns what [`repair`] would give up with each choice, and writes nothing. The outlook is empty for a
/// pool that cannot be repaired: it is damaged beyond that, or has to be converted first.
///
/// # Errors
/// If there is no pool, a disk cannot be read, or the work was stopped.
pub fn repair_outlook(
    disks: &PoolDisks,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairOutlook> {
    let salvage = |choice| recover(disks, Some(choice), Tuning::default().cache_bytes);
    let mut recovered = match salvage(LossChoice::RollBack) {
        Ok(recovered) => recovered,
        // A check reports both.
        Err(VolumeError::Damaged { .. } | VolumeError::OldFormat { .. }) => {
            return Ok(RepairOutlook::default());
        }
        Err(error) => return Err(error),
    };
    let mut judge = Judge::new(disks, &recovered.superblock)?;
    let assessment = assess(&mut judge, &recovered, data, (monitor, stop))?;
    let roll_back = plan(&mut recovered, &assessment);
    let lost_history = recovered.lost_history.take();
    drop(recovered);
    let mut skip = None;
    if lost_history.as_ref().is_some_and(|lost| lost.can_skip) {
        let mut recovered = salvage(LossChoice::Skip)?;
        let assessment = assess(&mut judge, &recovered, data, (monitor, stop))?;
        skip = Some(plan(&mut recovered, &assessment));
    }
    Ok(RepairOutlook { lost_history, roll_back, skip })
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
/// the end of the data disk, and with `data` all of them. Computes fingerprints that were lost, or that a
/// lost commit may have replaced.
fn assess(
    judge: &mut Judge<'_>,
    recovered: &Recovered,
    data: bool,
    (monitor, stop): (&dyn Monitor, &StopFlag),
) -> Result<Assessment> {
    let backend = &*recovered.backend;
    let must_scrub = data || recovered.has_lost_history;
    let mut assessment = Assessment::default();
    let mut records = Vec::with_capacity(1);
    monitor.begin("Looking at what a repair keeps", Unit::Items, Some(backend.totals().references));
    for volume in backend.volumes() {
        each_place(backend, volume.id, |lbn, place| {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            monitor.advance(1);
            let Place::Stored(pbn, checksum) = place else { return Ok(()) };
            let is_record_lost = backend.is_record_lost(pbn);
            let is_present = u64::from(pbn.number()) < judge.present;
            let mut is_good = is_present;
            if is_present && (must_scrub || is_record_lost) {
                records.clear();
                backend.records(&[pbn], &mut records)?;
                let recorded = records.first().map(|record| record.fingerprint);
                let recorded = recorded.filter(|_| recovered.has_lost_history);
                let wanted = Wanted { lbn, pbn, checksum };
                let needs_fingerprint =
                    is_record_lost || recorded.is_some_and(|recorded| !recorded.is_none());
                let verdict = judge.judge(wanted, needs_fingerprint);
                is_good = verdict.is_good;
                let right = verdict.fingerprint.filter(|_| needs_fingerprint);
                if let Some(right) =
                    right.filter(|right| is_record_lost || recorded != Some(*right))
                {
                    assessment.computed.insert(pbn, right);
                }
            }
            if !is_good {
                assessment.lost.insert(place);
                *assessment.lost_blocks.entry(volume.id).or_default() += 1;
            }
            Ok(())
        })?;
    }
    monitor.finish();
    Ok(assessment)
}

/// The outcome of reading a content.
#[derive(Clone, Copy)]
struct Verdict {
    is_good: bool,
    /// The fingerprint of a good content, once it was asked for.
    fingerprint: Option<Fingerprint>,
}

/// Reads contents and compares them with the checksums in the maps, each once.
struct Judge<'j> {
    disks: &'j PoolDisks,
    seed: PoolSeed,
    fingerprinter: Fingerprinter,
    content: Vec<u8>,
    /// Blocks that the data disk is long enough for.
    present: u64,
    judged: HashMap<(Pbn, u32), Verdict>,
}

impl<'j> Judge<'j> {
    fn new(disks: &'j PoolDisks, superblock: &Superblock) -> Result<Self> {
        let data_bytes = disks.data.len().map_err(VolumeError::io(DiskRole::Data, "measure"))?;
        Ok(Self {
            disks,
            seed: PoolSeed::of(superblock),
            fingerprinter: Fingerprinter::new(superblock.fingerprint, superblock.key),
            content: vec![0; superblock.block_bytes as usize],
            present: data_bytes / u64::from(superblock.block_bytes),
            judged: HashMap::new(),
        })
    }

    fn judge(&mut self, wanted: Wanted, needs_fingerprint: bool) -> Verdict {
        let Wanted { pbn, checksum, .. } = wanted;
        let known = self.judged.get(&(pbn, checksum.0)).copied();
        let suffices = |verdict: &Verdict| {
            !verdict.is_good || !needs_fingerprint || verdict.fingerprint.is_some()
        };
        if let Some(verdict) = known.filter(suffices) {
            return verdict;
        }
        let offset = u64::from(pbn.number()) * self.content.len() as u64;
        let is_good = self.disks.data.read_at(offset, &mut self.content).is_ok()
            && self.seed.of_content(&self.content) == checksum;
        let fingerprint =
            (is_good && needs_fingerprint).then(|| self.fingerprinter.of(&self.content));
        let verdict = Verdict { is_good, fingerprint };
        self.judged.insert((pbn, checksum.0), verdict);
        verdict
    }
}

/// What is given up of a pool that was recovered, to be said once.
fn plan(recovered: &mut Recovered, assessment: &Assessment) -> RepairPlan {
    let past_loss = std::mem::take(&mut recovered.past_loss);
    let of = |blocks: &BTreeMap<VolumeId, u64>, id| blocks.get(&id).copied().unwrap_or(0);
    let cost = |volume: VolumeInfo| {
        let id = volume.id;
        let lost_blocks = of(&assessment.lost_blocks, id) + lost_in_map(&*recovered.backend, id);
        let vanished = of(&past_loss.vanished, id);
        RepairCost {
            volume: volume.name,
            lost_blocks: lost_blocks.max(vanished),
            undone_blocks: of(&recovered.undone, id).saturating_add(of(&past_loss.undone, id)),
        }
    };
    let is_cost = |cost: &RepairCost| cost.lost_blocks > 0 || cost.undone_blocks > 0;
    RepairPlan {
        costs: recovered.backend.volumes().into_iter().map(cost).filter(is_cost).collect(),
        left_out_changes: past_loss.left_out,
        renamed: past_loss.renamed,
    }
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
        disks
            .metadata
            .write_at(copy * PAGE_BYTES as u64, &mut [IoSlice::new(&*page)])
            .map_err(io("write"))?;
        disks.metadata.sync().map_err(io("sync"))?;
    }
    let header = data_header(&superblock);
    let io = |action| VolumeError::io(DiskRole::Data, action);
    for offset in superblock.header_offsets() {
        disks.data.write_at(offset, &mut [IoSlice::new(&header)]).map_err(io("write"))?;
        disks.data.sync().map_err(io("sync"))?;
    }
    Ok(())
}
