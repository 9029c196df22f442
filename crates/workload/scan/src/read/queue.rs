//! The bounded queue between the walk and the readers, and the list of large files that several
//! readers share.

use super::large::LargeFile;
use crate::halt::Halt;
use crate::set::locked;
use crate::walk::{Batch, Ended};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most batches that wait. Each keeps its directory open, so this also bounds the open files.
const MAX_BATCHES: usize = 128;

/// The interval at which a waiting thread checks the stop flag, because the flag cannot wake it.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// A unit of work for a reader.
pub(crate) enum Work {
    /// A batch of files to open and read.
    Batch(Batch),
    /// A large file that may have unread pieces.
    Large(Arc<LargeFile>),
}

#[derive(Default)]
struct State {
    batches: VecDeque<Batch>,
    large: VecDeque<Arc<LargeFile>>,
    /// The number of readers with work in hand, which may still add a large file.
    busy: usize,
    walk_is_over: bool,
}

pub(crate) struct Queue<'scan> {
    state: Mutex<State>,
    more: Condvar,
    room: Condvar,
    halt: &'scan Halt,
}

impl<'scan> Queue<'scan> {
    pub(crate) fn new(halt: &'scan Halt) -> Self {
        Self {
            state: Mutex::new(State::default()),
            more: Condvar::new(),
            room: Condvar::new(),
            halt,
        }
    }

    fn wait<'held>(
        condition: &Condvar,
        held: MutexGuard<'held, State>,
    ) -> MutexGuard<'held, State> {
        condition.wait_timeout(held, STOP_CHECK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Adds a batch. Waits while the queue is full.
    pub(crate) fn send(&self, batch: Batch) -> Result<(), Ended> {
        let mut state = locked(&self.state);
        while state.batches.len() >= MAX_BATCHES {
            if self.halt.is_raised() {
                return Err(Ended);
            }
            state = Self::wait(&self.room, state);
        }
        state.batches.push_back(batch);
        self.more.notify_one();
        Ok(())
    }

    /// Marks the end of the walk: no more batches will come.
    pub(crate) fn end_walk(&self) {
        locked(&self.state).walk_is_over = true;
        self.more.notify_all();
    }

    /// Returns whether all work is done.
    pub(crate) fn is_over(&self) -> bool {
        let state = locked(&self.state);
        state.walk_is_over && state.busy == 0 && state.batches.is_empty() && state.large.is_empty()
    }

    /// Adds a large file. All readers take pieces of it.
    pub(crate) fn share(&self, file: Arc<LargeFile>) {
        locked(&self.state).large.push_back(file);
        self.more.notify_all();
    }

    /// Returns the next work; `None` when no work is left or will come. Large files come first, so
    /// that few of them are open at once. The caller must call [`Queue::done`] after each unit of
    /// work.
    pub(crate) fn take(&self) -> Option<Work> {
        let mut state = locked(&self.state);
        loop {
            if self.halt.is_raised() {
                return None;
            }
            if let Some(file) = state.large.front().cloned() {
                state.busy += 1;
                return Some(Work::Large(file));
            }
            if let Some(batch) = state.batches.pop_front() {
                state.busy += 1;
                self.room.notify_one();
                return Some(Work::Batch(batch));
            }
            if state.walk_is_over && state.busy == 0 {
                self.more.notify_all();
                return None;
            }
            state = Self::wait(&self.more, state);
        }
    }

    /// Removes a large file that has no unread pieces.
    pub(crate) fn retire(&self, file: &Arc<LargeFile>) {
        locked(&self.state).large.retain(|other| !Arc::ptr_eq(other, file));
    }

    /// Marks one unit of work as done.
    pub(crate) fn done(&self) {
        let mut state = locked(&self.state);
        state.busy -= 1;
        if state.busy == 0 && state.walk_is_over {
            self.more.notify_all();
        }
    }
}
