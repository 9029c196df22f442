//! The failures of a process, and the writes whose outcome they leave unknown.

use crate::result::OperationFailure;

/// The failures of a process.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Numbers of the writes whose outcome is unknown.
    uncertain: Vec<u64>,
    /// The first failure of an operation.
    failure: Option<OperationFailure>,
    engine_failed: bool,
}

impl Faults {
    /// Notes a failure. The first one is kept.
    pub(super) fn add(&mut self, failure: impl FnOnce() -> OperationFailure) {
        self.failure.get_or_insert_with(failure);
    }

    /// Notes that the queue itself failed.
    pub(super) fn add_of_engine(&mut self, failure: impl FnOnce() -> OperationFailure) {
        self.engine_failed = true;
        self.add(failure);
    }

    /// Notes writes whose outcome is unknown.
    pub(super) fn add_uncertain(&mut self, writes: impl IntoIterator<Item = u64>) {
        self.uncertain.extend(writes);
    }

    #[inline]
    pub(super) const fn has_engine_failed(&self) -> bool {
        self.engine_failed
    }

    pub(super) fn into_parts(self) -> (Vec<u64>, Option<OperationFailure>) {
        (self.uncertain, self.failure)
    }
}
