//! Looks after a served pool's space and tells when it gets little.

use crate::open_pool::OpenPool;
use crate::report::space_warning;
use gemelo_base::{Monitor, StopFlag};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);
/// How often it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Watches until `stop` is raised, and looks once more then.
pub(crate) fn start(
    pool: Arc<OpenPool>,
    monitor: Arc<dyn Monitor>,
    stop: StopFlag,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("gemelo-watch".into()).spawn(move || {
        let mut told = 0.0;
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

/// Tells of each threshold once; again only after the use was below it.
fn look(pool: &OpenPool, monitor: &dyn Monitor, told: &mut f64) {
    // What cannot be measured is told to who asks for it.
    let Ok(report) = pool.stat() else { return };
    let reached = pool.thresholds().reached(report.used_share).unwrap_or(0.0);
    if reached > *told {
        monitor.warn(&space_warning(&report, reached));
    }
    *told = reached;
}
