//! The background thread that shares the contents of an open pool.

use crate::Sharing;
use crate::pace::{Business, pause_after};
use gemelo_base::background::{Step, Task, TaskStat};
use gemelo_base::{Clock, StopFlag, SystemClock, panics, with_causes};
use gemelo_volume::Pool;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two looks at the stop flag and at blocks that writers may wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread, until the value is dropped. The pool is closed afterwards.
pub struct SharingWorker {
    sharing: Arc<Sharing>,
    stop: StopFlag,
    failure: Arc<Mutex<Option<String>>>,
    /// The rounds. The store may be cut off for a while, and then they pause for longer and longer.
    task: Arc<Task>,
    thread: Option<JoinHandle<()>>,
}

impl SharingWorker {
    /// Starts the thread. It works until the value is dropped, as long as `may_work` says that this
    /// process serves the member. The clock is that of the pauses after failures.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub fn start(
        sharing: Arc<Sharing>,
        pool: Arc<Pool>,
        clock: Arc<dyn Clock>,
        may_work: impl Fn() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (stop, failure) = (StopFlag::new(), Arc::default());
        let task = Arc::new(Task::new("sharing", clock));
        let rounds = Arc::clone(&task);
        let (worked, stopped, noted) =
            (Arc::clone(&sharing), stop.clone(), Arc::<Mutex<_>>::clone(&failure));
        let stopping = Arc::clone(&pool);
        let work = move || {
            let mut has_failed = false;
            let mut business = Business::default();
            while !stopped.is_raised() && may_work() {
                let began_ns = rounds.now_ns();
                let (round, took) = timed(|| worked.work(&pool));
                match &round {
                    Ok(_) => rounds.note_step(Step::more(1)),
                    Err(error) => rounds.note_failure(began_ns, with_causes(error)),
                }
                // A failure repeats, unless it has passed by the next round.
                *noted.lock() = match &round {
                    Err(error) => Some(with_causes(error)),
                    Ok(_) => worked.damage_text(),
                };
                has_failed = round.is_err();
                match round {
                    Ok(round) if round.is_idle() => {
                        wait(&stopped, worked.options.idle_pause, || worked.has_urgent_work());
                    }
                    Ok(_) if business.look(pool.traffic()) => {
                        let pause = pause_after(took, worked.waiting(), pool.free_blocks());
                        wait(&stopped, pause, || {
                            worked.has_urgent_work() || !business.look(pool.traffic())
                        });
                    }
                    Ok(_) => {}
                    Err(_) => wait(&stopped, Duration::MAX, || rounds.is_due()),
                }
            }
            if has_failed && may_work() {
                // If this fails too, the next process that serves the member settles it.
                let _ = worked.settle(&pool);
            }
        };
        let told = move |panicked| stopping.stop_by_panic(panicked);
        let thread = panics::start("gemelo-share", told, work)?;
        sharing.shared.has_worker.store(true, Ordering::Relaxed);
        Ok(Self { sharing, stop, failure, task, thread: Some(thread) })
    }

    /// Returns the figures of the rounds.
    #[must_use]
    pub fn task(&self) -> TaskStat {
        self.task.stat()
    }

    /// Returns the reason why the last round failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }
}

/// Executes a function, and returns how long it took as well.
fn timed<T>(function: impl FnOnce() -> T) -> (T, Duration) {
    let clock = SystemClock::new();
    let result = function();
    (result, Duration::from_nanos(clock.now_ns()))
}

/// Waits, but no longer than until the flag is raised, or until there is something to do.
fn wait(stop: &StopFlag, span: Duration, mut is_due: impl FnMut() -> bool) {
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
