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
    pub(super) write_out: Task,
    /// Telling the domain which freed blocks it may forget.
    pub(super) veto: Task,
    /// Completing the index after an opening.
    pub(super) index: Task,
    /// Clearing volumes that were removed.
    pub(super) removal: Task,
    /// Giving free space back to the system.
    pub(super) collector: Task,
    pub(super) finder: Task,
    pub(super) arranger: Task,
    pub(super) cleaner: Task,
    /// Requests of clients that fail although the pool has not stopped.
    pub(super) requests: Task,
}

impl Tasks {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        let task = |name| Task::new(name, Arc::clone(clock));
        Self {
            checkpoint: Arc::new(task("checkpoint")),
            commit: Arc::new(task("commit")),
            write_out: task("write-out"),
            veto: task("veto"),
            index: task("index"),
            removal: task("removal"),
            collector: task("collector"),
            finder: task("finder"),
            arranger: task("arranger"),
            cleaner: task("cleaner"),
            requests: Task::of_requests("requests", Arc::clone(clock)),
        }
    }

    /// The figures of all tasks.
    pub(crate) fn stats(&self) -> Vec<TaskStat> {
        let Self {
            checkpoint,
            commit,
            write_out,
            veto,
            index,
            removal,
            collector,
            finder,
            arranger,
            cleaner,
            requests,
        } = self;
        let all = [
            &**checkpoint,
            &**commit,
            write_out,
            veto,
            index,
            removal,
            collector,
            finder,
            arranger,
            cleaner,
            requests,
        ];
        all.map(Task::stat).into()
    }
}
