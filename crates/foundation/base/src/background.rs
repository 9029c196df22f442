//! Work that goes on in the background by itself: a task makes one step after another, and says
//! after each how much it did and when to come again.
//!
//! A step that fails is tried again, after a pause that grows with each failure up to a bound, so
//! that a task which cannot work takes next to no processor. A task knows since when it fails and
//! why. Whoever reports on it reads that as a [`TaskStat`]: it holds as long as the failure does,
//! and no longer. [`FailureLog`] turns the same state into one line when a task begins to fail, and
//! one when it works again.
//!
//! A [`Worker`] is the thread of one or of several tasks. It calls [`Task::turn`] at its interval,
//! and the task decides whether anything is to be done.

mod worker;

pub use worker::{StopSignal, Worker};

use crate::locks::Mutex;
use crate::units::format_counted_as;
use crate::{Clock, Monitor, with_causes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause after the first failure.
pub const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two tries, unless the tries themselves take long. Whoever has mended the
/// cause waits for it.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A pause is at least so many times as long as the try before it took.
const PAUSE_PER_TRY: u64 = 32;
/// Longest pause after tries that take long.
const LONGEST_PAUSE_PER_TRY: Duration = Duration::from_secs(600);
/// A failure of requests counts as passed after this time without another one. Nobody tries such a
/// request again, so nothing else shows that it would succeed.
const REQUESTS_QUIET: Duration = Duration::from_secs(10);

/// The outcome of one step of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// How much was done, in the task's own unit.
    pub done: u64,
    /// When to come again.
    pub again: Again,
}

/// The time of the next step of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// There is more to do.
    AtOnce,
    /// Not before this time has passed.
    After(Duration),
}

impl Step {
    /// A step with more to do after it.
    #[must_use]
    pub const fn more(done: u64) -> Self {
        Self { done, again: Again::AtOnce }
    }

    /// A step after which the task rests.
    #[must_use]
    pub const fn then_rest(done: u64, rest: Duration) -> Self {
        Self { done, again: Again::After(rest) }
    }
}

/// A failure that lasts.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TaskFailure {
    /// The error of the last try, with its causes.
    pub error: String,
    /// Tries that failed one after another.
    pub tries: u64,
    /// Time since the first of them.
    pub since_ns: u64,
    /// Time to the next one. Zero for requests of clients, which nothing repeats by itself.
    pub next_try_ns: u64,
}

/// A task in numbers.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct TaskStat {
    /// The name of the task, such as `checkpoint`.
    pub name: String,
    /// Amount of work that was done, in the task's own unit.
    pub done: u64,
    /// Tries so far that failed.
    pub failures: u64,
    /// How often the task began to fail.
    pub outages: u64,
    /// The error of the last try that failed, also if the task works again.
    pub last_error: Option<String>,
    /// The failure that lasts; [`None`] for a task that works.
    pub failure: Option<TaskFailure>,
}

impl TaskStat {
    /// The warning that holds while the task fails.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        let since_s = failure.since_ns / 1_000_000_000;
        let tries = format_counted_as(failure.tries, "try", "tries");
        let next = match failure.next_try_ns.div_ceil(1_000_000_000) {
            0 => String::new(),
            next_s => format!(", the next in {next_s} s"),
        };
        Some(format!("{} fails since {since_s} s ({tries}{next}): {}", self.name, failure.error))
    }
}

/// The pauses of a task while it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pauses {
    /// They grow with each failure.
    Growing,
    /// They are always the same: who waits longer comes too late.
    Steady,
    /// Nothing is tried again.
    Requests,
}

/// The tries of a task that have failed one after another.
#[derive(Debug)]
struct Outage {
    tries: u64,
    since_ns: u64,
    last_ns: u64,
}

#[derive(Debug, Default)]
struct State {
    done: u64,
    failures: u64,
    outages: u64,
    last_error: Option<String>,
    outage: Option<Outage>,
    /// The next step is not made before this time.
    due_ns: u64,
    /// The last pause after a failure. It stays for a while after a success, so that a task which
    /// fails every other time has long pauses, too.
    pause_ns: u64,
    /// The end of the last outage.
    mended_ns: u64,
}

/// A task in the background: its state, and the time of its next step.
pub struct Task {
    name: &'static str,
    clock: Arc<dyn Clock>,
    pauses: Pauses,
    /// `true` while the last try failed, to be looked at without a lock.
    is_failing: AtomicBool,
    state: Mutex<State>,
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").field("name", &self.name).finish_non_exhaustive()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Task {
    /// Makes a task whose pauses grow while it fails.
    #[must_use]
    pub fn new(name: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self {
            name,
            clock,
            pauses: Pauses::Growing,
            is_failing: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    /// Makes a task that is tried again at its own interval also while it fails, because waiting
    /// longer would make the failure final. A step of it has to be cheap.
    #[must_use]
    pub fn steady(name: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self { pauses: Pauses::Steady, ..Self::new(name, clock) }
    }

    /// Makes an entry for requests of others, which nothing tries again. They count as failing
    /// until none has failed for ten seconds.
    #[must_use]
    pub fn of_requests(name: &'static str, clock: Arc<dyn Clock>) -> Self {
        Self { pauses: Pauses::Requests, ..Self::new(name, clock) }
    }

    /// Makes a step if one is due. Returns `None` if none is due, or if the step has failed.
    pub fn turn<E: Error>(&self, step: impl FnOnce() -> Result<Step, E>) -> Option<Step> {
        self.is_due().then(|| self.make(step).ok()).flatten()
    }

    /// Makes a step now, because somebody asked for it.
    ///
    /// # Errors
    /// Fails if the step does.
    pub fn make<E: Error>(&self, step: impl FnOnce() -> Result<Step, E>) -> Result<Step, E> {
        let began_ns = self.clock.now_ns();
        let made = step();
        match &made {
            Ok(step) => self.note_step(*step),
            Err(error) => self.note_failure(began_ns, with_causes(error)),
        }
        made
    }

    /// The present time on the clock of the task.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Puts the next step off for at least this time.
    pub fn put_off(&self, time: Duration) {
        let until_ns = self.clock.now_ns().saturating_add(nanoseconds(time));
        let mut state = self.state.lock();
        state.due_ns = state.due_ns.max(until_ns);
    }

    /// Returns whether a step is due.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.clock.now_ns() >= self.state.lock().due_ns
    }

    /// Returns whether the last try failed.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Acquire)
    }

