//! The threads of work in the background: each ends when its handle is dropped, and none ends in
//! silence.

use crate::locks::{Condvar, Mutex};
use crate::panics::{self, Panicked};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Tells a worker to stop.
#[derive(Default)]
pub struct StopSignal {
    stop: Mutex<bool>,
    raised: Condvar,
}

impl StopSignal {
    /// Waits for this time. Returns `true` if the worker has to stop.
    pub fn wait_for(&self, time: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop && !time.is_zero() {
            self.raised.wait_for(&mut stop, time);
        }
        *stop
    }

    /// Waits for this time, but no longer than until there is something to do, which is looked at
    /// once in `interval`.
    pub fn wait_until(&self, time: Duration, interval: Duration, mut is_due: impl FnMut() -> bool) {
        let mut rest = time;
        while !rest.is_zero() {
            let step = rest.min(interval);
            if self.wait_for(step) || is_due() {
                return;
            }
            rest -= step;
        }
    }

    /// Returns `true` if the worker has to stop.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.stop.lock()
    }

    fn raise(&self) {
        *self.stop.lock() = true;
        self.raised.notify_all();
    }
}

/// A thread of work in the background, until the value is dropped, which waits for its end.
pub struct Worker {
    signal: Arc<StopSignal>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts a thread, which has to end soon after its signal is raised. If it ends by a panic, it
    /// calls `told` with the panic first.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub fn start(
        name: &str,
        told: impl FnOnce(Panicked) + Send + 'static,
        work: impl FnOnce(&StopSignal) + Send + 'static,
    ) -> io::Result<Self> {
        let signal = Arc::new(StopSignal::default());
        let heard = Arc::clone(&signal);
        let thread = panics::start(name, told, move || work(&heard))?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Starts a thread that calls a function at an interval, until it returns `false`.
    ///
    /// # Errors
    /// Fails if the system starts no thread.
    pub fn repeat(
        name: &str,
        told: impl FnOnce(Panicked) + Send + 'static,
        interval: Duration,
        mut call: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(name, told, move |stop| while !stop.wait_for(interval) && call() {})
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.signal.raise();
        if let Some(thread) = self.thread.take() {
            // Whoever started the thread was told of a panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    #[test]
    fn a_worker_repeats_its_call_until_it_ends_or_is_dropped() {
        let (tell, told) = mpsc::channel();
        let calls = AtomicU32::new(0);
        let call = move || tell.send(calls.fetch_add(1, Ordering::Relaxed)).is_ok();
        let worker = Worker::repeat("gemelo-test", |_| {}, Duration::from_millis(1), call).unwrap();
        assert_eq!((told.recv(), told.recv()), (Ok(0), Ok(1)));
        drop(worker);
        assert!(told.iter().count() < 1_000_000, "the channel is closed: the thread has ended");
    }

    #[test]
    fn a_drop_does_not_wait_for_the_rest_of_a_pause() {
        let waits = |stop: &StopSignal| {
            stop.wait_until(Duration::MAX, Duration::from_secs(3600), || false);
        };
        drop(Worker::start("gemelo-test", |_| {}, waits).unwrap());
    }

    #[test]
    fn a_pause_ends_when_there_is_something_to_do() {
        let (signal, mut looks) = (StopSignal::default(), 0);
        signal.wait_until(Duration::MAX, Duration::from_millis(1), || {
            looks += 1;
            looks == 3
        });
        assert_eq!(looks, 3);
        assert!(!signal.is_raised());
    }
}
