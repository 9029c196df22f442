//! Salvages a damaged pool: keeps what can be read, marks what cannot, and counts the references
//! anew.
//!
//! The arrays stay where they are. A page that cannot be read counts as an empty one until the next
//! checkpoint has replaced it, and its LBNs are marked as damaged in the layers of the volumes. So
//! memory is needed for what is lost or changes. An index on disk is computed from the records,
//! which are written anew with it.

use super::CachedBackend;
use super::apply::Changer;
use super::array;
use super::counts::StoredCounts;
use super::index::ContentIndex;
use super::layout::{IndexState, Layout, Retire, Values, Visitor};
use super::load::{Claim, MapPages};
use super::maps::Maps;
use super::records::{Records, StoredRecords};
use super::recount::{Recount, count_lbns_of};
use super::stored::Array;
use crate::Damage;
use crate::error::{MetadataError, Result};
use gemelo_format::{
    Fingerprint, Identity, Lbn, MANY, MapEntry, NodeRef, Part, Pbn, StoreTable, VolumeId, WordForm,
    counted_pbns,
};
use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The most LBNs that one lost page may cost for them to be marked one by one: 256 GiB of blocks of
/// 4 KiB.
const MAX_LOST_BLOCKS: u64 = 1 << 26;
/// LBNs that are looked up at once.
const LBNS_AT_ONCE: u64 = 4096;

/// Finds the keys of lost pages.
struct LostKeys<'l> {
    lost: &'l HashSet<NodeRef>,
    keys: Vec<Range<u64>>,
}

impl Visitor for LostKeys<'_> {
    fn wants_values(&self) -> bool {
        false
    }

    fn leaf(&mut self, keys: Range<u64>, at: NodeRef) -> ControlFlow<()> {
        self.keys.extend(self.lost.contains(&at).then_some(keys));
        ControlFlow::Continue(())
    }

    fn lost(&mut self, keys: Range<u64>, _error: MetadataError) -> Result<()> {
        self.keys.push(keys);
        Ok(())
    }
}

/// Reads the state that is left. The counts are right after
/// [`Recovery::settle`].
pub(super) fn salvage<L: Layout>(
    backend: &mut CachedBackend<L>,
    table: &StoreTable,
    damage: &mut Damage,
) -> Result<()> {
    backend.records.is_counting = false;
    // Both copies of all pages are read, and those that are lost are replaced.
    let pages = Arc::clone(&backend.pages);
    pages.begin_salvage();
    let (mut maps, mut lost) = (MapPages::default(), HashSet::new());
    for volume in &table.volumes {
        let mut claim = Claim::new(&pages, Some(&mut maps), true);
        array::walk(&pages, &volume.map, Part::Map, 0, &mut claim)?;
        lost.extend(claim.lost.into_iter().map(|(at, _)| at));
    }
    let mut lost_lbns = Vec::new();
    // A page that several maps have was looked at once.
    for volume in table.volumes.iter().filter(|_| !lost.is_empty()) {
        let mut of_volume = LostKeys { lost: &lost, keys: Vec::new() };
        array::walk(&pages, &volume.map, Part::Map, 0, &mut of_volume)?;
        lost_lbns.push((volume.record.id, of_volume.keys));
    }
    let (stored, index) =
        (StoredRecords::of(table), backend.index.named_by(table, backend.records.pbn_end())?);
    let mut note = |claim: Claim<'_>, part: Part, what: &str| {
        for (at, keys) in claim.lost {
            damage.harmless.push(format!("a part of the {what}"));
            lost.insert(at);
            backend.records.lost.push((part, keys));
        }
    };
    for (array, part, what) in stored.arrays() {
        let mut claim = Claim::new(&pages, None, true);
        array::walk(&pages, array, part, 0, &mut claim)?;
        note(claim, part, what);
    }
    // What a clean stop has left of an index in memory is not read: the index is computed.
    if index.in_memory().is_none() {
        let mut claim = Claim::new(&pages, None, true);
        L::walk_index(&pages, &index, &mut claim)?;
        note(claim, Part::Index, "index");
    }
    pages.end_salvage(lost);
    backend.maps.parents = maps.parents;
    backend.take_stored(stored, index);
    for (id, keys) in lost_lbns {
        keys.into_iter().try_for_each(|lbns| mark_lost(&mut backend.maps, id, lbns, damage))?;
    }
    Ok(())
}