    /// The time until the next step is due.
    #[must_use]
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.state.lock().due_ns.saturating_sub(self.clock.now_ns()))
    }

    /// The error of the last try, if it failed less than [`FIRST_PAUSE`] ago. Requests that need
    /// the task get it, and do not try more often than that.
    #[must_use]
    pub fn fresh_failure(&self) -> Option<String> {
        let state = self.state.lock();
        let fresh_ns = nanoseconds(FIRST_PAUSE).min(state.pause_ns);
        let outage = state.outage.as_ref()?;
        let is_fresh = self.clock.now_ns() < outage.last_ns.saturating_add(fresh_ns);
        is_fresh.then(|| state.last_error.clone().unwrap_or_default())
    }

    /// Notes a step that was made, which ends an outage.
    pub fn note_step(&self, step: Step) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock();
        state.done = state.done.saturating_add(step.done);
        state.due_ns = match step.again {
            Again::AtOnce => now_ns,
            Again::After(rest) => now_ns.saturating_add(nanoseconds(rest)),
        };
        if state.outage.take().is_some() {
            self.end(&mut state, now_ns);
        }
    }

    fn end(&self, state: &mut State, now_ns: u64) {
        state.mended_ns = now_ns;
        self.is_failing.store(false, Ordering::Release);
    }

    /// Notes a try that began then and has failed.
    pub fn note_failure(&self, began_ns: u64, error: String) {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock();
        let State { failures, outages, last_error, outage, due_ns, pause_ns, mended_ns, .. } =
            &mut *state;
        *failures += 1;
        self.is_failing.store(true, Ordering::Release);
        let tries = match outage {
            Some(outage) => outage.tries + 1,
            None => {
                *outages += 1;
                let is_another = now_ns.saturating_sub(*mended_ns) > nanoseconds(LONGEST_PAUSE);
                *pause_ns = if is_another { 0 } else { *pause_ns };
                1
            }
        };
        let since_ns = outage.as_ref().map_or(began_ns, |outage| outage.since_ns);
        *outage = Some(Outage { tries, since_ns, last_ns: now_ns });
        *last_error = Some(error);
        match self.pauses {
            Pauses::Growing => {
                let longer = pause_ns.saturating_mul(2);
                *pause_ns = longer.clamp(nanoseconds(FIRST_PAUSE), nanoseconds(LONGEST_PAUSE));
                let by_try = now_ns.saturating_sub(began_ns).saturating_mul(PAUSE_PER_TRY);
                let by_try = by_try.min(nanoseconds(LONGEST_PAUSE_PER_TRY));
                *due_ns = now_ns.saturating_add(by_try.max(*pause_ns));
            }
            Pauses::Steady | Pauses::Requests => *due_ns = now_ns,
        }
    }

    /// The figures of the task at present.
    #[must_use]
    pub fn stat(&self) -> TaskStat {
        let now_ns = self.clock.now_ns();
        let mut state = self.state.lock();
        let quiet_ns = nanoseconds(REQUESTS_QUIET);
        if self.pauses == Pauses::Requests
            && state.outage.take_if(|of| now_ns >= of.last_ns.saturating_add(quiet_ns)).is_some()
        {
            self.end(&mut state, now_ns);
        }
        let failure = state.outage.as_ref().map(|outage| TaskFailure {
            error: state.last_error.clone().unwrap_or_default(),
            tries: outage.tries,
            since_ns: now_ns.saturating_sub(outage.since_ns),
            next_try_ns: state.due_ns.saturating_sub(now_ns),
        });
        let State { done, failures, outages, .. } = *state;
        let last_error = state.last_error.clone();
        TaskStat { name: self.name.to_owned(), done, failures, outages, last_error, failure }
    }
}

/// Tells a monitor once that a task has begun to fail, and once that it works again.
#[derive(Debug, Default)]
pub struct FailureLog {
    /// The outages of each task that were told of, and whether the end of the last one is to be.
    told: BTreeMap<String, (u64, bool)>,
}

impl FailureLog {
    /// Looks at the tasks, and tells of what has changed since the last look.
    pub fn look(&mut self, tasks: &[TaskStat], monitor: &dyn Monitor) {
        for task in tasks {
            let (outages, is_open) = self.told.entry(task.name.clone()).or_default();
            if task.outages > *outages && !*is_open {
                let error = task.last_error.as_deref().unwrap_or_default();
                monitor.warn(&format!(
                    "{} fails: {error}; 'gemelo pool stat' shows whether it still does",
                    task.name
                ));
                *is_open = true;
            }
            if task.failure.is_none() && std::mem::take(is_open) {
                monitor.log(&format!("{} works again", task.name));
            }
            *outages = task.outages;
        }
    }
}

#[cfg(test)]
mod tests;
