//! The arranger as a command.

use super::Pool;
use crate::engine::ArrangeReport;
use crate::error::{Result, VolumeError};
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
        let _watch = self.engine.watch();
        let engine = &self.engine;
        let block_bytes = engine.block_bytes() as u64;
        let mut due_ns = engine.now_ns();
        monitor.begin("Bringing blocks together", Unit::Items, None);
        let report = engine.arrange_all(|report| {
            monitor.advance(report.examined_blocks);
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            if let Some(rate) = max_bytes_per_s {
                let bytes = report.moved_blocks * block_bytes;
                due_ns = due_ns.saturating_add(bytes.saturating_mul(1_000_000_000) / rate.max(1));
                engine.sleep_until_ns(due_ns);
            }
            Ok(())
        })?;
        monitor.finish();
        Ok(report)
    }
}
