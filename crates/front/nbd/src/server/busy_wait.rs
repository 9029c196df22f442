//! Polls for the next request instead of sleeping, as long as that pays. A sleeping thread takes
//! some microseconds to wake, which a client with one request in flight would lose with every
//! request.

use gemelo_base::{Clock, SystemClock};
use std::io;
use std::time::Duration;

/// Polling stops after this number of fruitless polls in a row.
const MAX_IN_VAIN: u32 = 4;

/// Once stopped, polling is tried again once in this number of times.
const TRIED_EVERY: u32 = 64;

/// Decides whether to poll for the next request.
#[derive(Debug)]
pub(crate) struct BusyWait {
    clock: SystemClock,
    busy_wait_ns: u64,
    in_vain: u32,
}

impl BusyWait {
    pub(crate) fn new(busy_wait: Duration) -> Self {
        let busy_wait_ns = u64::try_from(busy_wait.as_nanos()).unwrap_or(u64::MAX);
        Self { clock: SystemClock::new(), busy_wait_ns, in_vain: 0 }
    }

    /// Calls `attempt` until it returns a value or the time is up. While polling is stopped, it
    /// returns at once.
    pub(crate) fn wait_for<T>(
        &mut self,
        mut attempt: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        if self.busy_wait_ns == 0 {
            return Ok(None);
        }
        if self.in_vain >= MAX_IN_VAIN && !self.in_vain.is_multiple_of(TRIED_EVERY) {
            self.in_vain = self.in_vain.wrapping_add(1);
            return Ok(None);
        }
        let deadline_ns = self.clock.now_ns().saturating_add(self.busy_wait_ns);
        loop {
            if let Some(found) = attempt()? {
                self.in_vain = 0;
                return Ok(Some(found));
            }
            if self.clock.now_ns() >= deadline_ns {
                self.in_vain = self.in_vain.wrapping_add(1);
                return Ok(None);
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_time_nothing_is_attempted() {
        let mut busy_wait = BusyWait::new(Duration::ZERO);
        let outcome = busy_wait.wait_for(|| -> io::Result<Option<()>> { panic!("attempted") });
        assert_eq!(outcome.unwrap(), None);
    }

    #[test]
    fn waiting_in_vain_ends_and_is_tried_again_now_and_then() {
        let mut busy_wait = BusyWait::new(Duration::from_nanos(1));
        let mut tried = 0;
        for _ in 0..4 + 10 * 64 {
            let _ = busy_wait.wait_for(|| {
                tried += 1;
                Ok(None::<()>)
            });
        }
        assert!((10..40).contains(&tried), "{tried}");
        assert_eq!(busy_wait.wait_for(|| Ok(None::<()>)).unwrap(), None);
    }

    #[test]
    fn what_comes_is_returned() {
        let mut busy_wait = BusyWait::new(Duration::from_secs(60));
        let mut calls = 0;
        let outcome = busy_wait.wait_for(|| {
            calls += 1;
            Ok((calls == 3).then_some(7))
        });
        assert_eq!(outcome.unwrap(), Some(7));
    }
}
