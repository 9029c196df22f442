//! The state of an open pool that decides whether it takes changes, and the syncs, whose failure
//! ends all changes.

use super::locks::{OrderedMutex, Rank};
use crate::error::{Result, StopReason, VolumeError};
use gemelo_base::panics::{self, Panicked};
use gemelo_format::{DiskRole, Superblock};
use gemelo_metadata::FoundDamage;
use std::io;
use std::sync::{Arc, OnceLock};

/// Decides whether a pool takes changes.
#[derive(Debug)]
pub(crate) struct Health {
    is_read_only: bool,
    /// The feature that this program does not know, and without which it may not write.
    unknown_feature: Option<String>,
    stopped: OnceLock<StopReason>,
    damage: FoundDamage,
}

impl Health {
    /// Makes the health of a pool whose backend notes damage there.
    pub(crate) fn new(is_read_only: bool, damage: FoundDamage) -> Self {
        panics::note_places();
        Self { is_read_only, unknown_feature: None, stopped: OnceLock::new(), damage }
    }

    /// Takes from the superblock the feature that keeps this program from writing.
    pub(crate) fn of(self, superblock: &Superblock) -> Self {
        Self { unknown_feature: superblock.unknown.first_read_compatible(), ..self }
    }

    /// The feature of the pool that keeps this program from writing.
    pub(crate) fn unknown_feature(&self) -> Option<&str> {
        self.unknown_feature.as_deref()
    }

    /// Returns whether the pool was opened for reading only.
    pub(crate) const fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns whether a failure has ended all changes, also those that were acknowledged.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.get().is_some()
    }

    /// The reason for which the pool takes no changes any more.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.stopped.get().cloned().or_else(|| Some(StopReason::Damage { what: self.damaged()? }))
    }

    /// The part of the metadata that was found damaged since the pool was opened.
    pub(crate) fn damaged(&self) -> Option<String> {
        self.damage.what()
    }

    /// Fails if the pool takes no changes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_running()?;
        match self.damage.is_found() {
            false => Ok(()),
            true => Err(self.stopped_error()),
        }
    }

    /// Fails if nothing may be written any more. Changes that were acknowledged before damage was
    /// found can still be made durable: the journal needs no other metadata.
    pub(crate) fn check_running(&self) -> Result<()> {
        if self.is_read_only {
            let what = self.unknown_feature.clone();
            return Err(
                what.map_or(VolumeError::ReadOnly, |what| VolumeError::ReadableOnly { what })
            );
        }
        match self.is_stopped() {
            false => Ok(()),
            true => Err(self.stopped_error()),
        }
    }

    #[cold]
    fn stopped_error(&self) -> VolumeError {
        match self.stop_reason() {
            Some(reason) => VolumeError::Stopped { reason },
            None => VolumeError::ReadOnly,
        }
    }

    /// Ends all changes, because it is unknown which of them are durable.
    pub(crate) fn stop(&self, disk: DiskRole, action: &'static str) {
        // Only the first reason is kept.
        let _ = self.stopped.set(StopReason::Disk { disk, action });
    }

    /// Ends all changes, because a disk has no name any more, and would lose them.
    pub(crate) fn stop_deleted(&self, disk: DiskRole) {
        let _ = self.stopped.set(StopReason::Deleted { disk });
    }

    /// Ends all changes, because a panic may have left the state half changed.
    pub(crate) fn stop_by_panic(&self, panicked: Panicked) {
        let _ = self.stopped.set(StopReason::Panic(panicked));
    }

    /// Ends all changes, because the owner of the veto has lost what it must know.
    pub(crate) fn stop_by_owner(&self, why: String) {
        let _ = self.stopped.set(StopReason::Owner { why });
    }

    /// Watches the calling thread: the pool stops if it panics before the guard is dropped.
    pub(crate) const fn watch(&self) -> PanicWatch<'_> {
        PanicWatch(self)
    }
}

/// Stops the pool if it is dropped by a panic.
pub(crate) struct PanicWatch<'h>(&'h Health);

impl Drop for PanicWatch<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop_by_panic(panics::last_of_thread());
        }
    }
}

/// Syncs one disk, by one thread at a time, and never again after a failure.
///
/// Linux reports a failed write to only one of the threads that sync a file, and drops the pages
/// that it could not write. The other threads, and every later sync, are told of a success.
pub(crate) struct Syncs {
    disk: DiskRole,
    health: Arc<Health>,
    alone: OrderedMutex<()>,
}

impl Syncs {
    pub(crate) fn new(disk: DiskRole, health: &Arc<Health>) -> Self {
        let alone = OrderedMutex::new(Rank::Sync, health, ());
        Self { disk, health: Arc::clone(health), alone }
    }

    /// Runs a sync. A failure ends all changes of the pool.
    pub(crate) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let _alone = self.alone.lock();
        self.health.check_running()?;
        sync().map_err(|source| {
            self.health.stop(self.disk, "sync");
            VolumeError::Io { disk: self.disk, action: "sync", source }
        })
    }
}
