//! The checker: proves from outside that a pool which nobody has open is what it should be, and repairs it.
//!
//! It walks the structs of [`gemelo_format`] with code of its own and shares nothing else with the engine; only repair uses
//! the engine, to write what is left.

mod repair;
mod scrub;
mod store;
pub(crate) mod walk;

use crate::error::Result;
use gemelo_base::{Monitor, StopFlag};
use gemelo_format::{Pbn, PoolDisks, Version};
use serde::{Deserialize, Serialize};
use walk::Walk;

/// Problems that are reported one by one; the rest is only counted.
const MOST_PROBLEMS: usize = 1000;

/// What to do besides looking at the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Read all contents and compare them with their checksums and fingerprints.
    pub data: bool,
    /// Write anew what can be, and mark what is lost, so that the pool can be written again.
    pub repair: bool,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// In words.
    pub what: String,
    /// Whether blocks of a volume are lost with it.
    pub loses_data: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// The first thousand problems.
    pub problems: Vec<Problem>,
    /// Problems beyond those.
    pub more_problems: u64,
    /// Volumes.
    pub volumes: u64,
    /// LBNs that have a PBN, counted anew.
    pub references: u64,
    /// PBNs that have a reference, counted anew.
    pub physical_blocks: u64,
    /// PBNs without.
    pub free_blocks: u64,
    /// Contents that are stored more than once although they could be shared.
    pub repeated_contents: u64,
    /// Commits of the journal that were replayed.
    pub commits: u64,
    /// Contents compared with their fingerprints.
    pub checked_contents: u64,
    /// LBNs whose content is lost, by fresh damage or by damage that a repair has marked.
    pub lost_blocks: u64,
    /// Blocks of the data store whose contents were found damaged.
    pub damaged_blocks: Vec<u32>,
    /// Whether a repair was made.
    pub is_repaired: bool,
    /// The cost of a repair, if there is something to repair: for each volume that loses something.
    pub repair_cost: Vec<RepairCost>,
}

/// The blocks of a volume that a repair gives up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairCost {
    /// The name of the volume.
    pub volume: String,
    /// Blocks that give an error afterwards, because their content is lost.
    pub lost_blocks: u64,
    /// Blocks that go back to an older content, because a commit that changed them, or one before it,
    /// is lost.
    pub undone_blocks: u64,
}

impl CheckReport {
    /// Whether all is as it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, loses_data: bool, what: String) {
        if self.problems.len() < MOST_PROBLEMS {
            self.problems.push(Problem { what, loses_data });
        } else {
            self.more_problems += 1;
        }
    }
}

/// Checks the pool on two disks, which nobody has open.
///
/// # Errors
/// If there is no pool, or a disk cannot be read or written. Damage is no error but in the report.
pub fn check(
    disks: &PoolDisks,
    options: CheckOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let walk = Walk::of(disks, &mut report)?;
    if let Some(walk) = &walk {
        walk.count(&mut report);
        if options.data {
            let damaged = scrub::scrub(disks, walk, &mut report, monitor, stop)?;
            report.damaged_blocks = damaged.into_iter().map(Pbn::number).collect();
        }
    }
    if report.is_clean() || walk.as_ref().is_some_and(|walk| walk.superblock.version == Version::V1)
    {
        return Ok(report);
    }
    if options.repair {
        report.repair_cost = repair::repair(disks, options.data, monitor, stop)?;
        report.is_repaired = true;
        return Ok(report);
    }
    report.repair_cost = repair::cost(disks, options.data, monitor, stop)?;
    Ok(report)
}

/// Writes down in the pool on two disks, which nobody has open, that the contents of these blocks are
/// damaged, so that nothing shares them before they are written anew. A pool whose metadata are damaged
/// as well is left alone: a repair comes first.
///
/// # Errors
/// If there is no pool, or a disk cannot be read or written.
pub fn record_damage(disks: &PoolDisks, blocks: &[u32]) -> Result<()> {
    let pbns: Vec<Pbn> = blocks.iter().copied().filter_map(Pbn::new).collect();
    repair::record(disks, &pbns)
}
