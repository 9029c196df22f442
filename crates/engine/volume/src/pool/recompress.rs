//! Compressing contents again, as a command.

use super::Pool;
use crate::engine::{Pace, RecompressReport};
use crate::error::Result;
use gemelo_base::{Monitor, StopFlag, Unit};

impl Pool {
    /// Stores the contents of all volumes again whose form is not that of their volume's present
    /// compression, at most `max_bytes_per_s`. Requests go on meanwhile; contents that they change
    /// may be left.
    ///
    /// # Errors
    /// Fails if the pool stores its contents as they are, if metadata cannot be read or changed, or
    /// if the work was stopped. Contents that were moved until then stay moved.
    pub fn recompress(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<RecompressReport> {
        let _watch = self.engine.health.watch();
        let engine = &self.engine;
        let mut pace = Pace::new(engine, max_bytes_per_s, stop);
        let mapped = engine.log.read().backend().totals().references;
        monitor.begin("Compressing again", Unit::Items, Some(mapped));
        let report = engine.recompressor.recompress_all(|report| {
            monitor.advance(report.examined_blocks);
            pace.go_on(report.moved_blocks)
        })?;
        monitor.finish();
        Ok(report)
    }
}
