//! Answers the engine's questions from the deltas and the pages.

use super::apply::Changer;
use super::compare::PairComparison;
use super::delta::Delta;
use super::find::Finder;
use super::layout::{IndexState, Layout};
use super::prove::Proof;
use super::salvage::Recovery;
use super::validate::Preparation;
use super::{CachedBackend, PIECE_SHARE};
use crate::error::{MetadataError, Result};
use crate::{
    CacheStats, Differences, Index, KnownBlock, Map, MetadataBackend, MissingPages, Record, Repair,
    Totals, Volumes,
};
use gemelo_format::{
    Change, Fingerprint, Lbn, MapEntry, Part, Pbn, Policy, VolumeId, VolumeRecord,
};
use std::collections::HashSet;
use std::ops::Range;

/// The most changes of the journal whose pages are read in lists before they are made.
const REPLAYED_AT_ONCE: usize = 4096;

/// The references of a block are counted anew in a byte. All blocks that are counted at once take
/// this share of the memory.
const WINDOW_SHARE: u64 = 4;

impl<L: Layout> CachedBackend<L> {
    const fn preparation(&self) -> Preparation<'_> {
        Preparation::new(&self.maps, &self.records)
    }

    const fn recovery(&mut self) -> Recovery<'_, L> {
        let Self { maps, records, index, .. } = self;
        Recovery { maps, records, index }
    }
}

impl<L: Layout> Map for CachedBackend<L> {
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<MapEntry>) -> Result<()> {
        let (mut words, first) = (self.maps.words(volume)?, places.len());
        let known = lbns.iter().map_while(|lbn| words.known(lbn.0));
        places.extend(known.map(|word| self.maps.form.entry(word)));
        // From the first one on that is not in memory.
        let (_, left) = lbns.split_at(places.len() - first);
        for word in words.get_all(left) {
            places.push(match word {
                Ok(word) => self.maps.form.entry(word),
                Err(MetadataError::Damaged { .. }) => MapEntry::Damaged,
                Err(error) => return Err(error),
            });
        }
        Ok(())
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.maps.next_word(volume, from, end)
    }

    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool {
        // A page that cannot be read is treated as shared, so that nobody changes its entries to
        // move a block.
        self.maps.is_shared(volume, lbn).unwrap_or(true)
    }

    fn shared_end(&self, volume: VolumeId, other: VolumeId, lbn: Lbn) -> Result<Option<Lbn>> {
        PairComparison::new(&self.maps, volume, Some(other))?.end_of_shared(lbn)
    }

    fn differences(
        &self,
        volume: VolumeId,
        other: Option<VolumeId>,
        lbns: Range<Lbn>,
        most: usize,
    ) -> Result<Differences> {
        let maps = PairComparison::new(&self.maps, volume, other)?;
        maps.differences(lbns.start.0..lbns.end.0, most)
    }

    fn piece_end(&self, volume: VolumeId, from: Lbn, most: u64) -> Lbn {
        self.preparation().end_of_piece(volume, from, most)
    }

    fn next_piece(&self, volume: VolumeId, from: Lbn, most: u64) -> Result<Option<Range<Lbn>>> {
        self.preparation().next_piece(volume, from, most)
    }

    fn warm(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Lbn> {
        self.preparation().warm(volume, from, end)
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
        Finder::new(&self.index, &self.records).find(fingerprints, found)
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        // Most are asked for one by one, and are in memory.
        let first = records.len();
        let known = self.records.known_records();
        records.extend(pbns.iter().map_while(|pbn| known.get(pbn.number())));
        if records.len() - first == pbns.len() {
            return Ok(());
        }
        records.truncate(first);
        let pbns: Vec<u64> = pbns.iter().map(|pbn| pbn.number()).collect();
        let all =
            self.records.identities_of(&pbns)?.into_iter().zip(self.records.counts_of(&pbns)?);
        records.extend(all.map(|(identity, references)| Record::new(identity, references)));
        Ok(())
    }

    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()> {
        let pbns: Vec<u64> = pbns.iter().map(|pbn| pbn.number()).collect();
        counts.extend(self.records.counts_of(&pbns)?);
        Ok(())
    }

    fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        self.records.visit_used(first, visit)
    }

    fn prefetch(&self, volume: VolumeId, lbns: &[Lbn], places: &[MapEntry]) -> Result<()> {
        assert_eq!(lbns.len(), places.len(), "each LBN has a place");
        let own = places.iter().map(|place| place.pbn().map_or(0, Pbn::number));
        self.preparation().fetch_counts(volume, lbns, &own.collect::<Vec<_>>())
    }

    fn catch_up(&self) -> Result<bool> {
        self.index.catch_up(&self.records)
    }
}

