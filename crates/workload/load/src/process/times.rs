//! The time of a process, counted from the start of the run.

/// The time of a process, and the time at which its run ends.
#[derive(Debug)]
pub(super) struct Times {
    /// Start of the run on the clock.
    origin_ns: u64,
    now_ns: u64,
    end_ns: u64,
    is_open_loop: bool,
}

impl Times {
    /// Without a limit, the run ends for another reason.
    pub(super) fn new(limit_ns: Option<u64>, is_open_loop: bool) -> Self {
        Self { origin_ns: 0, now_ns: 0, end_ns: limit_ns.unwrap_or(u64::MAX), is_open_loop }
    }

    pub(super) const fn begin(&mut self, origin_ns: u64) {
        self.origin_ns = origin_ns;
    }

    /// Converts a time of the clock to a time since the run began.
    #[inline]
    pub(super) const fn since_start(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.origin_ns)
    }

    /// Converts a time since the run began to a time of the clock.
    pub(super) const fn on_clock(&self, ns: u64) -> u64 {
        self.origin_ns.saturating_add(ns)
    }

    /// Returns the time of the last look at the clock.
    #[inline]
    pub(super) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Sets the time after a look at the clock, and returns the time passed since the last one.
    #[inline]
    pub(super) const fn set_now(&mut self, now_ns: u64) -> u64 {
        let passed_ns = now_ns.saturating_sub(self.now_ns);
        self.now_ns = now_ns;
        passed_ns
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

    /// Returns whether operations start at set times.
    #[inline]
    pub(super) const fn is_open_loop(&self) -> bool {
        self.is_open_loop
    }
}
