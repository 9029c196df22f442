//! Problems with single files: they are reported to the monitor and counted, and the scan
//! continues.

use gemelo_base::Monitor;
use gemelo_base::ShowPath as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of files that are named in warnings. Further files are only counted, so that a
/// million warnings cannot hide everything else.
const MAX_NAMED: u64 = 100;

pub(crate) struct Troubles<'scan> {
    monitor: &'scan dyn Monitor,
    unreadable: AtomicU64,
    changed: AtomicU64,
}

impl<'scan> Troubles<'scan> {
    pub(crate) fn new(monitor: &'scan dyn Monitor) -> Self {
        Self { monitor, unreadable: AtomicU64::new(0), changed: AtomicU64::new(0) }
    }

    /// Reports a file or directory that could not be opened or read. One that no longer exists
    /// counts as changed.
    pub(crate) fn unreadable(&self, path: &Path, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return self.changed();
        }
        let number = self.unreadable.fetch_add(1, Ordering::Relaxed);
        if number < MAX_NAMED {
            self.monitor.warn(&format!("cannot read {}: {error}", path.shown()));
        } else if number == MAX_NAMED {
            self.monitor.warn("more files cannot be read; they are counted but not named");
        }
    }

    /// Counts a file that vanished, shrank or grew.
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
