//! Finds the blocks that have fingerprints.

use super::index::ContentIndex;
use super::layout::{IndexEdit, IndexState, Layout};
use super::neighbours::GROUP;
use super::records::Records;
use crate::error::Result;
use crate::{IndexSampling, KnownBlock, Record};
use gemelo_format::{Fingerprint, Identity, Pbn};
use std::ops::Range;

/// A PBN that the index or a delta has for a fingerprint. Its record decides.
struct Candidate {
    /// The place of the fingerprint in the list.
    place: usize,
    pbn: u64,
}

/// Looks contents up in the index, and decides by the records.
pub(super) struct Finder<'f, L: Layout> {
    index: &'f ContentIndex<L>,
    records: &'f Records,
}

impl<'f, L: Layout> Finder<'f, L> {
    pub(super) const fn new(index: &'f ContentIndex<L>, records: &'f Records) -> Self {
        Self { index, records }
    }

    /// Does the work of [`crate::Index::find`]. An intact block comes before a suspect one, and one
    /// with fewer references before one with more. Records that are not in the cache are read in
    /// lists. If the index has a sample, contents that lie beside those of the sample are found as
    /// well, and others are not.
    pub(super) fn find(
        &self,
        wanted: &[Fingerprint],
        found: &mut Vec<Option<KnownBlock>>,
    ) -> Result<()> {
        let first = found.len();
        for wanted in wanted {
            found.push(self.recent(*wanted)?);
        }
        let found = found.get_mut(first..).unwrap_or_default();
        self.choose(self.candidates(wanted, found)?, wanted, found)?;
        if self.index.sampling == IndexSampling::ALL || self.index.state.in_memory().is_none() {
            return Ok(());
        }
        self.read_neighbours(wanted, found)?;
        let beside = {
            let neighbours = self.index.neighbours.lock();
            let unknown = wanted.iter().zip(&*found).enumerate();
            let unknown = unknown.filter(|(_, (fingerprint, found))| {
                found.is_none() && !self.index.sampling.has_content(**fingerprint)
            });
            let candidate = |(place, (fingerprint, _)): (usize, (&Fingerprint, _))| {
                Some(Candidate { place, pbn: neighbours.find(*fingerprint)? })
            };
            unknown.filter_map(candidate).collect()
        };
        self.choose(beside, wanted, found)
    }

    /// Finds the best of the candidates for each fingerprint by their records.
    fn choose(
        &self,
        candidates: Vec<Candidate>,
        wanted: &[Fingerprint],
        found: &mut [Option<KnownBlock>],
    ) -> Result<()> {
        let known = self.records.known_records();
        let records = candidates.iter().map(|candidate| known.get(candidate.pbn));
        let records = match records.collect::<Option<Vec<Record>>>() {
            Some(records) => records,
            None => self.records_of_same(&candidates, wanted)?,
        };
        let mut stale = Vec::new();
        let mut best: Option<(usize, (bool, u32, u64))> = None;
        for (Candidate { place, pbn }, record) in candidates.into_iter().zip(records) {
            let rank = (record.is_suspect, record.references, pbn);
            let is_better = best.is_none_or(|(of, best)| of != place || rank < best);
            // An entry of the index may be older than the deltas, or stale.
            if record.fingerprint != wanted[place] {
                continue;
            } else if record.references == 0 {
                stale.push(IndexEdit { hash: wanted[place].low(), pbn, comes: false });
            } else if is_better {
                best = Some((place, rank));
                found[place] = Pbn::new(pbn).map(|pbn| KnownBlock { pbn, record });
            }
        }
        self.forget_stale(stale);
        Ok(())
    }

    /// The records of candidates, read in lists. Those of other contents have no count.
    fn records_of_same(
        &self,
        candidates: &[Candidate],
        wanted: &[Fingerprint],
    ) -> Result<Vec<Record>> {
        let pbns: Vec<u64> = candidates.iter().map(|candidate| candidate.pbn).collect();
        let identities = self.records.identities_of(&pbns)?;
        let all = candidates.iter().zip(&identities);
        let is_same =
            |(at, identity): &(&Candidate, &Identity)| identity.fingerprint() == wanted[at.place];
        let same: Vec<u64> = all.clone().filter(is_same).map(|(at, _)| at.pbn).collect();
        let mut counts = self.records.counts_of(&same)?.into_iter();
        let mut record = |of: (&Candidate, &Identity)| {
            let count = if is_same(&of) { counts.next() } else { None };
            Record::new(*of.1, count.unwrap_or_default())
        };
        Ok(all.map(&mut record).collect())
    }

