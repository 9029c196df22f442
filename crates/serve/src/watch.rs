//! Looks after a served pool's space and tells when it gets little.

use crate::open_pool::OpenPool;
use crate::report::space_warning;
use gemelo_base::units::format_counted;
use gemelo_base::{Monitor, StopFlag};
use gemelo_volume::DamagedBlock;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);
/// Damaged blocks that are named in the log at a time; the rest is counted, as a dead disk has millions.
const MOST_DAMAGE_LINES: usize = 20;
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Watches until `stop` is raised, and looks once more then.
pub(crate) fn start(
    pool: Arc<OpenPool>,
    monitor: Arc<dyn Monitor>,
    stop: StopFlag,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("gemelo-watch".into()).spawn(move || {
        let mut told = Told::default();
        while !stop.is_raised() {
            look(&pool, &*monitor, &mut told);
            for _ in 0..EVERY.as_millis() / LOOK.as_millis() {
                if stop.is_raised() {
                    break;
                }
                std::thread::sleep(LOOK);
            }
        }
        look(&pool, &*monitor, &mut told);
    })
}

/// The warnings that were given.
#[derive(Default)]
struct Told {
    used_share: f64,
    damaged_blocks: BTreeSet<DamagedBlock>,
}

/// Tells of each threshold once, and again only after the use was below it; and of each damaged block
/// once.
fn look(pool: &OpenPool, monitor: &dyn Monitor, told: &mut Told) {
    look_for_damage(pool, monitor, &mut told.damaged_blocks);
    // What cannot be measured is told to who asks for it.
    let Ok(report) = pool.stat() else { return };
    let reached = pool.thresholds().reached(report.used_share).unwrap_or(0.0);
    if reached > told.used_share {
        monitor.warn(&space_warning(&report, reached));
    }
    told.used_share = reached;
}

fn look_for_damage(pool: &OpenPool, monitor: &dyn Monitor, told: &mut BTreeSet<DamagedBlock>) {
    let damaged: BTreeSet<DamagedBlock> = pool.damaged_blocks().into_iter().collect();
    let fresh: Vec<&DamagedBlock> = damaged.difference(told).collect();
    for DamagedBlock { volume, lbn, pbn } in fresh.iter().take(MOST_DAMAGE_LINES) {
        monitor.warn(&format!(
            "block {lbn} of volume '{volume}' is damaged (block {pbn} of the data store): reads of it fail \
             until it is written again or restored"
        ));
    }
    if let more @ 1.. = fresh.len().saturating_sub(MOST_DAMAGE_LINES) {
        let blocks = format_counted(more as u64, "more damaged block");
        monitor.warn(&format!("{blocks} found: 'gemelo pool stat' lists them"));
    }
    *told = damaged;
}
