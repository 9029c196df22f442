//! Answers the engine's questions from the deltas and the pages.

use super::array;
use super::layout::{IndexState, Layout, Values};
use super::{CachedBackend, Delta, PIECE_SHARE};
use crate::error::{MetadataError, Result};
use crate::{
    CacheStats, Differences, Index, KnownBlock, Map, MetadataBackend, MissingPages, Record, Repair,
    Totals, Volumes,
};
use gemelo_format::{
    Change, CountAt, Fingerprint, Lbn, MapEntry, Part, Pbn, Policy, VolumeId, VolumeRecord,
    counted_pbns,
};
use std::collections::HashSet;
use std::iter::Peekable;
use std::ops::Range;

/// LBNs that are warmed in one hold of the state's lock. Takes some milliseconds if every page has
/// to be read.
const WARM_BLOCKS: u64 = 64;
/// The most changes of the journal whose pages are read in lists before they are made.
const REPLAYED_AT_ONCE: usize = 4096;

impl<L: Layout> Map for CachedBackend<L> {
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<MapEntry>) -> Result<()> {
        let (mut words, first) = (self.words(volume)?, places.len());
        let known = lbns.iter().map_while(|lbn| words.known(lbn.0));
        places.extend(known.map(|word| self.words.entry(word)));
        // From the first one on that is not in memory.
        let (_, left) = lbns.split_at(places.len() - first);
        for word in words.get_all(left) {
            places.push(match word {
                Ok(word) => self.words.entry(word),
                Err(MetadataError::Damaged { .. }) => MapEntry::Damaged,
                Err(error) => return Err(error),
            });
        }
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.next_word(volume, from, end)
    }

    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool {
        // A page that cannot be read is treated as shared, so that nothing moves its blocks.
        self.is_shared(volume, lbn).unwrap_or(true)
    }

    fn shared_end(&self, volume: VolumeId, other: VolumeId, lbn: Lbn) -> Result<Option<Lbn>> {
        self.end_of_shared(volume, other, lbn)
    }

    fn differences(
        &self,
        volume: VolumeId,
        other: Option<VolumeId>,
        lbns: Range<Lbn>,
        most: usize,
    ) -> Result<Differences> {
        self.compare_maps(volume, other, lbns.start.0..lbns.end.0, most)
    }

    fn piece_end(&self, volume: VolumeId, from: Lbn, most: u64) -> Lbn {
        self.end_of_piece(volume, from, most)
    }

    fn next_piece(&self, volume: VolumeId, from: Lbn, most: u64) -> Result<Option<Range<Lbn>>> {
        self.next_piece_of(volume, from, most)
    }

    fn warm(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Lbn> {
        self.warm_some(volume, from, end, WARM_BLOCKS)
    }
}

impl<L: Layout> Index for CachedBackend<L> {
    fn missing_pages(&self) -> Option<MissingPages> {
        MissingPages::noted(&self.pages)
    }

    fn find(
        &self,
        fingerprints: &[Fingerprint],
        found: &mut Vec<Option<KnownBlock>>,
    ) -> Result<()> {
        self.find_all(fingerprints, found)
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        // Most are asked for one by one, and are in memory.
        let first = records.len();
        let known = self.known_records();
        records.extend(pbns.iter().map_while(|pbn| known.get(pbn.number())));
        if records.len() - first == pbns.len() {
            return Ok(());
        }
        records.truncate(first);
        let pbns: Vec<u64> = pbns.iter().map(|pbn| pbn.number()).collect();
        let all = self.identities_of(&pbns)?.into_iter().zip(self.counts_of(&pbns)?);
        records.extend(all.map(|(identity, references)| Record::new(identity, references)));
        Ok(())
    }

    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()> {
        let pbns: Vec<u64> = pbns.iter().map(|pbn| pbn.number()).collect();
        counts.extend(self.counts_of(&pbns)?);
        Ok(())
    }

    fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        let from = CountAt::of(first.number());
        let mut active = counted_from(&self.active, first).peekable();
        let frozen = self.frozen().into_iter().flat_map(|delta| counted_from(delta, first));
        let mut frozen = frozen.peekable();
        let mut stored = Values(|group: u64, counts: u128| {
            let before_first = if group == from.group { from.mask_before() } else { 0 };
            let recent = mask_of(&mut active, group) | mask_of(&mut frozen, group);
            let older = counted_pbns(group, counts & !(before_first | recent));
            older.filter_map(|(pbn, _)| Pbn::new(pbn)).for_each(&mut *visit);
        });
        array::walk(&self.pages, &self.version.counts, Part::Counts, from.group, &mut stored)?;
        for delta in self.frozen().into_iter().chain([&self.active]) {
            for pbn in counted_from(delta, first) {
                let is_shown =
                    std::ptr::eq(delta, &raw const self.active) || !self.active.counts.has(pbn);
                if is_shown && self.count(pbn)? > 0 {
                    Pbn::new(pbn).into_iter().for_each(&mut *visit);
                }
            }
        }
        Ok(())
    }

    fn prefetch(&self, volume: VolumeId, lbns: &[Lbn], places: &[MapEntry]) -> Result<()> {
        assert_eq!(lbns.len(), places.len(), "each LBN has a place");
        let own = places.iter().map(|place| place.pbn().map_or(0, Pbn::number));
        let mut pbns = self.pbns_to_change(volume, lbns, &own.collect::<Vec<_>>())?;
        let stored = self.stored_counts();
        pbns.retain(|pbn| stored.known(*pbn).is_none());
        if !pbns.is_empty() {
            // Those in one page are looked up one after another.
            pbns.sort_unstable();
            self.counts_of(&pbns)?;
        }
        if self.pages.is_damaged() {
            return Err(MetadataError::damaged("a page was damaged when it was read"));
        }
        Ok(())
    }

    fn catch_up(&self) -> Result<bool> {
        self.catch_up_a_part()
    }
}

