//! Background threads of an open pool. A thread ends when its handle is dropped.

use super::Engine;
use gemelo_base::panics;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval at which a worker checks whether there is work.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Tells a worker to stop.
#[derive(Default)]
pub(super) struct StopSignal {
    stop: Mutex<bool>,
    raised: Condvar,
}

impl StopSignal {
    /// Waits for one interval. Returns `true` if the worker has to stop.
    pub(super) fn wait(&self) -> bool {
        self.wait_for(POLL_INTERVAL)
    }

    /// Waits for this time. Returns `true` if the worker has to stop.
    pub(super) fn wait_for(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop && !time.is_zero() {
            self.raised.wait_for(&mut stop, time);
        }
        *stop
    }

    /// Returns `true` if the worker has to stop.
    pub(super) fn is_raised(&self) -> bool {
        *self.stop.lock()
    }
}

/// A thread of an open pool.
pub(crate) struct Worker {
    signal: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(
        engine: Arc<Engine>,
        name: &str,
        work: impl FnOnce(&Engine, &StopSignal) + Send + 'static,
    ) -> std::io::Result<Self> {
        let signal = Arc::new(StopSignal::default());
        let heard = Arc::clone(&signal);
        let health = Arc::clone(&engine.health);
        let told = move |panicked| health.stop_by_panic(panicked);
        let thread = panics::start(name, told, move || work(&engine, &heard))?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Starts the threads of a pool: maintenance, clearing, the index, the finder and the arranger,
    /// and the cleaner of one that compresses.
    pub(crate) fn start_all(engine: &Arc<Engine>) -> std::io::Result<Vec<Self>> {
        let mut all = vec![
            Self::start(Arc::clone(engine), "gemelo-maintain", super::maintenance::work)?,
            Self::start(Arc::clone(engine), "gemelo-clear", super::maintenance::clear)?,
            Self::start(Arc::clone(engine), "gemelo-index", super::maintenance::catch_up)?,
            Self::start(Arc::clone(engine), "gemelo-finder", super::finder::work)?,
            Self::start(Arc::clone(engine), "gemelo-arrange", super::layout::work::work)?,
        ];
        if engine.data.is_packed() {
            all.push(Self::start(Arc::clone(engine), "gemelo-clean", super::layout::clean)?);
        }
        Ok(all)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        *self.signal.stop.lock() = true;
        self.signal.raised.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has stopped the pool.
            let _ = thread.join();
        }
    }
}
