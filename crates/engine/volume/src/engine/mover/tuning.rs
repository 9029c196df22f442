//! The settings of the arranger.

use std::time::Duration;

/// Settings of the arranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayoutTuning {
    /// The most bytes per second that are moved in the background; 0 for none.
    pub bytes_per_s: u64,
    /// The time for which a stretch is left alone after a write, because places that are soon
    /// written again would be moved for nothing.
    pub delay: Duration,
    /// The mean length in bytes from which the runs of a chunk are long enough.
    pub run_bytes: u64,
    /// The most scattered overwrites per second that look for a place among their neighbours; 0
    /// for none.
    pub near_per_s: u64,
}

impl Default for LayoutTuning {
    fn default() -> Self {
        Self {
            bytes_per_s: 200 << 20,
            delay: Duration::from_secs(10),
            // An SSD that makes 60,000 reads a second gives 3.9 GB/s in reads of 64 KiB.
            run_bytes: 64 << 10,
            // Each is a write of its own to the disk, and takes 5 µs of the processor there.
            near_per_s: 8000,
        }
    }
}
