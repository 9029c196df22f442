//! Looks up counts, identities and records of blocks: in the deltas, in the tables of arrays, and
//! then in the pages, those of a list in one list.

use super::array;
use super::counts::StoredCounts;
use super::delta::Delta;
use super::layout::Values;
use super::records::Records;
use super::stored::Reader;
use crate::Record;
use crate::error::Result;
use gemelo_format::{CountAt, Identity, Part, Pbn, counted_pbns};
use std::iter::Peekable;

impl Records {
    pub(super) fn stored_counts(&self) -> StoredCounts<'_> {
        StoredCounts::new(&self.pages, &self.stored)
    }

    fn stored_fingerprints(&self) -> Reader<'_> {
        Reader::new(&self.pages, &self.stored.fingerprints, Part::Fingerprints)
    }

    pub(super) fn count(&self, pbn: u64) -> Result<u32> {
        match self.recent_count(pbn) {
            Some(count) => Ok(count),
            None => self.stored_counts().get(pbn),
        }
    }

    /// The count of a PBN, if a delta has it.
    pub(super) fn recent_count(&self, pbn: u64) -> Option<u32> {
        let recent = self.active.counts.get(pbn);
        recent.or_else(|| self.frozen_delta().and_then(|delta| delta.counts.get(pbn))).copied()
    }

    /// The count of a PBN, if it is in memory.
    pub(super) fn known_count(&self, stored: &StoredCounts<'_>, pbn: u64) -> Option<u32> {
        self.recent_count(pbn).or_else(|| stored.known(pbn))
    }

    /// The identity of a PBN, if it is in memory.
    pub(super) fn known_identity(&self, stored: &Reader<'_>, pbn: u64) -> Option<Identity> {
        self.recent_identity(pbn).or_else(|| stored.known(pbn).map(identity_of_bits))
    }

    pub(super) fn known_records(&self) -> KnownRecords<'_> {
        let (fingerprints, counts) = (self.stored_fingerprints(), self.stored_counts());
        KnownRecords { records: self, fingerprints, counts }
    }

    /// The counts of PBNs, in their order.
    pub(super) fn counts_of(&self, pbns: &[u64]) -> Result<Vec<u32>> {
        let mut stored = self.stored_counts();
        let (mut counts, left) = known_values(pbns, 0, |pbn| self.known_count(&stored, pbn));
        left.fill(&mut counts, |keys| stored.get_all(keys))?;
        Ok(counts)
    }

    /// The identities of PBNs, in their order.
    pub(super) fn identities_of(&self, pbns: &[u64]) -> Result<Vec<Identity>> {
        let mut stored = self.stored_fingerprints();
        let known = |pbn| self.known_identity(&stored, pbn);
        let (mut identities, left) = known_values(pbns, Identity::NONE, known);
        left.fill(&mut identities, |keys| {
            let stored = stored.get_all(keys).into_iter();
            stored.map(|bits| bits.map(identity_of_bits)).collect()
        })?;
        Ok(identities)
    }

    pub(super) fn identity(&self, pbn: u64) -> Result<Identity> {
        match self.recent_identity(pbn) {
            Some(found) => Ok(found),
            None => self.stored_fingerprints().get(pbn).map(identity_of_bits),
        }
    }

    /// The identity of a PBN, if a delta has it.
    pub(super) fn recent_identity(&self, pbn: u64) -> Option<Identity> {
        let recent = self.active.identity(pbn);
        recent.or_else(|| self.frozen_delta().and_then(|delta| delta.identity(pbn)))
    }

    /// Does the work of [`crate::Index::visit_used`].
    pub(super) fn visit_used(&self, first: Pbn, visit: &mut dyn FnMut(Pbn)) -> Result<()> {
        let from = CountAt::of(first.number());
        let deltas = self.frozen_delta().into_iter().chain([&self.active]);
        let deltas: Vec<_> = deltas.map(|delta| (delta, counted_from(delta, first))).collect();
        let counted = deltas.iter().map(|(_, pbns)| pbns.iter().copied().peekable());
        let mut counted: Vec<_> = counted.collect();
        let mut stored = Values(|group: u64, counts: u128| {
            let before_first = if group == from.group { from.mask_before() } else { 0 };
            let recent = counted.iter_mut().fold(0, |mask, pbns| mask | mask_of(pbns, group));
            let older = counted_pbns(group, counts & !(before_first | recent));
            older.filter_map(|(pbn, _)| Pbn::new(pbn)).for_each(&mut *visit);
        });
        array::walk(&self.pages, &self.stored.counts, Part::Counts, from.group, &mut stored)?;
        for (delta, pbns) in &deltas {
            for pbn in pbns.iter().copied() {
                let is_shown =
                    std::ptr::eq(*delta, &raw const self.active) || !self.active.counts.has(pbn);
                if is_shown && self.count(pbn)? > 0 {
                    Pbn::new(pbn).into_iter().for_each(&mut *visit);
                }
            }
        }
        Ok(())
    }
}

/// The PBNs from this one on whose counts a delta has, in order. After a loss of power, all that
/// the journal has are sorted here, so they are sorted once.
fn counted_from(delta: &Delta, first: Pbn) -> Vec<u64> {
    let counted = delta.counts.iter().map(|(pbn, _)| pbn);
    let mut counted: Vec<u64> = counted.filter(|pbn| *pbn >= first.number()).collect();
    counted.sort_unstable();
    counted
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

/// Looks up records that are in memory.
pub(super) struct KnownRecords<'c> {
    records: &'c Records,
    fingerprints: Reader<'c>,
    counts: StoredCounts<'c>,
}

impl KnownRecords<'_> {
    pub(super) fn get(&self, pbn: u64) -> Option<Record> {
        let identity = self.records.known_identity(&self.fingerprints, pbn)?;
        Some(Record::new(identity, self.records.known_count(&self.counts, pbn)?))
    }
}

fn identity_of_bits(bits: u128) -> Identity {
    Identity::from_bytes(bits.to_le_bytes())
}

/// The values of keys that are in memory, in their order, and the keys that are left.
fn known_values<T: Clone>(
    keys: &[u64],
    none: T,
    known: impl Fn(u64) -> Option<T>,
) -> (Vec<T>, LeftKeys) {
    let (mut values, mut left) = (Vec::with_capacity(keys.len()), LeftKeys::default());
    for (place, key) in keys.iter().enumerate() {
        let value = known(*key);
        if value.is_none() {
            left.places.push(place);
            left.keys.push(*key);
        }
        values.push(value.unwrap_or_else(|| none.clone()));
    }
    (values, left)
}

/// Keys of a list whose values are still to be looked up.
#[derive(Default)]
struct LeftKeys {
    places: Vec<usize>,
    keys: Vec<u64>,
}

impl LeftKeys {
    /// Looks the values up, and puts them in their places.
    fn fill<T>(
        self,
        values: &mut [T],
        look_up: impl FnOnce(&[u64]) -> Vec<Result<T>>,
    ) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let found = look_up(&self.keys);
        assert_eq!(found.len(), self.keys.len(), "each key has a value");
        for (place, value) in self.places.into_iter().zip(found) {
            values[place] = value?;
        }
        Ok(())
    }
}
