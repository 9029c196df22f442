//! Threads that execute batches beside the threads of connections. All connections of a server
//! share them.
//!
//! As with memory, a thread is granted or refused, and never waited for: a connection may have one
//! more as long as the same number then stays free for the others. Slow clients of one connection
//! therefore leave threads to others, and a connection without any executes its batches itself.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after which a thread without work ends.
const IDLE: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

/// The threads of a server.
#[derive(Debug)]
pub struct Helpers {
    inner: Arc<Started>,
}

struct Started {
    /// Most threads.
    most: usize,
    state: Mutex<HelperQueue>,
    called: Condvar,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Started").field("most", &self.most).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct HelperQueue {
    work: VecDeque<Work>,
    threads: usize,
    /// Threads that are granted. There are at least as many threads.
    granted: usize,
    is_ending: bool,
}

/// A thread that is granted, until it has done its work or this is dropped.
#[derive(Debug)]
pub struct Helper {
    inner: Arc<Started>,
}

impl Helpers {
    /// Makes a pool of at most this many threads. They start when they are needed.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let (state, called) = (Mutex::default(), Condvar::new());
        Self { inner: Arc::new(Started { most, state, called }) }
    }

    /// Grants a thread to a connection that has `held` of them.
    #[must_use]
    pub fn grant(&self, held: usize) -> Option<Helper> {
        let mut state = self.inner.lock();
        let left = self.inner.most.checked_sub(state.granted + 1)?;
        if held + 1 > left.max(1) {
            return None;
        }
        if state.granted == state.threads {
            let inner = Arc::clone(&self.inner);
            let thread = std::thread::Builder::new().name("helper".to_owned());
            thread.spawn(move || inner.work()).ok()?;
            state.threads += 1;
        }
        state.granted += 1;
        assert!(
            state.granted <= state.threads && state.granted <= self.inner.most,
            "a thread is granted once"
        );
        Some(Helper { inner: Arc::clone(&self.inner) })
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.inner.lock().is_ending = true;
        self.inner.called.notify_all();
    }
}

impl Helper {
    /// Has the thread do this work, which must not panic. The work drops the helper when another
    /// connection may have the thread: it must end soon after.
    pub fn run(self, work: impl FnOnce(Self) + Send + 'static) {
        let inner = Arc::clone(&self.inner);
        let mut state = inner.lock();
        assert!(state.work.len() < state.granted, "work is only for threads that are granted");
        state.work.push_back(Box::new(move || work(self)));
        drop(state);
        inner.called.notify_one();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.inner.lock().granted -= 1;
    }
}

impl Started {
    fn lock(&self) -> MutexGuard<'_, HelperQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does work until there has been none for a while.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.work.pop_front() {
                drop(state);
                work();
                state = self.lock();
                continue;
            }
            if state.is_ending {
                break;
            }
            let waited = self.called.wait_timeout(state, IDLE);
            let timed_out;
            (state, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            // A thread that is granted will get work.
            if timed_out.timed_out() && state.work.is_empty() && state.threads > state.granted {
                break;
            }
        }
        state.threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_greedy_connection_leaves_half_of_the_threads_and_the_next_one_half_of_the_rest() {
        let helpers = Helpers::new(16);
        let mut greedy = Vec::new();
        while let Some(helper) = helpers.grant(greedy.len()) {
            greedy.push(helper);
        }
        assert_eq!(greedy.len(), 8);
        let mut second = Vec::new();
        while let Some(helper) = helpers.grant(second.len()) {
            second.push(helper);
        }
        assert_eq!(second.len(), 4);
        drop(greedy);
        assert!(helpers.grant(second.len()).is_some(), "what is given back can be had");
        assert!(Helpers::new(0).grant(0).is_none());
        let one = Helpers::new(1);
        let only = one.grant(0);
        assert!(only.is_some() && one.grant(0).is_none());
    }

    #[test]
    fn granted_threads_work_side_by_side_and_are_used_again() {
        let helpers = Helpers::new(8);
        let (ready, all_ready) = mpsc::channel();
        for _ in 0..3 {
            let gates: Vec<_> = (0..3)
                .map(|at| {
                    let (open, gate) = mpsc::channel::<()>();
                    let ready = ready.clone();
                    helpers.grant(at).unwrap().run(move |_helper| {
                        ready.send(()).unwrap();
                        let _ = gate.recv();
                    });
                    open
                })
                .collect();
            // All three have begun, and none has ended.
            (0..3).for_each(|_| all_ready.recv().unwrap());
            drop(gates);
            while helpers.inner.lock().granted > 0 {
                std::thread::yield_now();
            }
        }
        assert_eq!(helpers.inner.lock().threads, 3);
    }
}