    pub(super) fn find_one(&self, wanted: Fingerprint) -> Result<Option<Pbn>> {
        let mut found = Vec::with_capacity(1);
        self.find(&[wanted], &mut found)?;
        Ok(found.pop().flatten().map(|known| known.pbn))
    }

    /// An intact block that was stored since the last checkpoint began.
    fn recent(&self, wanted: Fingerprint) -> Result<Option<KnownBlock>> {
        let recent = self.records.active.find(wanted).filter(|_| !wanted.is_none());
        let Some((pbn, identity)) =
            recent.and_then(|pbn| Some((pbn, self.records.active.identity(pbn)?)))
        else {
            return Ok(None);
        };
        if identity.is_suspect() {
            return Ok(None);
        }
        let record = Record::new(identity, self.records.count(pbn)?);
        Ok(Pbn::new(pbn).map(|pbn| KnownBlock { pbn, record }))
    }

    /// The PBNs that the deltas and the index have for the fingerprints that are not found yet, in
    /// the order of the list.
    fn candidates(
        &self,
        wanted: &[Fingerprint],
        found: &[Option<KnownBlock>],
    ) -> Result<Vec<Candidate>> {
        let (mut hashes, mut pbns) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (place, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            if found.is_none() && !wanted.is_none() {
                let frozen = || self.records.frozen_delta().and_then(|delta| delta.find(*wanted));
                let recent = self.records.active.find(*wanted).into_iter().chain(frozen());
                pbns.extend(recent.map(|pbn| (place, pbn)));
                hashes.push((place, wanted.low()));
            }
        }
        L::candidates(&self.index.pages, &self.index.state, &hashes, &mut pbns)?;
        pbns.sort_by_key(|(place, _)| *place);
        Ok(pbns.into_iter().map(|(place, pbn)| Candidate { place, pbn }).collect())
    }

    /// Reads the records around contents of the sample that were found.
    fn read_neighbours(&self, wanted: &[Fingerprint], found: &[Option<KnownBlock>]) -> Result<()> {
        let mut missing = Vec::new();
        {
            let neighbours = self.index.neighbours.lock();
            for (fingerprint, known) in wanted.iter().zip(found) {
                if let Some(known) = known.filter(|_| self.index.sampling.has_content(*fingerprint))
                {
                    neighbours.add_missing(known.pbn, fingerprint.low(), &mut missing);
                }
            }
        }
        missing.sort_unstable();
        missing.dedup();
        let end = self.records.pbn_end();
        let pbns_of = |group: &u64| -> Range<u64> {
            let first = group.saturating_mul(GROUP);
            first.min(end)..first.saturating_add(GROUP).min(end)
        };
        let pbns: Vec<u64> = missing.iter().flat_map(pbns_of).collect();
        let identities = self.records.identities_of(&pbns)?;
        let mut neighbours = self.index.neighbours.lock();
        let mut contents = pbns.into_iter().zip(identities).peekable();
        for group in missing {
            let of_group = std::iter::from_fn(|| contents.next_if(|(pbn, _)| pbn / GROUP == group));
            neighbours.add(group, of_group.filter_map(content_of));
        }
        Ok(())
    }

    /// Removes entries that lead to these blocks without references, unless the deltas change
    /// them: a merge takes care of those.
    fn forget_stale(&self, mut entries: Vec<IndexEdit>) {
        let Some(index) = self.index.state.in_memory() else { return };
        entries.retain(|entry| {
            !self
                .records
                .deltas()
                .any(|delta| delta.counts.has(entry.pbn) || delta.has_identity(entry.pbn))
        });
        index.edit(&entries);
    }
}

/// The lower half of the fingerprint of a PBN that has one.
fn content_of((pbn, identity): (u64, Identity)) -> Option<(u64, u64)> {
    let fingerprint = identity.fingerprint();
    (!fingerprint.is_none()).then(|| (fingerprint.low(), pbn))
}
