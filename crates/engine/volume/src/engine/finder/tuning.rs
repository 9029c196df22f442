//! The settings of the finder.

use gemelo_base::DailyWindow;
use std::time::Duration;

/// Settings of the finder of the background. The command that examines everything at once follows
/// none of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinderTuning {
    /// The least time that a block is left alone after a write. A block that is soon written again
    /// is then not examined.
    pub delay: Duration,
    /// The most time that a block is left alone after a write. The delay of a volume grows up to it
    /// while many blocks that were examined are overwritten soon. It is fixed if this is no longer
    /// than `delay`.
    pub max_delay: Duration,
    /// The time from the beginning of a round to the beginning of the next one. A round ends when
    /// no block is due. With zero, blocks are examined as soon as they are due.
    pub interval: Duration,
    /// The part of each day in which blocks are examined; [`None`] for the whole day.
    pub window: Option<DailyWindow>,
    /// The most bytes per second that are examined.
    pub bytes_per_s: Option<u64>,
    /// The most processor time that is used while requests are under way, in percent of a core.
    pub busy_cpu_percent: u32,
    /// Memory in bytes for fingerprints that are taken while contents are written; 0 for none.
    pub memory_bytes: u64,
}

impl Default for FinderTuning {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(5),
            max_delay: Duration::from_secs(60),
            interval: Duration::ZERO,
            window: None,
            bytes_per_s: None,
            busy_cpu_percent: 20,
            memory_bytes: 16 << 20,
        }
    }
}
