//! Collects the figures of an open pool, its server and its volumes into reports.

use crate::health::Health;
use crate::report::{ServerStat, StatReport, Thresholds, VolumeReport, used_share, warnings};
use crate::scrub::ScrubStat;
use gemelo_base::background::TaskStat;
use gemelo_base::process;
use gemelo_device::{FrontEndStats, Listening};
use gemelo_place::PoolPlace;
use gemelo_volume::{Pool, VolumeError, VolumeSummary};
use std::path::Path;
use std::sync::Arc;

/// Sums up the figures of the front ends.
fn server_stat(front_ends: &[Arc<dyn Listening>]) -> ServerStat {
    let mut stat = ServerStat {
        process_id: std::process::id(),
        connections: connections(front_ends, None),
        process_cpu_ns: process::cpu_ns(),
        process_memory_bytes: process::memory_bytes(),
        process_free_bytes: gemelo_base::memory::free_bytes().unwrap_or_default(),
        ..ServerStat::default()
    };
    for front_end in front_ends {
        let figures = front_end.figures();
        let FrontEndStats { accepted, refused, broken, memory_bytes, memory_limit_bytes } = figures;
        stat.accepted_connections += accepted;
        stat.refused_connections += refused;
        stat.broken_connections += broken;
        stat.memory_bytes += memory_bytes;
        stat.memory_limit_bytes += memory_limit_bytes;
    }
    stat
}

/// The front ends of a pool, if it is served.
type FrontEnds<'f> = Option<&'f [Arc<dyn Listening>]>;

/// Reports on a pool with its tasks, and on its server if it is served. `volumes` are the figures
/// of each volume, or `()`.
pub(crate) fn report_on<V>(
    pool: &Pool,
    place: &PoolPlace,
    (front_ends, tasks): (FrontEnds<'_>, Vec<TaskStat>),
    thresholds: &Thresholds,
    volumes: V,
) -> Result<StatReport<V>, VolumeError> {
    let stat = pool.stat()?;
    let stopped = stat.stopped.is_some();
    let file_system_free_bytes = place.directory().and_then(free_below);
    let server = front_ends.map(server_stat);
    let mut report = StatReport {
        dedup_ratio: stat.dedup_ratio(),
        used_share: used_share(&stat, file_system_free_bytes),
        pool: stat,
        volumes,
        unfinished_copies: pool.unfinished_copies(),
        file_system_free_bytes,
        server,
        holder_process_id: None,
        damage: damage_of(pool),
        unknown_feature: pool.unknown_feature().map(str::to_owned),
        damaged_blocks: pool.damaged_blocks(),
        scrub: ScrubStat::default(),
        sharing: None,
        tasks,
        read_only: pool.is_read_only() || stopped,
        warnings: Vec::new(),
        health: Health::default(),
    };
    report.warnings = warnings(&report, thresholds);
    report.health = Health::of(&report, thresholds);
    Ok(report)
}

/// Returns the figures of each volume, in the order of their names.
pub(crate) fn volume_reports(
    pool: &Pool,
    front_ends: Option<&[Arc<dyn Listening>]>,
) -> Vec<VolumeReport> {
    let report = |summary: VolumeSummary| VolumeReport {
        connections: front_ends.map(|ends| connections(ends, Some(&summary.record.name))),
        summary,
    };
    pool.volumes().into_iter().map(report).collect()
}

/// Returns the number of clients of all front ends, connected to an export or, without a name, at
/// all.
pub(crate) fn connections(front_ends: &[Arc<dyn Listening>], export: Option<&str>) -> u64 {
    front_ends.iter().map(|front_end| front_end.connections(export) as u64).sum()
}

/// Returns a warning for each damage of the metadata that was found when the pool was opened.
pub(crate) fn damage_at_opening(pool: &Pool) -> Vec<String> {
    pool.damage().iter().map(damage_warning).collect()
}

/// Returns a warning for each damage of the metadata that was found when the pool was opened, or
/// since then.
fn damage_of(pool: &Pool) -> Vec<String> {
    damage_at_opening(pool).into_iter().chain(damage_since_opening(pool)).collect()
}

/// Returns a warning for the damage of the metadata that was found since the pool was opened. One
/// that is open for reading only found it at opening.
pub(crate) fn damage_since_opening(pool: &Pool) -> Option<String> {
    let since = pool.damaged_metadata().filter(|_| !pool.is_read_only());
    since.as_ref().map(damage_warning)
}

fn damage_warning(what: &String) -> String {
    format!("the metadata are damaged: {what}")
}

/// Returns the free bytes of the file system that holds the data store, and [`None`] if the store
/// is a device.
fn free_below(directory: &Path) -> Option<u64> {
    let data = directory.join("data");
    if !std::fs::metadata(&data).is_ok_and(|status| status.is_file()) {
        return None;
    }
    let status = rustix::fs::statvfs(&data).ok()?;
    Some(status.f_bavail.saturating_mul(status.f_frsize))
}
