//! Space by volume: the blocks that only one volume holds, and the blocks that volumes share.
//!
//! Everything is computed on demand, from the maps and the reference counts. A block belongs to one
//! volume alone if as many LBNs of that volume refer to it as its count says. Entries that several
//! volumes share are counted once, so their blocks are shared.
//!
//! The maps are walked in pieces, and requests go on in between. What they change meanwhile may be
//! counted as it was or as it is; without changes the result is exact. Memory is bounded by walking
//! the maps once for each window of PBNs.
//!
//! Space is counted in blocks of the data store. Where contents share blocks ([`blocks`]), a block
//! belongs to a volume alone if all contents in it do.

mod blocks;

use super::VolumeShared;
use crate::engine::catalogue::Catalogue;
use crate::engine::data::DataPath;
use crate::engine::log::Log;
use crate::engine::parts::Common;
use crate::engine::references::{CountedReference, next_references};
use crate::error::{Result, VolumeError};
use blocks::{BlockTally, ContentOwner};
use gemelo_base::{SparseBits, StopFlag};
use gemelo_format::{Lbn, Pbn, Superblock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// PBNs that are counted in one walk over a map; they take a byte each.
const COUNTED_BLOCKS: u64 = 32 << 20;
/// PBNs that are marked in one walk over all maps; they take a bit each, 32 MiB in all.
const MARKED_BLOCKS: u64 = 256 << 20;
/// A bound above every LBN.
const END: Lbn = Lbn(u64::MAX);

/// The space that a volume takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct VolumeSpace {
    /// Blocks of the data store with contents of this volume alone. Removing the volume frees them.
    pub exclusive_blocks: u64,
    /// Blocks of the data store with contents of this volume and others: other volumes refer to
    /// the same contents, or compressed contents of others are in the same blocks. Each block
    /// counts once.
    pub shared_blocks: u64,
}

/// The blocks of a pool with and without its snapshots. A snapshot is a volume that takes no
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct SnapshotSpace {
    /// References of all volumes to blocks. A block counts once for each reference.
    pub logical_blocks: u64,
    /// Blocks stored.
    pub physical_blocks: u64,
    /// The same as `logical_blocks`, without the references of snapshots.
    pub logical_blocks_without_snapshots: u64,
    /// Blocks that a volume other than a snapshot refers to. The others are stored for snapshots
    /// alone.
    pub physical_blocks_without_snapshots: u64,
    /// Blocks of the data store that hold contents. Compressed contents share blocks.
    pub used_blocks: u64,
    /// Blocks of the data store with a content that a volume other than a snapshot refers to.
    pub used_blocks_without_snapshots: u64,
}

impl SnapshotSpace {
    /// Logical blocks / physical blocks of all volumes; 1 for an empty pool.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        ratio(self.logical_blocks, self.physical_blocks)
    }

    /// Logical blocks / physical blocks as if there were no snapshots; 1 without any blocks.
    #[must_use]
    pub fn dedup_ratio_without_snapshots(&self) -> f64 {
        ratio(self.logical_blocks_without_snapshots, self.physical_blocks_without_snapshots)
    }
}

fn ratio(logical: u64, physical: u64) -> f64 {
    if physical == 0 { 1.0 } else { logical as f64 / physical as f64 }
}

/// Counts the space that volumes take.
pub(crate) struct Accountant {
    catalogue: Arc<Catalogue>,
    data: Arc<DataPath>,
    log: Arc<Log>,
    superblock: Superblock,
}

impl Accountant {
    pub(in crate::engine) fn new(common: &Common) -> Self {
        Self {
            catalogue: Arc::clone(&common.catalogue),
            data: Arc::clone(&common.data),
            log: Arc::clone(&common.log),
            superblock: common.superblock.clone(),
        }
    }

    pub(crate) fn of_volume(&self, name: &str, stop: &StopFlag) -> Result<VolumeSpace> {
        let volume = self.catalogue.find(name)?;
        let data_blocks = self.log.read().backend().totals().data_blocks;
        let mut space = VolumeSpace::default();
        let mut blocks = BlockTally::default();
        for window in windows(self.superblock.pbn_end(data_blocks), COUNTED_BLOCKS) {
            let mut tally = VolumeTally::new(window.clone());
            self.each_reference((name, &volume), stop, &mut |reference| tally.add(reference))?;
            space.exclusive_blocks += tally.exclusive;
            space.shared_blocks += tally.distinct - tally.exclusive;
            if self.data.is_packed() {
                self.count_blocks((window, data_blocks), &mut blocks, |pbn| tally.owner(pbn));
            }
        }
        if self.data.is_packed() {
            space = VolumeSpace {
                exclusive_blocks: blocks.exclusive,
                shared_blocks: blocks.own - blocks.exclusive,
            };
        }
        Ok(space)
    }