/// Marks the LBNs of a lost page as damaged.
fn mark_lost(maps: &mut Maps, id: VolumeId, lbns: Range<u64>, damage: &mut Damage) -> Result<()> {
    let volume = maps.volume(id)?;
    let blocks = maps.blocks(volume.record.size_bytes);
    let what = format!("the map of volume '{}'", volume.record.name);
    let end = lbns.end.min(blocks);
    if end.saturating_sub(lbns.start) > MAX_LOST_BLOCKS {
        return Err(MetadataError::damaged(format!("almost all of {what}")));
    }
    // One beyond the end has the page replaced.
    for lbn in lbns.start..end.max(lbns.start.saturating_add(1)) {
        let copies = maps.copies_for(id, Lbn(lbn))?;
        maps.copy_nodes(id, copies)?;
        maps.put_in_layer(id, Lbn(lbn), if lbn < blocks { WordForm::DAMAGED } else { 0 })?;
    }
    damage.lost.push(format!("a part of {what}"));
    Ok(())
}

/// Completes what a salvaged pool has.
pub(super) struct Recovery<'r, L: Layout> {
    pub(super) maps: &'r mut Maps,
    pub(super) records: &'r mut Records,
    pub(super) index: &'r mut ContentIndex<L>,
}

impl<L: Layout> Recovery<'_, L> {
    /// Ends the replay of the journal: counts what a salvaged pool has.
    pub(super) fn settle(&mut self, window_pbns: u64) -> Result<()> {
        if self.records.is_counting {
            return Ok(());
        }
        self.records.is_counting = true;
        self.count_lbns()?;
        self.count_references(window_pbns)?;
        self.rebuild_index()?;
        let identities = self.records.active.sorted_identities().into_iter();
        let pbns: Vec<u64> = identities.map(|(pbn, _)| pbn).collect();
        let counts = self.records.counts_of(&pbns)?;
        let unused = pbns.into_iter().zip(counts).filter(|(_, count)| *count == 0);
        unused.for_each(|(pbn, _)| self.records.active.forget_identity(pbn));
        Ok(())
    }

    /// Counts the mapped LBNs of each volume.
    fn count_lbns(&mut self) -> Result<()> {
        let mut known = HashMap::new();
        self.maps.references = 0;
        for id in self.maps.ids() {
            let (mapped, stored) =
                count_lbns_of(self.maps, id, &mut known, &|key| self.maps.parents.is_shared(key))?;
            let volume = self.maps.volume_mut(id)?;
            (volume.mapped, volume.stored) = (mapped, stored);
            self.maps.references += stored;
        }
        Ok(())
    }

    /// Counts the references to each block, and corrects the counts.
    fn count_references(&mut self, window_pbns: u64) -> Result<()> {
        let mut wrong = Vec::new();
        let found = Recount::count(self.maps, self.records, window_pbns, &mut |some| {
            let pbns: Vec<u64> = some.iter().map(|(pbn, _)| *pbn).collect();
            for ((pbn, right), count) in some.iter().zip(readable_counts(self.records, &pbns)?) {
                let right = u32::try_from(*right).map_err(|_| MetadataError::TooManyReferences)?;
                wrong.extend((count != Some(right)).then_some((*pbn, right)));
            }
            Ok(())
        })?;
        if let Some(pbn) = found.outside {
            return Err(MetadataError::damaged(format!(
                "a map refers to block {pbn}, which is outside of the data store"
            )));
        }
        self.records.physical = found.used;
        wrong
            .into_iter()
            .for_each(|(pbn, count)| _ = self.records.active.counts.insert(pbn, count));
        self.drop_impossible_counts()
    }

    /// Drops the counts of blocks that the data store does not have, and large counts of blocks
    /// whose small count says that they have few references.
    fn drop_impossible_counts(&mut self) -> Result<()> {
        let pages = Arc::clone(&self.records.pages);
        let (mut impossible, mut large) = (Vec::new(), Vec::new());
        let mut small = Values(|group: u64, counts: u128| {
            let pbns = counted_pbns(group, counts).map(|(pbn, _)| pbn);
            let has = |pbn: &u64| {
                Pbn::new(*pbn)
                    .is_some_and(|pbn| self.records.store.has(pbn, self.records.data_blocks))
            };
            impossible.extend(pbns.filter(|pbn| !has(pbn)));
        });
        array::walk(&pages, &self.records.stored.counts, Part::Counts, 0, &mut small)?;
        let mut visitor = Values(|pbn: u64, _: u128| large.push(pbn));
        array::walk(&pages, &self.records.stored.many, Part::Many, 0, &mut visitor)?;
        let mut stored = StoredCounts::new(&pages, &self.records.stored);
        for some in large.chunks(LBNS_AT_ONCE as usize) {
            for (pbn, count) in some.iter().zip(stored.small_counts(some)) {
                if !count.is_ok_and(|count| count == MANY) {
                    self.records.lost.push((Part::Many, *pbn..*pbn + 1));
                }
            }
        }
        impossible.into_iter().for_each(|pbn| _ = self.records.active.counts.insert(pbn, 0));
        Ok(())
    }

    /// Has an index on disk written anew, with the records that it is computed from.
    fn rebuild_index(&mut self) -> Result<()> {
        if self.index.state.in_memory().is_some() {
            return Ok(());
        }
        let pages = Arc::clone(&self.records.pages);
        let mut stored = Vec::new();
        let mut visitor = Values(|pbn: u64, bits: u128| stored.push((pbn, bits)));
        array::walk(
            &pages,
            &self.records.stored.fingerprints,
            Part::Fingerprints,
            0,
            &mut visitor,
        )?;
        for (pbn, bits) in stored {
            if !self.records.active.has_identity(pbn) {
                self.records.active.set_identity(pbn, Identity::from_bytes(bits.to_le_bytes()));
            }
        }
        let mut retire = Retire(&pages);
        array::walk(&pages, &self.records.stored.fingerprints, Part::Fingerprints, 0, &mut retire)?;
        L::walk_index(&pages, &self.index.state, &mut retire)?;
        self.records.stored.fingerprints = Array::default();
        self.index.state = L::Index::empty(self.records.pbn_end(), self.index.sampling);
        Ok(())
    }

    /// Restores damaged copies of pages, and fingerprints, and marks lost contents, in a pool that
    /// was salvaged.
    pub(super) fn restore(
        &mut self,
        computed: &[(Pbn, Fingerprint)],
        lost: &HashSet<MapEntry>,
    ) -> Result<()> {
        self.records.pages.mend_copies()?;
        for (pbn, fingerprint) in computed {
            self.records.active.set_identity(pbn.number(), Identity::of(*fingerprint));
        }
        let mut freed = Vec::new();
        let mut changer = Changer::new(self.maps, self.records, &mut freed, None);
        for id in changer.maps.ids().into_iter().filter(|_| !lost.is_empty()) {
            for lbn in lbns_with(changer.maps, id, lost)? {
                changer.set_word((id, lbn), WordForm::DAMAGED)?;
            }
        }
        Ok(())
    }
}

