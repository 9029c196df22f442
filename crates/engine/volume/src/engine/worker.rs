//! The threads of an open pool in the background.

use super::Engine;
use gemelo_base::background::{StopSignal, Worker};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Interval at which a thread checks whether there is work.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The work of a thread, until it is told to stop.
type Work = fn(&Engine, &StopSignal);

/// Starts the threads of a pool: maintenance, commits, clearing, the index, the finder and the
/// arranger, and the cleaner of one that compresses. A thread that panics stops the pool.
pub(crate) fn start_all(engine: &Arc<Engine>) -> io::Result<Vec<Worker>> {
    let all: [(&str, Work); 7] = [
        ("gemelo-maintain", super::maintenance::work),
        ("gemelo-commit", super::maintenance::commit),
        ("gemelo-clear", super::maintenance::clear),
        ("gemelo-index", super::maintenance::catch_up),
        ("gemelo-finder", super::finder::work),
        ("gemelo-arrange", super::mover::arrange),
        ("gemelo-clean", super::mover::clean),
    ];
    let is_needed = |name| name != "gemelo-clean" || engine.data.is_packed();
    let start = |(name, work): (&str, Work)| {
        let (health, engine) = (Arc::clone(&engine.health), Arc::clone(engine));
        let told = move |panicked| health.stop_by_panic(panicked);
        Worker::start(name, told, move |stop| work(&engine, stop))
    };
    all.into_iter().filter(|(name, _)| is_needed(*name)).map(start).collect()
}
