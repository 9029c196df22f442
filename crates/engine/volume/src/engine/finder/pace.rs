//! Decides when the finder of the background may work, and how much it does at once.

use super::tuning::FinderTuning;
use crate::engine::pace::Allowance;

const NS_PER_S: u64 = 1_000_000_000;
/// A pool counts as busy for this long after a request was under way: 20 ms.
const BUSY_NS: u64 = 20_000_000;
/// The share of a core that was not used is saved up for this much processor time: 2 ms. More would
/// be a burst that requests feel.
const MAX_SAVED_CPU_NS: u64 = 2_000_000;
/// The finder keeps at least this part of its share of a core, whatever fingerprints of written
/// contents take.
pub(super) const MIN_PART_OF_SHARE: u64 = 4;
/// A rate that was not used is saved up for a burst of this many seconds.
const MAX_SAVED_S: u64 = 1;
/// Bytes that are examined at once while no requests are under way.
const IDLE_STEP_BYTES: u64 = 1 << 20;
/// The same while the pool is busy. A step takes some 0.3 ms, so requests hardly wait for it.
const BUSY_STEP_BYTES: u64 = 256 << 10;
/// Most blocks that are examined at once, for pools with small blocks.
const MAX_STEP_BLOCKS: u64 = 1024;

/// The reason why the finder of the background waits although blocks are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// A user has paused it.
    Paused,
    /// It is outside of the window of the day.
    Window,
    /// The interval between two rounds has not passed.
    Interval,
    /// It has read as many bytes as its rate allows.
    Rate,
    /// The pool is busy, and the finder has used its share of a core.
    Load,
}

impl Hold {
    /// All reasons, in the order of their counters.
    pub(super) const ALL: [Self; 5] =
        [Self::Paused, Self::Window, Self::Interval, Self::Rate, Self::Load];
}

/// The state of the pool at the moment when the finder asks whether it may work.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PoolLook {
    pub(super) now_ns: u64,
    /// The minute of the day in local time.
    pub(super) local_minute: Option<u16>,
    pub(super) is_paused: bool,
    /// Requests that are under way.
    pub(super) in_flight: u64,
    /// Requests that have ended so far.
    pub(super) requests: u64,
}

/// The permission to examine some blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Allowed {
    pub(super) max_blocks: usize,
    is_busy: bool,
}

/// The refusal to work now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) hold: Hold,
    /// The time after which it pays to ask again.
    pub(super) wait_ns: u64,
}

/// The pace of the finder of the background.
#[derive(Debug)]
pub(super) struct FinderPace {
    tuning: FinderTuning,
    block_bytes: u64,
    bytes: Option<Allowance>,
    cpu: Allowance,
    cpu_per_s: u64,
    busy_until_ns: u64,
    requests: u64,
    /// The beginning of the present round, if there is one.
    round_ns: Option<u64>,
    next_round_ns: u64,
}

impl FinderPace {
    pub(super) fn new(tuning: FinderTuning, block_bytes: u64, now_ns: u64) -> Self {
        let rate = |per_s: u64| Allowance::full(per_s, per_s.saturating_mul(MAX_SAVED_S), now_ns);
        let cpu_per_s = u64::from(tuning.busy_cpu_percent) * NS_PER_S / 100;
        Self {
            tuning,
            block_bytes: block_bytes.max(1),
            bytes: tuning.bytes_per_s.map(rate),
            cpu: Allowance::full(cpu_per_s, MAX_SAVED_CPU_NS, now_ns),
            cpu_per_s,
            busy_until_ns: 0,
            requests: 0,
            round_ns: None,
            next_round_ns: 0,
        }
    }

    /// Returns whether the time of day matters.
    pub(super) const fn has_window(&self) -> bool {
        self.tuning.window.is_some()
    }

