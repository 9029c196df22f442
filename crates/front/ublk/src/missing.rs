//! Exports that should be devices and are none: why, and when to try them again.

use gemelo_base::SystemClock;
use gemelo_base::background::{Step, Task, TaskStat};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// The missing devices of a driver. Their task fails while there is one.
pub(crate) struct MissingDevices {
    task: Task,
    /// The reasons, by the identities of the exports.
    reasons: BTreeMap<String, String>,
}

impl MissingDevices {
    pub(crate) fn new(task: &'static str) -> Self {
        Self { task: Task::new(task, Arc::new(SystemClock::new())), reasons: BTreeMap::new() }
    }

    pub(crate) fn has(&self, identity: &str) -> bool {
        self.reasons.contains_key(identity)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    /// Returns whether those that are missing shall be tried again now.
    pub(crate) fn are_due(&self) -> bool {
        !self.is_empty() && self.task.is_due()
    }

    /// Notes that one is missing. Returns whether this was not known.
    pub(crate) fn insert(&mut self, identity: &str, why: &str) -> bool {
        self.reasons.insert(identity.to_owned(), why.to_owned()).as_deref() != Some(why)
    }

    /// Forgets one that is there now, or that nobody wants any more.
    pub(crate) fn remove(&mut self, identity: &str) {
        self.reasons.remove(identity);
        self.note_if_none();
    }

    /// Forgets all but those of these exports.
    pub(crate) fn retain(&mut self, there: &BTreeSet<String>) {
        self.reasons.retain(|identity, _| there.contains(identity));
        self.note_if_none();
    }

    fn note_if_none(&self) {
        if self.is_empty() && self.task.is_failing() {
            self.task.note_step(Step::then_rest(0, Duration::ZERO));
        }
    }

    /// Notes that a try is over which began then.
    pub(crate) fn note_try(&self, began_ns: u64) {
        let mut reasons = self.reasons.values();
        match (reasons.next(), reasons.count()) {
            (None, _) => {}
            (Some(why), 0) => self.task.note_failure(began_ns, why.clone()),
            (Some(why), more) => {
                self.task.note_failure(began_ns, format!("{why} (and {more} more)"));
            }
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.task.now_ns()
    }

    pub(crate) fn stat(&self) -> TaskStat {
        self.task.stat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_task_fails_until_nothing_is_missing() {
        let mut missing = MissingDevices::new("disks");
        assert!(missing.insert("a", "no disk") && !missing.insert("a", "no disk"));
        assert!(missing.insert("b", "no disk either") && missing.are_due());
        missing.note_try(0);
        assert!(missing.has("a") && !missing.are_due(), "the next try waits");
        let failure = missing.stat().failure.unwrap();
        assert_eq!(failure.error, "no disk (and 1 more)");
        missing.remove("a");
        assert!(missing.stat().failure.is_some());
        missing.retain(&BTreeSet::from(["c".to_owned()]));
        assert!(missing.is_empty() && missing.stat().failure.is_none());
        missing.note_try(0);
        assert_eq!(missing.stat().failures, 1, "nothing is missing");
    }
}
