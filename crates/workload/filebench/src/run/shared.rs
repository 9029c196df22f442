//! The state shared by all threads of a run.

use super::aio::Job;
use super::cells::Cells;
use super::error::WorkloadError;
use super::fileset::Fileset;
use super::options::{Console, Options};
use super::signals::{EventGenerator, locked};
use crate::model::WorkloadPlan;
use crossbeam_channel::Sender;
use gemelo_base::{StopFlag, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// The reason why a run ended before its time.
#[derive(Debug)]
pub(super) enum End {
    /// All work was done.
    Finished,
    /// A flowop found no file that it could use.
    OutOfFiles(String),
    /// An operation of a flowop failed, which ends the run.
    Failed(WorkloadError),
}

pub(super) struct Shared {
    pub(super) plan: Arc<WorkloadPlan>,
    pub(super) filesets: Arc<Vec<Fileset>>,
    pub(super) events: Option<EventGenerator>,
    pub(super) clock: SystemClock,
    pub(super) console: Arc<dyn Console>,
    pub(super) options: Options,
    pub(super) aio: Option<Sender<Job>>,
    /// Number of rotating file handles in each thread.
    pub(super) rotating: usize,
    /// Bytes of each thread's memory that are touched before the run, so that the kernel provides
    /// them.
    pub(super) touched: usize,
    /// Current period of the statistics.
    pub(super) period: AtomicU32,
    /// All threads wait until this flag is set.
    pub(super) go: AtomicBool,
    pub(super) stop: AtomicBool,
    pub(super) interrupted: StopFlag,
    pub(super) running: AtomicUsize,
    pub(super) end: Mutex<Option<End>>,
    pub(super) ended: Condvar,
}

impl Shared {
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.interrupted.is_raised()
    }

    /// Ends the run of all threads. Only the first reason is kept.
    pub(super) fn end(&self, reason: End) {
        locked(&self.end).get_or_insert(reason);
        self.stop.store(true, Ordering::Relaxed);
        self.ended.notify_all();
    }

    /// Reports that a thread has ended.
    pub(super) fn thread_ended(&self) {
        // The lock ensures that the main thread is not between its check and its wait.
        let _held = locked(&self.end);
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify_all();
    }
}

/// The identity of a thread and its figures.
#[derive(Clone)]
pub(super) struct ThreadIdentity {
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) process_instance: u64,
    pub(super) thread_instance: u64,
    /// Number of the thread over all processes.
    pub(super) number: u32,
    pub(super) cells: Arc<Cells>,
    /// Cells of all threads of the same process.
    pub(super) siblings: Arc<Vec<Arc<Cells>>>,
}
