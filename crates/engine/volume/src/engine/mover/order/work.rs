//! The arranger's thread: works while the pool is idle, within its rate.

use super::Arranger;
use super::marks::Tick;
use super::walk::{Due, Walk};
use crate::engine::Engine;
use crate::engine::pace::Allowance;
use crate::engine::worker::POLL_INTERVAL;
use crate::error::Result;
use gemelo_base::background::{Again, Step, StopSignal};
use gemelo_base::scheduling::use_spare_time;
use std::time::Duration;

/// A pool is idle while requests were under way for less than this part of the time between two
/// looks.
const BUSY_PART: u64 = 20;
/// An allowance that was not used is saved up for this part of a second.
const SAVED_PART: u64 = 5;
/// Bytes by which a look at a chunk counts even if nothing is moved. It bounds the processor time
/// that looking at volumes in good order takes.
const LOOK_BYTES: u64 = 32 << 10;
/// Pause after everything was done.
const REST: Duration = Duration::from_secs(1);
/// Pause when there was no room.
const ROOM_REST: Duration = Duration::from_secs(10);

/// Tells whether requests leave the pool time.
struct Idleness {
    busy_ns: u64,
    at_ns: u64,
}

impl Idleness {
    const fn new(now_ns: u64) -> Self {
        Self { busy_ns: 0, at_ns: now_ns }
    }

    /// Returns whether the pool was idle since the last look.
    fn look(&mut self, engine: &Engine, now_ns: u64) -> bool {
        let busy_ns = engine.catalogue.busy_ns();
        let busy = busy_ns.saturating_sub(self.busy_ns);
        let elapsed = now_ns.saturating_sub(self.at_ns);
        (self.busy_ns, self.at_ns) = (busy_ns, now_ns);
        busy.saturating_mul(BUSY_PART) <= elapsed && !engine.catalogue.has_requests()
    }
}

impl Arranger {
    /// Arranges one chunk, if one is due.
    fn arrange_step(&self, walk: &mut Walk, due: Due, allowance: &mut Allowance) -> Result<Step> {
        let Some(report) = self.arrange_next(walk, due)? else {
            return Ok(Step::then_rest(0, REST));
        };
        let bytes = report.moved_blocks * self.mover.data.block_bytes() as u64;
        allowance.spend(bytes.max(LOOK_BYTES));
        Ok(match report.is_short_of_room {
            true => Step::then_rest(report.moved_blocks, ROOM_REST),
            false => Step::more(report.moved_blocks),
        })
    }
}

/// The work of the thread.
pub(in crate::engine) fn work(engine: &Engine, stop: &StopSignal) {
    use_spare_time();
    let mut tuning = engine.tuning.layout;
    let mut seen = 0;
    let delay_ns = u64::try_from(tuning.delay.as_nanos()).unwrap_or(u64::MAX);
    let began_ns = engine.clock.now_ns();
    let allow = |rate, now_ns| Allowance::empty(rate, rate / SAVED_PART, now_ns);
    let mut allowance = allow(tuning.bytes_per_s, began_ns);
    let mut idleness = Idleness::new(began_ns);
    let mut walk = Walk::default();
    while !stop.wait_for(POLL_INTERVAL) {
        let now_ns = engine.clock.now_ns();
        if let Some(new) = engine.live.newer_than(&mut seen) {
            tuning = new.layout;
            allowance = allow(tuning.bytes_per_s, now_ns);
        }
        engine.arranger.ticker.set(Tick::of(now_ns));
        allowance.earn(now_ns);
        let is_idle = idleness.look(engine, now_ns);
        if !is_idle || tuning.bytes_per_s == 0 || engine.health.check_writable().is_err() {
            continue;
        }
        // A tick is only known to be over when the next one has begun.
        let until = Tick::before(now_ns.saturating_sub(delay_ns));
        let sweeps = now_ns.saturating_sub(began_ns) >= delay_ns;
        while allowance.left() > 0 && !engine.catalogue.has_requests() && !stop.is_raised() {
            let due = Due { until, sweeps };
            let step = || engine.arranger.arrange_step(&mut walk, due, &mut allowance);
            if !matches!(engine.tasks.arranger.turn(step), Some(Step { again: Again::AtOnce, .. }))
            {
                walk.runs.forget();
                break;
            }
        }
    }
}
