//! The finder as a command: deduplicates the present contents of off-line volumes, and pauses the
//! finder of the background.

use super::Pool;
use crate::engine::{FinderReport, Scope};
use crate::error::{Result, VolumeError};
use gemelo_base::{Monitor, StopFlag, Unit};

/// Most blocks that are examined between two looks at the stop flag.
const STEP_BLOCKS: usize = 256;

impl Pool {
    /// Examines all blocks of off-line volumes that were written since the finder's last visit,
    /// without the finder's pace and delay. Blocks that are written meanwhile may be left.
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed, or if the work was stopped. Blocks that were
    /// shared until then stay shared.
    pub fn find(&self, monitor: &dyn Monitor, stop: &StopFlag) -> Result<FinderReport> {
        let _watch = self.engine.watch();
        let _command = self.engine.finder().command();
        let scope = Scope::Until { until_ns: self.engine.now_ns() };
        let mut report = FinderReport::default();
        monitor.begin("Looking for duplicates", Unit::Items, Some(self.blocks_to_find()));
        while let Some(found) = self.engine.find_next(scope, STEP_BLOCKS)? {
            report.add(found.report);
            monitor.advance(found.passed_blocks);
            if stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
        }
        monitor.finish();
        Ok(report)
    }

    /// Returns the number of blocks that have to be looked up: the marked ones, and all blocks of
    /// volumes that are searched as a whole.
    fn blocks_to_find(&self) -> u64 {
        let of_volume = |volume: super::VolumeSummary| {
            let swept_blocks = if volume.is_swept { volume.mapped_blocks } else { 0 };
            volume.backlog_blocks + swept_blocks
        };
        self.volumes().into_iter().map(of_volume).sum()
    }

    /// Pauses or resumes the finder of the background. It is not paused after the pool was opened.
    pub fn pause_finder(&self, is_paused: bool) {
        self.engine.pause_finder(is_paused);
    }
}
