//! The only reader of time. A run driven by a [`ManualClock`] repeats exactly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Monotonic time in nanoseconds since an origin of the clock's own.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the clock's origin; never goes back.
    fn now_ns(&self) -> u64;

    /// Returns when `now_ns()` has reached `deadline_ns`, at once if it already has.
    fn sleep_until_ns(&self, deadline_ns: u64);
}

/// The machine's monotonic clock; the origin is its creation.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    origin: Instant,
}

/// Below this distance a sleeping thread would wake too late, so it spins instead. A Linux timer wakes a thread
/// some 50 µs after its time.
const SPIN_BELOW_NS: u64 = 60_000;

impl SystemClock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        // 2^64 ns are 584 years.
        self.origin.elapsed().as_nanos() as u64
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        loop {
            let left_ns = deadline_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return;
            }
            if left_ns > SPIN_BELOW_NS {
                std::thread::sleep(Duration::from_nanos(left_ns - SPIN_BELOW_NS));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// A clock that moves only when told to; sleeping moves it.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at its origin.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance_ns(&self, by_ns: u64) {
        self.now_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::Relaxed)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        self.now_ns.fetch_max(deadline_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_sleeps_to_the_deadline_and_not_before() {
        let clock = SystemClock::new();
        let deadline_ns = clock.now_ns() + 200_000;
        clock.sleep_until_ns(deadline_ns);
        assert!(clock.now_ns() >= deadline_ns);
    }

    #[test]
    fn sleeping_moves_a_manual_clock_forward_only() {
        let clock = ManualClock::new();
        clock.sleep_until_ns(50);
        clock.sleep_until_ns(20);
        clock.advance_ns(1);
        assert_eq!(clock.now_ns(), 51);
    }
}
