//! Finds the blocks that have fingerprints.

use super::CachedBackend;
use super::layout::{IndexEdit, IndexState, Layout};
use crate::IndexSampling;
use crate::error::Result;
use gemelo_format::{Fingerprint, Identity, Pbn};

/// A PBN that the index or a delta has for a fingerprint. Its record decides.
struct Candidate {
    /// The place of the fingerprint in the list.
    place: usize,
    pbn: u64,
}

impl<L: Layout> CachedBackend<L> {
    /// Adds a referenced PBN with each of these fingerprints to `found`. An intact block comes
    /// before a suspect one, and then one with fewer references before one with more. Records that
    /// are not in the cache are read in lists. If the index has a sample, contents that lie beside
    /// those of the sample are found as well, and others are not.
    pub(super) fn find_all(
        &self,
        wanted: &[Fingerprint],
        found: &mut Vec<Option<Pbn>>,
    ) -> Result<()> {
        let first = found.len();
        found.extend(wanted.iter().map(|fingerprint| self.recent(*fingerprint).and_then(Pbn::new)));
        let found = found.get_mut(first..).unwrap_or_default();
        self.choose(self.candidates(wanted, found)?, wanted, found)?;
        if self.sampling == IndexSampling::ALL || self.version.index.in_memory().is_none() {
            return Ok(());
        }
        self.read_neighbours(wanted, found)?;
        let beside = {
            let neighbours = self.neighbours.lock();
            let unknown = wanted.iter().zip(&*found).enumerate();
            let unknown = unknown.filter(|(_, (fingerprint, found))| {
                found.is_none() && !self.sampling.has_content(**fingerprint)
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
        found: &mut [Option<Pbn>],
    ) -> Result<()> {
        let pbns: Vec<u64> = candidates.iter().map(|candidate| candidate.pbn).collect();
        let identities = self.identities_of(&pbns)?;
        let mut same: Vec<(Candidate, Identity)> = candidates.into_iter().zip(identities).collect();
        same.retain(|(at, identity)| identity.fingerprint() == wanted[at.place]);
        let pbns: Vec<u64> = same.iter().map(|(candidate, _)| candidate.pbn).collect();
        let mut stale = Vec::new();
        let mut best: Option<(usize, (bool, u32, u64))> = None;
        for ((Candidate { place, pbn }, identity), count) in
            same.into_iter().zip(self.counts_of(&pbns)?)
        {
            let rank = (identity.is_suspect(), count, pbn);
            let is_better = best.is_none_or(|(of, best)| of != place || rank < best);
            // An entry of the index may be older than the deltas, or stale.
            if count == 0 {
                stale.push(IndexEdit { hash: wanted[place].low(), pbn, comes: false });
            } else if is_better {
                best = Some((place, rank));
                found[place] = Pbn::new(pbn);
            }
        }
        self.forget_stale(stale);
        Ok(())
    }

    pub(super) fn find_one(&self, wanted: Fingerprint) -> Result<Option<Pbn>> {
        let mut found = Vec::with_capacity(1);
        self.find_all(&[wanted], &mut found)?;
        Ok(found.pop().flatten())
    }

    /// An intact block that was stored since the last checkpoint began.
    fn recent(&self, wanted: Fingerprint) -> Option<u64> {
        let recent = self.active.find(wanted).filter(|_| !wanted.is_none())?;
        let identity = self.active.identity(recent);
        identity.is_some_and(|identity| !identity.is_suspect()).then_some(recent)
    }

    /// The PBNs that the deltas and the index have for the fingerprints that are not found yet, in
    /// the order of the list.
    fn candidates(&self, wanted: &[Fingerprint], found: &[Option<Pbn>]) -> Result<Vec<Candidate>> {
        let (mut hashes, mut pbns) = (Vec::with_capacity(wanted.len()), Vec::new());
        for (place, (wanted, found)) in wanted.iter().zip(found).enumerate() {
            if found.is_none() && !wanted.is_none() {
                let frozen = || self.frozen().and_then(|delta| delta.find(*wanted));
                let recent = self.active.find(*wanted).into_iter().chain(frozen());
                pbns.extend(recent.map(|pbn| (place, pbn)));
                hashes.push((place, wanted.low()));
            }
        }
        L::candidates(&self.pages, &self.version.index, &hashes, &mut pbns)?;
        pbns.sort_by_key(|(place, _)| *place);
        Ok(pbns.into_iter().map(|(place, pbn)| Candidate { place, pbn }).collect())
    }
}
