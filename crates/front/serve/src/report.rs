//! The figures of a pool and its server, and the warnings that follow from them.

use crate::health::Health;
use crate::scrub::ScrubStat;
use gemelo_base::StatTable;
use gemelo_base::background::TaskStat;
use gemelo_base::units::{format_counted, format_size};
use gemelo_place::SharingStat;
use gemelo_record::ResultFile;
use gemelo_volume::{DamagedBlock, PoolStat, SnapshotSpace, UnfinishedCopy, VolumeSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The figures of a pool, and of its server if it is served. `V` is `()` in a report without those
/// of each volume, which take long to collect if there are many.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct StatReport<V = Vec<VolumeReport>> {
    /// Figures of the whole pool.
    pub pool: PoolStat,
    /// Logical blocks divided by physical blocks.
    pub dedup_ratio: f64,
    /// The volumes, in the order of their names.
    pub volumes: V,
    /// Copies of snapshots of other pools that are not whole.
    #[serde(default)]
    pub unfinished_copies: Vec<UnfinishedCopy>,
    /// Free bytes of the file system that holds the data store; [`None`] if the store is a device.
    pub file_system_free_bytes: Option<u64>,
    /// Blocks in use as a share of the blocks that can be stored, 0 to 1.
    pub used_share: f64,
    /// Figures of the server; [`None`] if the pool is not served.
    pub server: Option<ServerStat>,
    /// Id of the process that has the pool without serving it, if another process asks.
    #[serde(default)]
    pub holder_process_id: Option<u32>,
    /// Damage of the metadata that was found when the pool was opened or since then, one text for
    /// each place.
    pub damage: Vec<String>,
    /// The feature of the pool that this program does not know, and for which it only reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_feature: Option<String>,
    /// Damaged blocks that were found since then and are still in use.
    #[serde(default)]
    pub damaged_blocks: Vec<DamagedBlock>,
    /// The scrub that runs, and the last one that ended.
    #[serde(default)]
    pub scrub: ScrubStat,
    /// Figures of what a member shares with its domain; [`None`] for a pool that is no member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<SharingStat>,
    /// The tasks that the background repeats by itself.
    #[serde(default)]
    pub tasks: Vec<TaskStat>,
    /// `true` if the pool refuses changes.
    pub read_only: bool,
    /// Warnings that hold now.
    pub warnings: Vec<String>,
    /// Whether somebody has to act.
    #[serde(default)]
    pub health: Health,
}

/// Schema name of a [`PoolFile`].
pub const POOL_SCHEMA: &str = "gemelo.pool/1";

/// The figures of a pool, as a file keeps them.
pub type PoolFile = ResultFile<PoolInput, PoolFigures>;

/// The input of the figures of a pool.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct PoolInput {
    /// The pool, as the user named it.
    pub pool: String,
    /// `true` if the space of snapshots was asked for.
    pub space: bool,
}

/// The figures of a pool, with the space that its snapshots take.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct PoolFigures {
    /// The figures that cost little.
    #[serde(flatten)]
    pub report: StatReport,
    /// The space with and without snapshots; [`None`] unless it was asked for.
    pub space: Option<SpaceFigures>,
}

/// The space of a pool with and without snapshots.
#[derive(Debug, Clone, Copy, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct SpaceFigures {
    /// The counts of blocks.
    #[serde(flatten)]
    pub blocks: SnapshotSpace,
    /// Logical blocks divided by physical blocks.
    pub dedup_ratio: f64,
    /// The same without the blocks of snapshots.
    pub dedup_ratio_without_snapshots: f64,
}

impl From<SnapshotSpace> for SpaceFigures {
    fn from(blocks: SnapshotSpace) -> Self {
        Self {
            blocks,
            dedup_ratio: blocks.dedup_ratio(),
            dedup_ratio_without_snapshots: blocks.dedup_ratio_without_snapshots(),
        }
    }
}

/// The figures of a volume.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct VolumeReport {
    /// The figures that the engine has.
    #[serde(flatten)]
    pub summary: VolumeSummary,
    /// Number of connected clients; [`None`] if the pool is not served.
    pub connections: Option<u64>,
}

