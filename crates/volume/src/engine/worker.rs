//! Threads that work for an open pool in the background, until they are dropped.

use super::Engine;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a worker looks whether there is something to do.
const LOOK: Duration = Duration::from_millis(50);

/// Tells a worker to stop.
#[derive(Default)]
pub(super) struct Bell {
    stop: Mutex<bool>,
    rung: Condvar,
}

impl Bell {
    /// Waits until it is time to look again; whether to stop.
    pub(super) fn wait(&self) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.rung.wait_for(&mut stop, LOOK);
        }
        *stop
    }

    /// Whether to stop.
    pub(super) fn is_rung(&self) -> bool {
        *self.stop.lock()
    }
}

/// A thread of an open pool.
pub(crate) struct Worker {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts it.
    pub(super) fn start(
        engine: Arc<Engine>,
        name: &str,
        work: impl FnOnce(&Engine, &Bell) + Send + 'static,
    ) -> std::io::Result<Self> {
        let bell = Arc::new(Bell::default());
        let heard = Arc::clone(&bell);
        let thread =
            std::thread::Builder::new().name(name.into()).spawn(move || work(&engine, &heard))?;
        Ok(Self { bell, thread: Some(thread) })
    }

    /// Starts all that a pool has: the keeper and the finder.
    pub(crate) fn start_all(engine: &Arc<Engine>) -> std::io::Result<Vec<Self>> {
        Ok(vec![
            Self::start(Arc::clone(engine), "gemelo-keeper", super::keeper::work)?,
            Self::start(Arc::clone(engine), "gemelo-finder", super::finder::work)?,
        ])
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        *self.bell.stop.lock() = true;
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in it has been reported, and the pool stays as it is.
            let _ = thread.join();
        }
    }
}
