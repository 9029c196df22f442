//! Waiting until nothing else keeps the machine busy.
//!
//! Between two runs a campaign has no work of its own, so all work is that of others.

use crate::system::busy_ticks;
use gemelo_base::units::format_duration_ns;
use gemelo_base::{Clock, Monitor, StopFlag};
use std::time::Duration;

/// Length of a look at the counters of the processors, and the time after which the machine is
/// looked at again. A look before each short run would make a campaign much longer.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
const NEXT_LOOK: Duration = Duration::from_secs(60);

/// Processors that others may use. Below it are the timers and daemons of an idle system.
const MAX_BUSY: f64 = 0.2;

/// Time between two messages about the wait.
const NEXT_MESSAGE_NS: u64 = 600_000_000_000;

/// The looks at a machine.
pub(crate) struct Quiet<'a> {
    pub(crate) clock: &'a dyn Clock,
    pub(crate) monitor: &'a dyn Monitor,
    pub(crate) stop: &'a StopFlag,
    pub(crate) quiet_since_ns: Option<u64>,
}

impl Quiet<'_> {
    /// Returns when the machine is quiet, or when the campaign shall stop. Says that it waits, and
    /// for what.
    pub(crate) fn wait(&mut self) {
        let (clock, stop) = (self.clock, self.stop);
        self.wait_for(|| {
            let ticks_before = ticks();
            let end_ns = clock.now_ns() + POLL_INTERVAL.as_nanos() as u64;
            while clock.now_ns() < end_ns && !stop.is_raised() {
                gemelo_base::pause(Duration::from_millis(50));
            }
            let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
            ticks().saturating_sub(ticks_before) as f64 / ticks_per_s / POLL_INTERVAL.as_secs_f64()
        });
    }

    /// Waits until `look` returns fewer busy processors than an idle machine has.
    fn wait_for(&mut self, mut look: impl FnMut() -> f64) {
        let began_ns = self.clock.now_ns();
        let is_recent = |at_ns: u64| began_ns.saturating_sub(at_ns) < NEXT_LOOK.as_nanos() as u64;
        if self.quiet_since_ns.is_some_and(is_recent) {
            return;
        }
        let mut told_ns = None;
        while !self.stop.is_raised() {
            let busy = look();
            let now_ns = self.clock.now_ns();
            let waited = format_duration_ns(now_ns.saturating_sub(began_ns));
            if busy < MAX_BUSY {
                self.quiet_since_ns = Some(now_ns);
                if told_ns.is_some() {
                    self.monitor.warn(&format!("the machine is quiet after {waited}"));
                }
                return;
            }
            if told_ns.is_none_or(|told_ns| now_ns.saturating_sub(told_ns) >= NEXT_MESSAGE_NS) {
                self.monitor.warn(&format!(
                    "the machine is not quiet: others keep {busy:.1} processors busy; waiting \
                     since {waited}"
                ));
                told_ns = Some(now_ns);
            }
        }
    }
}

fn ticks() -> u64 {
    busy_ticks(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::{Recorder, SystemClock};

    #[test]
    fn a_busy_machine_is_waited_for_and_named() {
        let (clock, monitor, stop) = (SystemClock::new(), Recorder::new(), StopFlag::new());
        let mut quiet =
            Quiet { clock: &clock, monitor: &monitor, stop: &stop, quiet_since_ns: None };
        let mut looks = vec![0.1, 1.6, 2.0];
        quiet.wait_for(|| looks.pop().unwrap());
        let said = monitor.warnings();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("others keep 2.0 processors busy"), "{said:?}");
        assert!(said[1].starts_with("the machine is quiet after "), "{said:?}");
        // The next run is soon, so nobody looks again.
        quiet.wait_for(|| panic!("there was a look a moment ago"));
        quiet.quiet_since_ns = None;
        stop.raise();
        quiet.wait_for(|| 2.0);
    }
}
