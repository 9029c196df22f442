//! The state of an open pool that decides whether it takes changes, and the syncs, whose failure
//! ends all changes.

use super::locks::{OrderedMutex, Rank};
use crate::error::{Result, VolumeError};
use gemelo_format::DiskRole;
use std::io;
use std::sync::OnceLock;

/// Decides whether a pool takes changes.
#[derive(Debug)]
pub(crate) struct Health {
    is_read_only: bool,
    stopped: OnceLock<Stop>,
}

/// The reason why a pool takes no changes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// An action on a disk failed.
    Failed(DiskRole, &'static str),
    /// The file of a disk was deleted.
    Deleted(DiskRole),
}

impl Health {
    pub(crate) const fn new(is_read_only: bool) -> Self {
        Self { is_read_only, stopped: OnceLock::new() }
    }

    /// Returns whether the pool was opened for reading only.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns whether a failure has ended all changes.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// Fails if the pool takes no changes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_read_only {
            return Err(VolumeError::ReadOnly);
        }
        match self.stopped.get() {
            None => Ok(()),
            Some(Stop::Failed(disk, action)) => Err(VolumeError::Stopped { disk: *disk, action }),
            Some(Stop::Deleted(disk)) => Err(VolumeError::Deleted { disk: *disk }),
        }
    }

    /// Ends all changes, because it is unknown which of them are durable.
    pub(crate) fn stop(&self, disk: DiskRole, action: &'static str) {
        // Only the first reason is kept.
        let _ = self.stopped.set(Stop::Failed(disk, action));
    }

    /// Ends all changes, because a disk has no name any more, and would lose them.
    pub(crate) fn stop_deleted(&self, disk: DiskRole) {
        let _ = self.stopped.set(Stop::Deleted(disk));
    }
}

/// Syncs one disk, by one thread at a time, and never again after a failure.
///
/// Linux reports a failed write to only one of the threads that sync a file, and drops the pages
/// that it could not write. The other threads, and every later sync, are told of a success.
pub(crate) struct Syncs {
    disk: DiskRole,
    alone: OrderedMutex<()>,
}

impl Syncs {
    pub(crate) const fn new(disk: DiskRole) -> Self {
        Self { disk, alone: OrderedMutex::new(Rank::Sync, ()) }
    }

    /// Runs a sync. A failure ends all changes of the pool.
    pub(crate) fn sync(
        &self,
        health: &Health,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Result<()> {
        let _alone = self.alone.lock();
        health.check_writable()?;
        sync().map_err(|source| {
            health.stop(self.disk, "sync");
            VolumeError::Io { disk: self.disk, action: "sync", source }
        })
    }
}
