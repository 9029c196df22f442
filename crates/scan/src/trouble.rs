//! What goes wrong with single files: told to the monitor, counted, and no reason to stop.

use gemelo_base::Monitor;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that are named; further ones are only counted, lest a million lines hide everything else.
const MOST_NAMED: u64 = 100;

pub(crate) struct Troubles<'scan> {
    monitor: &'scan dyn Monitor,
    unreadable: AtomicU64,
    changed: AtomicU64,
}

impl<'scan> Troubles<'scan> {
    pub(crate) fn new(monitor: &'scan dyn Monitor) -> Self {
        Self { monitor, unreadable: AtomicU64::new(0), changed: AtomicU64::new(0) }
    }

    /// A file or directory could not be opened or read. One that is gone has only changed.
    pub(crate) fn unreadable(&self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return self.changed();
        }
        let number = self.unreadable.fetch_add(1, Ordering::Relaxed);
        if number < MOST_NAMED {
            self.monitor.warn(&format!("cannot read {}: {error}", path.display()));
        } else if number == MOST_NAMED {
            self.monitor.warn("more files cannot be read; they are counted, not named");
        }
    }

    /// A file vanished, shrank or grew.
    pub(crate) fn changed(&self) {
        self.changed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unreadable_count(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(crate) fn changed_count(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }
}
