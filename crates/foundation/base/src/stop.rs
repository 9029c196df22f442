//! The flag by which one thread asks all others to finish early and in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stop flag that all its clones share. A raised flag stays raised.
#[derive(Debug, Clone, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
}

impl StopFlag {
    /// Creates a flag that is not raised.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks every holder of a clone to stop.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Returns whether the flag was raised.
    #[inline]
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }
}
