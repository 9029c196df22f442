//! A scheduler for threads of the engine: one runs, the others wait at a stop, and chance decides
//! at each stop which one goes on. Stops are the calls to disks and clocks.
//!
//! A thread that waits for a lock of the engine is neither at a stop nor running. The kernel tells
//! that it sleeps, and another one goes on until the lock is free.

use gemelo_base::random::Random;
use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A thread that sleeps at this number of looks waits for a lock.
const LOOKS: u32 = 3;
/// The time between two looks at sleeping threads.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
/// Looks without a thread that can go on: 20 s, after which the test has failed.
const MAX_LOOKS: u32 = 400_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Stopped,
    Ended,
}

struct Threads {
    phases: Vec<Phase>,
    /// The files that tell the state of each thread.
    stats: Vec<PathBuf>,
    /// The thread that may go on and has not noticed it yet.
    turn: Option<usize>,
    is_over: bool,
}

impl Threads {
    /// The threads in a phase.
    fn numbers(&self, phase: Phase) -> Vec<usize> {
        let phases = self.phases.iter().enumerate();
        phases.filter(|(_, one)| **one == phase).map(|(number, _)| number).collect()
    }
}

pub struct Scheduler {
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// The number of this thread, if it is scheduled.
pub fn this_thread() -> Option<usize> {
    NUMBER.get()
}

impl Scheduler {
    /// A scheduler of this number of threads.
    pub fn new(threads: usize) -> Self {
        let threads = Threads {
            phases: vec![Phase::Running; threads],
            stats: vec![PathBuf::new(); threads],
            turn: None,
            is_over: false,
        };
        Self { threads: Mutex::new(threads), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the work of a thread, which stops before it begins.
    pub fn work(&self, number: usize, work: impl FnOnce()) {
        NUMBER.set(Some(number));
        let link = fs::read_link("/proc/thread-self").unwrap();
        self.lock().stats[number] = PathBuf::from("/proc").join(link).join("stat");
        let _end = End { scheduler: self, number };
        self.stop();
        work();
    }

    /// Lets all threads go on without stops.
    fn release(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until chance lets this thread go on. Threads that are not scheduled pass.
    pub fn stop(&self) {
        let Some(number) = NUMBER.get() else { return };
        let mut threads = self.lock();
        threads.phases[number] = Phase::Stopped;
        self.changed.notify_all();
        while threads.turn != Some(number) && !threads.is_over {
            threads = self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        threads.phases[number] = Phase::Running;
        threads.turn = None;
    }

    /// Lets the threads go on one by one until all have ended, or until `max_stops`, when `end`
    /// is called and they go on without stops. Returns the number of stops.
    pub fn run(&self, random: &mut Random, max_stops: u64, end: impl FnOnce()) -> u64 {
        for stops in 0..max_stops {
            let Some(stopped) = self.wait_for_stop() else { return stops };
            let chosen = stopped[random.below(stopped.len() as u64) as usize];
            let mut threads = self.lock();
            threads.turn = Some(chosen);
            threads.phases[chosen] = Phase::Running;
            drop(threads);
            self.changed.notify_all();
        }
        let is_under_way = self.wait_for_stop().is_some();
        end();
        if is_under_way {
            self.release();
        }
        max_stops
    }

    /// Waits until no thread runs. Returns the threads that are at a stop, or `None` if all have
    /// ended.
    fn wait_for_stop(&self) -> Option<Vec<usize>> {
        let mut sleeping_looks = 0;
        let mut threads = self.lock();
        for _ in 0..MAX_LOOKS {
            let stopped = threads.numbers(Phase::Stopped);
            let running = threads.numbers(Phase::Running);
            if running.is_empty() {
                return (!stopped.is_empty()).then_some(stopped);
            }
            let are_asleep = threads.turn.is_none()
                && running.into_iter().all(|number| is_asleep(&threads.stats[number]));
            sleeping_looks = if are_asleep { sleeping_looks + 1 } else { 0 };
            if sleeping_looks >= LOOKS && !stopped.is_empty() {
                return Some(stopped);
            }
            let waited = self.changed.wait_timeout(threads, POLL_INTERVAL);
            threads = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(threads);
        self.release();
        panic!("the threads wait for each other");
    }
}

/// Notes the end of a thread, which may be a panic.
struct End<'s> {
    scheduler: &'s Scheduler,
    number: usize,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.scheduler.lock().phases[self.number] = Phase::Ended;
        self.scheduler.changed.notify_all();
    }
}

/// Returns whether the thread of this file sleeps.
fn is_asleep(stat: &PathBuf) -> bool {
    let text = fs::read_to_string(stat).unwrap_or_default();
    text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
}
