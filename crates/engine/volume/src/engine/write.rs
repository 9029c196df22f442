//! Writes: a list of blocks, each of which is shared, stored, unmapped or left alone.
//!
//! A pass over the list reads the blocks that are patched, computes fingerprints, looks them up,
//! and writes fresh blocks. Then, under the state's lock, it makes the changes whose assumptions
//! still hold. Blocks that another writer has changed meanwhile go through another pass.

use super::item::{Failed, Item};
use super::limits::reserved_beside;
use super::near::NearPlacer;
use super::plan::{Plan, Shared, Tally};
use super::{State, VolumeShared};
use crate::counters::add;
use crate::engine::catalogue::Catalogue;
use crate::engine::checked::Reader;
use crate::engine::damage::Healer;
use crate::engine::data::{DataPath, StoredContents};
use crate::engine::health::Health;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::reclaimer::Reclaimer;
use crate::error::{Result, VolumeError};
use crate::pool::Tuning;
use gemelo_base::Clock;
use gemelo_format::{Change, DedupMode, DiskRole, Fingerprinter, Lbn, MapEntry, Pbn, PoolSeed};
use gemelo_metadata::{HeldPages, Record};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Passes after which the write of a block fails. Each pass means that another write to the block
/// came in between.
const MAX_PASSES: u32 = 10_000;

/// The end of a pass.
enum PassEnd<'i, 'a> {
    /// All blocks were done except these, which another write has overtaken.
    Overtaken(Vec<&'i Item<'a>>),
    /// Nothing was done, because fewer blocks than this number are free.
    Full(usize),
}

/// Makes writes; see the module.
pub(crate) struct Writer {
    pub(super) reader: Arc<Reader>,
    pub(super) healer: Arc<Healer>,
    pub(super) reclaimer: Arc<Reclaimer>,
    pub(super) data: Arc<DataPath>,
    pub(super) log: Arc<Log>,
    catalogue: Arc<Catalogue>,
    pub(super) health: Arc<Health>,
    pub(super) fingerprinter: Arc<Fingerprinter>,
    pub(super) seed: PoolSeed,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tuning: Tuning,
    near: NearPlacer,
}

impl Writer {
    pub(in crate::engine) fn new(
        common: &Common,
        reader: &Arc<Reader>,
        healer: &Arc<Healer>,
        reclaimer: &Arc<Reclaimer>,
    ) -> Self {
        Self {
            reader: Arc::clone(reader),
            healer: Arc::clone(healer),
            reclaimer: Arc::clone(reclaimer),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            catalogue: Arc::clone(&common.catalogue),
            health: Arc::clone(&common.health),
            fingerprinter: Arc::clone(&common.fingerprinter),
            seed: common.seed,
            clock: Arc::clone(&common.clock),
            tuning: common.tuning,
            near: NearPlacer::new(common),
        }
    }

    /// Writes the blocks.
    pub(super) fn write(&self, volume: &VolumeShared, items: &[Item<'_>], failed: &mut Failed<'_>) {
        let all = |failed: &mut Failed<'_>, items: &[&Item<'_>], error: &VolumeError| {
            items.iter().for_each(|item| failed(item.request, error));
        };
        let blocks = volume.blocks();
        let is_within = items.iter().all(|item| item.lbn.0 < blocks);
        assert!(is_within, "a write beyond the end was refused before");
        let mut left: Vec<&Item<'_>> = items.iter().collect();
        if let Err(error) = self.log.bound_open_commit().and_then(|()| self.log.reserve_slots()) {
            return all(failed, &left, &error);
        }
        let patched = items.iter().filter(|item| item.is_patch());
        let _patching = volume.lock_patches(patched.map(|item| item.lbn));
        for pass in 0..MAX_PASSES {
            if left.is_empty() {
                return;
            }
            if pass > 2 {
                std::thread::yield_now();
            }
            match self.pass(volume, &left, failed) {
                Ok(PassEnd::Overtaken(items)) => left = items,
                Ok(PassEnd::Full(wanted)) => match self.reclaimer.reclaim(wanted) {
                    Ok(free) if free >= wanted => {}
                    Ok(free) => {
                        let free = free.saturating_sub(self.kept_beside(volume));
                        left = self.with_little_room(volume, (&left, free), failed);
                    }
                    Err(error) => return all(failed, &left, &error),
                },
                Err(error) => return all(failed, &left, &error),
            }
        }
        let busy = VolumeError::Io {
            disk: DiskRole::Data,
            action: "patch a block that changes all the time in",
            source: std::io::Error::from(std::io::ErrorKind::ResourceBusy),
        };
        all(failed, &left, &busy);
    }

