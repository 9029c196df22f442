//! The settings that can change while the pool is open.

use super::locks::{OrderedMutex, Rank};
use crate::engine::{Health, LayoutTuning};
use crate::pool::Tuning;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The settings at present. Requests read the two flags; the threads of the background ask for the
/// version, and read all settings again when it is another one.
pub(crate) struct LiveTuning {
    verify_reads: AtomicBool,
    verify_bytes: AtomicBool,
    version: AtomicU64,
    tuning: OrderedMutex<Tuning>,
}

impl LiveTuning {
    pub(super) fn new(tuning: Tuning, health: &Arc<Health>) -> Self {
        Self {
            verify_reads: AtomicBool::new(tuning.verify_reads),
            verify_bytes: AtomicBool::new(tuning.verify_bytes),
            version: AtomicU64::new(0),
            tuning: OrderedMutex::new(Rank::Tuning, health, tuning),
        }
    }

    /// Takes those of the settings that an open pool can change.
    pub(crate) fn set(&self, new: Tuning) {
        let mut tuning = self.tuning.lock();
        let old = *tuning;
        *tuning = Tuning {
            commit_interval: new.commit_interval,
            verify_reads: new.verify_reads,
            verify_bytes: new.verify_bytes,
            finder: new.finder,
            collect_bytes_per_s: new.collect_bytes_per_s,
            layout: LayoutTuning { bytes_per_s: new.layout.bytes_per_s, ..old.layout },
            ..old
        };
        self.verify_reads.store(new.verify_reads, Ordering::Relaxed);
        self.verify_bytes.store(new.verify_bytes, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn get(&self) -> Tuning {
        *self.tuning.lock()
    }

    pub(super) fn verify_reads(&self) -> bool {
        self.verify_reads.load(Ordering::Relaxed)
    }

    pub(super) fn verify_bytes(&self) -> bool {
        self.verify_bytes.load(Ordering::Relaxed)
    }

    /// Returns the settings if they are not those of the version that the caller has seen.
    pub(super) fn newer_than(&self, seen: &mut u64) -> Option<Tuning> {
        let version = self.version.load(Ordering::Acquire);
        (std::mem::replace(seen, version) != version).then(|| self.get())
    }
}
