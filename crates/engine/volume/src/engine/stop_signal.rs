//! The signal by which a background thread learns that it has to stop.

use gemelo_base::locks::{Condvar, Mutex};
use std::time::Duration;

/// Interval at which a worker checks whether there is work.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Tells a worker to stop.
#[derive(Default)]
pub(super) struct StopSignal {
    stop: Mutex<bool>,
    raised: Condvar,
}

impl StopSignal {
    /// Waits for one interval. Returns `true` if the worker has to stop.
    pub(super) fn wait(&self) -> bool {
        self.wait_for(POLL_INTERVAL)
    }

    /// Waits for this time. Returns `true` if the worker has to stop.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop && !time.is_zero() {
            self.raised.wait_for(&mut stop, time);
        }
        *stop
    }

    /// Tells the worker to stop.
    pub(super) fn raise(&self) {
        *self.stop.lock() = true;
        self.raised.notify_all();
    }

    /// Returns `true` if the worker has to stop.
    pub(super) fn is_raised(&self) -> bool {
        *self.stop.lock()
    }
}
