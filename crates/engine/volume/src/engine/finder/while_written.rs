//! Decides whether fingerprints are taken while contents are written.
//!
//! Taking one costs a tenth of what it costs to read the content again later, but the content may
//! be overwritten before it is examined. While all cores are busy, fingerprints get most of the
//! finder's share of a core, and no more.

use super::pace::MIN_PART_OF_SHARE;
use super::tuning::FinderTuning;
use crate::engine::pace::Allowance;

/// The interval between two decisions: 100 ms.
const LOOK_NS: u64 = 100_000_000;
/// A core counts as free if all cores together were idle for half of the interval.
const IDLE_PER_INTERVAL: u64 = 2;
const NS_PER_S: u64 = 1_000_000_000;

/// A decision, which holds until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) is_wanted: bool,
    /// Processor time that fingerprints took in the last interval, by the second. It is 0 if a core
    /// was free.
    pub(super) cpu_ns_per_s: u64,
}

/// The state from which the decisions come; see the module.
#[derive(Debug)]
pub(super) struct WhileWritten {
    at_ns: u64,
    idle_ns: Option<u64>,
    cpu_ns: u64,
    share: Allowance,
}

impl WhileWritten {
    pub(super) fn new(tuning: FinderTuning, now_ns: u64) -> Self {
        let share_ns = u64::from(tuning.busy_cpu_percent) * NS_PER_S / 100;
        let per_s = share_ns - share_ns / MIN_PART_OF_SHARE;
        // An interval's worth is saved up, because a decision holds for an interval.
        let share = Allowance::full(per_s, per_s * LOOK_NS / NS_PER_S, now_ns);
        Self { at_ns: now_ns, idle_ns: None, cpu_ns: 0, share }
    }

    /// Decides anew if an interval has passed. `cpu_ns` is the processor time that fingerprints
    /// have taken so far, and `idle_ns` the time for which processors had nothing to do, if it is
    /// known.
    pub(super) fn decide(
        &mut self,
        now_ns: u64,
        cpu_ns: u64,
        idle_ns: impl FnOnce() -> Option<u64>,
    ) -> Option<Decision> {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        if elapsed_ns < LOOK_NS {
            return None;
        }
        self.at_ns = now_ns;
        let before_ns = std::mem::replace(&mut self.idle_ns, idle_ns());
        let idle_ns = self.idle_ns.zip(before_ns).map(|(now, before)| now.saturating_sub(before));
        let used_ns = cpu_ns.saturating_sub(std::mem::replace(&mut self.cpu_ns, cpu_ns));
        let is_free = idle_ns.is_some_and(|idle_ns| idle_ns >= elapsed_ns / IDLE_PER_INTERVAL);
        if is_free {
            return Some(Decision { is_wanted: true, cpu_ns_per_s: 0 });
        }
        self.share.spend(used_ns);
        let cpu_ns_per_s = u128::from(used_ns) * u128::from(NS_PER_S) / u128::from(elapsed_ns);
        Some(Decision {
            is_wanted: self.share.wait_ns(now_ns) == 0,
            cpu_ns_per_s: u64::try_from(cpu_ns_per_s).unwrap_or(u64::MAX),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn with_a_free_core_all_are_taken_and_without_one_the_share_is_kept_to() {
        let mut written = WhileWritten::new(FinderTuning::default(), 0);
        assert_eq!(written.decide(99 * MS, 0, || panic!("too early")), None);
        let free = Some(Decision { is_wanted: true, cpu_ns_per_s: 0 });
        let (mut now_ms, mut idle_ms, mut cpu_ms) = (100, 0, 0);
        written.decide(now_ms * MS, 0, || Some(0));
        for _ in 0..10 {
            (now_ms, idle_ms, cpu_ms) = (now_ms + 100, idle_ms + 50, cpu_ms + 80);
            assert_eq!(written.decide(now_ms * MS, cpu_ms * MS, || Some(idle_ms * MS)), free);
        }
        let (mut taken_ms, mut is_wanted) = (0, true);
        for _ in 0..1000 {
            let used_ms = if is_wanted { 40 } else { 0 };
            (now_ms, cpu_ms, taken_ms) = (now_ms + 100, cpu_ms + used_ms, taken_ms + used_ms);
            let decision = written.decide(now_ms * MS, cpu_ms * MS, || Some(idle_ms * MS));
            assert_eq!(decision.map(|decision| decision.cpu_ns_per_s), Some(used_ms * 10 * MS));
            is_wanted = decision.is_some_and(|decision| decision.is_wanted);
        }
        // Three quarters of a fifth of 100 s.
        assert!((14_900..15_200).contains(&taken_ms), "{taken_ms}");
        let unknown = written.decide((now_ms + 100) * MS, cpu_ms * MS, || None);
        assert!(unknown.is_some());
    }
}
