//! The thread of the finder: examines blocks as they come due, at its pace.

use super::super::Engine;
use super::Scope;
use super::control::FinderState;
use super::pace::{FinderPace, Hold, PoolLook};
use super::while_written::WhileWritten;
use crate::engine::finder::Finder;
use crate::engine::worker::POLL_INTERVAL;
use crate::error::Result;
use crate::load::Traffic;
use crate::pool::Tuning;
use gemelo_base::background::{Step, StopSignal};
use gemelo_base::scheduling::use_spare_time;
use std::time::Duration;

/// The reason for which the finder waits, and the time since when.
type HeldSince = Option<(Hold, u64)>;

/// The work of the thread.
pub(in crate::engine) fn work(engine: &Engine, stop: &StopSignal) {
    use_spare_time();
    let block_bytes = engine.data.block_bytes() as u64;
    let mut pace = FinderPace::new(engine.tuning.finder, block_bytes, engine.clock.now_ns());
    let mut held = None;
    let (mut wait, mut seen) = (POLL_INTERVAL, 0);
    let mut while_written = WhileWritten::new(engine.tuning.finder, engine.clock.now_ns());
    while !stop.wait_for(wait) {
        let now_ns = engine.clock.now_ns();
        if let Some(Tuning { finder, .. }) = engine.live.newer_than(&mut seen) {
            pace = FinderPace::new(finder, block_bytes, now_ns);
            while_written = WhileWritten::new(finder, now_ns);
        }
        let remembered = engine.data.remembered();
        let idle_ns = || engine.clock.idle_cpu_ns();
        if let Some(decision) = while_written.decide(now_ns, remembered.cpu_ns(), idle_ns) {
            remembered.set_wanted(decision.is_wanted);
            pace.note_fingerprints(decision.cpu_ns_per_s);
        }
        wait = engine.finder.turn(&mut pace, &mut held);
    }
}

impl Finder {
    /// Makes a step if one is due and allowed. Returns the time to the next turn.
    fn turn(&self, pace: &mut FinderPace, held: &mut HeldSince) -> Duration {
        let now_ns = self.clock.now_ns();
        if let Some((hold, since_ns)) = held.take() {
            self.control.add_held(hold, now_ns.saturating_sub(since_ns));
        }
        let look = self.look(pace, now_ns);
        let is_failing = !self.tasks.finder.is_due() || self.health.check_writable().is_err();
        if self.control.has_command() || is_failing || !self.has_due(now_ns) {
            pace.note_load(&look);
            pace.note_done();
            let is_paused = self.control.is_paused();
            let state = if is_paused { FinderState::Paused } else { FinderState::Idle };
            self.control.set_state(state);
            return POLL_INTERVAL;
        }
        let step = match pace.decide(&look) {
            Ok(step) => step,
            Err(refusal) => {
                *held = Some((refusal.hold, now_ns));
                self.control.set_state(refusal.hold.into());
                return POLL_INTERVAL.min(Duration::from_nanos(refusal.wait_ns));
            }
        };
        self.control.set_state(FinderState::Working);
        let began_ns = self.step_clock_ns();
        let mut found = None;
        self.tasks.finder.turn(|| -> Result<Step> {
            // Blocks that fail are marked again and come due after the delay.
            found = self.find_next(Scope::Due { now_ns }, step.max_blocks)?;
            Ok(Step::more(found.map_or(0, |found| found.report.examined_blocks)))
        });
        let Some(found) = found else { return POLL_INTERVAL };
        let took_ns = self.step_clock_ns().saturating_sub(began_ns);
        pace.note_step(step, found.report.examined_blocks, took_ns);
        Duration::ZERO
    }

    /// The processor time of this thread. Where it is not known, the time on the clock is an upper
    /// bound.
    fn step_clock_ns(&self) -> u64 {
        self.clock.thread_cpu_ns().unwrap_or_else(|| self.clock.now_ns())
    }

    fn look(&self, pace: &FinderPace, now_ns: u64) -> PoolLook {
        let Traffic { in_flight, ended: requests } = self.catalogue.traffic();
        PoolLook {
            now_ns,
            local_minute: pace.has_window().then(|| self.clock.local_minute()).flatten(),
            is_paused: self.control.is_paused(),
            in_flight,
            requests,
        }
    }
}
