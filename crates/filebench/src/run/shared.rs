//! What all threads of a run share.

use super::aio::Job;
use super::cells::Cells;
use super::error::RunError;
use super::fileset::Fileset;
use super::signals::{EventGenerator, Gate, Semaphore, locked};
use super::{Console, Options};
use crate::model::Plan;
use crossbeam_channel::Sender;
use gemelo_base::{StopFlag, SystemClock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Why a run ended before its time.
#[derive(Debug)]
pub(super) enum End {
    /// Everything was done that should be.
    Finished,
    /// A flowop found no file that it could use.
    OutOfFiles(String),
    /// A flowop failed.
    Failed(RunError),
}

/// Semaphores and gates by the name of their flowop.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) semaphores: HashMap<String, Vec<Arc<Semaphore>>>,
    pub(super) gates: HashMap<String, Vec<Arc<Gate>>>,
}

pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) filesets: Arc<Vec<Fileset>>,
    pub(super) signals: Signals,
    pub(super) events: Option<EventGenerator>,
    pub(super) clock: SystemClock,
    pub(super) console: Arc<dyn Console>,
    pub(super) options: Options,
    pub(super) aio: Option<Sender<Job>>,
    /// File handles of each thread that rotate.
    pub(super) rotating: usize,
    /// Bytes of each thread's memory that the kernel has to provide before the run, and not in it.
    pub(super) touched: usize,
    /// The period of the statistics.
    pub(super) period: AtomicU32,
    /// All threads wait until it is set.
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

    /// Ends the run for everybody. The first reason counts.
    pub(super) fn end(&self, reason: End) {
        locked(&self.end).get_or_insert(reason);
        self.stop.store(true, Ordering::Relaxed);
        self.ended.notify_all();
    }

    /// A thread has come to its end.
    pub(super) fn thread_ended(&self) {
        // Taken so that the main thread is not between looking and waiting.
        let _held = locked(&self.end);
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.ended.notify_all();
    }
}

/// One thread: whose it is and where its figures are.
#[derive(Clone)]
pub(super) struct Seat {
    pub(super) process: usize,
    pub(super) thread: usize,
    pub(super) process_instance: u64,
    pub(super) thread_instance: u64,
    /// Counted over all threads.
    pub(super) number: u32,
    pub(super) cells: Arc<Cells>,
    /// The cells of all threads of the same process.
    pub(super) siblings: Arc<Vec<Arc<Cells>>>,
}
