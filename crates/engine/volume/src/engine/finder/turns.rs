//! The order in which volumes get the finder's work: fair by the work, not by the number of steps.
//!
//! Each volume has a *turn*: the work that it was given so far. The volume with the least turn is
//! next (start-time fair queueing). A volume without work saves nothing up: when it has some again,
//! its turn begins at that of the volume served last. A volume with endless work therefore delays
//! another one by a step, and among volumes that all have enough of it, the work is divided equally
//! even if steps differ in size.

use super::report::Examined;
use std::sync::atomic::{AtomicU64, Ordering};

/// Blocks that are looked up without being examined and count as one that is: a look-up takes some
/// 50 ns, and a fingerprint about 0.7 µs.
const PASSED_PER_EXAMINED: u64 = 16;

/// The turn of a volume, or of the volume that was served last.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicU64);

impl Turn {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, work: u64) {
        self.0.store(work, Ordering::Relaxed);
    }

    /// The key by which volumes are sorted: where this turn begins if `last` was served last.
    pub(super) fn begin(&self, last: &Self) -> u64 {
        self.get().max(last.get())
    }

    /// Notes that the volume of this turn was served. One thread serves volumes at a time, apart
    /// from commands, whose work may then count a little less.
    pub(super) fn note_served(last: &Self, turn: &Self, found: Examined) {
        let began = turn.begin(last);
        turn.set(began.saturating_add(cost(found)));
        last.set(began);
    }
}

/// The work of a step, in examined blocks. It is never zero, so that each step ends a turn.
fn cost(found: Examined) -> u64 {
    1 + found.report.examined_blocks + found.passed_blocks / PASSED_PER_EXAMINED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_had_nothing_to_do_begins_where_the_others_are() {
        let (last, one, other) = (Turn::default(), Turn::default(), Turn::default());
        one.set(700);
        last.set(600);
        assert_eq!((one.begin(&last), other.begin(&last)), (700, 600), "the other one is next");
        let found = |examined_blocks, passed_blocks| Examined {
            report: super::super::report::FinderReport { examined_blocks, ..Default::default() },
            passed_blocks,
        };
        assert_eq!([found(0, 0), found(0, 1024), found(512, 512)].map(cost), [1, 65, 545]);
    }
}
