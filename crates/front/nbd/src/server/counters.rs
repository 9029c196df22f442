//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the server was made. They are updated once per batch or connection.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    turned_away: AtomicU64,
    broken: AtomicU64,
    batches: AtomicU64,
    requests: AtomicU64,
    overlapping: AtomicU64,
    found: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerCounts {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections closed because there were too many.
    pub turned_away: u64,
    /// Connections that ended with an error or a breach of the protocol.
    pub broken: u64,
    /// Batches given to devices.
    pub batches: u64,
    /// Requests in these batches.
    pub requests: u64,
    /// Batches that were executed beside the thread of their connection.
    pub overlapping: u64,
    /// Times that requests came while their thread looked for them.
    pub found: u64,
}

impl Counters {
    pub(crate) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_turned_away(&self) {
        self.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_broken(&self) {
        self.broken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_batch(&self, requests: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.requests.fetch_add(requests as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_overlapping(&self, requests: usize) {
        self.count_batch(requests);
        self.overlapping.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> ServerCounts {
        ServerCounts {
            accepted: self.accepted.load(Ordering::Relaxed),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            broken: self.broken.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
            requests: self.requests.load(Ordering::Relaxed),
            overlapping: self.overlapping.load(Ordering::Relaxed),
            found: self.found.load(Ordering::Relaxed),
        }
    }
}
