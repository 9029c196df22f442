//! The requests in flight: their bytes are bounded, and it can be waited for that there are none.

use parking_lot::{Condvar, Mutex};

/// The most bytes in flight of a member. Two disks and all threads share it.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    lists: u64,
}

/// The bytes and the lists of requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    state: Mutex<State>,
    changed: Condvar,
}

/// A list in flight, until it is dropped.
pub(crate) struct InFlight<'f> {
    flight: &'f Flight,
    bytes: u64,
}

impl Flight {
    /// Waits until the bytes fit. A list that is longer than the bound waits until it is alone.
    pub(crate) fn enter(&self, bytes: u64) -> InFlight<'_> {
        let bytes = bytes.min(MAX_BYTES);
        let mut state = self.state.lock();
        while state.bytes + bytes > MAX_BYTES {
            self.changed.wait(&mut state);
        }
        state.bytes += bytes;
        state.lists += 1;
        InFlight { flight: self, bytes }
    }

    /// Waits until nothing is in flight.
    pub(crate) fn wait_for_none(&self) {
        let mut state = self.state.lock();
        while state.lists > 0 {
            self.changed.wait(&mut state);
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        assert!(state.bytes >= self.bytes && state.lists > 0, "a list in flight was counted");
        state.bytes -= self.bytes;
        state.lists -= 1;
        drop(state);
        self.flight.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn bytes_beyond_the_bound_wait_and_the_end_is_waited_for() {
        let flight = Arc::new(Flight::default());
        let first = flight.enter(u64::MAX);
        let other = Arc::clone(&flight);
        let second = std::thread::spawn(move || drop(other.enter(1)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!second.is_finished());
        drop(first);
        second.join().unwrap();
        flight.wait_for_none();
    }
}
