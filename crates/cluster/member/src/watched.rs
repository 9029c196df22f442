//! The store as a client of a domain reaches it, which notes that the client was fenced, and counts
//! its traffic. A fence is noticed by any call, also by a read, and ends the lease of the process
//! at once.

use crate::traffic::{Purpose, Traffic};
use gemelo_objects::{
    Fenced, Holder, Instance, LockName, Locks, ObjectError, Objects, Request, Result,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A store whose calls are watched.
pub(crate) struct Watched<T: ?Sized> {
    inner: Arc<T>,
    is_fenced: Arc<AtomicBool>,
    traffic: Arc<Traffic>,
}

impl<T: ?Sized> Watched<T> {
    pub(crate) fn new(inner: Arc<T>, is_fenced: &Arc<AtomicBool>, traffic: &Arc<Traffic>) -> Self {
        Self { inner, is_fenced: Arc::clone(is_fenced), traffic: Arc::clone(traffic) }
    }

    /// Notes the outcome of a call that concerns locks and fences.
    fn note_lease<A>(&self, outcome: Result<A>) -> Result<A> {
        self.traffic.count(Purpose::Lease);
        self.note(outcome)
    }

    fn note<A>(&self, outcome: Result<A>) -> Result<A> {
        if matches!(outcome, Err(ObjectError::Fenced { .. })) {
            self.is_fenced.store(true, Ordering::Release);
        }
        outcome
    }
}

impl<T: Objects + ?Sized> Objects for Watched<T> {
    fn execute(&self, requests: &mut [Request<'_>]) {
        self.inner.execute(requests);
        requests.iter().for_each(|request| self.traffic.count_request(request));
        let is_fenced =
            |request: &Request<'_>| matches!(request.outcome, Err(ObjectError::Fenced { .. }));
        if requests.iter().any(is_fenced) {
            self.is_fenced.store(true, Ordering::Release);
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.traffic.count(Purpose::of_object(prefix));
        self.note(self.inner.list(prefix))
    }
}

impl<T: Locks + ?Sized> Locks for Watched<T> {
    fn instance(&self) -> Instance {
        self.inner.instance()
    }

    fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.note_lease(self.inner.lock(lock, lease))
    }

    fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.note_lease(self.inner.renew(lock, lease))
    }

    fn unlock(&self, lock: LockName<'_>) -> Result<()> {
        self.note_lease(self.inner.unlock(lock))
    }

    fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>> {
        self.note_lease(self.inner.holder(lock))
    }

    fn fence(&self, instance: &Instance, fenced: Fenced) -> Result<()> {
        self.note_lease(self.inner.fence(instance, fenced))
    }

    fn unfence(&self, instance: &Instance) -> Result<()> {
        self.note_lease(self.inner.unfence(instance))
    }

    fn try_fence(&self) -> Result<()> {
        self.note_lease(self.inner.try_fence())
    }
}
