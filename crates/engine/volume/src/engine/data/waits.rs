//! Waits for blocks that others are about to give back.

use super::DataPath;
use std::time::Duration;

/// A wait.
const WAIT: Duration = Duration::from_millis(1);
/// Waits for requests that still read freed blocks: 0.1 s in all. A later round finds blocks that
/// are freed later.
const MAX_RETIRED_WAITS: u32 = 100;
/// Waits for contents of a domain that were asked for.
const MAX_COMING_WAITS: u32 = 1000;

impl DataPath {
    /// Waits for a limited time until it is decided about contents that were asked for.
    pub(crate) fn await_coming_back(&self) {
        for _ in 0..MAX_COMING_WAITS {
            if !self.is_coming_back() {
                return;
            }
            gemelo_base::pause(WAIT);
        }
    }

    /// Waits for a limited time until no request reads freed blocks any more.
    pub(crate) fn await_retired(&self) {
        for _ in 0..MAX_RETIRED_WAITS {
            if self.free_retired() == 0 {
                return;
            }
            gemelo_base::pause(WAIT);
        }
    }
}
