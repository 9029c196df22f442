//! Synchronisation of threads: semaphores, block and wakeup, and the event generator. Every wait
//! checks the stop flag periodically, so no thread hangs when a run ends.

use crate::model::Quantity;
use gemelo_base::random::Random;
use gemelo_base::{Clock, SystemClock};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest wait before a thread checks whether the run has ended.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// Locks a mutex. Poisoning is ignored, because a panic leaves the small structures here
/// consistent.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Marks {
    low: i64,
    high: i64,
    waiting: u32,
}

/// A pair of counters. A post raises the low mark. A blocking post also lowers the high mark, which
/// never falls below 0.
#[derive(Debug)]
pub(super) struct Semaphore {
    marks: Mutex<Marks>,
    changed: Condvar,
}

impl Semaphore {
    pub(super) fn new(high_water: u64) -> Self {
        let high = i64::try_from(high_water).unwrap_or(i64::MAX);
        Self { marks: Mutex::new(Marks { low: 0, high, waiting: 0 }), changed: Condvar::new() }
    }

    /// Adds `value` to the low mark. A blocking post first waits until the high mark is at least
    /// `value`.
    pub(super) fn post(&self, value: i64, blocking: bool, stopped: &dyn Fn() -> bool) {
        let mut marks = locked(&self.marks);
        if blocking {
            marks = self.wait(marks, stopped, |marks| marks.high >= value);
            marks.high -= value;
        }
        marks.low += value;
        self.tell(&marks);
    }

    /// Returns `value` to the high mark, then waits for it in the low mark and takes it from there.
    pub(super) fn take(&self, value: i64, stopped: &dyn Fn() -> bool) {
        let mut marks = locked(&self.marks);
        marks.high = marks.high.saturating_add(value);
        self.tell(&marks);
        marks = self.wait(marks, stopped, |marks| marks.low >= value);
        marks.low -= value;
    }

    fn tell(&self, marks: &Marks) {
        if marks.waiting > 0 {
            self.changed.notify_all();
        }
    }

    fn wait<'a>(
        &self,
        mut marks: MutexGuard<'a, Marks>,
        stopped: &dyn Fn() -> bool,
        ready: impl Fn(&Marks) -> bool,
    ) -> MutexGuard<'a, Marks> {
        while !ready(&marks) && !stopped() {
            marks.waiting += 1;
            let result = self.changed.wait_timeout(marks, LOOK_INTERVAL);
            marks = result.unwrap_or_else(PoisonError::into_inner).0;
            marks.waiting -= 1;
        }
        marks
    }
}

/// A condition on which `block` waits for `wakeup`. A wakeup without a waiting thread has no
/// effect.
#[derive(Debug, Default)]
pub(super) struct WakeupCondition {
    wakeups: Mutex<u64>,
    changed: Condvar,
}

impl WakeupCondition {
    pub(super) fn wait(&self, stopped: &dyn Fn() -> bool) {
        let mut wakeups = locked(&self.wakeups);
        let before = *wakeups;
        while *wakeups == before && !stopped() {
            let result = self.changed.wait_timeout(wakeups, LOOK_INTERVAL);
            wakeups = result.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn signal(&self) {
        *locked(&self.wakeups) += 1;
        self.changed.notify_all();
    }
}

struct Bucket {
    events: f64,
    last_ns: u64,
    random: Random,
}

/// Generates events at a rate. Threads take them in the order of their requests.
pub(super) struct EventGenerator {
    rate: Quantity,
    bucket: Mutex<Bucket>,
}

/// Seconds for which unused events are kept.
const DEPTH_S: f64 = 5.0;

impl EventGenerator {
    pub(super) fn new(rate: Quantity, now_ns: u64, seed: u64) -> Self {
        Self {
            rate,
            bucket: Mutex::new(Bucket { events: 0.0, last_ns: now_ns, random: Random::new(seed) }),
        }
    }

    /// Waits for `count` events and takes them.
    pub(super) fn take(&self, count: u64, clock: &SystemClock, stopped: &dyn Fn() -> bool) {
        while !stopped() {
            let wait_ns = self.try_take(count as f64, clock.now_ns());
            if wait_ns == 0 {
                return;
            }
            let now_ns = clock.now_ns();
            clock.sleep_until_ns(now_ns + wait_ns.min(LOOK_INTERVAL.as_nanos() as u64));
        }
    }

    /// Takes the events and returns 0, or returns the time to wait in nanoseconds.
    fn try_take(&self, count: f64, now_ns: u64) -> u64 {
        let mut bucket = locked(&self.bucket);
        let rate = self.rate.next_real(&mut bucket.random);
        if rate <= 0.0 {
            return 0;
        }
        let elapsed_s = now_ns.saturating_sub(bucket.last_ns) as f64 / 1e9;
        bucket.last_ns = bucket.last_ns.max(now_ns);
        // The bucket holds at least `count` events, as a larger request would otherwise never
        // succeed.
        bucket.events = (bucket.events + elapsed_s * rate).min((DEPTH_S * rate).max(count));
        if bucket.events >= count {
            bucket.events -= count;
            return 0;
        }
        (((count - bucket.events) / rate * 1e9) as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_semaphore_passes_what_was_posted_and_holds_back_at_the_high_mark() {
        let semaphore = Semaphore::new(2);
        let passed = AtomicBool::new(false);
        let never = || false;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The third post has to wait for a take.
                for _ in 0..3 {
                    semaphore.post(1, true, &never);
                }
                passed.store(true, Ordering::SeqCst);
            });
            gemelo_tools::wait_until("the third post waits", || {
                let marks = locked(&semaphore.marks);
                marks.low == 2 && marks.waiting == 1
            });
            assert!(!passed.load(Ordering::SeqCst));
            semaphore.take(2, &never);
        });
        assert!(passed.load(Ordering::SeqCst));
    }

    #[test]
    fn waits_end_when_the_run_is_stopped() {
        let stopped = || true;
        Semaphore::new(0).take(5, &stopped);
        WakeupCondition::default().wait(&stopped);
    }

    #[test]
    fn events_come_at_their_rate_and_are_kept_five_seconds() {
        let events = EventGenerator::new(Quantity::Fixed(10.0), 0, 1);
        assert_eq!(events.try_take(1.0, 0), 100_000_000);
        assert_eq!(events.try_take(1.0, 100_000_000), 0);
        assert!(events.try_take(1.0, 150_000_000) > 0);
        // After a minute there are 50 events rather than 600.
        assert_eq!(events.try_take(50.0, 60_000_000_000), 0);
        assert!(events.try_take(1.0, 60_000_000_000) > 0);
        // A request above the depth also succeeds in time.
        assert!(events.try_take(100.0, 60_000_000_000) > 0);
        assert_eq!(events.try_take(100.0, 70_000_000_000), 0);
    }
}
