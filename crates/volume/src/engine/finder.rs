//! The finder: looks for duplicates in volumes with off-line deduplication, after their writes were
//! acknowledged.
//!
//! A write to such a volume gets a block without a fingerprint and marks its *group*, a stretch of
//! LBNs, as dirty. The finder reads the blocks of a group that have no fingerprint, and shares each
//! whose content the index knows, or makes it known. Blocks are never written in place, so "nothing
//! has changed meanwhile" is "the LBN still has this PBN", looked at under the state's lock. Both
//! outcomes are ordinary changes in the journal.

use super::checked::FingerprintMatch;
use super::read::wanted_at;
use super::worker::StopSignal;
use super::{Engine, State, VolumeShared, Wanted};
use crate::counters::add;
use crate::error::Result;
use gemelo_format::{Change, DedupMode, Fingerprint, Lbn, Pbn, Place, VolumeId};
use gemelo_store::ContentWrite;
use std::collections::BTreeMap;

/// LBNs of a group: two pages of a map, so that one look-up stays in few pages.
const GROUP_BLOCKS: u64 = 1024;
/// Dirty groups that a volume remembers one by one (some 2 MiB); past it, the whole volume is gone
/// through.
const MOST_GROUPS: usize = 65_536;
/// Bytes that are read and fingerprinted between two holds of the state's lock.
const CHUNK_BYTES: usize = 1 << 20;
/// Rounds for one group. Every round settles the first copy of each content; what is left after
/// that many was overtaken by writes, and they have marked the group again.
const MOST_ROUNDS: u32 = 4;

/// Counts of what the finder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FinderReport {
    /// Blocks that were read and fingerprinted.
    pub examined_blocks: u64,
    /// Examined blocks whose content was known. Their own copies were freed.
    pub shared_blocks: u64,
    /// Examined blocks whose content became known to the index.
    pub identified_blocks: u64,
    /// Examined blocks that a write replaced meanwhile, or that could not be read.
    pub aborted_blocks: u64,
}

impl FinderReport {
    /// Adds another's counts.
    pub fn add(&mut self, other: Self) {
        self.examined_blocks += other.examined_blocks;
        self.shared_blocks += other.shared_blocks;
        self.identified_blocks += other.identified_blocks;
        self.aborted_blocks += other.aborted_blocks;
    }
}

/// The groups of a volume that were written since the finder looked at them.
#[derive(Debug, Default)]
pub(crate) struct DirtyGroups {
    /// Time at which each group was marked first.
    marked_ns: BTreeMap<u64, u64>,
    /// All groups from this one on have to be looked at, whether marked or not.
    sweep: Option<u64>,
}

impl DirtyGroups {
    /// Marks blocks that were written.
    pub(super) fn mark(&mut self, lbns: impl Iterator<Item = Lbn>, now_ns: u64) {
        let mut last = None;
        for group in lbns.map(|lbn| lbn.0 / GROUP_BLOCKS) {
            if last != Some(group) {
                self.marked_ns.entry(group).or_insert(now_ns);
                last = Some(group);
            }
        }
        if self.marked_ns.len() > MOST_GROUPS {
            self.mark_all();
        }
    }

    /// Marks the whole volume, because nothing is known about its groups.
    pub(crate) fn mark_all(&mut self) {
        self.marked_ns.clear();
        self.sweep = Some(0);
    }

    /// Forgets all marks.
    pub(super) fn clear(&mut self) {
        self.marked_ns.clear();
        self.sweep = None;
    }

    /// Removes and returns a group that was marked no later than `until_ns`.
    fn take_marked(&mut self, until_ns: u64) -> Option<u64> {
        let group = self
            .marked_ns
            .iter()
            .find(|(_, marked_ns)| **marked_ns <= until_ns)
            .map(|(group, _)| *group)?;
        self.marked_ns.remove(&group);
        Some(group)
    }

