//! Looking at a ring for a moment before a thread sleeps.
//!
//! Waking a thread takes as long as several requests of a guest that waits for each answer. The
//! thread of a queue therefore goes on looking for the next request, and the guest need not notify
//! it; the driver looks for an answer in the same way. The time grows while they come soon, and is
//! nothing otherwise: rare requests cost no processor.

use gemelo_base::{Clock, SystemClock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The longest time of looking. A request or an answer that comes later is worth a sleep.
pub(crate) const MAX: Duration = Duration::from_nanos(MAX_NS);
const MAX_NS: u64 = 64_000;
/// The first time of looking.
const FIRST_NS: u64 = 4_000;

/// Threads of this process that look at the moment.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// The time for which a thread looks at its ring; see the module.
pub(crate) struct Spin {
    clock: SystemClock,
    /// The most threads that may look at once: others need processors as well.
    most: usize,
    window_ns: u64,
    began_ns: u64,
}

/// A thread that looks, until this is dropped.
struct Looking;

impl Looking {
    fn begin(most: usize) -> Option<Self> {
        let is_one_more = |looking: usize| (looking < most).then_some(looking + 1);
        let begun = LOOKING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_one_more);
        // Made only then, because it is counted down when it is dropped.
        begun.is_ok().then(|| Self)
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spin {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let clock = SystemClock::new();
        Self { began_ns: clock.now_ns(), clock, most: processors / 2, window_ns: 0 }
    }

    /// Looks until something is there or the time is over. Returns whether it is there.
    pub(crate) fn look(&mut self, is_there: impl Fn() -> bool) -> bool {
        self.began_ns = self.clock.now_ns();
        let Some(_looking) = Looking::begin(self.most).filter(|_| self.window_ns > 0) else {
            return false;
        };
        loop {
            if is_there() {
                return true;
            }
            if self.clock.now_ns().saturating_sub(self.began_ns) >= self.window_ns {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    /// Returns the time since the last look began.
    pub(crate) fn since_look(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns().saturating_sub(self.began_ns))
    }

    /// Notes that the thread was woken from its sleep, and adapts the time.
    pub(crate) fn woken(&mut self) {
        let waited_ns = self.clock.now_ns().saturating_sub(self.began_ns);
        self.window_ns = next_window(self.window_ns, waited_ns);
    }
}

/// The time to look for after something came later than this one allowed.
const fn next_window(window_ns: u64, waited_ns: u64) -> u64 {
    if waited_ns > MAX_NS {
        return 0;
    }
    let wider = if window_ns == 0 { FIRST_NS } else { window_ns * 2 };
    if wider > MAX_NS { MAX_NS } else { wider }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_grows_while_requests_come_soon_and_ends_when_one_is_late() {
        let mut window_ns = 0;
        let mut seen = Vec::new();
        for waited_ns in [30_000, 30_000, 30_000, 30_000, 30_000, 60_000, 90_000, 20_000] {
            window_ns = next_window(window_ns, waited_ns);
            seen.push(window_ns);
        }
        assert_eq!(seen, [4_000, 8_000, 16_000, 32_000, 64_000, 64_000, 0, 4_000]);
    }

    #[test]
    fn it_looks_only_for_its_time_and_only_with_a_processor_to_spare() {
        let mut spin = Spin { most: 1, ..Spin::new() };
        assert!(!spin.look(|| true), "it does not look before requests have come soon");
        spin.window_ns = FIRST_NS;
        assert!(spin.look(|| true));
        assert!(!spin.look(|| false));
        spin.most = 0;
        assert!(!spin.look(|| true));
        assert_eq!(LOOKING.load(Ordering::Relaxed), 0);
    }
}
