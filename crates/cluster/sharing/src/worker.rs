//! The background thread that shares the contents of an open pool.

use crate::pace::{Business, pause_after};
use crate::sharing::Round;
use crate::{Sharing, SharingError};
use gemelo_base::background::{Step, StopSignal, Task, TaskStat, Worker};
use gemelo_base::{Clock, SystemClock, with_causes};
use gemelo_volume::Pool;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval between two looks at the stop flag and at blocks that writers may wait for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The thread, until the value is dropped. The pool is closed afterwards.
pub struct SharingWorker {
    sharing: Arc<Sharing>,
    failure: Arc<Mutex<Option<String>>>,
    /// The rounds. The store may be cut off for a while, and then they pause for longer and longer.
    task: Arc<Task>,
    /// The thread, which ends with the value.
    worker: Option<Worker>,
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
        let (task, failure) = (Arc::new(Task::new("sharing", clock)), Arc::default());
        let stopping = Arc::clone(&pool);
        let told = move |panicked| stopping.stop_by_panic(panicked);
        let rounds = Rounds {
            sharing: Arc::clone(&sharing),
            pool,
            task: Arc::clone(&task),
            failure: Arc::<Mutex<_>>::clone(&failure),
            business: Business::default(),
        };
        let worker = Worker::start("gemelo-share", told, move |stop| rounds.work(stop, &may_work))?;
        sharing.shared.has_worker.store(true, Ordering::Relaxed);
        Ok(Self { sharing, failure, task, worker: Some(worker) })
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

/// The rounds of sharing, one after another.
struct Rounds {
    sharing: Arc<Sharing>,
    pool: Arc<Pool>,
    task: Arc<Task>,
    failure: Arc<Mutex<Option<String>>>,
    business: Business,
}

impl Rounds {
    fn work(mut self, stop: &StopSignal, may_work: &dyn Fn() -> bool) {
        while !stop.is_raised() && may_work() {
            let clock = SystemClock::new();
            let mut made = None;
            let step = self.task.make(|| {
                made = Some(self.sharing.work(&self.pool)?);
                Ok::<_, SharingError>(Step::more(1))
            });
            let took = Duration::from_nanos(clock.now_ns());
            // A failure repeats, unless it has passed by the next round.
            *self.failure.lock() = match &step {
                Err(error) => Some(with_causes(error)),
                Ok(_) => self.sharing.damage_text(),
            };
            self.rest(stop, made, took);
        }
        if self.task.is_failing() && may_work() {
            // If this fails too, the next process that serves the member settles it.
            let _ = self.sharing.settle(&self.pool);
        }
    }

    /// Waits after a round that took so long.
    fn rest(&mut self, stop: &StopSignal, round: Option<Round>, took: Duration) {
        let Self { sharing, pool, task, business, .. } = self;
        match round {
            Some(round) if round.is_idle() => {
                let is_due = || sharing.has_urgent_work();
                stop.wait_until(sharing.options.idle_pause, POLL_INTERVAL, is_due);
            }
            Some(_) if business.look(pool.traffic()) => {
                let pause = pause_after(took, sharing.waiting(), pool.free_blocks());
                stop.wait_until(pause, POLL_INTERVAL, || {
                    sharing.has_urgent_work() || !business.look(pool.traffic())
                });
            }
            Some(_) => {}
            None => stop.wait_until(Duration::MAX, POLL_INTERVAL, || task.is_due()),
        }
    }
}

impl Drop for SharingWorker {
    fn drop(&mut self) {
        self.sharing.shared.has_worker.store(false, Ordering::Relaxed);
        self.worker = None;
    }
}