    /// Writes the list when the store has too few free blocks and no more will come. Parts that fit
    /// are written one after another, and each may free blocks for the next. If there is no free
    /// block at all, the blocks that need one fail.
    fn with_little_room<'i, 'a>(
        &self,
        volume: &VolumeShared,
        (items, free): (&[&'i Item<'a>], usize),
        failed: &mut Failed<'_>,
    ) -> Vec<&'i Item<'a>> {
        let full = VolumeError::NoSpace { disk: DiskRole::Data };
        let mut again = Vec::new();
        for part in items.chunks(free.max(1)) {
            match self.pass(volume, part, failed) {
                Ok(PassEnd::Overtaken(items)) => again.extend(items),
                Ok(PassEnd::Full(_)) if free > 0 => again.extend(part),
                Ok(PassEnd::Full(_)) => part.iter().for_each(|item| failed(item.request, &full)),
                Err(error) => part.iter().for_each(|item| failed(item.request, &error)),
            }
        }
        again
    }

    fn pass<'i, 'a>(
        &self,
        volume: &VolumeShared,
        items: &[&'i Item<'a>],
        failed: &mut Failed<'_>,
    ) -> Result<PassEnd<'i, 'a>> {
        // The pin keeps all blocks that are looked up here from being reused before the end of the
        // pass.
        let _pin = self.data.pin();
        // What the look-ups have read is there when the changes are made.
        let _held = HeldPages::hold();
        let patches = self.patch(volume, items, failed)?;
        let mut plan = Plan::new(items, &patches);
        let mode = self.mode_at_present(volume);
        plan.take_fingerprints(self, mode);
        plan.look_up(self, volume)?;
        plan.decide(self);
        plan.take_checksums(self);
        let wanted = plan.fresh_blocks();
        let kept = self.kept_beside(volume);
        if kept > 0 && wanted > 0 && self.data.allocator.free_blocks() < (wanted + kept) as u64 {
            return Ok(PassEnd::Full(wanted + kept));
        }
        let near = self.near.places(volume, &plan);
        // Off-line, fingerprints are taken later.
        let is_remembered = mode == DedupMode::Offline && volume.remembers_fingerprints();
        let rule = (&*near, is_remembered);
        let stored = self.data.store_new(&plan.fresh_contents(), volume.compression(), rule)?;
        let Some(stored) = stored else { return Ok(PassEnd::Full(wanted)) };
        let StoredContents { places, taken: _taken } = stored;
        plan.place(places, failed);
        plan.heal(&self.healer);
        let changed = self.make_changes(volume, &mut plan);
        if mode != volume.mode() {
            self.note_deferred(volume, &plan);
        }
        let made = match changed {
            Ok(made) => made,
            Err(error) => {
                // In a pool that has stopped it is unknown whether durable metadata refer to these
                // blocks, so they are not freed.
                if !self.health.is_stopped() {
                    self.data.allocator.give_back(plan.unstored());
                }
                return Err(error);
            }
        };
        let stored = plan.stored().count();
        assert_eq!(stored + made.unused.len(), wanted, "a block that was taken is lost");
        self.data.allocator.give_back(made.unused);
        if let Some(most) = volume.limits().quota_bytes() {
            let error = VolumeError::Quota { quota_bytes: most };
            let beyond = made.beyond.iter().filter_map(|at| items.get(*at));
            beyond.for_each(|item| failed(item.request, &error));
        }
        count(volume, &plan.tally());
        add(&volume.counters().patch_retries, made.overtaken.len() as u64);
        add(&volume.counters().cow_shared_blocks, made.cow_shared);
        let overtaken = made.overtaken.into_iter();
        Ok(PassEnd::Overtaken(overtaken.filter_map(|at| items.get(at).copied()).collect()))
    }

    /// Free blocks that this volume leaves to the reservations of others.
    fn kept_beside(&self, volume: &VolumeShared) -> usize {
        let reserving = self.catalogue.reserving();
        if reserving.is_empty() {
            return 0;
        }
        let kept = reserved_beside(volume.id(), &reserving, &self.log.read());
        usize::try_from(kept).unwrap_or(usize::MAX / 2)
    }

    /// Returns whether a change maps a further LBN of a volume that has its quota.
    fn is_beyond_quota(
        &self,
        state: &State,
        volume: &VolumeShared,
        change: &Change,
    ) -> Result<bool> {
        let (Change::Store { lbn, .. } | Change::Share { lbn, .. }) = change else {
            return Ok(false);
        };
        let Some(most) = volume.quota_blocks() else { return Ok(false) };
        if state.backend().mapped_blocks(volume.id()) < most {
            return Ok(false);
        }
        let mut place = Vec::with_capacity(1);
        state.backend().look_up(volume.id(), &[*lbn], &mut place)?;
        Ok(place == [MapEntry::Unmapped])
    }

