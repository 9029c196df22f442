//! The background thread that shares the contents of an open pool.

use crate::Sharing;
use gemelo_base::{StopFlag, panics, with_causes};
use gemelo_volume::Pool;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a round that failed. The store may be cut off for a while.
const FAILED_PAUSE: Duration = Duration::from_secs(1);
/// Interval between two looks at the stop flag and at blocks that writers may wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread, until the value is dropped. The pool is closed afterwards.
pub struct SharingWorker {
    sharing: Arc<Sharing>,
    stop: StopFlag,
    failure: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl SharingWorker {
    /// Starts the thread. It works until the value is dropped, as long as `may_work` says that this
    /// process serves the member.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub fn start(
        sharing: Arc<Sharing>,
        pool: Arc<Pool>,
        may_work: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, failure) = (StopFlag::new(), Arc::default());
        let (worked, stopped, noted) =
            (Arc::clone(&sharing), stop.clone(), Arc::<Mutex<_>>::clone(&failure));
        let stopping = Arc::clone(&pool);
        let work = move || {
            let mut has_failed = false;
            while !stopped.is_raised() && may_work() {
                // A failure repeats, unless it has passed by the next round.
                let round = worked.work(&pool);
                *noted.lock() = match &round {
                    Err(error) => Some(with_causes(error)),
                    Ok(_) => worked.damage_text(),
                };
                has_failed = round.is_err();
                let pause = match &round {
                    Ok(round) if round.is_idle() => worked.options.idle_pause,
                    Ok(_) => continue,
                    Err(_) => FAILED_PAUSE,
                };
                wait(&stopped, pause, || !has_failed && worked.has_urgent_work());
            }
            if has_failed && may_work() {
                // If this fails too, the next process that serves the member settles it.
                let _ = worked.settle(&pool);
            }
        };
        let told = move |panicked| stopping.stop_by_panic(panicked);
        let thread = panics::start("gemelo-share", told, work)?;
        sharing.shared.has_worker.store(true, Ordering::Relaxed);
        Ok(Self { sharing, stop, failure, thread: Some(thread) })
    }

    /// Returns the reason why the last round failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// Waits, but no longer than until the flag is raised, or until there is something to do.
fn wait(stop: &StopFlag, span: Duration, is_due: impl Fn() -> bool) {
    let mut rest = span;
    while !stop.is_raised() && !rest.is_zero() {
        let step = rest.min(POLL_INTERVAL);
        gemelo_base::pause(step);
        rest -= step;
        if is_due() {
            return;
        }
    }
}

impl Drop for SharingWorker {
    fn drop(&mut self) {
        self.sharing.shared.has_worker.store(false, Ordering::Relaxed);
        self.stop.raise();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
