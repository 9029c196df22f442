//! The arranger as a command.

use super::Pool;
use crate::engine::{ArrangeReport, Pace};
use crate::error::Result;
use gemelo_base::{Monitor, StopFlag, Unit};

impl Pool {
    /// Brings together what lies scattered in all volumes, without waiting until the pool is idle,
    /// at most `max_bytes_per_s`. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed, or if the work was stopped. Blocks that were
    /// moved until then stay moved.
    pub fn arrange(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<ArrangeReport> {
        let _watch = self.engine.health.watch();
        let engine = &self.engine;
        let mut pace = Pace::new(engine, max_bytes_per_s, stop);
        monitor.begin("Bringing blocks together", Unit::Items, None);
        let report = engine.arranger.arrange_all(|report| {
            monitor.advance(report.examined_blocks);
            pace.go_on(report.moved_blocks)
        })?;
        monitor.finish();
        Ok(report)
    }
}