    /// The number of marked groups, and whether the whole volume is marked.
    pub(crate) fn waiting(&self) -> (u64, bool) {
        (self.marked_ns.len() as u64, self.sweep.is_some())
    }
}

/// A block without a fingerprint, and the results of its examination.
struct Candidate {
    own: Wanted,
    fingerprint: Fingerprint,
    /// The block that the index has for the fingerprint.
    entry: Option<Pbn>,
    /// `true` if the block of the index has the same content.
    is_equal: bool,
    /// `true` if the block of the index was suspect and its content was written there again.
    is_healed: bool,
}

impl Engine {
    /// Examines one group of any volume that was marked no later than `until_ns`. Returns `None` if
    /// there is none.
    pub(crate) fn find_next(&self, until_ns: u64) -> Result<Option<FinderReport>> {
        self.check_writable()?;
        for volume in self.volumes().values().filter(|volume| volume.mode() == DedupMode::Offline) {
            let removed = volume.enter();
            if *removed {
                continue;
            }
            let Some(group) = self.take_group(volume, until_ns)? else { continue };
            let result = self.examine(volume, group);
            if result.is_err() {
                let again = std::iter::once(Lbn(group * GROUP_BLOCKS));
                volume.dirty().mark(again, self.clock.now_ns());
            }
            return result.map(Some);
        }
        Ok(None)
    }

    fn take_group(&self, volume: &VolumeShared, until_ns: u64) -> Result<Option<u64>> {
        let from = {
            let mut dirty = volume.dirty();
            if let Some(group) = dirty.take_marked(until_ns) {
                return Ok(Some(group));
            }
            let Some(from) = dirty.sweep else { return Ok(None) };
            from
        };
        let end = Lbn(volume.size_bytes() / self.block_bytes() as u64);
        let next =
            self.state().backend().next_mapped(volume.id(), Lbn(from * GROUP_BLOCKS), end)?;
        let group = next.map(|lbn| lbn.0 / GROUP_BLOCKS);
        let mut dirty = volume.dirty();
        // Another thread may have restarted the sweep.
        if dirty.sweep == Some(from) {
            dirty.sweep = group.map(|group| group + 1);
        }
        Ok(group)
    }

    /// Examines the blocks of a group, and shares those whose contents are known.
    fn examine(&self, volume: &VolumeShared, group: u64) -> Result<FinderReport> {
        // The pin keeps all blocks that are looked up here from being reused before the end.
        let _pin = self.pin();
        let mut report = FinderReport::default();
        let chunk_blocks = (CHUNK_BYTES / self.block_bytes()).max(1);
        let mut left = self.unidentified(volume, group)?;
        for _ in 0..MOST_ROUNDS {
            if left.is_empty() {
                break;
            }
            let mut again = Vec::new();
            for chunk in left.chunks(chunk_blocks) {
                self.log.bound_open_commit()?;
                again.extend(self.examine_chunk(volume, chunk, &mut report)?);
            }
            left = again;
        }
        report.aborted_blocks += left.len() as u64;
        let counters = &self.counters;
        add(&counters.examined_blocks, report.examined_blocks);
        add(&counters.found_blocks, report.shared_blocks);
        add(&counters.identified_blocks, report.identified_blocks);
        add(&counters.aborted_blocks, report.aborted_blocks);
        Ok(report)
    }

    /// The blocks of a group that have no fingerprint.
    fn unidentified(&self, volume: &VolumeShared, group: u64) -> Result<Vec<Wanted>> {
        let blocks = volume.size_bytes() / self.block_bytes() as u64;
        let first = group * GROUP_BLOCKS;
        let lbns: Vec<Lbn> = (first..blocks.min(first + GROUP_BLOCKS)).map(Lbn).collect();
        let (mut places, mut records) = (Vec::with_capacity(lbns.len()), Vec::new());
        let state = self.state();
        state.backend().look_up(volume.id(), &lbns, &mut places)?;
        let mut stored: Vec<Wanted> = (first..).zip(&places).filter_map(wanted_at).collect();
        let pbns: Vec<Pbn> = stored.iter().map(|wanted| wanted.pbn).collect();
        state.backend().records(&pbns, &mut records)?;
        drop(state);
        let mut records = records.into_iter();
        stored.retain(|_| records.next().is_some_and(|record| record.fingerprint.is_none()));
        Ok(stored)
    }