    /// Decides whether the finder may examine blocks that are due.
    pub(super) fn decide(&mut self, look: &PoolLook) -> Result<Allowed, Refusal> {
        self.note_load(look);
        let is_busy = look.now_ns < self.busy_until_ns;
        let refused = |hold, wait_ns| Err(Refusal { hold, wait_ns });
        if look.is_paused {
            return refused(Hold::Paused, u64::MAX);
        }
        let is_open = |minute| self.tuning.window.is_none_or(|window| window.contains(minute));
        if !look.local_minute.is_none_or(is_open) {
            return refused(Hold::Window, u64::MAX);
        }
        if self.round_ns.is_none() {
            if look.now_ns < self.next_round_ns {
                return refused(Hold::Interval, self.next_round_ns - look.now_ns);
            }
            self.round_ns = Some(look.now_ns);
        }
        if let Some(wait_ns @ 1..) = self.bytes.as_mut().map(|bytes| bytes.wait_ns(look.now_ns)) {
            return refused(Hold::Rate, wait_ns);
        }
        let wait_ns = self.cpu.wait_ns(look.now_ns);
        if is_busy && wait_ns > 0 {
            return refused(Hold::Load, wait_ns);
        }
        Ok(Allowed { max_blocks: self.step_blocks(is_busy), is_busy })
    }

    /// Notes whether requests are under way, or have ended since the last look.
    pub(super) fn note_load(&mut self, look: &PoolLook) {
        if look.in_flight > 0 || look.requests != self.requests {
            self.busy_until_ns = look.now_ns.saturating_add(BUSY_NS);
        }
        self.requests = look.requests;
    }

    fn step_blocks(&self, is_busy: bool) -> usize {
        let bytes = if is_busy { BUSY_STEP_BYTES } else { IDLE_STEP_BYTES };
        let left = self.bytes.map_or(u64::MAX, |bytes| bytes.left());
        let blocks = bytes.min(left) / self.block_bytes;
        usize::try_from(blocks.clamp(1, MAX_STEP_BLOCKS)).unwrap_or(1)
    }

    /// Notes the cost of a step.
    pub(super) fn note_step(&mut self, step: Allowed, examined_blocks: u64, cpu_ns: u64) {
        if let Some(bytes) = &mut self.bytes {
            bytes.spend(examined_blocks.saturating_mul(self.block_bytes));
        }
        if step.is_busy {
            self.cpu.spend(cpu_ns);
        }
    }

    /// Notes the processor time that fingerprints of written contents take a second. It is a part
    /// of the share that the finder has of a core.
    pub(super) fn note_fingerprints(&mut self, cpu_ns_per_s: u64) {
        let min_ns = self.cpu_per_s / MIN_PART_OF_SHARE;
        self.cpu.set_rate(self.cpu_per_s.saturating_sub(cpu_ns_per_s).max(min_ns));
    }

