//! The clock of leases.

use crate::{Clock, pause};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A clock that goes on while the machine is suspended, as the clocks of other machines do. Its
/// origin is the boot of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Boottime);
        let part = |number| u64::try_from(number).unwrap_or(0);
        part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
    }

    fn sleep_until_ns(&self, deadline_ns: u64) {
        loop {
            let left_ns = deadline_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return;
            }
            // A sleep does not count the time of a suspend, so it is cut into pieces.
            pause(Duration::from_nanos(left_ns.min(LONGEST_SLEEP_NS)));
        }
    }
}

/// Longest sleep between two looks at the clock.
const LONGEST_SLEEP_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_boot_and_sleeps_to_the_deadline() {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let uptime_s: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
        let began_ns = BootClock.now_ns();
        assert!((began_ns as f64 / 1e9 - uptime_s).abs() < 5.0, "{began_ns} and {uptime_s}");
        BootClock.sleep_until_ns(began_ns + 2_000_000);
        assert!(BootClock.now_ns() >= began_ns + 2_000_000);
    }
}