/// The PBNs from this one on whose counts a delta has, in order.
fn counted_from(delta: &Delta, first: Pbn) -> impl Iterator<Item = u64> {
    let counted = delta.counts.sorted().into_iter().map(|(pbn, _)| pbn);
    counted.skip_while(move |pbn| *pbn < first.number())
}

/// The bits of the counts of the next PBNs that are in a group. Those of groups before it are
/// passed over.
fn mask_of(pbns: &mut Peekable<impl Iterator<Item = u64>>, group: u64) -> u128 {
    let mut mask = 0;
    while let Some(pbn) = pbns.next_if(|pbn| CountAt::of(*pbn).group <= group) {
        let at = CountAt::of(pbn);
        mask |= if at.group == group { at.mask() } else { 0 };
    }
    mask
}

impl<L: Layout> Volumes for CachedBackend<L> {
    fn volumes(&self) -> Vec<VolumeRecord> {
        self.volumes.values().map(|volume| volume.record.clone()).collect()
    }

    fn description(&self, volume: VolumeId) -> Option<VolumeRecord> {
        self.volumes.get(&volume).map(|volume| volume.record.clone())
    }

    fn describe(&mut self, record: VolumeRecord) -> Result<()> {
        self.check_size(record.size_bytes)?;
        let id = record.id;
        self.volume_mut(id)?.record = record;
        Ok(())
    }

    fn skip_ids(&mut self, next_volume: u32) {
        self.next_volume = self.next_volume.max(next_volume);
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.volumes.get(&volume).map_or(0, |volume| volume.mapped)
    }

    fn blocks_to_remove(&self, volume: VolumeId) -> u64 {
        self.blocks_of_removal(volume)
    }

    fn piece_blocks(&self) -> u64 {
        (self.max_delta_bytes / PIECE_SHARE).max(1)
    }
}

impl<L: Layout> Repair for CachedBackend<L> {
    fn is_record_lost(&self, pbn: Pbn) -> bool {
        let is_it = |(part, keys): &(Part, Range<u64>)| {
            *part == Part::Fingerprints && keys.contains(&pbn.number())
        };
        self.lost.iter().any(is_it)
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<MapEntry>) -> Result<()> {
        self.restore_all(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        let mut wrong = self.prove_counts(most)?;
        wrong.extend(self.prove_slots()?);
        Ok(wrong)
    }
}

impl<L: Layout> MetadataBackend for CachedBackend<L> {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        self.check_one(change)
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        changes.iter().try_for_each(|change| self.apply_one(change, freed))
    }

    fn replay(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        let at_once = self.pages.max_fetched().clamp(1, REPLAYED_AT_ONCE);
        for some in changes.chunks(at_once) {
            self.read_ahead_of_replay(some);
            for change in some {
                if let Change::Store { .. } | Change::Share { .. } = change {
                    self.check_one(change)?;
                }
                self.check_stored_block(change)?;
                self.apply_one(change, freed)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        self.settle_all()?;
        // The whole of an image is in memory when it is open, its index as well.
        while self.policy.is_image() && self.catch_up_a_part()? {}
        Ok(())
    }

    fn totals(&self) -> Totals {
        let deltas = self.frozen().into_iter().chain([&self.active]);
        let frozen_fresh = self.frozen.as_ref().map(|frozen| frozen.fresh).unwrap_or_default();
        let recent: u64 = deltas.clone().map(Delta::index_entries).sum();
        let held_bytes = deltas.map(Delta::allocated_bytes).sum::<u64>()
            + self.spare.allocated_bytes()
            + self.fresh.and(frozen_fresh).bytes()
            + self.pages.memory_bytes()
            + self.neighbours.lock().bytes();
        let pages = self.pages.in_use();
        let most_pages = pages.max(self.full_pages());
        let (hits, misses) = self.pages.cache().look_ups();
        Totals {
            references: self.references,
            physical: self.physical,
            data_blocks: self.data_blocks,
            next_volume: self.next_volume,
            index_entries: self.version.index.entries() + recent,
            memory_bytes: held_bytes + self.parents.bytes() + self.version.index.bytes(),
            pages,
            cache: CacheStats {
                capacity_bytes: self.cache_bytes,
                max_capacity_bytes: self.cache.bytes(most_pages, most_pages),
                held_bytes,
                hits,
                misses,
            },
        }
    }
}