    /// Examines some blocks. Returns those that have to be examined again, because the index has
    /// changed.
    fn examine_chunk(
        &self,
        volume: &VolumeShared,
        chunk: &[Wanted],
        report: &mut FinderReport,
    ) -> Result<Vec<Wanted>> {
        let candidates = self.identify(volume.id(), chunk)?;
        report.examined_blocks += candidates.len() as u64;
        report.aborted_blocks += (chunk.len() - candidates.len()) as u64;
        let mut again = Vec::new();
        self.warm_pieces(volume, candidates.iter().map(|candidate| candidate.own.lbn))?;
        let mut state = self.state_to_change();
        for candidate in candidates {
            match self.settle(&mut state, volume, &candidate)? {
                Settled::Shared => report.shared_blocks += 1,
                Settled::Identified => report.identified_blocks += 1,
                Settled::Overtaken => report.aborted_blocks += 1,
                Settled::Again => again.push(candidate.own),
            }
        }
        Ok(again)
    }

    /// Reads blocks and looks for their contents. Blocks that cannot be read, or are damaged, are
    /// left out.
    fn identify(&self, volume: VolumeId, chunk: &[Wanted]) -> Result<Vec<Candidate>> {
        let block_bytes = self.block_bytes();
        let mut contents = vec![0; chunk.len() * block_bytes];
        let good = self.read_each(volume, chunk, &mut contents);
        let blocks = || contents.chunks_exact(block_bytes).zip(&good).filter(|(_, good)| **good);
        let good_contents: Vec<&[u8]> = blocks().map(|(content, _)| content).collect();
        let mut fingerprints = Vec::with_capacity(good_contents.len());
        self.fingerprinter.of_all(&good_contents, |fingerprint| fingerprints.push(fingerprint));
        let mut found = Vec::with_capacity(fingerprints.len());
        let mut records = Vec::with_capacity(fingerprints.len());
        {
            let state = self.state();
            state.backend().find(&fingerprints, &mut found)?;
            let pbns: Vec<Pbn> = found.iter().map(|pbn| pbn.unwrap_or(Pbn::FIRST)).collect();
            state.backend().records(&pbns, &mut records)?;
        }
        let must_compare = self.tuning.verify_bytes || self.fingerprinter.must_compare();
        let compared = if must_compare {
            let known = good_contents.iter().zip(&fingerprints).zip(found.iter().zip(&records));
            let likenesses: Vec<FingerprintMatch<'_>> = known
                .filter(|(_, (_, record))| !record.is_suspect)
                .filter_map(|((content, fingerprint), (pbn, _))| {
                    Some(FingerprintMatch { pbn: (*pbn)?, fingerprint: *fingerprint, content })
                })
                .collect();
            self.are_equal(&likenesses)
        } else {
            Vec::new()
        };
        let mut compared = compared.into_iter();
        let mut candidates = Vec::with_capacity(fingerprints.len());
        let owns = chunk.iter().zip(&good).filter(|(_, good)| **good).map(|(own, _)| *own);
        let looked_up = fingerprints.into_iter().zip(found).zip(records);
        for ((own, ((fingerprint, entry), record)), content) in
            owns.zip(looked_up).zip(good_contents)
        {
            let is_suspect = entry.is_some() && record.is_suspect;
            let is_healed = is_suspect && !must_compare && self.heal(entry, content);
            let is_compared = must_compare && entry.is_some() && !record.is_suspect;
            let is_known = entry.is_some() && !is_suspect;
            let is_same = if is_compared { compared.next() == Some(true) } else { !must_compare };
            let is_equal = is_healed || is_known && is_same;
            candidates.push(Candidate { own, fingerprint, entry, is_equal, is_healed });
        }
        Ok(candidates)
    }