impl<L: Layout> Volumes for CachedBackend<L> {
    fn volumes(&self) -> Vec<VolumeRecord> {
        self.maps.volumes.values().map(|volume| volume.record.clone()).collect()
    }

    fn description(&self, volume: VolumeId) -> Option<VolumeRecord> {
        self.maps.volumes.get(&volume).map(|volume| volume.record.clone())
    }

    fn describe(&mut self, record: VolumeRecord) -> Result<()> {
        self.maps.check_size(record.size_bytes)?;
        let id = record.id;
        self.maps.volume_mut(id)?.record = record;
        Ok(())
    }

    fn skip_ids(&mut self, next_volume: u32) {
        self.maps.next_volume = self.maps.next_volume.max(next_volume);
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.maps.volumes.get(&volume).map_or(0, |volume| volume.mapped)
    }

    fn blocks_to_remove(&self, volume: VolumeId) -> u64 {
        self.maps.blocks_of_removal(volume)
    }

    fn piece_blocks(&self) -> u64 {
        (self.max_delta_bytes() / PIECE_SHARE).max(1)
    }
}

impl<L: Layout> Repair for CachedBackend<L> {
    fn is_record_lost(&self, pbn: Pbn) -> bool {
        let is_it = |(part, keys): &(Part, Range<u64>)| {
            *part == Part::Fingerprints && keys.contains(&pbn.number())
        };
        self.records.lost.iter().any(is_it)
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<MapEntry>) -> Result<()> {
        self.recovery().restore(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        let Self { maps, records, index, .. } = self;
        let proof = Proof { maps, records, index };
        let mut wrong = proof.counts(most)?;
        wrong.extend(proof.slots(&self.pages, &self.table)?);
        Ok(wrong)
    }
}

impl<L: Layout> MetadataBackend for CachedBackend<L> {
    fn policy(&self) -> Policy {
        self.policy
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        if let Some(checked) = self.preparation().check(change)? {
            *self.checked.lock() = Some(checked);
        }
        Ok(())
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        let checked = self.checked.get_mut().take();
        let mut changer = Changer::new(&mut self.maps, &mut self.records, freed, checked);
        changes.iter().try_for_each(|change| changer.apply(change))
    }

    fn replay(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        let at_once = self.pages.max_fetched().clamp(1, REPLAYED_AT_ONCE);
        for some in changes.chunks(at_once) {
            self.preparation().read_ahead_of_replay(some);
            for change in some {
                if let Change::Store { .. } | Change::Share { .. } | Change::Move { .. } = change {
                    self.check_change(change)?;
                }
                self.preparation().check_stored_block(change)?;
                self.apply(std::slice::from_ref(change), freed)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<()> {
        let window_pbns = (self.cache_bytes / WINDOW_SHARE).max(1);
        self.recovery().settle(window_pbns)?;
        // The whole of an image is in memory when it is open, its index as well.
        while self.policy.is_image() && self.index.catch_up(&self.records)? {}
        Ok(())
    }

    fn totals(&self) -> Totals {
        let deltas = self.records.deltas();
        let recent: u64 = deltas.clone().map(Delta::index_entries).sum();
        let held_bytes = deltas.map(Delta::allocated_bytes).sum::<u64>()
            + self.records.spare.allocated_bytes()
            + self.maps.unwritten().bytes()
            + self.pages.memory_bytes()
            + self.index.neighbours.lock().bytes();
        let pages = self.pages.in_use();
        let most_pages = pages.max(self.full_pages());
        let (hits, misses) = self.pages.cache().look_ups();
        Totals {
            references: self.maps.references,
            physical: self.records.physical,
            data_blocks: self.records.data_blocks,
            next_volume: self.maps.next_volume,
            index_entries: self.index.state.entries() + recent,
            memory_bytes: held_bytes
                + self.maps.parents.bytes()
                + self.maps.moved.bytes()
                + self.index.state.bytes(),
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