    /// Makes the planned changes whose assumptions still hold. Each block is done or overtaken, or
    /// its request has failed.
    fn make_changes(&self, volume: &VolumeShared, plan: &mut Plan<'_>) -> Result<Changed> {
        let (mut made, mut scratch) = (Changed::default(), Scratch::default());
        let mut state = self.log.write();
        let is_known_now = plan.stored_meanwhile(&state)?;
        let freed_before = is_known_now.is_none().then(|| state.freed_blocks());
        let mut settled = 0;
        for at in 0..plan.len() {
            let is_known = is_known_now.as_ref().is_some_and(|known| known.get(at) == Some(&true));
            // What was looked up holds if nobody else has made changes, and these freed no block.
            let is_current = freed_before == Some(state.freed_blocks()) && plan.is_shareable(at);
            if plan.is_ready(at)
                && !is_known
                && (is_current || self.is_still_right(&state, volume, plan, at, &mut scratch)?)
            {
                let change = plan.change(volume.id(), at);
                if let Some(change) = &change
                    && self.is_beyond_quota(&state, volume, change)?
                {
                    made.unused.extend(plan.taken(at));
                    made.beyond.push(at);
                    settled += 1;
                    continue;
                }
                if let Some(pbn) = plan.healed(at) {
                    self.healer.mend(&mut state, pbn)?;
                }
                if let Some(change) = change {
                    let freed = state.freed_blocks();
                    self.log.apply(&mut state, &change)?;
                    made.cow_shared +=
                        u64::from(plan.replaces(at) && state.freed_blocks() == freed);
                }
                plan.set_done(at);
                settled += 1;
                continue;
            }
            made.unused.extend(plan.taken(at));
            if plan.has_failed(at) {
                settled += 1;
            } else {
                made.overtaken.push(at);
            }
        }
        assert_eq!(settled + made.overtaken.len(), plan.len(), "a block was left out");
        Ok(made)
    }

    /// Returns whether the assumptions of the plan about a block still hold.
    fn is_still_right(
        &self,
        state: &State,
        volume: &VolumeShared,
        plan: &Plan<'_>,
        at: usize,
        scratch: &mut Scratch,
    ) -> Result<bool> {
        if let Some((lbn, base)) = plan.patched(at) {
            scratch.places.clear();
            state.backend().look_up(volume.id(), &[lbn], &mut scratch.places)?;
            if scratch.places != [base] {
                return Ok(false);
            }
        }
        // This block shares the content of an earlier one, which has to be stored by now.
        if plan.has_lost_leader(at) {
            return Ok(false);
        }
        let Some(Shared { pbn, fingerprint }) = plan.shared(at) else { return Ok(true) };
        scratch.records.clear();
        state.backend().records(&[pbn], &mut scratch.records)?;
        assert_eq!(scratch.records.len(), 1, "a block has a record");
        Ok(scratch.records.iter().all(|record| {
            let is_same = record.fingerprint == fingerprint;
            is_same && (1..self.tuning.max_references).contains(&record.references)
        }))
    }

    /// Unmaps blocks.
    pub(super) fn unmap(&self, volume: &VolumeShared, blocks: Range<u64>) -> Result<()> {
        let mut next = blocks.start;
        while next < blocks.end {
            self.log.bound_open_commit()?;
            // A failure is ignored, because an unmap may use up the reserve.
            let _ = self.log.reserve_slots();
            let _held = HeldPages::hold();
            let mapped = self.log.next_mapped(volume.id(), Lbn(next), Lbn(blocks.end))?;
            let Some(first) = mapped else { break };
            let most = self.log.read().piece_blocks();
            let count = (blocks.end - first.0).min(most);
            self.log.warm(volume.id(), first.0, first.0 + count)?;
            let mut state = self.log.write();
            let freed_before = state.backend().mapped_blocks(volume.id());
            self.log.apply(&mut state, &Change::Unmap { volume: volume.id(), first, count })?;
            let freed = freed_before - state.backend().mapped_blocks(volume.id());
            drop(state);
            add(&volume.counters().trimmed_blocks, freed);
            next = first.0 + count;
        }
        Ok(())
    }
}

/// The outcome of a plan.
#[derive(Default)]
struct Changed {
    /// Numbers of the blocks that another write has overtaken.
    overtaken: Vec<usize>,
    /// Numbers of the blocks that the volume's quota has no room for.
    beyond: Vec<usize>,
    /// PBNs that were taken and not needed.
    unused: Vec<Pbn>,
    /// Blocks that were replaced and that other LBNs still refer to.
    cow_shared: u64,
}

/// Lists that are reused, so that nothing is allocated per block.
#[derive(Default)]
struct Scratch {
    places: Vec<MapEntry>,
    records: Vec<Record>,
}

fn count(volume: &VolumeShared, tally: &Tally) {
    let counters = &volume.counters();
    for (counter, amount) in [
        (&counters.unique_blocks, tally.unique),
        (&counters.duplicate_blocks, tally.duplicate),
        (&counters.unchanged_blocks, tally.unchanged),
        (&counters.zero_blocks, tally.zero),
        (&counters.cow_blocks, tally.cow),
        (&counters.patched_blocks, tally.patched),
    ] {
        if amount > 0 {
            counter.fetch_add(amount, Ordering::Relaxed);
        }
    }
}
