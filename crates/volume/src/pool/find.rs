//! The finder, run by a command: deduplicates everything that off-line volumes have now.

use super::Pool;
use crate::engine::FinderReport;
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};

impl Pool {
    /// Looks at all blocks of off-line volumes that were written since the finder looked at them,
    /// without its delay and its rate. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// If metadata cannot be read or changed, or the work was stopped; what was shared stays so.
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
