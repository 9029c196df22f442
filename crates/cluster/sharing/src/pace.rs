//! The pace of the thread that shares: a bounded part of the time while requests are under way.

use gemelo_volume::Traffic;
use std::time::Duration;

/// While requests are under way, a round takes one part of the time in this many. Rounds then also
/// come with many contents at once, which cost the store fewer operations.
const BUSY_PARTS: u32 = 8;
/// The longest pause. Letters, doubts and all other work of a round wait for it.
const MAX_PAUSE: Duration = Duration::from_secs(10);
/// Looks without requests after which a pool counts as idle.
const IDLE_LOOKS: u32 = 5;

/// Returns the pause of a busy pool after a round that took this long. It is the shorter the more
/// contents wait for the next round, against the free blocks: those of other members that have the
/// same contents take space until then.
pub(crate) fn pause_after(took: Duration, waiting: u64, free_blocks: u64) -> Duration {
    let whole = took.saturating_mul(BUSY_PARTS - 1).min(MAX_PAUSE);
    let spare = free_blocks.saturating_sub(waiting);
    let part = spare as f64 / free_blocks.max(1) as f64;
    whole.mul_f64(part)
}

/// Tells whether a pool is busy, by looks at its requests.
#[derive(Debug, Default)]
pub(crate) struct Business {
    last: Traffic,
    looks: u32,
}

impl Business {
    /// Notes the requests of the present moment. Returns whether the pool is busy.
    pub(crate) fn look(&mut self, traffic: Traffic) -> bool {
        let is_quiet = traffic.in_flight == 0 && traffic.ended == self.last.ended;
        self.looks = if is_quiet { self.looks.saturating_add(1) } else { 0 };
        self.last = traffic;
        self.looks < IDLE_LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_round_takes_an_eighth_of_the_time_unless_space_is_short() {
        let pause = |waiting, free_blocks| pause_after(SECOND, waiting, free_blocks);
        assert_eq!(pause(0, 100), 7 * SECOND);
        assert_eq!(pause(50, 100), 7 * SECOND / 2);
        assert_eq!(pause(100, 100), Duration::ZERO);
        assert_eq!(pause(200, 100), Duration::ZERO);
        assert_eq!(pause(0, 0), Duration::ZERO, "writers of a full pool wait for blocks");
        assert_eq!(pause_after(60 * SECOND, 0, 100), MAX_PAUSE);
    }

    #[test]
    fn a_pool_is_idle_after_some_looks_without_requests() {
        let mut business = Business::default();
        let mut is_busy = |in_flight, ended| business.look(Traffic { in_flight, ended });
        assert!(is_busy(1, 0));
        for ended in [7, 8] {
            assert!(is_busy(0, ended), "a request has ended since the last look");
            (1..IDLE_LOOKS).for_each(|_| assert!(is_busy(0, ended)));
            (0..3).for_each(|_| assert!(!is_busy(0, ended)));
        }
        assert!(is_busy(1, 8));
    }
}
