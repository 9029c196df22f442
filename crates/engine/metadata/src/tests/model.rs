//! The plain model of a backend.

use gemelo_format::{Checksum, Fingerprint, MapEntry, Pbn};
use std::collections::BTreeMap;

/// The map of each volume, and the fingerprint of each referenced block.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) maps: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// The volumes of each family in their order: a run of equal entries is counted once.
    pub(super) families: Vec<Vec<u32>>,
    pub(super) fingerprints: BTreeMap<u64, Fingerprint>,
    /// The checksum of each referenced block.
    pub(super) checksums: BTreeMap<u64, Checksum>,
}

impl Model {
    pub(super) fn references(&self) -> BTreeMap<u64, u32> {
        let mut counts = BTreeMap::new();
        self.maps
            .values()
            .flat_map(BTreeMap::values)
            .for_each(|pbn| *counts.entry(*pbn).or_default() += 1);
        counts
    }

    /// The references of each block, of equal entries of volumes that follow one another only the
    /// first.
    pub(super) fn runs(&self) -> BTreeMap<u64, u32> {
        let (mut counts, none) = (BTreeMap::new(), BTreeMap::<u64, u64>::new());
        for family in &self.families {
            let mut before = &none;
            for map in family.iter().map(|id| &self.maps[id]) {
                let first = map.iter().filter(|(lbn, pbn)| before.get(*lbn) != Some(*pbn));
                first.for_each(|(_, pbn)| *counts.entry(*pbn).or_default() += 1);
                before = map;
            }
        }
        counts
    }

    pub(super) fn family(&mut self, id: u32) -> (&mut Vec<u32>, usize) {
        let mut all = self.families.iter_mut();
        let place = all.find_map(|family| {
            let at = family.iter().position(|member| *member == id)?;
            Some((family, at))
        });
        place.unwrap()
    }

    /// The entry of a block, if there is one.
    pub(super) fn entry(&self, pbn: Option<&u64>) -> MapEntry {
        let stored = |pbn: &u64| MapEntry::Stored(Pbn::new(*pbn).unwrap(), self.checksums[pbn]);
        pbn.map_or(MapEntry::Unmapped, stored)
    }

    /// Lets all references to a block follow to another one.
    pub(super) fn move_block(&mut self, from: u64, to: u64) {
        let entries = self.maps.values_mut().flat_map(BTreeMap::values_mut);
        entries.filter(|pbn| **pbn == from).for_each(|pbn| *pbn = to);
        self.fingerprints.insert(to, self.fingerprints[&from]);
        self.checksums.insert(to, self.checksums[&from]);
    }
}
