//! Calls to a disk that wait until the test lets them go on, so that a race is the same in every
//! run.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A test that waits longer than this for a call has failed.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// The kinds of calls that can be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Held before it reads.
    Read,
    /// Held before it writes.
    Write,
    /// Held after the set of covered writes is fixed, and before they become durable.
    Sync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Armed,
    Held,
    Released,
}

pub struct Gate {
    which: usize,
    call: Call,
    offsets: Range<u64>,
    phase: Mutex<Phase>,
    changed: Condvar,
    fails: AtomicBool,
}

impl Gate {
    pub fn new(which: usize, call: Call, offsets: Range<u64>) -> Self {
        let (phase, changed) = (Mutex::new(Phase::Armed), Condvar::new());
        Self { which, call, offsets, phase, changed, fails: AtomicBool::new(false) }
    }

    pub fn takes(&self, which: usize, call: Call, offset: u64) -> bool {
        let is_armed = *self.phase.lock().unwrap() == Phase::Armed;
        is_armed && self.which == which && self.call == call && self.offsets.contains(&offset)
    }

    /// Waits until the test lets the call go on. Returns whether the call has to fail.
    pub fn pass(&self) -> bool {
        let mut phase = self.phase.lock().unwrap();
        if *phase == Phase::Armed {
            *phase = Phase::Held;
        }
        self.changed.notify_all();
        drop(self.changed.wait_while(phase, |phase| *phase == Phase::Held).unwrap());
        self.fails.load(Ordering::SeqCst)
    }
}

/// The test's handle of a held call. Dropping it lets the call go on.
pub struct Hold(pub Arc<Gate>);

impl Hold {
    /// Makes the held call fail when it goes on.
    pub fn fail(&self) {
        self.0.fails.store(true, Ordering::SeqCst);
    }

    /// Waits until a call is held.
    pub fn wait(&self) {
        assert!(self.is_held_within(MAX_WAIT), "no call came that was to be held");
    }

    /// Returns whether a call is held within this time.
    pub fn is_held_within(&self, most: Duration) -> bool {
        let phase = self.0.phase.lock().unwrap();
        let is_waiting = |phase: &mut Phase| *phase == Phase::Armed;
        *self.0.changed.wait_timeout_while(phase, most, is_waiting).unwrap().0 == Phase::Held
    }

    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        *self.0.phase.lock().unwrap() = Phase::Released;
        self.0.changed.notify_all();
    }
}
