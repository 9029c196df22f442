//! The flag by which one thread asks all others to finish early and in good order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A stop flag that all its clones share. A raised flag stays raised.
#[derive(Debug, Clone, Default)]
pub struct StopFlag {
    raised: Arc<AtomicBool>,
    has_successor: Arc<AtomicBool>,
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

    /// Asks every holder of a clone to stop, because another process takes over at once.
    pub fn raise_for_successor(&self) {
        self.has_successor.store(true, Ordering::Relaxed);
        self.raised.store(true, Ordering::Release);
    }

    /// Returns whether another process takes over at once.
    #[must_use]
    pub fn has_successor(&self) -> bool {
        self.has_successor.load(Ordering::Relaxed)
    }

    /// Returns whether the flag was raised.
    #[inline]
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }
}
