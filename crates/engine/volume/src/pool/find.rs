//! The finder as a command: deduplicates the present contents of off-line volumes, and pauses the
//! finder of the background.

use super::VolumeSummary;
use super::stat::summaries;
use crate::engine::{Engine, FinderReport, Scope};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};
use std::panic::resume_unwind;

/// Most blocks that are examined between two looks at the stop flag.
const STEP_BLOCKS: usize = 256;
/// Most threads that examine blocks together: while the disk reads for one, another one takes
/// fingerprints.
const MAX_FINDERS: u64 = 3;
/// Blocks for which it pays to start another thread.
const BLOCKS_PER_FINDER: u64 = 8192;

/// Examines all blocks of off-line volumes that were written since the finder's last visit, by
/// several threads if there are many.
pub(super) fn find(
    engine: &Engine,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<FinderReport> {
    let _command = engine.finder.control.command();
    let (until_ns, blocks) = (engine.clock.now_ns(), blocks_to_find(engine));
    monitor.begin("Looking for duplicates", Unit::Items, Some(blocks));
    let help = || find_within(engine, Scope::Marked { until_ns }, monitor, stop);
    let report = std::thread::scope(|scope| {
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, help).ok();
        let helpers: Vec<_> =
            (1..MAX_FINDERS.min(blocks / BLOCKS_PER_FINDER)).filter_map(start).collect();
        let mut report = find_within(engine, Scope::Until { until_ns }, monitor, stop);
        for helper in helpers {
            let helped = helper.join().unwrap_or_else(|panic| resume_unwind(panic));
            report = report.and_then(|mut report| {
                report.add(helped?);
                Ok(report)
            });
        }
        report
    })?;
    monitor.finish();
    Ok(report)
}

fn find_within(
    engine: &Engine,
    scope: Scope,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<FinderReport> {
    let _watch = engine.health.watch();
    let mut report = FinderReport::default();
    while let Some(found) = engine.finder.find_next(scope, STEP_BLOCKS)? {
        report.add(found.report);
        monitor.advance(found.passed_blocks);
        if stop.is_raised() {
            return Err(VolumeError::Interrupted);
        }
    }
    Ok(report)
}

/// Returns the number of blocks that have to be looked up: the marked ones, and all blocks of
/// volumes that are searched as a whole.
fn blocks_to_find(engine: &Engine) -> u64 {
    let of_volume = |volume: VolumeSummary| {
        let swept_blocks = if volume.is_swept { volume.mapped_blocks } else { 0 };
        volume.backlog_blocks + swept_blocks
    };
    summaries(engine).into_iter().map(of_volume).sum()
}