    pub(crate) fn of_snapshots(&self, stop: &StopFlag) -> Result<SnapshotSpace> {
        let totals = self.log.read().backend().totals();
        let mut volumes = self.catalogue.all();
        volumes.retain(|_, volume| !volume.read_only());
        let mut space = SnapshotSpace {
            logical_blocks: totals.references,
            physical_blocks: totals.physical,
            ..SnapshotSpace::default()
        };
        let mut blocks = BlockTally::default();
        for window in windows(self.superblock.pbn_end(totals.data_blocks), MARKED_BLOCKS) {
            let mut marks = ReferredBlocks::new(window.clone());
            for (name, volume) in &volumes {
                let mark = &mut |reference: CountedReference| marks.add(reference.pbn);
                match self.each_reference((name, volume), stop, mark) {
                    // A volume that was removed meanwhile has no references left.
                    Err(VolumeError::NoSuchVolume { .. }) => {}
                    other => other?,
                }
            }
            space.logical_blocks_without_snapshots += marks.references;
            space.physical_blocks_without_snapshots += marks.blocks.ones();
            if self.data.is_packed() {
                let window = (window, totals.data_blocks);
                self.count_blocks(window, &mut blocks, |pbn| marks.owner(pbn));
            }
        }
        let (used, without) = match self.data.is_packed() {
            true => (blocks.used, blocks.own),
            false => (space.physical_blocks, space.physical_blocks_without_snapshots),
        };
        Ok(SnapshotSpace { used_blocks: used, used_blocks_without_snapshots: without, ..space })
    }

    /// Calls `each` with every reference of a volume, LBNs beyond its end included.
    fn each_reference(
        &self,
        (name, volume): (&str, &VolumeShared),
        stop: &StopFlag,
        each: &mut dyn FnMut(CountedReference),
    ) -> Result<()> {
        let (mut next, mut found) = (Some(Lbn(0)), Vec::new());
        while let Some(from) = next {
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            found.clear();
            {
                // The gate keeps the volume from being removed while a piece of it is read.
                let is_removed = volume.enter();
                if *is_removed {
                    return Err(VolumeError::NoSuchVolume { name: name.to_owned() });
                }
                next = next_references(&self.log, volume.id(), (from, END), &|_| true, &mut found)?;
            }
            found.iter().copied().for_each(&mut *each);
        }
        Ok(())
    }
}

/// Cuts the PBNs of a data store into windows of at most `most` blocks.
fn windows(data_blocks: u64, most: u64) -> impl Iterator<Item = Range<u64>> {
    (0..data_blocks.div_ceil(most))
        .map(move |window| window * most..data_blocks.min((window + 1) * most))
}

/// The place of a PBN in a window.
fn place_in(window: &Range<u64>, pbn: Pbn) -> Option<usize> {
    let number = pbn.number();
    if !window.contains(&number) {
        return None;
    }
    usize::try_from(number - window.start).ok()
}

/// References of one volume to the blocks of a window.
struct VolumeTally {
    window: Range<u64>,
    /// References found of each block, or one of the marks `MANY`, `SHARED` and `EXCLUSIVE`.
    found: Vec<u8>,
    /// References found of blocks that have many.
    many: HashMap<Pbn, u32>,
    /// Blocks that the volume refers to.
    distinct: u64,
    /// Blocks to which only this volume refers.
    exclusive: u64,
}

impl VolumeTally {
    /// ReferredBlocks a block whose count of references found is in `many`.
    const MANY: u8 = 253;
    /// The block is known to be shared; further references change nothing.
    const SHARED: u8 = 254;
    /// All references to the block are found.
    const EXCLUSIVE: u8 = 255;

    fn new(window: Range<u64>) -> Self {
        let blocks = usize::try_from(window.end - window.start).unwrap_or(0);
        Self { window, found: vec![0; blocks], many: HashMap::new(), distinct: 0, exclusive: 0 }
    }

