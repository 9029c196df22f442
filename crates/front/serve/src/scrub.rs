//! Scrubs of an open pool: one at a time, by a command or by the schedule of a served pool; their
//! progress, and the outcome of the last one, which is kept in the pool's directory or with the
//! member.

use crate::failure::RequestFailure;
use crate::kept_text::KeptText;
use gemelo_base::background::{Step, Task};
use gemelo_base::{Clock, Monitor, StopFlag, SystemClock, Unit};
use gemelo_place::{PlacedPool, PoolPlace};
use gemelo_volume::{Pool, ScrubOptions, ScrubReport};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The file with the outcome of the last scrub.
pub(crate) const FILE: &str = "scrub.json";
/// Most bytes of that file that are read.
const MAX_FILE_BYTES: u64 = 4096;

/// The schedule of scrubs of a served pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubSchedule {
    /// Time from the end of a scrub to the begin of the next; [`None`] for no scrubs.
    pub interval: Option<Duration>,
    /// Most bytes a second that a scrub reads.
    pub max_bytes_per_s: u64,
}

impl Default for ScrubSchedule {
    /// No scrubs, and a rate that leaves most of any disk to clients.
    fn default() -> Self {
        Self { interval: None, max_bytes_per_s: 50 << 20 }
    }
}

/// The scrub that runs, and the last one that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct ScrubStat {
    /// The progress of the present scrub.
    pub running: Option<RunningScrub>,
    /// The outcome of the last scrub that came to its end.
    pub last: Option<LastScrub>,
}

/// The progress of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct RunningScrub {
    /// Contents checked so far.
    pub checked_contents: u64,
    /// Contents of the pool when the scrub began.
    pub contents: u64,
}

/// The outcome of a scrub that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema, Serialize, Deserialize)]
pub struct LastScrub {
    /// Time of its end, in seconds since 1970, UTC.
    pub ended_utc_s: u64,
    /// Duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Contents compared with their checksums.
    pub checked_contents: u64,
    /// Damaged contents that were written again from another copy.
    pub healed_contents: u64,
    /// Contents that stayed damaged.
    pub damaged_contents: u64,
}

/// The scrubs of a pool.
pub(crate) struct Scrubs {
    kept: KeptText,
    running: Mutex<Option<Arc<Progress>>>,
    last: Mutex<Option<LastScrub>>,
    /// The scrubs by the schedule. One by a command that comes to its end counts as well.
    task: Task,
}

/// A scrub by the schedule that failed is tried again when so many times as long has passed as it
/// took, so that one which fails at its end hardly reads the disks, but not later than the schedule
/// would scrub.
const REST_PER_FAILED_SCRUB: u32 = 32;

impl Scrubs {
    pub(crate) fn new(place: &PoolPlace, placed: &Arc<PlacedPool>) -> Self {
        let clock = Arc::new(SystemClock::new());
        Self::keeping(KeptText::new(place, placed, FILE), clock)
    }

    fn keeping(kept: KeptText, clock: Arc<dyn Clock>) -> Self {
        // An outcome that cannot be read or understood is the same as none: the pool is then due.
        let text = kept.read(MAX_FILE_BYTES);
        let last = Mutex::new(text.and_then(|text| serde_json::from_str(&text).ok()));
        let task = Task::new("scrub", clock);
        Self { kept, running: Mutex::default(), last, task }
    }

    pub(crate) const fn task(&self) -> &Task {
        &self.task
    }

    pub(crate) fn stat(&self) -> ScrubStat {
        let running = self.running.lock().as_ref().map(|progress| progress.figures());
        ScrubStat { running, last: *self.last.lock() }
    }

    /// Scrubs the pool, unless another scrub runs.
    pub(crate) fn run(
        &self,
        pool: &Pool,
        options: ScrubOptions,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<ScrubReport, RequestFailure> {
        let progress = Arc::new(Progress::default());
        let _running = Running::begin(self, &progress)?;
        let clock = SystemClock::new();
        let report = pool.scrub(options, &Watched { progress: &progress, monitor }, stop)?;
        let last = LastScrub {
            ended_utc_s: clock.utc_s().unwrap_or_default(),
            elapsed_ns: clock.now_ns(),
            checked_contents: report.checked_contents,
            healed_contents: report.healed_contents,
            damaged_contents: report.problems.len() as u64 + report.more_problems,
        };
        *self.last.lock() = Some(last);
        self.task.note_step(Step::more(report.checked_contents));
        let text = serde_json::to_string(&last).unwrap_or_default();
        if let Err(error) = self.kept.write(&text) {
            monitor.warn(&format!("cannot keep the outcome of the scrub: {error}"));
        }
        Ok(report)
    }

    /// Scrubs if the schedule wants it now and none runs, and notes a failure.
    pub(crate) fn turn(
        &self,
        interval: Duration,
        now_utc_s: u64,
        scrub: impl FnOnce() -> Result<(), RequestFailure>,
    ) {
        let is_due = self.task.is_due() && self.is_due(interval, now_utc_s);
        if !is_due || self.running.lock().is_some() {
            return;
        }
        let began_ns = self.task.now_ns();
        if let Err(failure) = scrub() {
            let took = Duration::from_nanos(self.task.now_ns().saturating_sub(began_ns));
            self.task.note_failure(began_ns, failure.to_string());
            self.task.put_off(interval.min(took.saturating_mul(REST_PER_FAILED_SCRUB)));
        }
    }

    /// Returns whether the schedule wants a scrub now. A pool that was never scrubbed is due.
    fn is_due(&self, interval: Duration, now_utc_s: u64) -> bool {
        let last = *self.last.lock();
        last.is_none_or(|last| has_passed(last.ended_utc_s, interval, now_utc_s))
    }
}

/// Returns whether an interval has passed since a time. A clock that was ahead and was set right
/// must not put the next scrub off for years, so a time that lies too far ahead counts as passed.
fn has_passed(since_utc_s: u64, interval: Duration, now_utc_s: u64) -> bool {
    now_utc_s.abs_diff(since_utc_s) >= interval.as_secs()
}

/// The entry of a scrub under way, which ends with this value.
struct Running<'s>(&'s Scrubs);

