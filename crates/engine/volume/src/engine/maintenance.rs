//! Maintenance in the background: commits at an interval, checkpoints before the journal is full,
//! the collector, the clearing of volumes that were removed, and the completion of the index.

use super::Engine;
use super::collector::Collector;
use super::stop_signal::StopSignal;
use crate::error::Result;

/// The work of the thread.
pub(super) fn work(engine: &Engine, stop: &StopSignal) {
    let interval_ns = u64::try_from(engine.tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX);
    let mut due_ns = engine.clock.now_ns().saturating_add(interval_ns);
    let mut collector = Collector::new(engine.tuning.collect_bytes_per_s, engine.clock.now_ns());
    while !stop.wait() {
        let is_due = engine.clock.now_ns() >= due_ns;
        if is_due {
            due_ns = engine.clock.now_ns().saturating_add(interval_ns);
        }
        // A failure repeats at the next flush, which reports it.
        let _ = maintain(engine, is_due).and_then(|()| collector.work(engine));
    }
}

fn maintain(engine: &Engine, is_due: bool) -> Result<()> {
    engine.check_writable()?;
    if is_due || engine.log.is_commit_long() {
        engine.flush()?;
    }
    engine.log.mark_if_idle()?;
    if is_due {
        engine.data.retry_unwritten();
        // A full disk keeps nothing else from being done.
        let _ = engine.log.tell_free_veto();
        engine.data.free_retired();
    }
    if engine.log.is_checkpoint_due() { engine.checkpoint() } else { Ok(()) }
}

/// The work of the thread that completes the index of an opened pool.
pub(super) fn catch_up(engine: &Engine, stop: &StopSignal) {
    // What cannot be read now is not found as a duplicate until the next opening.
    let _ = engine.complete_index(&|| stop.is_raised());
}

/// The work of the thread that clears volumes. It takes as long as the volumes are large, and
/// nothing else waits for it.
pub(super) fn clear(engine: &Engine, stop: &StopSignal) {
    let interval_ns = u64::try_from(engine.tuning.commit_interval.as_nanos()).unwrap_or(u64::MAX);
    // A failure leaves the rest to the next opening.
    let _ = engine.clear_left(&|| stop.is_raised());
    let mut due_ns = engine.clock.now_ns().saturating_add(interval_ns);
    while !stop.wait() {
        // Volumes whose removal found no room are tried again at the interval.
        let is_due = engine.clock.now_ns() >= due_ns;
        if engine.catalogue.take_new_hidden() || is_due {
            due_ns = engine.clock.now_ns().saturating_add(interval_ns);
            let _ = engine.clear_hidden(&|| stop.is_raised());
        }
    }
    if engine.catalogue.take_new_hidden() {
        // Removals just before the end of a short command are not left to the next opening.
        let _ = engine.clear_hidden(&|| false);
    }
}