/// The figures of a server, summed over its front ends.
#[derive(Debug, Clone, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable)]
#[stat(counter)]
pub struct ServerStat {
    /// Id of the serving process.
    #[stat(skip)]
    pub process_id: u32,
    /// Number of connected clients.
    #[stat(gauge)]
    pub connections: u64,
    /// Connections accepted since the server was started.
    pub accepted_connections: u64,
    /// Connections closed because there were too many.
    pub refused_connections: u64,
    /// Connections that ended with an error or a breach of the protocol.
    pub broken_connections: u64,
    /// Bytes of memory that requests and replies of clients take at present.
    #[stat(gauge)]
    pub memory_bytes: u64,
    /// Most bytes of memory that requests and replies of clients may take.
    #[stat(gauge)]
    pub memory_limit_bytes: u64,
    /// Processor time that the serving process has used.
    pub process_cpu_ns: u64,
    /// Bytes of memory that the serving process has at present.
    #[stat(gauge)]
    pub process_memory_bytes: u64,
    /// Bytes of it that were freed, and that the allocator keeps for later.
    #[stat(gauge)]
    pub process_free_bytes: u64,
}

/// Shares of use, 0 to 1, at which to warn, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds(Vec<f64>);

impl Thresholds {
    /// Makes thresholds of shares in any order.
    #[must_use]
    pub fn new(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        Self(shares)
    }

    /// Returns the highest threshold that is reached.
    #[must_use]
    pub fn reached(&self, used_share: f64) -> Option<f64> {
        self.0.iter().copied().rfind(|share| used_share >= *share)
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::new(vec![0.8, 0.9, 0.95])
    }
}

/// Advice for a pool that has stopped taking changes while it is served.
pub(crate) const COPY_AWAY: &str =
    "its volumes can be read through this server until it ends, for example with nbdcopy";

/// Returns the number of blocks that are free or will be: freed blocks wait for a commit, and the
/// collector may hold some.
fn available_blocks(stat: &PoolStat) -> u64 {
    stat.free_blocks + stat.used_blocks.saturating_sub(stat.data_blocks())
}

/// Returns the share of use. The data store may have more free blocks than the file system that
/// holds it; the smaller number counts.
pub(crate) fn used_share(stat: &PoolStat, file_system_free_bytes: Option<u64>) -> f64 {
    let block_bytes = u64::from(stat.block_bytes);
    let used = stat.data_blocks();
    let free = available_blocks(stat)
        .min(file_system_free_bytes.map_or(u64::MAX, |bytes| bytes / block_bytes));
    if used + free == 0 { 1.0 } else { used as f64 / (used + free) as f64 }
}

/// Returns the warnings that follow from the figures.
pub(crate) fn warnings<V>(report: &StatReport<V>, thresholds: &Thresholds) -> Vec<String> {
    let mut warnings = report.damage.clone();
    warnings.extend(report.unknown_feature.as_deref().map(feature_warning));
    warnings.extend(report.pool.stopped.as_deref().map(stop_warning));
    if let Some(reached) = thresholds.reached(report.used_share) {
        warnings.push(space_warning(report, reached));
    }
    let damaged = report.damaged_blocks.len();
    if damaged > 0 {
        let blocks = format_counted(damaged as u64, "damaged block");
        warnings.push(format!(
            "{blocks} found: a damaged block cannot be read until it is written again or restored; \
             'gemelo pool scrub' heals those whose contents have another copy"
        ));
    }
    warnings.extend(report.tasks.iter().filter_map(TaskStat::warning));
    warnings
}

/// Returns the warning that the pool is read-only for a feature.
pub(crate) fn feature_warning(what: &str) -> String {
    format!("the pool has {what}, which this version of gemelo does not know: it is read-only")
}

/// Returns the warning that the pool has stopped.
pub(crate) fn stop_warning(reason: &str) -> String {
    format!("the pool stopped taking changes {reason}: {COPY_AWAY}")
}

/// Returns the warning that a threshold of use is reached.
pub(crate) fn space_warning<V>(report: &StatReport<V>, reached: f64) -> String {
    let what_to_do = space_advice(report);
    format!("more than {:.0} % of the data store is in use, {what_to_do}", reached * 100.0)
}

/// Says how much space is left, and how there will be more.
pub(crate) fn space_advice<V>(report: &StatReport<V>) -> String {
    let stat = &report.pool;
    let free = available_blocks(stat) * u64::from(stat.block_bytes);
    match report.file_system_free_bytes {
        Some(below) if below < free => {
            format!("the file system below has {} left: make room there", format_size(below))
        }
        _ => format!("{} are left: grow the pool or remove volumes", format_size(free)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_threshold_that_is_reached_counts() {
        let thresholds = Thresholds::new(vec![0.95, 0.8]);
        assert_eq!(thresholds.reached(0.79), None);
        assert_eq!(thresholds.reached(0.8), Some(0.8));
        assert_eq!(thresholds.reached(1.0), Some(0.95));
        assert_eq!(Thresholds::new(Vec::new()).reached(1.0), None);
    }
}
