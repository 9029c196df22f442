//! The gate of a device's queues: all of their threads pass it at once, or none does. The thread
//! that starts them passes with them, and knows then that all queues can serve.
//!
//! The driver counts a queue as served with the command of its last tag. A server that dies between
//! the counts of two queues leaves a device that Linux 6.12 cannot have taken over: the next try
//! hangs, or stops the kernel. So each thread waits here before that command, and the time between
//! them is that of a wake-up.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The right of a thread to pass. One that is dropped instead closes the gate.
pub(crate) struct Ticket {
    gate: Arc<Gate>,
}

struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Clone, Copy)]
struct GateState {
    /// Threads that are still to come.
    missing: usize,
    is_closed: bool,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Returns the tickets of a gate, for the caller and so many threads.
    pub(crate) fn of(threads: usize) -> (Self, Vec<Self>) {
        let state = GateState { missing: threads + 1, is_closed: false };
        let gate = Arc::new(Gate { state: Mutex::new(state), changed: Condvar::new() });
        let ticket = || Self { gate: Arc::clone(&gate) };
        (ticket(), (0..threads).map(|_| ticket()).collect())
    }

    /// Waits until all threads are here. Returns whether they are, and not one of them is lost.
    pub(crate) fn pass(self) -> bool {
        let mut state = self.gate.lock();
        state.missing -= 1;
        self.gate.changed.notify_all();
        while state.missing > 0 && !state.is_closed {
            state = self.gate.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.missing == 0
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.gate.lock().is_closed = true;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn all_pass_or_none() {
        let passing = |tickets: Vec<Ticket>| {
            let threads = tickets.into_iter().map(|ticket| thread::spawn(|| ticket.pass()));
            threads.collect::<Vec<_>>()
        };
        let have_passed = |threads: Vec<thread::JoinHandle<bool>>| {
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        };
        let (own, tickets) = Ticket::of(2);
        let threads = passing(tickets);
        assert!(own.pass());
        assert_eq!(have_passed(threads), [true, true]);
        let (own, tickets) = Ticket::of(2);
        let threads = passing(tickets);
        drop(own);
        assert_eq!(have_passed(threads), [false, false]);
        let (own, mut tickets) = Ticket::of(2);
        drop(tickets.pop());
        let threads = passing(tickets);
        assert!(!own.pass());
        assert_eq!(have_passed(threads), [false]);
    }
}
