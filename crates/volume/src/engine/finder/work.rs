//! The thread of the finder: examines blocks as they come due, at its pace.

use super::super::Engine;
use super::super::worker::{LOOK, StopSignal};
use super::Scope;
use super::control::FinderState;
use super::pace::{Hold, Look, Pace};
use std::time::Duration;

/// The reason for which the finder waits, and the time since when.
type Held = Option<(Hold, u64)>;

/// The interval at which the finder looks for a free core: 100 ms.
const CORE_LOOK_NS: u64 = 100_000_000;
/// A core counts as free if all cores together were idle for half of the interval.
const IDLE_PER_INTERVAL: u64 = 2;

/// Finds out whether a core has nothing to do.
#[derive(Debug, Default)]
struct CoreLook {
    at_ns: u64,
    idle_ns: Option<u64>,
}

impl CoreLook {
    /// Looks if the interval has passed. Returns [`None`] if it has not, or if nothing is known.
    fn is_free(&mut self, now_ns: u64, idle_ns: impl FnOnce() -> Option<u64>) -> Option<bool> {
        let elapsed_ns = now_ns.saturating_sub(self.at_ns);
        if elapsed_ns < CORE_LOOK_NS {
            return None;
        }
        let before_ns = std::mem::replace(&mut self.idle_ns, idle_ns());
        self.at_ns = now_ns;
        let idle_ns = self.idle_ns?.saturating_sub(before_ns?);
        Some(idle_ns >= elapsed_ns / IDLE_PER_INTERVAL)
    }
}

/// The work of the thread.
pub(in crate::engine) fn work(engine: &Engine, stop: &StopSignal) {
    let block_bytes = engine.block_bytes() as u64;
    let mut pace = Pace::new(engine.tuning.finder, block_bytes, engine.clock.now_ns());
    let mut held = None;
    let mut wait = LOOK;
    let mut core = CoreLook::default();
    while !stop.wait_for(wait) {
        let now_ns = engine.clock.now_ns();
        if let Some(is_free) = core.is_free(now_ns, || engine.clock.idle_cpu_ns()) {
            engine.data.remembered().set_core_free(is_free);
        }
        wait = engine.finder_turn(&mut pace, &mut held);
    }
}

impl Engine {
    /// Makes a step if one is due and allowed. Returns the time to the next turn.
    fn finder_turn(&self, pace: &mut Pace, held: &mut Held) -> Duration {
        let now_ns = self.clock.now_ns();
        if let Some((hold, since_ns)) = held.take() {
            self.finder.add_held(hold, now_ns.saturating_sub(since_ns));
        }
        let look = self.finder_look(now_ns);
        if self.finder.has_command() || !self.has_due(now_ns) {
            pace.note_load(&look);
            pace.note_done();
            let is_paused = self.finder.is_paused();
            let state = if is_paused { FinderState::Paused } else { FinderState::Idle };
            self.finder.set_state(state);
            return LOOK;
        }
        let step = match pace.decide(&look) {
            Ok(step) => step,
            Err(refusal) => {
                *held = Some((refusal.hold, now_ns));
                self.finder.set_state(refusal.hold.into());
                return LOOK.min(Duration::from_nanos(refusal.wait_ns));
            }
        };
        self.finder.set_state(FinderState::Working);
        let began_ns = self.step_clock_ns();
        // Blocks that fail are marked again and come due after the delay.
        let Ok(Some(found)) = self.find_next(Scope::Due { now_ns }, step.most_blocks) else {
            return LOOK;
        };
        let took_ns = self.step_clock_ns().saturating_sub(began_ns);
        pace.note_step(step, found.report.examined_blocks, took_ns);
        Duration::ZERO
    }

    /// The processor time of this thread. Where it is not known, the time on the clock is an upper
    /// bound.
    fn step_clock_ns(&self) -> u64 {
        self.clock.thread_cpu_ns().unwrap_or_else(|| self.clock.now_ns())
    }

    fn finder_look(&self, now_ns: u64) -> Look {
        let (mut in_flight, mut requests) = (0, 0);
        self.catalogue.for_each(|volume| {
            in_flight += volume.load().in_flight();
            requests += volume.load().requests();
        });
        Look {
            now_ns,
            local_minute: self.tuning.finder.window.and_then(|_| self.clock.local_minute()),
            is_paused: self.finder.is_paused(),
            in_flight,
            requests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_free_if_half_of_one_was_idle() {
        const MS: u64 = 1_000_000;
        let mut core = CoreLook::default();
        assert_eq!(core.is_free(100 * MS, || Some(500 * MS)), None, "there is nothing before it");
        assert_eq!(core.is_free(150 * MS, || panic!("too early")), None);
        assert_eq!(core.is_free(200 * MS, || Some(550 * MS)), Some(true));
        assert_eq!(core.is_free(300 * MS, || Some(599 * MS)), Some(false));
        assert_eq!(core.is_free(400 * MS, || None), None);
    }
}
