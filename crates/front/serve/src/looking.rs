//! Figures of a pool that this process has open and does not serve, for other processes.

use crate::control::LookServer;
use crate::figures::{report_on, volume_reports};
use crate::report::{StatReport, Thresholds};
use gemelo_place::PoolPlace;
use gemelo_volume::Pool;
use std::sync::Weak;

/// Answers other processes that ask for the figures of a pool which this one has open and does not
/// serve, until the result is dropped. Returns [`None`] if no socket can be made, for example in a
/// read-only directory; other processes then wait.
#[must_use]
pub fn let_look(place: &PoolPlace, pool: Weak<Pool>) -> Option<LookServer> {
    let directory = place.host_directory().ok()?;
    let place = place.clone();
    let figures = move || {
        let pool = pool.upgrade()?;
        let volumes = volume_reports(&pool, None);
        let report =
            report_on(&pool, &place, (None, pool.tasks()), &Thresholds::default(), volumes);
        let holder_process_id = Some(std::process::id());
        Some(report.map(|report| StatReport { holder_process_id, ..report }))
    };
    LookServer::open(&directory, Box::new(figures)).ok()
}
