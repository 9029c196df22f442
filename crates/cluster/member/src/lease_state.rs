//! The state of the lease: whether this process may act for a member, and why not any more.

use gemelo_base::Clock;
use gemelo_objects::{ObjectError, Request};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thiserror::Error;

/// The reason why this process may not act for the member any more. It never may again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Ended {
    /// The lease was not renewed in time.
    #[error(
        "the lease of the member is over, because the store did not answer in time or this process \
         was stopped: another host may serve the member now"
    )]
    LeaseOver,
    /// Another host has taken the member.
    #[error("another host has taken the member and has fenced this process")]
    Fenced,
    /// A change was sent and not answered: it may take effect at any later time.
    #[error(
        "the store did not acknowledge a change ('{action}' of object '{object}': {cause}); it may \
         take effect later, so this process must not write again"
    )]
    Unknown {
        /// The attempted action, as a verb.
        action: &'static str,
        /// Name of the object that was changed.
        object: String,
        /// The error of the store.
        cause: String,
    },
    /// This process has handed the member over.
    #[error("this process has handed the member over")]
    Released,
}

/// The lease of a process, which its disks, its renewer and its server share.
pub struct LeaseState {
    clock: Arc<dyn Clock>,
    ends_ns: AtomicU64,
    ended: OnceLock<Ended>,
    /// Set by any call of the client that finds it fenced.
    is_fenced: Arc<AtomicBool>,
}

impl LeaseState {
    /// Returns a lease that ends at this time of the clock unless it is prolonged.
    pub(crate) fn until(clock: Arc<dyn Clock>, ends_ns: u64) -> Self {
        let (ends_ns, ended) = (AtomicU64::new(ends_ns), OnceLock::new());
        Self { clock, ends_ns, ended, is_fenced: Arc::default() }
    }

    /// Returns the same lease, which also ends when the flag is set.
    pub(crate) fn unless_fenced(self, is_fenced: &Arc<AtomicBool>) -> Self {
        Self { is_fenced: Arc::clone(is_fenced), ..self }
    }

    /// Prolongs the lease. One that has ended stays so.
    pub(crate) fn prolong(&self, ends_ns: u64) {
        self.ends_ns.fetch_max(ends_ns, Ordering::AcqRel);
    }

    /// Ends the lease for good. The first reason stays.
    pub(crate) fn end(&self, why: Ended) {
        // A second reason follows from the first.
        let _ = self.ended.set(why);
    }

    /// Ends the lease if the fate of a change is unknown, or if this client is fenced.
    pub(crate) fn judge(&self, action: &'static str, object: &str, error: &ObjectError) {
        match error {
            ObjectError::Fenced { .. } => self.end(Ended::Fenced),
            error if error.is_unknown() => {
                let cause = error.to_string();
                self.end(Ended::Unknown { action, object: object.to_owned(), cause });
            }
            _ => {}
        }
    }

    /// Judges the errors of changes that were sent together, each of which may have an unknown
    /// fate. `is_done` knows the errors that say that nothing was left to do.
    ///
    /// # Errors
    /// Fails with the first other error.
    pub(crate) fn judge_all(
        &self,
        changes: Vec<Request<'_>>,
        is_done: fn(&ObjectError) -> bool,
    ) -> Result<(), ObjectError> {
        let mut outcome = Ok(());
        for change in changes {
            if let Err(error) = change.outcome
                && !is_done(&error)
            {
                self.judge(change.operation.verb(), change.object, &error);
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }

    /// Checks that this process may act for the member now.
    ///
    /// # Errors
    /// Fails with the reason why it may not.
    pub fn check(&self) -> Result<(), Ended> {
        if self.is_fenced.load(Ordering::Acquire) {
            self.end(Ended::Fenced);
        }
        if self.ended.get().is_none() && self.clock.now_ns() >= self.ends_ns.load(Ordering::Acquire)
        {
            self.end(Ended::LeaseOver);
        }
        self.ended.get().map_or(Ok(()), |why| Err(why.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::ManualClock;

    #[test]
    fn a_lease_ends_with_its_time_and_never_comes_back() {
        let clock = Arc::new(ManualClock::new());
        let lease_state = LeaseState::until(clock.clone(), 10);
        clock.advance_ns(9);
        assert_eq!(lease_state.check(), Ok(()));
        lease_state.prolong(20);
        clock.advance_ns(10);
        assert_eq!(lease_state.check(), Ok(()));
        clock.advance_ns(1);
        assert_eq!(lease_state.check(), Err(Ended::LeaseOver));
        lease_state.prolong(1000);
        assert_eq!(lease_state.check(), Err(Ended::LeaseOver));
    }

    #[test]
    fn a_change_of_unknown_fate_ends_it_and_a_full_store_does_not() {
        let lease_state = LeaseState::until(Arc::new(ManualClock::new()), 10);
        lease_state.judge("write", "data", &ObjectError::Full { object: "data".into() });
        assert_eq!(lease_state.check(), Ok(()));
        let late = ObjectError::TimedOut { action: "write", object: "data".into() };
        lease_state.judge("write", "data", &late);
        assert!(matches!(lease_state.check(), Err(Ended::Unknown { .. })));
    }
}
