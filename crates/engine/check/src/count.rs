//! Counts references, blocks and contents anew.

use crate::CheckReport;
use crate::map::{Counter, WalkMap, distinct};
use crate::walk::Walk;
use gemelo_format::{Fingerprint, MapEntry, Pbn, Root};
use std::collections::{HashMap, HashSet};

impl Walk {
    /// Compares the root's totals at the checkpoint with those counted here.
    pub(crate) fn compare_totals(&self, root: &Root, report: &mut CheckReport) {
        let counts = self.reference_counts();
        let references = counts.values().sum::<u64>() + self.leaving;
        if (references, counts.len() as u64) != (root.references, root.physical) {
            let what = format!(
                "the checkpoint has {references} references to {} blocks, but its root says {} to {}",
                counts.len(),
                root.references,
                root.physical
            );
            report.add(false, what);
        }
    }

    /// References to each PBN.
    pub(crate) fn reference_counts(&self) -> HashMap<u64, u64> {
        let mut counts = HashMap::new();
        for (region, maps) in distinct(self.maps()) {
            for pbn in region.values().filter_map(|place| place.pbn()) {
                *counts.entry(pbn.number()).or_default() += maps;
            }
        }
        counts
    }

    /// Counts everything, and reports references that the rules of the format forbid.
    pub(crate) fn count(&self, report: &mut CheckReport) {
        let counts = self.reference_counts();
        report.references = counts.values().sum();
        report.physical_blocks = counts.len() as u64;
        let reserved = self.superblock.reserved_blocks();
        report.used_blocks = self.used_blocks(counts.keys().copied());
        report.free_blocks = self.data_blocks.saturating_sub(reserved + report.used_blocks);
        let pbn_end = self.superblock.pbn_end(self.data_blocks);
        let mut contents: HashMap<Fingerprint, u64> = HashMap::new();
        for (pbn, references) in &counts {
            if *pbn >= pbn_end {
                report.add(
                    true,
                    format!(
                        "{references} map entries refer to block {pbn}, which is outside of the \
                         data store"
                    ),
                );
            }
            if let Some(fingerprint) = self.fingerprints.get(pbn) {
                *contents.entry(*fingerprint).or_default() += 1;
            }
        }
        let is_marked = |pbn: &&u64| self.suspects.contains(pbn);
        report.marked_blocks = counts.keys().filter(is_marked).count() as u64;
        self.count_absent(report);
        report.repeated_contents = contents.values().filter(|copies| **copies > 1).count() as u64;
        let mut lost = Counter::new(|place: &MapEntry| *place == MapEntry::Damaged);
        report.lost_blocks += self.maps().map(|map| lost.count(map)).sum::<u64>();
    }

    /// The maps of all volumes.
    pub(crate) fn maps(&self) -> impl Iterator<Item = &WalkMap> {
        self.volumes.values().map(|volume| &volume.map)
    }

    /// Counts the blocks that have a part of one of these contents.
    fn used_blocks(&self, pbns: impl Iterator<Item = u64>) -> u64 {
        let kind = self.superblock.store;
        let blocks = |pbn| kind.first_block(pbn)..=kind.last_block(pbn);
        let used: HashSet<u64> = pbns.filter_map(Pbn::new).flat_map(blocks).collect();
        used.len() as u64
    }

    /// Finds contents beyond the end of the data disk.
    fn count_absent(&self, report: &mut CheckReport) {
        let is_absent = |place: &MapEntry| {
            place.pbn().is_some_and(|pbn| {
                let last_block = self.superblock.store.last_block(pbn);
                last_block >= self.present_blocks && !self.replayed_data.contains_key(&pbn)
            })
        };
        let mut counter = Counter::new(is_absent);
        for volume in self.volumes.values() {
            let absent = counter.count(&volume.map);
            if absent > 0 {
                let what = format!(
                    "the data store ends before {absent} of the blocks of volume '{}'",
                    volume.record.name
                );
                report.add(true, what);
                report.lost_blocks += absent;
            }
        }
    }
}