impl<'s> Running<'s> {
    fn begin(scrubs: &'s Scrubs, progress: &Arc<Progress>) -> Result<Self, RequestFailure> {
        let mut running = scrubs.running.lock();
        if let Some(other) = running.as_ref() {
            let RunningScrub { checked_contents, contents } = other.figures();
            return Err(RequestFailure::refused(format!(
                "a scrub of the pool runs already and has checked {checked_contents} of {contents} \
                 contents: wait until it has ended; 'gemelo pool stat' shows its progress"
            )));
        }
        *running = Some(Arc::clone(progress));
        Ok(Self(scrubs))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.running.lock() = None;
    }
}

/// The progress of the first phase of a scrub, which checks the contents.
#[derive(Debug, Default)]
struct Progress {
    phases: AtomicU64,
    checked: AtomicU64,
    contents: AtomicU64,
}

impl Progress {
    fn figures(&self) -> RunningScrub {
        RunningScrub {
            checked_contents: self.checked.load(Ordering::Relaxed),
            contents: self.contents.load(Ordering::Relaxed),
        }
    }
}

/// A monitor that also keeps the progress for others.
struct Watched<'m> {
    progress: &'m Progress,
    monitor: &'m dyn Monitor,
}

impl Monitor for Watched<'_> {
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>) {
        if self.progress.phases.fetch_add(1, Ordering::Relaxed) == 0 {
            self.progress.contents.store(total.unwrap_or_default(), Ordering::Relaxed);
        }
        self.monitor.begin(phase, unit, total);
    }

    fn set_total(&self, total: u64) {
        self.monitor.set_total(total);
    }

    fn advance(&self, amount: u64) {
        if self.progress.phases.load(Ordering::Relaxed) == 1 {
            self.progress.checked.fetch_add(amount, Ordering::Relaxed);
        }
        self.monitor.advance(amount);
    }

    fn show(&self, figures: &str) {
        self.monitor.show(figures);
    }

    fn warn(&self, message: &str) {
        self.monitor.warn(message);
    }

    fn log(&self, message: &str) {
        self.monitor.log(message);
    }

    fn finish(&self) {
        self.monitor.finish();
    }
}

#[cfg(test)]
mod failing;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn kept_in(directory: &Path) -> Scrubs {
        Scrubs::keeping(KeptText::File(directory.join(FILE)), Arc::new(SystemClock::new()))
    }

    fn write_last(directory: &Path, last: &LastScrub) {
        let text = serde_json::to_string(last).unwrap();
        KeptText::File(directory.join(FILE)).write(&text).unwrap();
    }

    #[test]
    fn the_outcome_is_kept_and_decides_when_the_next_scrub_is_due() {
        let directory = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let scrubs = kept_in(directory.path());
        assert!(scrubs.is_due(day, 5), "a pool that was never scrubbed");
        let last = LastScrub { ended_utc_s: 1000, checked_contents: 7, ..LastScrub::default() };
        write_last(directory.path(), &last);
        let scrubs = kept_in(directory.path());
        assert_eq!(scrubs.stat(), ScrubStat { running: None, last: Some(last) });
        assert!(!scrubs.is_due(day, 87_399) && scrubs.is_due(day, 87_400));
        // A clock that was wrong at the last scrub.
        let ahead = LastScrub { ended_utc_s: 200_000, ..last };
        write_last(directory.path(), &ahead);
        let scrubs = kept_in(directory.path());
        assert!(scrubs.is_due(day, 1001) && !scrubs.is_due(day, 199_999));
        fs::write(directory.path().join(FILE), "nonsense").unwrap();
        assert!(kept_in(directory.path()).is_due(day, 1001));
    }

    #[test]
    fn one_scrub_runs_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let scrubs = kept_in(directory.path());
        let progress = Arc::new(Progress::default());
        let watched = Watched { progress: &progress, monitor: &gemelo_base::Silent };
        let running = Running::begin(&scrubs, &progress).unwrap();
        watched.begin("Checking contents", Unit::Items, Some(10));
        watched.advance(4);
        watched.begin("Looking for copies", Unit::Items, None);
        watched.advance(100);
        let figures = RunningScrub { checked_contents: 4, contents: 10 };
        assert_eq!(scrubs.stat().running, Some(figures));
        let refused = Running::begin(&scrubs, &progress).err().unwrap();
        assert!(refused.text.contains("4 of 10 contents"), "{refused}");
        drop(running);
        assert_eq!(scrubs.stat().running, None);
        assert!(Running::begin(&scrubs, &progress).is_ok());
    }
}