    /// Notes that nothing is due any more: the round has ended.
    pub(super) fn note_done(&mut self) {
        if let Some(began_ns) = self.round_ns.take() {
            let interval_ns = u64::try_from(self.tuning.interval.as_nanos()).unwrap_or(u64::MAX);
            self.next_round_ns = began_ns.saturating_add(interval_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn pace(tuning: FinderTuning) -> FinderPace {
        FinderPace::new(tuning, 4096, 0)
    }

    fn hold(decided: Result<Allowed, Refusal>) -> Option<Hold> {
        decided.err().map(|refusal| refusal.hold)
    }

    /// Works for `seconds` with steps of 1 ms, and returns the processor time used in ns.
    fn used_ns(pace: &mut FinderPace, seconds: u64, look: impl Fn(u64) -> PoolLook) -> u64 {
        let (mut now_ns, mut used_ns) = (0, 0);
        while now_ns < seconds * NS_PER_S {
            match pace.decide(&look(now_ns)) {
                Ok(step) => {
                    pace.note_step(step, step.max_blocks as u64, MS);
                    used_ns += MS;
                    now_ns += MS;
                }
                Err(refusal) => now_ns += refusal.wait_ns.min(50 * MS),
            }
        }
        used_ns
    }

    #[test]
    fn a_busy_pool_gives_a_fifth_of_a_core_and_an_idle_one_all_of_it() {
        let busy = |now_ns| PoolLook { now_ns, in_flight: 1, ..PoolLook::default() };
        let used = used_ns(&mut pace(FinderTuning::default()), 10, busy);
        assert!((1990 * MS..=2010 * MS).contains(&used), "{used}");
        // Requests that end between two looks count as well.
        let passing =
            |now_ns| PoolLook { now_ns, requests: 1 + now_ns / (10 * MS), ..PoolLook::default() };
        let used = used_ns(&mut pace(FinderTuning::default()), 10, passing);
        assert!((1990 * MS..=2010 * MS).contains(&used), "{used}");
        let idle = |now_ns| PoolLook { now_ns, ..PoolLook::default() };
        assert_eq!(used_ns(&mut pace(FinderTuning::default()), 10, idle), 10_000 * MS);
        let all = FinderTuning { busy_cpu_percent: 100, ..FinderTuning::default() };
        assert!(used_ns(&mut pace(all), 10, busy) >= 9990 * MS);
    }

    #[test]
    fn fingerprints_of_written_contents_come_out_of_the_share_but_for_a_quarter() {
        let busy = |now_ns| PoolLook { now_ns, in_flight: 1, ..PoolLook::default() };
        for (fingerprints_ms, expected_ms) in [(50, 150), (150, 50), (180, 50), (900, 50)] {
            let mut pace = pace(FinderTuning::default());
            pace.note_fingerprints(fingerprints_ms * MS);
            let used_ms = used_ns(&mut pace, 10, busy) / MS;
            assert!((10 * expected_ms - 5..=10 * expected_ms + 5).contains(&used_ms), "{used_ms}");
        }
    }

    #[test]
    fn a_busy_pool_gets_short_steps_and_is_idle_a_moment_after_its_last_request() {
        let mut pace = pace(FinderTuning::default());
        let blocks = |decided: Result<Allowed, Refusal>| decided.unwrap().max_blocks;
        assert_eq!(blocks(pace.decide(&PoolLook::default())), 256);
        assert_eq!(blocks(pace.decide(&PoolLook { in_flight: 1, ..PoolLook::default() })), 64);
        assert_eq!(
            blocks(pace.decide(&PoolLook { now_ns: BUSY_NS - 1, ..PoolLook::default() })),
            64
        );
        assert_eq!(blocks(pace.decide(&PoolLook { now_ns: BUSY_NS, ..PoolLook::default() })), 256);
    }

    #[test]
    fn a_rate_is_kept_to_after_a_burst_of_a_second() {
        let rate = FinderTuning { bytes_per_s: Some(100 * 4096), ..FinderTuning::default() };
        let (mut pace, mut blocks, mut now_ns) = (pace(rate), 0, 0);
        while now_ns < 10 * NS_PER_S {
            match pace.decide(&PoolLook { now_ns, ..PoolLook::default() }) {
                Ok(step) => {
                    blocks += step.max_blocks;
                    pace.note_step(step, step.max_blocks as u64, 0);
                }
                Err(refusal) => {
                    assert_eq!(refusal.hold, Hold::Rate);
                    now_ns += refusal.wait_ns;
                }
            }
        }
        assert!((1090..=1101).contains(&blocks), "{blocks}");
    }

    #[test]
    fn work_is_done_within_the_window_and_unless_it_is_paused() {
        let night = Some("01:00-05:00".parse().unwrap());
        let mut pace = pace(FinderTuning { window: night, ..FinderTuning::default() });
        let at = |minute| PoolLook { local_minute: Some(minute), ..PoolLook::default() };
        assert_eq!(hold(pace.decide(&at(59))), Some(Hold::Window));
        assert_eq!(hold(pace.decide(&at(60))), None);
        assert_eq!(hold(pace.decide(&at(300))), Some(Hold::Window));
        assert_eq!(hold(pace.decide(&PoolLook::default())), None, "a clock without a time of day");
        assert_eq!(hold(pace.decide(&PoolLook { is_paused: true, ..at(60) })), Some(Hold::Paused));
    }

    #[test]
    fn a_round_begins_an_interval_after_the_one_before_began() {
        let tuning = FinderTuning { interval: Duration::from_secs(10), ..FinderTuning::default() };
        let mut pace = pace(tuning);
        let at = |seconds| PoolLook { now_ns: seconds * NS_PER_S, ..PoolLook::default() };
        assert_eq!(hold(pace.decide(&at(3))), None);
        assert_eq!(hold(pace.decide(&at(4))), None, "the round goes on");
        pace.note_done();
        assert_eq!(hold(pace.decide(&at(12))), Some(Hold::Interval));
        assert_eq!(hold(pace.decide(&at(13))), None);
        pace.note_done();
        pace.note_done();
        assert_eq!(hold(pace.decide(&at(22))), Some(Hold::Interval));
    }
}
