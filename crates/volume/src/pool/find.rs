//! The finder as a command: deduplicates the present contents of off-line volumes.

use super::Pool;
use crate::engine::FinderReport;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};

impl Pool {
    /// Examines all blocks of off-line volumes that were written since the finder's last visit,
    /// without the finder's delay and rate limit. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed, or if the work was stopped. Blocks that were
    /// shared until then stay shared.
    pub fn find(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<FinderReport> {
        let mut report = FinderReport::default();
        monitor.begin("Looking for duplicates", Unit::Items, None);
        while let Some(found) = self.engine.find_next(self.engine.now_ns())? {
            report.add(found);
            monitor.advance(found.examined_blocks);
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
        }
        monitor.finish();
        Ok(report)
    }
}
