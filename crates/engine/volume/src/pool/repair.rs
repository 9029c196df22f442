//! Rewrites the intact part of a damaged pool, so that the pool is whole again and names its
//! losses.
//!
//! Every map entry has a checksum of its content, so each block is judged on its own: it is kept if
//! its content passes, whatever else was damaged. A damaged block whose content has another copy is
//! healed, as a scrub does, once the repaired metadata are durable. Only what has none is given up.

use super::judge::{Assessment, Extent, Judge, assess};
use super::open::pool_of;
use super::plan::{LossChoice, RepairCost, RepairOptions, RepairOutlook, RepairPlan};
use super::recovery::{Recovered, each_place, recover};
use super::scrub::heal;
use super::set_apart::{set_apart, store_displaced};
use super::{Pool, Tuning};
use crate::error::{Result, VolumeError};
use gemelo_base::{Clock as _, Monitor, StopFlag, SystemClock};
use gemelo_format::{
    DiskRole, Fingerprint, Lbn, MapEntry, Pbn, Superblock, VolumeId, VolumeRecord,
};
use gemelo_metadata::{IndexSampling, Map};
use gemelo_store::PoolDisks;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The memory of a repair, unless it is told otherwise.
const MEMORY_BYTES: u64 = 256 << 20;

/// Repairs the pool on two disks, which no process may have open: rewrites what is intact, heals
/// what has another copy, marks the rest as lost, and returns what was given up. Nothing of the old
/// state is overwritten before the new one is durable, so a repair that is interrupted can be begun
/// again with another choice.
///
/// # Errors
/// Fails if there is no pool that can be repaired, if a disk cannot be read or written, or if the
/// work was stopped.
pub fn repair(
    disks: &PoolDisks,
    options: RepairOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairPlan> {
    repair_within(MEMORY_BYTES, disks, options, monitor, stop)
}

/// Does the same with this much memory for contents that are judged at once, and for pages and
/// counts of the metadata of a pool with the backend `compact`. With less, they are read more
/// often. Beside it, a repair keeps two bits for each block, and what is lost or changes.
///
/// # Errors
/// Fails as [`repair`] does.
pub fn repair_within(
    memory_bytes: u64,
    disks: &PoolDisks,
    options: RepairOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairPlan> {
    let tuning = tuning_within(memory_bytes);
    let mut recovered = recover(disks, Some(options.choice), &tuning)?;
    recovered.superblock.check_writable()?;
    check_header_copy(&recovered)?;
    let mut judge = Judge::new(&recovered, disks.copies())?;
    let extent = Extent { data: options.data, memory_bytes };
    let assessment = assess(&mut judge, &recovered, extent, (monitor, stop))?;
    let plan = plan(&mut recovered, &assessment);
    let wounds = assessment.healed;
    let blocks = disks.blocks(&recovered.superblock);
    let computed: Vec<(Pbn, Fingerprint)> = assessment.computed.into_iter().collect();
    recovered.backend.restore(&computed, &assessment.lost)?;
    let displaced = match recovered.has_lost_history {
        true => set_apart(&mut recovered, &blocks)?,
        false => Vec::new(),
    };
    rewrite_headers(disks)?;
    let clock = Arc::new(SystemClock::new());
    let began_ns = clock.now_ns();
    let pool = pool_of(disks.clone(), recovered, tuning, clock, began_ns)?;
    // The journal has them until the repaired metadata are durable, which refer to their new
    // places.
    let mut unhealed = store_displaced(&pool.engine, &displaced)?;
    if !wounds.is_empty() {
        // With another choice a damaged block might have been another content's.
        pool.checkpoint()?;
        let others = disks.copies();
        unhealed += heal(&pool.engine, others.as_deref(), &wounds, (monitor, stop))?;
    }
    pool.close()?;
    match unhealed {
        0 => Ok(plan),
        contents => Err(VolumeError::Unhealed { contents }),
    }
}

/// The tuning of a pool that is repaired.
fn tuning_within(memory_bytes: u64) -> Tuning {
    Tuning {
        background: false,
        cache_bytes: Some(memory_bytes),
        // Nothing is deduplicated.
        index_sampling: IndexSampling::LEAST,
        content_cache_bytes: Some(0),
        ..Tuning::default()
    }
}

/// Returns what [`repair`] would give up with each choice, and writes nothing. The outlook of a
/// pool that is damaged beyond repair says why.
///
/// # Errors
/// Fails if there is no pool, if a disk cannot be read, or if the work was stopped.
pub fn repair_outlook(
    disks: &PoolDisks,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairOutlook> {
    repair_outlook_within(MEMORY_BYTES, disks, data, monitor, stop)
}

/// Does the same with as much memory as [`repair_within`] has.
///
/// # Errors
/// Fails as [`repair_outlook`] does.
pub fn repair_outlook_within(
    memory_bytes: u64,
    disks: &PoolDisks,
    data: bool,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<RepairOutlook> {
    let tuning = tuning_within(memory_bytes);
    let salvage = |choice| {
        let recovered = recover(disks, Some(choice), &tuning)?;
        recovered.superblock.check_writable()?;
        check_header_copy(&recovered).map(|()| recovered)
    };
    let extent = Extent { data, memory_bytes };
    let mut recovered = match salvage(LossChoice::RollBack) {
        Ok(recovered) => recovered,
        Err(VolumeError::Damaged { what }) => {
            return Ok(RepairOutlook { refusal: Some(what), ..RepairOutlook::default() });
        }
        Err(error) => return Err(error),
    };
    let mut judge = Judge::new(&recovered, disks.copies())?;
    let assessment = assess(&mut judge, &recovered, extent, (monitor, stop))?;
    let roll_back = plan(&mut recovered, &assessment);
    let lost_history = recovered.lost_history.take();
    drop(recovered);
    let mut skip = None;
    if lost_history.as_ref().is_some_and(|lost| lost.can_skip) {
        let mut recovered = salvage(LossChoice::Skip)?;
        let assessment = assess(&mut judge, &recovered, extent, (monitor, stop))?;
        skip = Some(plan(&mut recovered, &assessment));
    }
    Ok(RepairOutlook { lost_history, roll_back, skip, refusal: None })
}

/// Fails if a content is where the copy of the header would be written.
fn check_header_copy(recovered: &Recovered) -> Result<()> {
    let mut is_in_header = false;
    recovered.backend.visit_used(Pbn::FIRST, &mut |pbn| {
        is_in_header |= recovered.superblock.is_in_header_copy(pbn);
    })?;
    if is_in_header { Err(VolumeError::content_in_header()) } else { Ok(()) }
}

/// Marks blocks of the pool on two disks, which no process may have open, as damaged, so that their
/// contents are not shared before they are written anew. It leaves a pool with damaged metadata
/// alone, because a repair comes first.
///
/// # Errors
/// Fails if there is no pool, or if a disk cannot be read or written.
pub fn record_damage(disks: &PoolDisks, blocks: &[u64]) -> Result<()> {
    let damaged: Vec<Pbn> = blocks.iter().copied().filter_map(Pbn::new).collect();
    let tuning = Tuning { background: false, ..Tuning::default() };
    let pool = match Pool::open_disks(disks.clone(), tuning, Arc::new(SystemClock::new())) {
        Ok(pool) => pool,
        Err(VolumeError::Damaged { .. } | VolumeError::LostHeads { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    if pool.is_read_only() {
        return Ok(());
    }
    pool.suspect(&damaged);
    pool.close()
}

/// Returns the parts that are given up of a recovered pool.
fn plan(recovered: &mut Recovered, assessment: &Assessment) -> RepairPlan {
    let past_loss = std::mem::take(&mut recovered.past_loss);
    let of = |blocks: &BTreeMap<VolumeId, u64>, id| blocks.get(&id).copied().unwrap_or(0);
    let cost = |volume: VolumeRecord| {
        let id = volume.id;
        let lost_blocks = of(&assessment.lost_blocks, id) + lost_in_map(&*recovered.backend, id);
        RepairCost {
            volume: volume.name,
            lost_blocks,
            undone_blocks: of(&recovered.undone, id).saturating_add(of(&past_loss.undone, id)),
        }
    };
    assert!(
        recovered.lost_history.is_some() || recovered.undone.is_empty(),
        "only lost history undoes changes"
    );
    let is_cost = |cost: &RepairCost| cost.lost_blocks > 0 || cost.undone_blocks > 0;
    let healed = assessment.healed.iter().map(|wound| wound.expected.pbn.number());
    let healed: BTreeSet<u64> = healed.collect();
    RepairPlan {
        costs: recovered.backend.volumes().into_iter().map(cost).filter(is_cost).collect(),
        left_out_changes: past_loss.left_out,
        renamed: past_loss.renamed,
        healed_blocks: healed.into_iter().collect(),
    }
}

/// Counts LBNs whose map entries are lost. It counts none in a map that cannot be read.
fn lost_in_map(backend: &dyn Map, volume: VolumeId) -> u64 {
    let mut lost = 0;
    let counted = each_place(backend, volume, |_: Lbn, place| {
        lost += u64::from(place == MapEntry::Damaged);
        Ok(())
    });
    if counted.is_ok() { lost } else { 0 }
}

/// Writes both superblocks and both headers of the data store as the good ones are. A metadata disk
/// whose end was lost gets back the length that it was made with.
fn rewrite_headers(disks: &PoolDisks) -> Result<()> {
    let io = |action| VolumeError::io(DiskRole::Metadata, action);
    let superblock = disks.read_superblock(&mut Vec::new())?;
    let length = superblock.regions().fixed_bytes();
    if disks.metadata.len().map_err(io("measure"))? < length {
        disks.metadata.set_len(length).map_err(io("enlarge"))?;
    }
    let page = superblock.encode();
    for offset in Superblock::offsets() {
        disks.metadata.write_at(offset, page.as_slice()).map_err(io("write"))?;
        disks.metadata.sync().map_err(io("sync"))?;
    }
    Ok(disks.store(&superblock).write_labels()?)
}
