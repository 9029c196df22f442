//! The rates of work in the background and of commands that go through a pool, and the end of a
//! command that is told to stop.

use super::Engine;
use crate::error::{Result, VolumeError};
use gemelo_base::StopFlag;

const NS_PER_S: u64 = 1_000_000_000;
/// Longest sleep between looks at the stop flag.
const STOP_PAUSE_NS: u64 = 50_000_000;

/// Holds a command to its rate.
pub(crate) struct Pace<'e> {
    engine: &'e Engine,
    /// Most bytes a second; [`None`] for no limit.
    max_bytes_per_s: Option<u64>,
    stop: &'e StopFlag,
    /// Time at which the rate allows to go on.
    free_at_ns: u64,
}

impl<'e> Pace<'e> {
    pub(crate) const fn new(
        engine: &'e Engine,
        max_bytes_per_s: Option<u64>,
        stop: &'e StopFlag,
    ) -> Self {
        Self { engine, max_bytes_per_s, stop, free_at_ns: 0 }
    }

    /// Waits until the rate allows to go on after work on this many blocks.
    ///
    /// # Errors
    /// Fails if the command is told to stop.
    pub(crate) fn go_on(&mut self, blocks: u64) -> Result<()> {
        if let Some(rate) = self.max_bytes_per_s {
            let bytes = blocks.saturating_mul(self.engine.data.block_bytes() as u64);
            let took_ns = bytes.saturating_mul(NS_PER_S) / rate.max(1);
            self.free_at_ns =
                self.free_at_ns.max(self.engine.clock.now_ns()).saturating_add(took_ns);
        }
        loop {
            if self.stop.is_raised() {
                return Err(VolumeError::Interrupted);
            }
            let now_ns = self.engine.clock.now_ns();
            if now_ns >= self.free_at_ns {
                return Ok(());
            }
            self.engine.clock.sleep_until_ns(self.free_at_ns.min(now_ns + STOP_PAUSE_NS));
        }
    }
}

/// An amount that grows at a rate up to a bound. It may be overdrawn, and then has to grow again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    per_s: u64,
    most: i64,
    left: i64,
    at_ns: u64,
}

impl Allowance {
    /// Begins with all that may be saved up.
    pub(super) fn full(per_s: u64, most: u64, now_ns: u64) -> Self {
        let most = i64::try_from(most).unwrap_or(i64::MAX).max(1);
        Self { per_s, most, left: most, at_ns: now_ns }
    }

    /// Begins with nothing.
    pub(super) fn empty(per_s: u64, most: u64, now_ns: u64) -> Self {
        Self { left: 0, ..Self::full(per_s, most, now_ns) }
    }

    pub(super) const fn set_rate(&mut self, per_s: u64) {
        self.per_s = per_s;
    }

    /// Adds what has grown since the last call.
    pub(super) fn earn(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        let earned = u128::from(self.per_s) * u128::from(elapsed_ns) / u128::from(NS_PER_S);
        // Less than one unit is left to the next call.
        if earned > 0 {
            let earned = i64::try_from(earned).unwrap_or(i64::MAX);
            self.left = self.left.saturating_add(earned).min(self.most);
            self.at_ns = now_ns;
        }
    }

    /// Does the same. Returns how long it takes until something is left.
    pub(super) fn wait_ns(&mut self, now_ns: u64) -> u64 {
        self.earn(now_ns);
        let missing =
            u128::from(self.left.saturating_neg().saturating_add(1).max(0).unsigned_abs());
        let wait_ns = missing * u128::from(NS_PER_S) / u128::from(self.per_s.max(1));
        u64::try_from(wait_ns).unwrap_or(u64::MAX)
    }

    pub(super) fn spend(&mut self, amount: u64) {
        self.left = self.left.saturating_sub(i64::try_from(amount).unwrap_or(i64::MAX));
    }

    /// The amount that is left.
    pub(super) fn left(&self) -> u64 {
        u64::try_from(self.left).unwrap_or(0)
    }

    /// Earns nothing before this time.
    pub(super) const fn rest_until(&mut self, at_ns: u64) {
        self.at_ns = at_ns;
    }

    pub(super) const fn is_resting(&self, now_ns: u64) -> bool {
        now_ns < self.at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_allowed_than_the_rate_and_a_short_burst() {
        let mut allowance = Allowance::empty(1000, 200, 0);
        assert_eq!(allowance.left(), 0);
        allowance.earn(100_000_000);
        assert_eq!(allowance.left(), 100);
        allowance.earn(60_000_000_000);
        assert_eq!(allowance.left(), 200, "no more is saved up");
        allowance.spend(700);
        allowance.earn(60_500_000_000);
        assert_eq!(allowance.left(), 0);
        allowance.earn(60_501_000_000);
        assert_eq!(allowance.left(), 1);
    }

    #[test]
    fn nothing_is_earned_during_a_rest() {
        let mut allowance = Allowance::empty(1000, 200, 0);
        allowance.rest_until(NS_PER_S);
        allowance.earn(NS_PER_S / 2);
        assert!(allowance.is_resting(NS_PER_S / 2) && allowance.left() == 0);
        let later_ns = NS_PER_S + NS_PER_S / 10;
        allowance.earn(later_ns);
        assert!(!allowance.is_resting(later_ns) && allowance.left() == 100);
    }
}
