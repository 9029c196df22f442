//! Figures of a write buffer.

use gemelo_base::StatTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The contents that a write buffer holds, and its work since it was opened.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize, StatTable,
)]
#[stat(counter)]
pub struct BufferStats {
    /// Most bytes of contents that it may hold.
    #[stat(gauge)]
    pub capacity_bytes: u64,
    /// Bytes of contents that it holds and that may be nowhere else.
    #[stat(gauge)]
    pub held_bytes: u64,
    /// Bytes of memory that it has for contents: the most that it ever needed at once.
    #[stat(gauge)]
    pub memory_bytes: u64,
    /// Number of times that a writer found no room and waited.
    pub waits: u64,
    /// Time for which writers waited for room, all together.
    pub wait_ns: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Time of all syncs together.
    pub sync_ns: u64,
    /// Time of the longest sync.
    #[stat(gauge)]
    pub longest_sync_ns: u64,
    /// Runs of neighbouring contents that were written out.
    pub runs: u64,
    /// Bytes of these runs.
    pub run_bytes: u64,
}

/// The counts behind [`BufferStats`].
#[derive(Debug, Default)]
pub(super) struct Counts {
    waits: AtomicU64,
    wait_ns: AtomicU64,
    syncs: AtomicU64,
    sync_ns: AtomicU64,
    longest_sync_ns: AtomicU64,
    runs: AtomicU64,
    run_bytes: AtomicU64,
}

impl Counts {
    pub(super) fn add_wait(&self, took_ns: u64) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    pub(super) fn add_sync(&self, took_ns: u64) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_ns.fetch_add(took_ns, Ordering::Relaxed);
        self.longest_sync_ns.fetch_max(took_ns, Ordering::Relaxed);
    }

    pub(super) fn add_runs(&self, runs: u64, bytes: u64) {
        self.runs.fetch_add(runs, Ordering::Relaxed);
        self.run_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The figures, without those of contents.
    pub(super) fn figures(&self) -> BufferStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        BufferStats {
            waits: read(&self.waits),
            wait_ns: read(&self.wait_ns),
            syncs: read(&self.syncs),
            sync_ns: read(&self.sync_ns),
            longest_sync_ns: read(&self.longest_sync_ns),
            runs: read(&self.runs),
            run_bytes: read(&self.run_bytes),
            ..BufferStats::default()
        }
    }
}
