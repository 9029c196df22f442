//! Answers of a backend that may be moving: those of the old backend, in pieces that suit both.

use super::MovableBackend;
use super::differ::END;
use crate::cached::MissingPages;
use crate::error::Result;
use crate::stats::{Record, Totals};
use crate::traits::{Index, Map, MetadataBackend, Repair, Volumes};
use gemelo_format::{BackendKind, Change, Fingerprint, Lbn, MapEntry, Pbn, VolumeId, VolumeRecord};
use std::collections::HashSet;
use std::ops::Range;

impl MovableBackend {
    /// The new backend, if it has a volume.
    fn new_with(&self, volume: VolumeId) -> Option<&dyn MetadataBackend> {
        let to = self.to.as_ref().filter(|to| to.has(volume) && !to.failure.is_set())?;
        Some(&*to.backend)
    }
}

/// Does the work of [`Map::warm`] in a range of which most may be unmapped.
fn warm_mapped(
    backend: &dyn MetadataBackend,
    volume: VolumeId,
    from: Lbn,
    end: Lbn,
) -> Result<Lbn> {
    if !backend.clones_add_references() {
        return backend.warm(volume, from, end);
    }
    match backend.next_mapped(volume, from, end)? {
        Some(first) => backend.warm(volume, first, end),
        None => Ok(end),
    }
}

impl Map for MovableBackend {
    fn look_up(&self, volume: VolumeId, lbns: &[Lbn], places: &mut Vec<MapEntry>) -> Result<()> {
        self.from.look_up(volume, lbns, places)
    }

    fn next_mapped(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        self.from.next_mapped(volume, from, end)
    }

    fn is_in_shared_part(&self, volume: VolumeId, lbn: Lbn) -> bool {
        self.from.is_in_shared_part(volume, lbn)
    }

    fn piece_end(&self, volume: VolumeId, from: Lbn, most: u64) -> Lbn {
        let old = self.from.piece_end(volume, from, most);
        let Some(new) = self.new_with(volume) else { return old };
        // Each backend passes over what it does not map, and so do pieces for both.
        let beyond = |backend: &dyn MetadataBackend, end: Lbn| {
            backend.next_mapped(volume, end, END).map_or(end, |next| next.unwrap_or(END))
        };
        let new_end = new.piece_end(volume, from, most);
        beyond(&*self.from, old).min(beyond(new, new_end))
    }

    fn next_piece(&self, volume: VolumeId, from: Lbn, most: u64) -> Result<Option<Range<Lbn>>> {
        let old = self.from.next_piece(volume, from, most)?;
        let Some(new) = self.new_with(volume) else { return Ok(old) };
        // A failure ends the move when the piece is unmapped.
        let new = new.next_piece(volume, from, most).unwrap_or(None);
        let first = old.into_iter().chain(new).map(|piece| piece.start).min();
        Ok(first.map(|first| first..self.piece_end(volume, first, most)))
    }

    fn shared_end(&self, volume: VolumeId, other: VolumeId, lbn: Lbn) -> Result<Option<Lbn>> {
        self.from.shared_end(volume, other, lbn)
    }

    fn warm(&self, volume: VolumeId, from: Lbn, end: Lbn) -> Result<Lbn> {
        let Some(new) = self.new_with(volume) else { return self.from.warm(volume, from, end) };
        let next = warm_mapped(&*self.from, volume, from, end)?;
        Ok(if next > from { warm_mapped(new, volume, from, next).unwrap_or(next) } else { next })
    }
}

impl Index for MovableBackend {
    fn missing_pages(&self) -> Option<MissingPages> {
        // Both have their pages on the same disk, and the thread holds what either reads.
        self.from.missing_pages().or_else(|| self.to.as_ref()?.backend.missing_pages())
    }

    fn find(&self, fingerprints: &[Fingerprint], found: &mut Vec<Option<Pbn>>) -> Result<()> {
        self.from.find(fingerprints, found)
    }

    fn records(&self, pbns: &[Pbn], records: &mut Vec<Record>) -> Result<()> {
        self.from.records(pbns, records)
    }

    fn counts(&self, pbns: &[Pbn], counts: &mut Vec<u32>) -> Result<()> {
        self.from.counts(pbns, counts)
    }

    fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        self.from.visit_used(first, visit)
    }

    fn prefetch(&self, volume: VolumeId, lbns: &[Lbn], places: &[MapEntry]) -> Result<()> {
        if let Some(new) = self.new_with(volume) {
            let _ = new.prefetch(volume, lbns, places);
        }
        self.from.prefetch(volume, lbns, places)
    }

    fn catch_up(&self) -> Result<bool> {
        self.from.catch_up()
    }
}

impl Volumes for MovableBackend {
    fn volumes(&self) -> Vec<VolumeRecord> {
        self.from.volumes()
    }

    fn description(&self, volume: VolumeId) -> Option<VolumeRecord> {
        self.from.description(volume)
    }

    fn describe(&mut self, record: VolumeRecord) -> Result<()> {
        self.from.describe(record)
    }

    fn skip_ids(&mut self, next_volume: u32) {
        self.from.skip_ids(next_volume);
    }

    fn mapped_blocks(&self, volume: VolumeId) -> u64 {
        self.from.mapped_blocks(volume)
    }

    fn blocks_to_remove(&self, volume: VolumeId) -> u64 {
        let old = self.from.blocks_to_remove(volume);
        self.new_with(volume).map_or(old, |new| old.max(new.blocks_to_remove(volume)))
    }

    fn clones_add_references(&self) -> bool {
        self.from.clones_add_references()
    }

    fn piece_blocks(&self) -> Option<u64> {
        let new = self.to.as_ref().and_then(|to| to.backend.piece_blocks());
        self.from.piece_blocks().into_iter().chain(new).min()
    }
}

impl Repair for MovableBackend {
    fn is_record_lost(&self, pbn: Pbn) -> bool {
        self.from.is_record_lost(pbn)
    }

    fn restore(&mut self, computed: &[(Pbn, Fingerprint)], lost: &HashSet<MapEntry>) -> Result<()> {
        self.from.restore(computed, lost)
    }

    fn prove(&self, most: usize) -> Result<Vec<String>> {
        let mut wrong = self.from.prove(most)?;
        if let Some(to) = self.to.as_ref().filter(|to| !to.failure.is_set()) {
            wrong.extend(to.backend.prove(most)?);
        }
        Ok(wrong)
    }
}

impl MetadataBackend for MovableBackend {
    fn kind(&self) -> BackendKind {
        match self.to.as_ref().filter(|to| to.is_switching) {
            Some(to) => to.backend.kind(),
            None => self.from.kind(),
        }
    }

    fn check_change(&self, change: &Change) -> Result<()> {
        self.from.check_change(change)
    }

    fn apply(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        let Some(to) = &mut self.to else { return self.from.apply(changes, freed) };
        for change in changes {
            self.from.apply(std::slice::from_ref(change), freed)?;
            to.follow(&*self.from, change);
            to.check_root()?;
        }
        Ok(())
    }

    fn replay(&mut self, changes: &[Change], freed: &mut Vec<Pbn>) -> Result<()> {
        assert!(self.to.is_none(), "a journal is replayed before a move begins");
        self.from.replay(changes, freed)
    }

    fn settle(&mut self) -> Result<()> {
        self.from.settle()
    }

    fn totals(&self) -> Totals {
        let old = self.from.totals();
        let Some(new) = self.to.as_ref().map(|to| to.backend.totals()) else { return old };
        Totals {
            memory_bytes: old.memory_bytes + new.memory_bytes,
            pages: old.pages + new.pages,
            ..old
        }
    }
}
