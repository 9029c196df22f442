//! The memory of a cache, which is made ahead of need.

use crate::memory::{Memory, Slot};
use gemelo_base::locks::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory of all shards.
#[derive(Debug)]
pub(super) struct CacheMemory {
    memory: Mutex<Memory>,
    /// `true` if a thread makes it. Otherwise it is made when it is needed.
    is_made_ahead: bool,
    is_wanted: AtomicBool,
    is_ending: AtomicBool,
    /// Signalled when memory is wanted for the first time, and at the end.
    wanted: Condvar,
}

impl CacheMemory {
    pub(super) fn new(memory: Memory, is_made_ahead: bool) -> Self {
        Self {
            memory: Mutex::new(memory),
            is_made_ahead,
            is_wanted: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            wanted: Condvar::new(),
        }
    }

    /// Returns a slot, if there is one that was never used.
    pub(super) fn take(&self) -> Option<Slot> {
        let mut memory = self.memory.lock();
        if memory.free() == 0 && !self.is_made_ahead {
            let step = memory.begin_step()?;
            memory.add_step(step.make());
        }
        if self.is_made_ahead && !self.is_wanted.swap(true, Ordering::Relaxed) {
            self.wanted.notify_all();
        }
        memory.take(1).pop()
    }

    /// Makes the memory step by step once it is wanted, until all is there or the cache ends.
    pub(super) fn make(&self) {
        let is_ending = || self.is_ending.load(Ordering::Acquire);
        let mut memory = self.memory.lock();
        while !is_ending() && !self.is_wanted.load(Ordering::Acquire) {
            self.wanted.wait(&mut memory);
        }
        while !is_ending()
            && let Some(step) = memory.begin_step()
        {
            let slots = memory.unlocked(|| step.make());
            memory.add_step(slots);
        }
    }

    /// Ends the thread that makes it.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
        // The thread looks with the lock held, so it is either before that or waits.
        drop(self.memory.lock());
        self.wanted.notify_all();
    }
}
