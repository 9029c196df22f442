//! The thread that scrubs a served pool by its schedule.

use crate::failure::RequestFailure;
use crate::open_pool::OpenPool;
use crate::scrub::ScrubSchedule;
use gemelo_base::background::Worker;
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_volume::ScrubOptions;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which the schedule looks at the time.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Starts the thread that scrubs a served pool by its schedule. A raised `stop` ends a scrub early.
pub(crate) fn start(
    pool: Arc<OpenPool>,
    monitor: Arc<dyn Monitor>,
    stop: StopFlag,
) -> std::io::Result<Worker> {
    let stopped = Arc::clone(&pool);
    let told = move |panicked| stopped.stop_by_panic(panicked);
    let clock = SystemClock::new();
    let look = move || {
        let schedule = pool.settings().of_pool().scrub_schedule();
        if let (Some(now_s), Some(interval)) = (clock.utc_s(), schedule.interval) {
            let scrub = || scrub_by_schedule(&pool, schedule, &*monitor, &stop);
            pool.scrubs().turn(interval, now_s, scrub);
        }
        true
    };
    Worker::repeat("gemelo-scrub", told, POLL_INTERVAL, look)
}

fn scrub_by_schedule(
    pool: &OpenPool,
    schedule: ScrubSchedule,
    monitor: &dyn Monitor,
    stop: &StopFlag,
) -> Result<(), RequestFailure> {
    let options = ScrubOptions { max_bytes_per_s: Some(schedule.max_bytes_per_s), heals: true };
    // The log of failures tells of one that lasts.
    match pool.scrub(options, &Quiet(monitor), stop) {
        Ok(report) if report.is_clean() => monitor.log(&format!(
            "scrub: {} contents checked, {} healed",
            report.checked_contents, report.healed_contents
        )),
        Ok(report) => monitor.warn(&format!(
            "scrub: {} contents are damaged and have no other copy: 'gemelo pool stat' lists them",
            report.problems.len() as u64 + report.more_problems
        )),
        Err(_) if stop.is_raised() => {}
        Err(failure) => return Err(failure),
    }
    Ok(())
}

/// A monitor that passes on messages and no progress: a server has no place for it.
struct Quiet<'m>(&'m dyn Monitor);

impl Monitor for Quiet<'_> {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn finish(&self) {}

    fn warn(&self, message: &str) {
        self.0.warn(message);
    }

    fn log(&self, message: &str) {
        self.0.log(message);
    }
}
