//! The tasks that the background of a pool repeats by itself, each with its name in figures.
//!
//! Their threads are in [`super::worker`]. A task that fails is tried again after a pause that
//! grows; see [`gemelo_base::background`].

use gemelo_base::Clock;
use gemelo_base::background::{Task, TaskStat};
use std::sync::Arc;

/// The tasks of an open pool.
pub(crate) struct Tasks {
    /// Writing checkpoints. Requests that need one take part.
    pub(super) checkpoint: Arc<Task>,
    /// Making changes durable at the interval. Flushes of clients take part.
    pub(super) commit: Arc<Task>,
    /// Writing out contents that had no space.
    pub(super) write_out: Arc<Task>,
    /// Telling the domain which freed blocks it may forget.
    pub(super) veto: Arc<Task>,
    /// Completing the index after an opening.
    pub(super) index: Arc<Task>,
    /// Clearing volumes that were removed.
    pub(super) removal: Arc<Task>,
    /// Giving free space back to the system.
    pub(super) collector: Arc<Task>,
    pub(super) finder: Arc<Task>,
    pub(super) arranger: Arc<Task>,
    pub(super) cleaner: Arc<Task>,
    /// Requests of clients that fail although the pool has not stopped.
    pub(super) requests: Arc<Task>,
    all: Vec<Arc<Task>>,
}

impl Tasks {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let mut all = Vec::new();
        let mut add = |task: Task| {
            let task = Arc::new(task);
            all.push(Arc::clone(&task));
            task
        };
        let task = |name| Task::new(name, Arc::clone(clock));
        Self {
            checkpoint: add(task("checkpoint")),
            commit: add(task("commit")),
            write_out: add(task("write-out")),
            veto: add(task("veto")),
            index: add(task("index")),
            removal: add(task("removal")),
            collector: add(task("collector")),
            finder: add(task("finder")),
            arranger: add(task("arranger")),
            cleaner: add(task("cleaner")),
            requests: add(Task::of_requests("requests", Arc::clone(clock))),
            all,
        }
    }

    /// The figures of all tasks.
    pub(crate) fn stats(&self) -> Vec<TaskStat> {
        self.all.iter().map(|task| task.stat()).collect()
    }
}
