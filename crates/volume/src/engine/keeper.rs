//! The background: commits at an interval, checkpoints before the journal is full, and the collector.

use super::Engine;
use super::worker::Bell;
use crate::backend::Pressure;
use crate::error::Result;
use crate::pool::Collector;

/// The keeper's thread.
pub(super) fn work(engine: &Engine, bell: &Bell) {
    let interval_ns = u64::try_from(engine.tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX);
    // What is left when this fails is cleared at the next opening.
    let _ = engine.clear_left(&|| bell.is_rung());
    let mut due_ns = engine.clock.now_ns().saturating_add(interval_ns);
    let mut collector = Collector::new(engine.tuning.collect_bytes_per_s, engine.clock.now_ns());
    while !bell.wait() {
        let is_due = engine.clock.now_ns() >= due_ns;
        if is_due {
            due_ns = engine.clock.now_ns().saturating_add(interval_ns);
        }
        // What fails here fails again for whoever flushes, and is told there.
        let _ = look(engine, bell, is_due).and_then(|()| collector.work(engine));
    }
}

fn look(engine: &Engine, bell: &Bell, is_due: bool) -> Result<()> {
    engine.check_writable()?;
    if is_due || engine.is_commit_long() {
        engine.flush()?;
    }
    if is_due {
        engine.release(&mut Vec::new());
        // Volumes whose removal found no room; those that find none again stay.
        let _ = engine.clear_hidden(&|| bell.is_rung());
    }
    let is_half_full = {
        let committer = engine.committer.lock();
        committer.journal.used_bytes() > committer.journal.ring_bytes() / 2
    };
    if is_half_full || engine.pressure() >= Pressure::High { engine.checkpoint() } else { Ok(()) }
}
