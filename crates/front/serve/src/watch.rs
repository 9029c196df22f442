//! Watches a served pool, and warns when space runs low, when blocks or metadata are found damaged,
//! when the pool stops taking changes, for example because it was deleted, and when a task in the
//! background fails. It tells as well that a task works again.

use crate::events::{Event, Events};
use crate::figures::damage_since_opening;
use crate::open_pool::OpenPool;
use crate::report::{Thresholds, space_warning, stop_warning};
use gemelo_base::ShowPath as _;
use gemelo_base::background::{FailureLog, Worker};
use gemelo_base::units::format_counted;
use gemelo_volume::DamagedBlock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two looks at the pool.
const EVERY: Duration = Duration::from_secs(1);
/// Most damaged blocks that are named in the log after a look. Further ones are counted, because a
/// dead disk has millions.
const MAX_DAMAGE_LINES: usize = 20;
/// A threshold of use is told again after the use was below it by this share of the space. Use that
/// goes up and down around a threshold would be an event each second otherwise.
const USE_BELOW: f64 = 0.01;

/// Starts the watcher. It ends after a last look.
pub(crate) fn start(pool: Arc<OpenPool>, events: Arc<Events>) -> std::io::Result<Worker> {
    // A pool is served also without warnings. The panic hook reports a panic.
    Worker::start(
        "gemelo-watch",
        |_| {},
        move |stop| {
            let mut told = GivenWarnings::default();
            loop {
                look(&pool, &events, &mut told);
                if stop.is_raised() {
                    return;
                }
                stop.wait_for(EVERY);
            }
        },
    )
}

/// The warnings that were given before.
#[derive(Default)]
struct GivenWarnings {
    is_stopped: bool,
    is_directory_lost: bool,
    is_metadata_damaged: bool,
    threshold: f64,
    damaged_blocks: BTreeSet<DamagedBlock>,
    tasks: FailureLog,
}

/// Warns once of a pool that has stopped and of each damage. Warns once of each threshold, and
/// again only after the use was well below it.
fn look(pool: &OpenPool, events: &Events, told: &mut GivenWarnings) {
    look_for_stop(pool, events, told);
    look_for_damage(pool, events, &mut told.damaged_blocks);
    told.tasks.look(&pool.tasks(), events);
    // Commands that ask for figures get this error.
    let Ok(report) = pool.stat_of_pool() else { return };
    let thresholds = pool.settings().of_pool().thresholds();
    let reached = thresholds.reached(report.used_share).unwrap_or(0.0);
    if reached > told.threshold {
        let percent = (reached * 100.0).clamp(0.0, 100.0) as u8;
        events.tell(Event::Full(percent), &space_warning(&report, reached));
    }
    told.threshold = held(&thresholds, told.threshold, report.used_share);
}

/// Returns the threshold that counts as told of from now on.
fn held(thresholds: &Thresholds, told: f64, used_share: f64) -> f64 {
    let lower = thresholds.reached(used_share + USE_BELOW).unwrap_or(0.0).min(told);
    thresholds.reached(used_share).unwrap_or(0.0).max(lower)
}

/// Warns once that the pool has stopped taking changes, that its metadata are damaged, and that its
/// directory is gone.
fn look_for_stop(pool: &OpenPool, events: &Events, told: &mut GivenWarnings) {
    if let Some(reason) = pool.stopped()
        && !std::mem::replace(&mut told.is_stopped, true)
    {
        events.tell(Event::ReadOnly, &stop_warning(&reason.to_string()));
    }
    if let Some(damage) = damage_since_opening(pool.pool())
        && !std::mem::replace(&mut told.is_metadata_damaged, true)
    {
        events.tell(Event::DamageFound, &damage);
    }
    let lost = pool.lost_directory();
    if let (Some(directory), false) = (lost, told.is_directory_lost) {
        let message = format!(
            "the directory '{}' was deleted or moved: commands do not find this server any more",
            directory.shown()
        );
        events.tell(Event::DirectoryLost, &message);
    }
    told.is_directory_lost = lost.is_some();
}

fn look_for_damage(pool: &OpenPool, events: &Events, told: &mut BTreeSet<DamagedBlock>) {
    let damaged: BTreeSet<DamagedBlock> = pool.damaged_blocks().into_iter().collect();
    let fresh: Vec<&DamagedBlock> = damaged.difference(told).collect();
    for DamagedBlock { volume, lbn, pbn } in fresh.iter().take(MAX_DAMAGE_LINES) {
        let message = format!(
            "block {lbn} of volume '{volume}' is damaged (block {pbn} of the data store): reads of it fail \
             until it is written again or restored; 'gemelo pool scrub' heals it if its content has \
             another copy"
        );
        events.tell(Event::DamageFound, &message);
    }
    if let more @ 1.. = fresh.len().saturating_sub(MAX_DAMAGE_LINES) {
        let blocks = format_counted(more as u64, "more damaged block");
        let message = format!("{blocks} found: 'gemelo pool stat' lists them");
        events.tell(Event::DamageFound, &message);
    }
    if damaged.is_empty() && !told.is_empty() {
        events.tell(Event::Healed, "no damaged block is left of those that were found");
    }
    *told = damaged;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_told_again_only_after_the_use_was_well_below_it() {
        let thresholds = Thresholds::new(vec![0.8, 0.9]);
        let mut told = 0.0;
        let mut told_at = Vec::new();
        for (at, used) in [0.79, 0.8, 0.795, 0.8, 0.91, 0.899, 0.9, 0.88, 0.901, 0.7, 0.81]
            .into_iter()
            .enumerate()
        {
            if thresholds.reached(used).unwrap_or(0.0) > told {
                told_at.push(at);
            }
            told = held(&thresholds, told, used);
        }
        assert_eq!(told_at, [1, 4, 8, 10]);
    }
}
