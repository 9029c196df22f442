//! Maintenance in the background: commits at an interval, checkpoints before the journal is full,
//! and the collector.

use super::Engine;
use super::collector::Collector;
use super::worker::StopSignal;
use crate::error::Result;

/// The work of the thread.
pub(super) fn work(engine: &Engine, stop: &StopSignal) {
    let interval_ns = u64::try_from(engine.tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX);
    // A failure leaves the rest to the next opening.
    let _ = engine.clear_left(&|| stop.is_raised());
    let mut due_ns = engine.clock.now_ns().saturating_add(interval_ns);
    let mut collector = Collector::new(engine.tuning.collect_bytes_per_s, engine.clock.now_ns());
    while !stop.wait() {
        let is_due = engine.clock.now_ns() >= due_ns;
        if is_due {
            due_ns = engine.clock.now_ns().saturating_add(interval_ns);
        }
        // A failure repeats at the next flush, which reports it.
        let _ = maintain(engine, stop, is_due).and_then(|()| collector.work(engine));
    }
}

fn maintain(engine: &Engine, stop: &StopSignal, is_due: bool) -> Result<()> {
    engine.check_writable()?;
    if is_due || engine.log.is_commit_long() {
        engine.flush()?;
    }
    engine.log.mark_if_idle()?;
    if is_due {
        engine.data.retry_unwritten();
        // A full disk keeps nothing else from being done.
        let _ = engine.log.tell_keeper();
        engine.data.free_retired();
        // Clears volumes whose removal found no room. Those that still find none stay hidden.
        let _ = engine.clear_hidden(&|| stop.is_raised());
    }
    if engine.log.is_checkpoint_due() { engine.checkpoint() } else { Ok(()) }
}
