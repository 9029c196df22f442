//! The signal to end a scan early: the user's stop flag, or a failure of the scan itself.

use crate::set::locked;
use gemelo_base::StopFlag;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Halt {
    stop: StopFlag,
    failed: AtomicBool,
    failure: Mutex<Option<io::Error>>,
}

impl Halt {
    pub(crate) fn new(stop: &StopFlag) -> Self {
        Self { stop: stop.clone(), failed: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    /// Returns whether all threads must end early.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.stop.is_raised() || self.failed.load(Ordering::Relaxed)
    }

    /// Ends the scan because of an error. The first error is kept.
    pub(crate) fn fail(&self, error: io::Error) {
        locked(&self.failure).get_or_insert(error);
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Returns the error that ended the scan, if any.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        locked(&self.failure).take()
    }
}
