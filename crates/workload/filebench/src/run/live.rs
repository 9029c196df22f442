//! Waits for the threads of a run, and shows its progress meanwhile.

use super::engine::Running;
use super::seconds::{RunSecond, Seconds};
use gemelo_base::live::{LiveStats, Progress};
use gemelo_base::{Clock, Monitor, SystemClock, Unit};

/// Interval at which the progress is reported, in seconds.
const REPORT_S: f64 = 0.2;

/// The view of a run on a terminal.
pub(super) struct LiveRun<'a> {
    monitor: &'a dyn Monitor,
    clock: SystemClock,
    /// Seconds that the run takes, if they are limited.
    seconds: Option<f64>,
    told_ns: u64,
    figures: LiveStats,
    of_seconds: Seconds,
}

impl<'a> LiveRun<'a> {
    /// Begins now.
    pub(super) fn new(monitor: &'a dyn Monitor, seconds: Option<f64>) -> Self {
        let clock = SystemClock::new();
        let figures = LiveStats::new(clock.now_ns());
        let of_seconds = Seconds::default();
        Self { monitor, clock, seconds, told_ns: 0, figures, of_seconds }
    }

    /// Returns the seconds since the beginning.
    pub(super) fn elapsed_s(&self) -> f64 {
        self.clock.now_ns() as f64 / 1e9
    }

    /// Does the same as [`Running::wait`]. The bar is there only during the call, so that others
    /// may print between two calls.
    pub(super) fn wait(&mut self, running: &Running, seconds: Option<f64>) -> bool {
        let total_ns = self.seconds.map(|seconds| (seconds * 1e9) as u64);
        self.monitor.begin("running", Unit::Nanoseconds, total_ns);
        self.told_ns = 0;
        let until_s = seconds.map(|seconds| self.elapsed_s() + seconds);
        let is_over = loop {
            let left_s = until_s.map(|until_s| (until_s - self.elapsed_s()).max(0.0));
            let wait_s = REPORT_S.min(self.left_of_second_s());
            let has_passed = running.wait(Some(left_s.map_or(wait_s, |left_s| left_s.min(wait_s))));
            let now_ns = self.clock.now_ns();
            if now_ns >= self.of_seconds.next_ns() {
                self.of_seconds.end(now_ns, running.so_far());
            }
            if !has_passed || left_s.is_some_and(|left_s| left_s <= wait_s) {
                break has_passed;
            }
            self.report(running);
        };
        self.monitor.finish();
        is_over
    }

    /// Returns the seconds of the run, which ends now.
    pub(super) fn finish(&mut self, running: &Running) -> Vec<RunSecond> {
        self.of_seconds.end(self.clock.now_ns(), running.so_far());
        self.of_seconds.take()
    }

    fn left_of_second_s(&self) -> f64 {
        self.of_seconds.next_ns().saturating_sub(self.clock.now_ns()) as f64 / 1e9
    }

    fn report(&mut self, running: &Running) {
        let now_ns = self.clock.now_ns();
        self.monitor.advance(now_ns.saturating_sub(self.told_ns));
        self.told_ns = now_ns;
        if let Some(text) = self.figures.next(now_ns, || shown(running)) {
            self.monitor.show(&text);
        }
    }
}

fn shown(running: &Running) -> Progress {
    let so_far = running.so_far();
    Progress { operations: so_far.operations, latency_ns: so_far.latency_ns }
}
