//! How libraries tell of progress and trouble. They never print: the command line shows what arrives here as
//! progress bars, a test records it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a phase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of data.
    Bytes,
    /// Files, blocks, operations: whatever the phase's name says.
    Items,
    /// Nanoseconds of a run with a set length.
    Nanoseconds,
}

/// The receiver of progress. Every method may be called from any thread and returns at once.
pub trait Monitor: Send + Sync {
    /// A new phase begins and ends the one before it. `total` is in `unit`, if it is known.
    fn begin(&self, phase: &str, unit: Unit, total: Option<u64>);

    /// The phase's total is known now, or better than before.
    fn set_total(&self, total: u64);

    /// The phase has come `amount` further. Callers batch: not once per block.
    fn advance(&self, amount: u64);

    /// Something the user should know, which does not stop the work.
    fn warn(&self, message: &str);

    /// The last phase is over.
    fn finish(&self);
}

/// Hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Monitor for Silent {
    fn begin(&self, _phase: &str, _unit: Unit, _total: Option<u64>) {}
    fn set_total(&self, _total: u64) {}
    fn advance(&self, _amount: u64) {}
    fn warn(&self, _message: &str) {}
    fn finish(&self) {}
}

/// Remembers what it heard, for tests.
#[derive(Debug, Default)]
pub struct Recorder {
    advanced: AtomicU64,
    phases: Mutex<Vec<String>>,
    warnings: Mutex<Vec<String>>,
}

impl Recorder {
    /// A recorder that has heard nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sum of all `advance` calls.
    #[must_use]
    pub fn advanced(&self) -> u64 {
        self.advanced.load(Ordering::Relaxed)
    }

    /// The names of the phases, in order.
    #[must_use]
    pub fn phases(&self) -> Vec<String> {
        copy_of(&self.phases)
    }

    /// The warnings, in order.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        copy_of(&self.warnings)
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
    fn begin(&self, phase: &str, _unit: Unit, _total: Option<u64>) {
        push(&self.phases, phase);
    }
    fn set_total(&self, _total: u64) {}
    fn advance(&self, amount: u64) {
        self.advanced.fetch_add(amount, Ordering::Relaxed);
    }
    fn warn(&self, message: &str) {
        push(&self.warnings, message);
    }
    fn finish(&self) {}
}
