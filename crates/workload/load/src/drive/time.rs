//! The time of a process, counted from the start of the run.

use gemelo_base::Clock;

/// The time of a process, and the time at which its run ends.
pub struct DriveTime<'a> {
    clock: &'a dyn Clock,
    /// Start of the run on the clock.
    origin_ns: u64,
    now_ns: u64,
    end_ns: u64,
}

impl<'a> DriveTime<'a> {
    pub(super) fn new(clock: &'a dyn Clock, origin_ns: u64, end_ns: u64) -> Self {
        let mut time = Self { clock, origin_ns, now_ns: 0, end_ns };
        time.look();
        time
    }

    /// Looks at the clock. Returns the time passed since the last look.
    #[inline]
    pub fn look(&mut self) -> u64 {
        let now_ns = self.clock.now_ns().saturating_sub(self.origin_ns);
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns = now_ns;
        passed_ns
    }

    /// Returns the time of the last look at the clock.
    #[inline]
    #[must_use]
    pub const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    #[inline]
    pub(super) const fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// Returns whether the run's time is over.
    #[inline]
    pub(super) const fn is_over(&self) -> bool {
        self.now_ns >= self.end_ns
    }

    /// Sleeps until this time of the run, or the longest time that a process may sleep.
    pub(super) fn sleep_until(&mut self, wake_ns: u64, longest_ns: u64) {
        let wake_ns = wake_ns.min(self.now_ns.saturating_add(longest_ns));
        self.clock.sleep_until_ns(self.origin_ns.saturating_add(wake_ns));
        self.look();
    }
}
