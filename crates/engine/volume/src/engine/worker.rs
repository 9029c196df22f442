//! Background threads of an open pool. A thread ends when its handle is dropped.

use super::Engine;
use super::stop_signal::StopSignal;
use gemelo_base::panics;
use std::sync::Arc;
use std::thread::JoinHandle;

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

    /// Starts the threads of a pool: maintenance, commits, clearing, the index, the finder and the
    /// arranger, and the cleaner of one that compresses.
    pub(crate) fn start_all(engine: &Arc<Engine>) -> std::io::Result<Vec<Self>> {
        let mut all = vec![
            Self::start(Arc::clone(engine), "gemelo-maintain", super::maintenance::work)?,
            Self::start(Arc::clone(engine), "gemelo-commit", super::maintenance::commit)?,
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
        self.signal.raise();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has stopped the pool.
            let _ = thread.join();
        }
    }
}
