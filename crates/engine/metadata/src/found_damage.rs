//! Damage of the metadata that is found while a pool is open.

use gemelo_base::locks::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first damage that was found since the metadata were loaded. A backend notes it, and the
/// engine refuses changes from then on: they would build on what cannot be read.
#[derive(Debug, Clone, Default)]
pub struct FoundDamage(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    is_found: AtomicBool,
    what: Mutex<Option<String>>,
}

impl FoundDamage {
    /// Notes damage. The first one stays.
    pub fn note(&self, what: &str) {
        self.0.what.lock().get_or_insert_with(|| what.to_owned());
        self.0.is_found.store(true, Ordering::Release);
    }

    /// Returns whether any was found.
    #[must_use]
    #[inline]
    pub fn is_found(&self) -> bool {
        self.0.is_found.load(Ordering::Acquire)
    }

    /// The name of the damaged part that was found first.
    #[must_use]
    pub fn what(&self) -> Option<String> {
        self.is_found().then(|| self.0.what.lock().clone()).flatten()
    }

    /// Forgets what was found, because a repair has replaced it.
    pub fn clear(&self) {
        let mut what = self.0.what.lock();
        self.0.is_found.store(false, Ordering::Release);
        *what = None;
    }
}