/// The counts of PBNs, in their order; `None` for one that is lost.
fn readable_counts(records: &Records, pbns: &[u64]) -> Result<Vec<Option<u32>>> {
    let readable = |count| match count {
        Err(MetadataError::Damaged { .. }) => Ok(None),
        count => count.map(Some),
    };
    match records.counts_of(pbns) {
        Err(MetadataError::Damaged { .. }) => {
            pbns.iter().map(|pbn| readable(records.count(*pbn))).collect()
        }
        counts => Ok(counts?.into_iter().map(Some).collect()),
    }
}

/// The LBNs of a volume with one of these entries.
fn lbns_with(maps: &Maps, id: VolumeId, wanted: &HashSet<MapEntry>) -> Result<Vec<Lbn>> {
    let (mut found, mut next) = (Vec::new(), Lbn(0));
    while let Some(first) = maps.next_word(id, next, Lbn(u64::MAX))? {
        next = Lbn(first.0.saturating_add(LBNS_AT_ONCE));
        let lbns: Vec<Lbn> = (first.0..next.0).map(Lbn).collect();
        for (lbn, word) in lbns.iter().zip(maps.words(id)?.get_all(&lbns)) {
            found.extend(wanted.contains(&maps.form.entry(word?)).then_some(*lbn));
        }
    }
    Ok(found)
}
