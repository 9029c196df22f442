//! The failures of a process, and the writes whose outcome they leave unknown.

use crate::result::OperationFailure;

/// The failures of a process.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Numbers of the writes whose outcome is unknown.
    pub(crate) uncertain: Vec<u64>,
    /// The first failure of an operation.
    pub(crate) failure: Option<OperationFailure>,
}

impl Faults {
    /// Notes a failure. The first one is kept.
    pub(super) fn add(&mut self, failure: impl FnOnce() -> OperationFailure) {
        self.failure.get_or_insert_with(failure);
    }

    /// Notes a write whose outcome is unknown.
    pub(super) fn add_uncertain(&mut self, write: u64) {
        self.uncertain.push(write);
    }
}
