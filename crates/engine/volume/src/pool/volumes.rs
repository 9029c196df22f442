//! What an open pool does with its volumes.

use super::stat::summaries;
use super::{ChangesSince, Incoming, Outgoing, Pool, UnfinishedCopy, VolumeSummary, VolumeTuning};
use crate::engine::{DifferingRanges, NewCopy, Receipt, SnapshotSpace, VolumeSpace};
use crate::error::Result;
use crate::volume::Volume;
use gemelo_base::StopFlag;
use gemelo_format::{Compression, DedupMode, Origin, VolumeLimits};
use std::ops::Range;
use std::sync::Arc;

impl Pool {
    /// Returns a volume for reading and writing.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        Ok(Volume::new(Arc::clone(&self.engine), self.engine.catalogue.find(name)?))
    }

    /// Returns all volumes, by name.
    #[must_use]
    pub fn volumes(&self) -> Vec<VolumeSummary> {
        summaries(&self.engine)
    }

    /// Returns the names of all volumes, in their order.
    #[must_use]
    pub fn volume_names(&self) -> Vec<String> {
        self.engine.catalogue.all().into_keys().collect()
    }

    /// Creates a volume, which takes no space before it is written. The size is in bytes, a
    /// multiple of the block size.
    ///
    /// # Errors
    /// Fails if the pool has a volume of this name already, or if the name or the size is invalid.
    pub fn create_volume(&self, name: &str, size_bytes: u64, mode: DedupMode) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.create(name, size_bytes, mode, Origin::Empty)
    }

    /// Creates a volume for an import. It is the same as [`Self::create_volume`], but the record's
    /// origin says that the volume was imported.
    ///
    /// # Errors
    /// Fails as [`Self::create_volume`] does.
    pub fn create_imported_volume(
        &self,
        name: &str,
        size_bytes: u64,
        mode: DedupMode,
    ) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.create(name, size_bytes, mode, Origin::Imported)
    }

    /// Removes a volume. Requests under way end first; later ones fail.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or if the removal cannot be made durable.
    pub fn remove_volume(&self, name: &str) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.remove(name)
    }

    /// Renames a volume.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or has one of the new name already.
    pub fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.rename(name, new)
    }

    /// Sets the size of a volume in bytes. Contents beyond a new, lower end are dropped.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or if the size is invalid.
    pub fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        self.resize_imported_volume(name, size_bytes, 0)
    }

    /// Sets the size of a volume in bytes, and how many of them fill up the last block of what was
    /// imported.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or if the size or the padding is invalid.
    pub fn resize_imported_volume(
        &self,
        name: &str,
        size_bytes: u64,
        padding_bytes: u32,
    ) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.resize(name, (size_bytes, padding_bytes))
    }

    /// Changes the settings of a volume. They are not kept.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn set_volume_tuning(&self, name: &str, tuning: VolumeTuning) -> Result<()> {
        self.engine.volumes.set_tuning(name, tuning)
    }

    /// Sets the deduplication of a volume's further writes.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.set_mode(name, mode)
    }

    /// Sets the limits of a volume's load and space.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or too little room for a reservation.
    pub fn set_limits(&self, name: &str, limits: VolumeLimits) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.set_limits(name, limits)
    }

    /// Sets the compression of a volume's further writes. [`Self::recompress`] moves its earlier
    /// contents.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or stores its contents as they are.
    pub fn set_compression(&self, name: &str, compression: Compression) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.set_compression(name, compression)
    }

    /// Creates a volume with the present contents of another. The new volume takes no writes.
    ///
    /// # Errors
    /// Fails if the pool has no volume `source`, if it has a volume `name` already, or if a
    /// reference count would exceed its limit.
    pub fn snapshot_volume(&self, source: &str, name: &str) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.copy(source, name, true)
    }

    /// Creates a volume that begins with the present contents of another.
    ///
    /// # Errors
    /// Fails as [`Self::snapshot_volume`] does.
    pub fn clone_volume(&self, source: &str, name: &str) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.copy(source, name, false)
    }

    /// Snapshots volumes, all at one moment. Either all snapshots are made or none.
    ///
    /// # Errors
    /// Fails as [`Self::snapshot_volume`] does.
    pub fn snapshot_volumes(&self, copies: &[NewCopy]) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.copy_all(copies, true)
    }

    /// Gives a volume the contents and the size of one of its snapshots. Handles to the volume find
    /// that it is gone.
    ///
    /// # Errors
    /// Fails if the pool has no such volumes, or if the one is no snapshot of the other.
    pub fn roll_back_volume(&self, name: &str, snapshot: &str) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.roll_back(name, snapshot)
    }

    /// Adds a hold to a snapshot, or takes one away. A snapshot with a hold is not removed.
    ///
    /// # Errors
    /// Fails if the pool has no such snapshot, or if a hold cannot be added or is not there.
    pub fn hold_snapshot(&self, name: &str, tag: &str, is_held: bool) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.hold(name, tag, is_held)
    }

    /// Computes the space that only this volume holds, which removing it would free, and the space
    /// that it shares with others. Requests go on meanwhile; the result is exact if they change
    /// nothing. Takes a walk over the volume's map for each 32 Mi blocks of the data store, and 32
    /// MiB of memory.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, if metadata cannot be read, or if the work was
    /// stopped.
    pub fn volume_space(&self, name: &str, stop: &StopFlag) -> Result<VolumeSpace> {
        self.engine.accountant.of_volume(name, stop)
    }

    /// Counts the blocks of the pool with and without its snapshots. Requests go on meanwhile; the
    /// result is exact if they change nothing. Takes a walk over all maps for each 256 Mi blocks of
    /// the data store, and 32 MiB of memory.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if the work was stopped.
    pub fn snapshot_space(&self, stop: &StopFlag) -> Result<SnapshotSpace> {
        self.engine.accountant.of_snapshots(stop)
    }

    /// Compares a volume with another one, `since`, in a range of bytes: gives at least `most`
    /// ranges that differ, if there are as many.
    ///
    /// # Errors
    /// Fails if the pool lacks one of the volumes, if metadata cannot be read, or if the work was
    /// stopped.
    pub fn differing_ranges(
        &self,
        name: &str,
        since: &str,
        bytes: Range<u64>,
        (most, stop): (usize, &StopFlag),
    ) -> Result<DifferingRanges> {
        self.engine.comparer.ranges(name, since, bytes, (most, stop))
    }

    /// Returns what differs between a volume and a snapshot.
    ///
    /// # Errors
    /// Fails if the pool lacks one of both, or if the second is no snapshot.
    pub fn changes(&self, name: &str, since: &str) -> Result<ChangesSince> {
        ChangesSince::new(&self.engine, name, since)
    }

    /// Begins to send a snapshot.
    ///
    /// # Errors
    /// Fails if the pool lacks one of the snapshots, or if a volume is none.
    pub fn outgoing(&self, name: &str, since: Option<&str>) -> Result<Outgoing> {
        Outgoing::new(&self.engine, name, since)
    }

    /// Begins to make a copy of a snapshot of another pool.
    ///
    /// # Errors
    /// Fails if the pool has a volume of this name or a copy already, if it lacks the snapshot on
    /// which this one builds, or if the size does not fit its blocks.
    pub fn incoming(&self, name: &str, receipt: Receipt) -> Result<Incoming> {
        Incoming::new(&self.engine, name, receipt)
    }

    /// Copies that are being received, or can be continued.
    #[must_use]
    pub fn unfinished_copies(&self) -> Vec<UnfinishedCopy> {
        self.engine.volumes.unfinished()
    }

    /// Removes unfinished copies that nobody has continued for a week. Returns their number.
    ///
    /// # Errors
    /// Fails if the pool takes no changes.
    pub fn forget_old_copies(&self) -> Result<usize> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.forget_old_unfinished()
    }
}
