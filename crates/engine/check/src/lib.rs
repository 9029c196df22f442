//! The off-line checker: proves from outside that a pool which no process has open is consistent.
//!
//! It walks the structs of [`gemelo_format`] with code of its own, and unpacks compressed contents
//! with it, so a fault of the engine does not hide itself. It shares nothing else with the engine,
//! and writes nothing: repair is the engine's.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod bits;
mod contents;
mod count;
mod error;
mod family;
mod map;
mod order;
mod packed;
mod pages;
mod references;
mod replay;
mod scrub;
mod source;
mod store;
mod values;
mod walk;
mod work;

pub use error::CheckError;
pub use walk::{Walk, WalkVolume};

use gemelo_base::{Monitor, StopFlag};
use gemelo_format::{FormatError, Pbn};
use gemelo_store::PoolDisks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use work::Work;

/// Bytes of memory for what a check compares at once, unless it is told otherwise.
pub const MEMORY_BYTES: u64 = 256 << 20;
/// Problems that are reported one by one; further ones are only counted.
const MAX_PROBLEMS: usize = 1000;

/// The parts of a check besides the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CheckOptions {
    /// Read all contents and compare them with their checksums and fingerprints.
    pub data: bool,
}

/// A fault that a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Description of the fault.
    pub what: String,
    /// `true` if the fault loses blocks of a volume.
    pub loses_data: bool,
    /// The number of the block of the data store whose content is damaged, if that is the fault.
    /// The same content may be whole elsewhere; a repair and a scrub look for it.
    pub damaged_block: Option<u64>,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// The first thousand problems.
    pub problems: Vec<Problem>,
    /// The number of further problems.
    pub more_problems: u64,
    /// The number of volumes.
    pub volumes: u64,
    /// LBNs that have a PBN, counted anew.
    pub references: u64,
    /// PBNs that have a reference, counted anew.
    pub physical_blocks: u64,
    /// Blocks of the data store that have a part of a content with a reference.
    #[serde(skip)]
    pub used_blocks: u64,
    /// Blocks of the data store without one.
    pub free_blocks: u64,
    /// Contents that are stored more than once although they could be shared.
    pub repeated_contents: u64,
    /// Commits of the journal that were replayed.
    pub commits: u64,
    /// Contents compared with their fingerprints.
    pub checked_contents: u64,
    /// The space that the contents take, if they were read.
    pub space: Option<StoredSpace>,
    /// LBNs whose content is lost, by fresh damage or by damage that a repair has marked.
    pub lost_blocks: u64,
    /// Blocks of the data store whose contents were found damaged.
    pub damaged_blocks: Vec<u64>,
    /// Blocks in use that the metadata mark as damaged; 0 if the contents were read, because each
    /// block was then judged by its content.
    pub marked_blocks: u64,
}

/// The space that volumes take, after each step that makes it smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct StoredSpace {
    /// Bytes of all references. A block counts once for each reference.
    pub logical_bytes: u64,
    /// Bytes of the contents after deduplication.
    pub deduplicated_bytes: u64,
    /// Bytes that these take in the data store. A damaged content counts as none.
    pub compressed_bytes: u64,
    /// The other bytes of the blocks that they are in: tables of these blocks, ends that no content
    /// fits in, and the space of contents that were freed beside others.
    pub unused_bytes: u64,
}

impl StoredSpace {
    fn of(report: &CheckReport, block_bytes: u64, compressed_bytes: u64) -> Self {
        Self {
            logical_bytes: report.references * block_bytes,
            deduplicated_bytes: report.physical_blocks * block_bytes,
            compressed_bytes,
            unused_bytes: (report.used_blocks * block_bytes).saturating_sub(compressed_bytes),
        }
    }

    /// Bytes of the blocks of the data store that have contents.
    #[must_use]
    pub const fn used_bytes(&self) -> u64 {
        self.compressed_bytes + self.unused_bytes
    }
}

impl CheckReport {
    /// Returns whether the check found no problem.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Returns whether the check found no problem, and no mark of damage that was found before.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.is_clean() && self.marked_blocks == 0
    }

    fn add(&mut self, loses_data: bool, what: String) {
        self.add_problem(Problem { what, loses_data, damaged_block: None });
    }

    fn add_problem(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

/// Checks the pool on two disks, which no process may have open.
///
/// # Errors
/// Fails if the disks hold no pool, if a disk cannot be read, or if the check was stopped. Damage
/// is in the report.
pub fn check(
    disks: &PoolDisks,
    options: CheckOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<CheckReport, CheckError> {
    check_within(MEMORY_BYTES, disks, options, monitor, stop)
}

/// Does the same with this much memory for what is compared at once. With less, the metadata are
/// read more often. Beside it, a check keeps a bit for each block, and some 50 bytes for each page
/// of maps and fingerprints.
///
/// # Errors
/// Fails as [`check`] does.
pub fn check_within(
    memory_bytes: u64,
    disks: &PoolDisks,
    options: CheckOptions,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<CheckReport, CheckError> {
    let mut report = CheckReport::default();
    let work = Work::new(memory_bytes, monitor, stop);
    let Some(walk) = Walk::read(disks, work, &mut report)? else { return Ok(report) };
    match check_walk(disks, &walk, options, (work, &mut report)) {
        Err(CheckError::Format(FormatError::Damaged { what })) => report.add(true, what),
        checked => checked?,
    }
    Ok(report)
}

fn check_walk(
    disks: &PoolDisks,
    walk: &Walk,
    options: CheckOptions,
    (work, report): (Work<'_>, &mut CheckReport),
) -> Result<(), CheckError> {
    let used = walk.count((work, &mut *report))?;
    if options.data {
        let damaged = scrub::scrub(disks, walk, &used, (work, &mut *report))?;
        report.damaged_blocks = damaged.into_iter().map(Pbn::number).collect();
        report.marked_blocks = 0;
    }
    work.finish();
    Ok(())
}