    fn add(&mut self, reference: CountedReference) {
        let CountedReference { pbn, count, is_in_shared_part, .. } = reference;
        let at = place_in(&self.window, pbn);
        let Some(found) = at.and_then(|at| self.found.get_mut(at)) else { return };
        if matches!(*found, Self::SHARED | Self::EXCLUSIVE) {
            return;
        }
        self.distinct += u64::from(*found == 0);
        let references = if *found == Self::MANY {
            let references = self.many.entry(pbn).or_insert(u32::from(Self::MANY));
            *references = references.saturating_add(1);
            *references
        } else {
            *found += 1;
            u32::from(*found)
        };
        if is_in_shared_part || references >= count {
            self.exclusive += u64::from(!is_in_shared_part);
            *found = if is_in_shared_part { Self::SHARED } else { Self::EXCLUSIVE };
            self.many.remove(&pbn);
        }
        debug_assert!(self.exclusive <= self.distinct, "a block is settled once");
    }

    /// The owner of a content of the window.
    fn owner(&self, pbn: Pbn) -> ContentOwner {
        let found = place_in(&self.window, pbn).and_then(|at| self.found.get(at));
        match found.copied() {
            None | Some(0) => ContentOwner::Others,
            Some(Self::EXCLUSIVE) => ContentOwner::Alone,
            Some(_) => ContentOwner::Shared,
        }
    }
}

/// Blocks of a window that volumes refer to.
struct ReferredBlocks {
    window: Range<u64>,
    blocks: SparseBits,
    references: u64,
}

impl ReferredBlocks {
    fn new(window: Range<u64>) -> Self {
        Self { window, blocks: SparseBits::default(), references: 0 }
    }

    fn add(&mut self, pbn: Pbn) {
        if self.window.contains(&pbn.number()) {
            self.references += 1;
            self.blocks.insert(pbn.number());
        }
    }

    /// The owner of a content of the window: the volumes whose references were added, or others.
    fn owner(&self, pbn: Pbn) -> ContentOwner {
        if self.blocks.has(pbn.number()) { ContentOwner::Alone } else { ContentOwner::Others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::random::Random;
    use std::collections::BTreeMap;

    /// Random references, some of them in parts that are shared, against a count of all of them.
    #[test]
    fn a_tally_is_what_a_count_of_everything_gives() {
        for seed in 0..20 {
            let mut random = Random::new(seed);
            let data_blocks = 40 + random.below(40);
            let mut own: BTreeMap<u64, (u32, bool)> = BTreeMap::new();
            let mut references = Vec::new();
            for _ in 0..random.below(3000) {
                // A few blocks get hundreds of references.
                let range = if random.below(3) == 0 { data_blocks - 1 } else { 4 };
                let number = 1 + random.below(range);
                let is_in_shared_part = random.below(200) == 0;
                let entry = own.entry(number).or_default();
                *entry = (entry.0 + 1, entry.1 | is_in_shared_part);
                references.push((Pbn::new(number).unwrap(), is_in_shared_part));
            }
            let foreign: Vec<u32> = (0..data_blocks).map(|_| random.below(2) as u32).collect();
            let is_exclusive = |(number, (_, is_shared)): (&u64, &(u32, bool))| {
                !is_shared && foreign[*number as usize] == 0
            };
            let expected = own.iter().filter(|entry| is_exclusive(*entry)).count() as u64;
            let (mut distinct, mut exclusive, mut marked) = (0, 0, (0, 0));
            for window in windows(data_blocks, 16) {
                let mut tally = VolumeTally::new(window.clone());
                let mut marks = ReferredBlocks::new(window);
                for (pbn, is_in_shared_part) in &references {
                    let count = own[&pbn.number()].0 + foreign[pbn.number() as usize];
                    tally.add(CountedReference {
                        lbn: Lbn(0),
                        pbn: *pbn,
                        count,
                        is_in_shared_part: *is_in_shared_part,
                    });
                    marks.add(*pbn);
                }
                distinct += tally.distinct;
                exclusive += tally.exclusive;
                marked = (marked.0 + marks.references, marked.1 + marks.blocks.ones());
            }
            assert_eq!((distinct, exclusive), (own.len() as u64, expected), "seed {seed}");
            assert_eq!(marked, (references.len() as u64, own.len() as u64), "seed {seed}");
        }
    }
}
