//! The store as a client of a domain reaches it, which notes that the client was fenced. A fence is
//! noticed by any call, also by a read, and ends the lease of the process at once.

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
}

impl<T: ?Sized> Watched<T> {
    pub(crate) fn new(inner: Arc<T>, is_fenced: &Arc<AtomicBool>) -> Self {
        Self { inner, is_fenced: Arc::clone(is_fenced) }
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
        let is_fenced =
            |request: &Request<'_>| matches!(request.outcome, Err(ObjectError::Fenced { .. }));
        if requests.iter().any(is_fenced) {
            self.is_fenced.store(true, Ordering::Release);
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.note(self.inner.list(prefix))
    }
}

impl<T: Locks + ?Sized> Locks for Watched<T> {
    fn instance(&self) -> Instance {
        self.inner.instance()
    }

    fn lock(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.note(self.inner.lock(lock, lease))
    }

    fn renew(&self, lock: LockName<'_>, lease: Duration) -> Result<()> {
        self.note(self.inner.renew(lock, lease))
    }

    fn unlock(&self, lock: LockName<'_>) -> Result<()> {
        self.note(self.inner.unlock(lock))
    }

    fn holder(&self, lock: LockName<'_>) -> Result<Option<Holder>> {
        self.note(self.inner.holder(lock))
    }

    fn fence(&self, instance: &Instance, fenced: Fenced) -> Result<()> {
        self.note(self.inner.fence(instance, fenced))
    }

    fn unfence(&self, instance: &Instance) -> Result<()> {
        self.note(self.inner.unfence(instance))
    }

    fn try_fence(&self) -> Result<()> {
        self.note(self.inner.try_fence())
    }
}
