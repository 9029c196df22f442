//! Counts references, blocks and contents anew.

use crate::bits::UsedPbns;
use crate::map::{LbnTally, Region, Seen};
use crate::walk::{Walk, WalkVolume};
use crate::work::Work;
use crate::{CheckError, CheckReport};
use gemelo_base::SparseBits;
use gemelo_format::{MapEntry, Pbn, Root, StoreKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What is known of a region after a look at its entries.
#[derive(Default)]
struct Found {
    tally: LbnTally,
    /// LBNs whose contents lie beyond the end of the data disk.
    absent: u64,
    /// References to blocks outside of the data store.
    outside: Vec<u64>,
}

/// The regions that are in memory, and those with something unusual, by their identity.
#[derive(Default)]
struct Unusual(HashMap<(bool, usize), Found>);

impl Unusual {
    fn key(region: &Region) -> Option<(bool, usize)> {
        match region {
            Region::Page(leaf) => Some((true, leaf.at().slot.number() as usize)),
            Region::Own(own) => Some((false, Arc::as_ptr(own) as usize)),
            Region::Lost(_) => None,
        }
    }

    fn get(&self, region: &Region) -> Option<&Found> {
        self.0.get(&Self::key(region)?)
    }

    fn note(&mut self, region: &Region, found: Found) {
        let is_usual = found.absent == 0 && found.outside.is_empty() && region.tally().is_some();
        if let Some(key) = Self::key(region).filter(|_| !is_usual) {
            self.0.insert(key, found);
        }
    }
}

impl Walk {
    /// Compares the root's totals at the checkpoint with those counted here.
    pub(crate) fn compare_totals(&self, root: &Root, used: &UsedPbns, report: &mut CheckReport) {
        let regions = self.volumes.values().flat_map(|volume| volume.map.regions());
        let stored = regions.filter_map(|(_, region)| region.tally()).map(|tally| tally.stored);
        let references = stored.sum::<u64>() + self.leaving;
        if (references, used.count()) != (root.references, root.physical) {
            let what = format!(
                "the checkpoint has {references} references to {} blocks, but its root says {} to {}",
                used.count(),
                root.references,
                root.physical
            );
            report.add(false, what);
        }
    }

    /// Counts everything, and reports references that the rules of the format forbid. Returns the
    /// blocks that have references.
    pub(crate) fn count(
        &self,
        (work, report): (Work<'_>, &mut CheckReport),
    ) -> Result<UsedPbns, CheckError> {
        let mut used = UsedPbns::new(&self.superblock, self.data_blocks);
        let unusual = self.look_at_regions(&mut used, work)?;
        let mut outside: BTreeMap<u64, u64> = BTreeMap::new();
        for volume in self.volumes.values() {
            self.count_volume(volume, &unusual, &mut outside, report);
        }
        for (pbn, references) in outside {
            let what = format!(
                "{references} map entries refer to block {pbn}, which is outside of the data store"
            );
            report.add(true, what);
        }
        let in_header = used.iter().find(|number| {
            Pbn::new(*number).is_some_and(|pbn| self.superblock.is_in_header_copy(pbn))
        });
        if let Some(number) = in_header {
            let what = format!("block {number} lies where the copy of the header is");
            report.add(true, what);
        }
        report.physical_blocks = used.count();
        let reserved = self.superblock.reserved_blocks();
        report.used_blocks = self.used_blocks(&used);
        report.free_blocks = self.data_blocks.saturating_sub(reserved + report.used_blocks);
        self.identities.count_contents(&self.source, &used, (work, report))?;
        Ok(used)
    }

    /// Looks at the entries of each region once.
    fn look_at_regions(&self, used: &mut UsedPbns, work: Work<'_>) -> Result<Unusual, CheckError> {
        let (mut unusual, mut seen) = (Unusual::default(), Seen::default());
        let chunks = || self.volumes.values().flat_map(|volume| volume.map.chunks());
        let mut counted = Seen::default();
        let regions = chunks().map(|chunk| counted.new_of(chunk).len() as u64).sum();
        work.begin("Counting blocks", (1, 1), regions);
        for chunk in chunks() {
            let regions = seen.new_of(chunk);
            work.go_on(regions.len() as u64)?;
            let entries = self.source.entries(&regions)?;
            for ((_, region), entries) in regions.iter().zip(entries) {
                used.note(&entries);
                let pbns = entries.iter().filter_map(|(_, place)| place.pbn());
                let outside = pbns.map(Pbn::number).filter(|pbn| *pbn >= used.end()).collect();
                let absent = entries.iter().filter(|(_, place)| self.is_absent(place)).count();
                let (tally, absent) = (LbnTally::of(&entries), absent as u64);
                unusual.note(region, Found { tally, absent, outside });
            }
        }
        Ok(unusual)
    }

    fn count_volume(
        &self,
        volume: &WalkVolume,
        unusual: &Unusual,
        outside: &mut BTreeMap<u64, u64>,
        report: &mut CheckReport,
    ) {
        let mut absent = 0;
        for (_, region) in volume.map.regions() {
            let found = unusual.get(region);
            let known = region.tally().or_else(|| found.map(|found| found.tally));
            let LbnTally { mapped, stored } = known.unwrap_or_default();
            report.references += stored;
            report.lost_blocks += mapped - stored;
            if let Some(found) = found {
                absent += found.absent;
                found.outside.iter().for_each(|pbn| *outside.entry(*pbn).or_default() += 1);
            }
        }
        if absent > 0 {
            let what = format!(
                "the data store ends before {absent} of the blocks of volume '{}'",
                volume.record.name
            );
            report.add(true, what);
            report.lost_blocks += absent;
        }
    }

    /// Returns whether a content lies beyond the end of the data disk.
    fn is_absent(&self, place: &MapEntry) -> bool {
        place.pbn().is_some_and(|pbn| {
            let last_block = self.superblock.store.last_block(pbn);
            last_block >= self.present_blocks && !self.replayed_data.contains_key(&pbn)
        })
    }

    /// Counts the blocks that have a part of one of these contents.
    fn used_blocks(&self, pbns: &UsedPbns) -> u64 {
        let kind = self.superblock.store;
        if kind == StoreKind::Plain {
            return pbns.count();
        }
        let mut blocks = SparseBits::default();
        for pbn in pbns.iter().filter_map(Pbn::new) {
            blocks.set(kind.first_block(pbn)..kind.last_block(pbn) + 1, true);
        }
        blocks.ones()
    }
}
