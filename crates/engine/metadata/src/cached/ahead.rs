//! Reads the pages that look-ups need in one list, without the state's lock.

use super::CachedBackend;
use super::layout::{IndexState, Layout, LeafAt};
use crate::error::Result;
use gemelo_format::{Fingerprint, Lbn, NodeRef, Part, Tree, VolumeId};
use std::ops::Range;

/// The leaves of a tree that are not in the cache.
struct Missing<'b, L: Layout> {
    backend: &'b CachedBackend<L>,
    all: Vec<NodeRef>,
    /// The keys of the last leaf.
    keys: Range<u64>,
}

impl<L: Layout> Missing<'_, L> {
    fn add(&mut self, tree: &Tree, part: Part, key: u64) -> Result<()> {
        if !self.keys.contains(&key) {
            let pages = &self.backend.pages;
            let LeafAt { keys, at } = L::leaf_at(pages, tree, part, key)?;
            self.keys = keys;
            self.all.extend(at.filter(|at| !pages.has(*at)));
        }
        Ok(())
    }
}

impl<L: Layout> CachedBackend<L> {
    /// The pages that look-ups of these LBNs and fingerprints read: those of the map, and the
    /// records to which an index in memory leads.
    pub(super) fn pages_to_look_up(
        &self,
        id: VolumeId,
        lbns: &[Lbn],
        fingerprints: &[Fingerprint],
    ) -> Result<Vec<NodeRef>> {
        let mut missing = Missing { backend: self, all: Vec::new(), keys: 0..0 };
        let map = &self.volume(id)?.map;
        for lbn in lbns.iter().filter(|lbn| map.recent(lbn.0).is_none()) {
            missing.add(&map.base, Part::Map, lbn.0)?;
        }
        if self.version.index.in_memory().is_none() {
            return Ok(missing.all);
        }
        let mut pbns = Vec::new();
        for fingerprint in fingerprints.iter().filter(|fingerprint| !fingerprint.is_none()) {
            L::candidates(&self.pages, &self.version.index, fingerprint.low(), &mut pbns)?;
        }
        missing.keys = 0..0;
        let is_recent = |pbn: &u64| {
            let mut deltas = self.frozen().into_iter().chain([&self.active]);
            deltas.any(|delta| delta.identities.has(*pbn))
        };
        for pbn in pbns.iter().filter(|pbn| !is_recent(pbn)) {
            missing.add(&self.version.fingerprints, Part::Fingerprints, *pbn)?;
        }
        Ok(missing.all)
    }
}
