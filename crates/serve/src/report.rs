//! A pool and its server in numbers, and what they warn of.

use gemelo_base::units::{format_counted, format_size};
use gemelo_volume::{DamagedBlock, PoolStat, VolumeSummary};
use serde::{Deserialize, Serialize};

/// A pool in numbers, and its server if it has one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatReport {
    /// The pool.
    pub pool: PoolStat,
    /// Logical / physical blocks.
    pub dedup_ratio: f64,
    /// The volumes, by name.
    pub volumes: Vec<VolumeSummary>,
    /// What the file system below the data store has left, in bytes; nothing if the store is a device.
    pub file_system_free_bytes: Option<u64>,
    /// Share of what can be stored that is in use, 0 to 1.
    pub used_share: f64,
    /// The server.
    pub server: Option<ServerStat>,
    /// The process that has the pool and does not serve it, if that is not the one that asks.
    #[serde(default)]
    pub holder_process_id: Option<u32>,
    /// Damages of the metadata that were found when the pool was opened.
    pub damage: Vec<String>,
    /// Damaged blocks that were found since then and are still in use: the first thousand.
    #[serde(default)]
    pub damaged_blocks: Vec<DamagedBlock>,
    /// Whether it takes no changes.
    pub read_only: bool,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A server in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerStat {
    /// Its process.
    pub process_id: u32,
    /// Clients that are connected.
    pub connections: u64,
    /// Connections accepted since it was started.
    pub accepted_connections: u64,
    /// Connections closed at once because there were too many.
    pub refused_connections: u64,
    /// Connections that ended by an error.
    pub broken_connections: u64,
    /// Clients of each volume, in the order of the volumes.
    pub volume_connections: Vec<u64>,
}

/// Shares of use, 0 to 1, above which to warn, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds(Vec<f64>);

impl Thresholds {
    /// From shares in any order.
    #[must_use]
    pub fn new(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        Self(shares)
    }

    /// The highest one that is reached.
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

/// Blocks that are free or soon will be: what is freed waits for a commit, and the collector has some at times.
const fn available_blocks(stat: &PoolStat) -> u64 {
    stat.free_blocks + stat.pending_blocks
}

/// Share of what can be stored that is: the store may have more room than the file system it lies on.
pub(crate) fn used_share(stat: &PoolStat, file_system_free_bytes: Option<u64>) -> f64 {
    let block_bytes = u64::from(stat.block_bytes);
    let used = stat.physical_blocks;
    let free = available_blocks(stat)
        .min(file_system_free_bytes.map_or(u64::MAX, |bytes| bytes / block_bytes));
    if used + free == 0 { 1.0 } else { used as f64 / (used + free) as f64 }
}

/// What the numbers warn of.
pub(crate) fn warnings(report: &StatReport, thresholds: &Thresholds) -> Vec<String> {
    let mut warnings = report.damage.clone();
    if let Some(reached) = thresholds.reached(report.used_share) {
        warnings.push(space_warning(report, reached));
    }
    let damaged = report.damaged_blocks.len();
    if damaged > 0 {
        let blocks = format_counted(damaged as u64, "damaged block");
        warnings.push(format!(
            "{blocks} found: a damaged block cannot be read until it is written again or restored"
        ));
    }
    let failed = report.pool.activity.failed_checkpoints;
    if failed > 0 {
        warnings.push(format!("{failed} checkpoints failed: the metadata disk is full or broken"));
    }
    warnings
}

/// The warning of little space.
pub(crate) fn space_warning(report: &StatReport, reached: f64) -> String {
    let stat = &report.pool;
    let free = available_blocks(stat) * u64::from(stat.block_bytes);
    let what_to_do = match report.file_system_free_bytes {
        Some(below) if below < free => {
            format!("the file system below has {} left", format_size(below))
        }
        _ => format!("{} are left: grow the pool or remove volumes", format_size(free)),
    };
    format!("more than {:.0} % of the data store is in use, {what_to_do}", reached * 100.0)
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
