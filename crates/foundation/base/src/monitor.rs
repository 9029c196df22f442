//! The interface through which libraries report progress and warnings. Libraries never print: the
//! command line shows the reports as progress bars, and tests record them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The unit in which the progress of a phase is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of data that are read, written or moved.
    Bytes,
    /// Files, blocks or operations; the name of the phase tells which.
    Items,
    /// Nanoseconds, for a phase that runs for a fixed time.
    Nanoseconds,
}

/// A receiver of progress reports. Any thread may call any method, and every method returns at
/// once.
pub trait Monitor: Send + Sync {
    /// Starts a phase and ends the previous one. `total` is the amount of work in `unit`, if known.
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>);

    /// Sets the total of the current phase, once it is known or known better.
    fn set_total(&self, total: u64);

    /// Adds `amount` to the progress of the current phase. Callers report batches, not single
    /// blocks.
    fn advance(&self, amount: u64);

    /// Shows figures of the present moment beside the progress of the phase. Each text replaces the
    /// one before. A monitor without a place for them ignores them.
    fn show(&self, _figures: &str) {}

    /// Reports that a part of long work is complete. A monitor that shows progress ignores it.
    fn milestone(&self, _message: &str) {}

    /// Reports a problem that the user should know about and that does not stop the work.
    fn warn(&self, message: &str);

    /// Records an event of normal operation, for the log of a server.
    fn log(&self, message: &str);

    /// Ends the last phase.
    fn finish(&self);
}

/// A monitor that ignores every report.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn warn(&self, _message: &str) {}
    fn log(&self, _message: &str) {}
    fn finish(&self) {}
}

/// A monitor for tests that records progress, phases, warnings and logged events.
#[derive(Debug, Default)]
pub struct Recorder {
    total: AtomicU64,
    advanced: AtomicU64,
    phases: Mutex<Vec<String>>,
    warnings: Mutex<Vec<String>>,
    logged: Mutex<Vec<String>>,
    shown: Mutex<Vec<String>>,
    milestones: Mutex<Vec<String>>,
}

impl Recorder {
    /// Creates a recorder without records.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the last total that was reported; 0 if none was.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the sum of all `advance` calls.
    #[must_use]
    pub fn advanced(&self) -> u64 {
        self.advanced.load(Ordering::Relaxed)
    }

    /// Returns the names of the phases, in the order in which they began.
    #[must_use]
    pub fn phases(&self) -> Vec<String> {
        copy_of(&self.phases)
    }

    /// Returns the warnings, in the order in which they were reported.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        copy_of(&self.warnings)
    }

    /// Returns the logged events, in the order in which they were recorded.
    #[must_use]
    pub fn logged(&self) -> Vec<String> {
        copy_of(&self.logged)
    }

    /// Returns the milestones, in the order in which they were reported.
    #[must_use]
    pub fn milestones(&self) -> Vec<String> {
        copy_of(&self.milestones)
    }

    /// Returns the figures that were shown, in their order.
    #[must_use]
    pub fn shown(&self) -> Vec<String> {
        copy_of(&self.shown)
    }
}

fn copy_of(list: &Mutex<Vec<String>>) -> Vec<String> {
    list.lock().map(|held| held.clone()).unwrap_or_default()
}

fn push(list: &Mutex<Vec<String>>, text: &str) {
    if let Ok(mut held) = list.lock() {
        held.push(text.to_owned());
    }
}

impl Monitor for Recorder {
    fn begin(&self, phase: &str, _unit: Unit, total: Option<u64>) {
        push(&self.phases, phase);
        self.set_total(total.unwrap_or(0));
    }
    fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
    fn advance(&self, amount: u64) {
        self.advanced.fetch_add(amount, Ordering::Relaxed);
    }
    fn warn(&self, message: &str) {
        push(&self.warnings, message);
    }
    fn log(&self, message: &str) {
        push(&self.logged, message);
    }
    fn show(&self, figures: &str) {
        push(&self.shown, figures);
    }
    fn milestone(&self, message: &str) {
        push(&self.milestones, message);
    }
    fn finish(&self) {}
}