    /// Reads blocks in one list; true for those that are good. The contents become those of other
    /// LBNs, so they are checked even without `verify_reads`.
    fn read_each(&self, volume: VolumeId, chunk: &[Wanted], contents: &mut [u8]) -> Vec<bool> {
        let buffers = contents.chunks_exact_mut(self.block_bytes());
        self.read_blocks(volume, chunk, buffers).iter().map(Result::is_ok).collect()
    }

    /// Writes the content of a suspect block to that block again.
    pub(super) fn heal(&self, entry: Option<Pbn>, content: &[u8]) -> bool {
        let Some(pbn) = entry.filter(|pbn| !self.damages.is_unwritable(*pbn)) else { return false };
        let mut writes = [ContentWrite::new(pbn, content)];
        self.data.write(&mut writes);
        let [write] = writes;
        let is_written = write.outcome.is_ok();
        if !is_written {
            self.damages.note_unwritable(pbn);
        }
        is_written
    }

    /// Applies the change for one block, if the results of its examination still hold.
    fn settle(
        &self,
        state: &mut State,
        volume: &VolumeShared,
        candidate: &Candidate,
    ) -> Result<Settled> {
        let Candidate {
            own: Wanted { lbn, pbn, checksum },
            fingerprint,
            entry,
            is_equal,
            is_healed,
        } = *candidate;
        let (mut places, mut records, mut found) = (Vec::new(), Vec::new(), Vec::new());
        state.backend().look_up(volume.id(), &[lbn], &mut places)?;
        state.backend().records(&[pbn, entry.unwrap_or(pbn)], &mut records)?;
        let [own, other] = records.as_slice() else { return Ok(Settled::Overtaken) };
        if places != [Place::Stored(pbn, checksum)] {
            return Ok(Settled::Overtaken);
        }
        if !own.fingerprint.is_none() {
            // An earlier LBN with the same block was examined first.
            return Ok(Settled::Identified);
        }
        state.backend().find(&[fingerprint], &mut found)?;
        if found != [entry] {
            return Ok(Settled::Again);
        }
        let can_share = (1..self.tuning.most_references).contains(&other.references);
        match entry {
            Some(known)
                if is_equal
                    && can_share
                    && other.fingerprint == fingerprint
                    && (is_healed || !other.is_suspect) =>
            {
                if is_healed {
                    self.mend(state, known)?;
                }
                self.log.apply(
                    state,
                    &Change::Share { volume: volume.id(), lbn, pbn: known, checksum },
                )?;
                Ok(Settled::Shared)
            }
            _ => {
                self.log.apply(state, &Change::Identify { pbn, fingerprint })?;
                Ok(Settled::Identified)
            }
        }
    }
}

/// The outcome of a candidate.
enum Settled {
    Shared,
    Identified,
    Overtaken,
    /// The index has another block for the fingerprint now.
    Again,
}

/// The finder's thread: looks at groups as they come due, within its rate.
pub(super) fn work(engine: &Engine, stop: &StopSignal) {
    let tuning = &engine.tuning;
    let delay_ns = u64::try_from(tuning.finder_delay.as_nanos()).unwrap_or(u64::MAX);
    let block_bytes = engine.block_bytes() as u64;
    let mut free_at_ns = 0;
    while !stop.wait() {
        loop {
            let now_ns = engine.clock.now_ns();
            let Some(until_ns) = now_ns.checked_sub(delay_ns) else { break };
            if now_ns < free_at_ns || stop.is_raised() {
                break;
            }
            // A group that fails is examined again after the delay.
            let Ok(Some(report)) = engine.find_next(until_ns) else { break };
            if let Some(rate) = tuning.finder_bytes_per_s {
                let bytes = report.examined_blocks * block_bytes;
                free_at_ns =
                    now_ns.saturating_add(bytes.saturating_mul(1_000_000_000) / rate.max(1));
            }
        }
    }
}
