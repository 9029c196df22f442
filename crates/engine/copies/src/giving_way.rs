//! Leaves time to the clients of a pool while a copy of it is made or read.
//!
//! A copy works in short steps. If clients had requests since the step before, it rests after a
//! step for several times as long as that took, so they have the disks and processors most of the
//! time. A pool without clients is copied without a rest.

use gemelo_base::{Clock, StopFlag};
use gemelo_volume::Traffic;

/// Times as long as a step that a copy rests after it.
const REST_TIMES: u64 = 3;
/// The longest rest, after which a copy that is told to stop does so.
const MAX_REST_NS: u64 = 100_000_000;

/// The pace of a copy.
pub(crate) struct GivingWay<'c> {
    clock: &'c dyn Clock,
    /// Requests of clients that had ended at the last look.
    ended: u64,
    rested_ns: u64,
}

impl<'c> GivingWay<'c> {
    /// Begins with the requests of clients so far.
    pub(crate) fn new(clock: &'c dyn Clock, traffic: Traffic) -> Self {
        Self { clock, ended: traffic.ended, rested_ns: 0 }
    }

    /// The time at which a step begins.
    pub(crate) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Rests after a step that began then, if clients have requests.
    pub(crate) fn rest_after(&mut self, began_ns: u64, traffic: Traffic, stop: &StopFlag) {
        let now_ns = self.clock.now_ns();
        let Traffic { in_flight, ended } = traffic;
        let is_busy = in_flight > 0 || ended != self.ended;
        self.ended = ended;
        if is_busy && !stop.is_raised() {
            let took_ns = now_ns.saturating_sub(began_ns);
            let rest_ns = took_ns.saturating_mul(REST_TIMES).min(MAX_REST_NS);
            self.clock.sleep_until_ns(now_ns + rest_ns);
            self.rested_ns += rest_ns;
        }
    }

    /// The time in nanoseconds that the copy has rested so far.
    pub(crate) const fn rested_ns(&self) -> u64 {
        self.rested_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::ManualClock;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_copy_rests_only_while_clients_have_requests_and_never_long() {
        let (clock, stop) = (ManualClock::new(), StopFlag::new());
        let mut pace = GivingWay::new(&clock, Traffic { in_flight: 0, ended: 9 });
        let mut took_ms = |in_flight, ended, work_ms: u64| {
            let began_ns = pace.now_ns();
            clock.advance_ns(work_ms * MS);
            pace.rest_after(began_ns, Traffic { in_flight, ended }, &stop);
            (clock.now_ns() - began_ns) / MS
        };
        assert_eq!(took_ms(0, 9, 5), 5, "nobody has asked");
        assert_eq!(took_ms(1, 9, 5), 20, "a request is under way");
        assert_eq!(took_ms(0, 10, 5), 20, "a request has ended");
        assert_eq!(took_ms(0, 10, 5), 5, "and no further one");
        assert_eq!(took_ms(1, 10, 1000), 1100);
        stop.raise();
        assert_eq!(took_ms(1, 10, 5), 5, "a stop is not waited for");
        assert_eq!(pace.rested_ns(), (15 + 15 + 100) * MS);
    }
}
