//! An open pool.

use super::{PoolDirectory, Tuning, VolumeTuning};
use crate::engine::{DamagedBlock, Engine, GcReport, NewCopy, SnapshotSpace, VolumeSpace};
use crate::error::{Result, StopReason, VolumeError};
use crate::volume::Volume;
use gemelo_base::background::{TaskStat, Worker};
use gemelo_base::locks::Mutex;
use gemelo_base::panics::Panicked;
use gemelo_base::{Clock, Monitor, StopFlag};
use gemelo_disk::DiskAccess;
use gemelo_format::{Compression, DedupMode, DiskRole, Origin, Pbn, VolumeLimits};
use gemelo_store::PoolDisks;
use std::path::Path;
use std::sync::Arc;

/// An open pool. Dropping it without [`Pool::close`] leaves it on disk as a crash would.
///
/// A change of a whole volume is durable when its method returns without an error. A change that
/// cannot be made durable is an error, but stays in effect until a crash.
pub struct Pool {
    pub(super) engine: Arc<Engine>,
    /// The background threads, until the pool is closed.
    pub(super) workers: Mutex<Vec<Worker>>,
    /// Descriptions of damage that does not keep the pool from being served.
    pub(super) damage: Vec<String>,
    pub(super) disks: PoolDisks,
}

impl Pool {
    /// Opens the pool of a directory. No other process writes to the pool until it is closed and
    /// its volumes are dropped. If it is opened read-only, others may read it meanwhile, and
    /// nothing is written.
    ///
    /// # Errors
    /// Fails if another process uses the pool, if the directory is not a pool, or if the pool is
    /// too damaged to be served.
    pub fn open(directory: &Path, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        let access = if tuning.read_only { DiskAccess::Shared } else { DiskAccess::Exclusive };
        let directory = PoolDirectory::open_with(directory, access, tuning.io)?;
        Self::open_disks(directory.disks(), tuning, clock)
    }

    /// Returns whether the pool takes no changes: it was opened for reading only, or it is damaged.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.engine.health.is_read_only()
    }

    /// Returns the name of the feature of the pool that this program does not know, if it keeps the
    /// pool open for reading only.
    #[must_use]
    pub fn unknown_feature(&self) -> Option<&str> {
        self.engine.health.unknown_feature()
    }

    /// Ends all changes, because a thread that works on the pool panicked.
    pub fn stop_by_panic(&self, panicked: Panicked) {
        self.engine.health.stop_by_panic(panicked);
    }

    /// Ends all changes, because the owner of the veto does not know any more which blocks others
    /// use. `why` completes "the pool stopped because".
    pub fn stop_by_owner(&self, why: String) {
        self.engine.health.stop_by_owner(why);
    }

    /// Returns the reason why the pool takes no changes any more, if it has stopped. Looks first
    /// whether the file of a disk was deleted: what is written to such a pool is lost, so it takes
    /// no changes from then on. Its volumes can still be read.
    #[must_use]
    pub fn stopped(&self) -> Option<StopReason> {
        self.look_for_deletion();
        self.engine.health.stop_reason()
    }

    fn look_for_deletion(&self) {
        let PoolDisks { data, metadata, .. } = &self.disks;
        for (role, disk) in [(DiskRole::Data, data), (DiskRole::Metadata, metadata)] {
            // A disk that cannot tell does not count as deleted: its next request fails.
            if !self.is_read_only() && disk.is_deleted().is_ok_and(|is_deleted| is_deleted) {
                self.engine.health.stop_deleted(role);
            }
        }
    }

    /// Returns descriptions of the damage that was found when the pool was opened.
    #[must_use]
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Returns the part of the metadata that was found damaged since the pool was opened. Such a
    /// pool takes no changes; what was acknowledged before can be flushed.
    #[must_use]
    pub fn damaged_metadata(&self) -> Option<String> {
        self.engine.health.damaged()
    }

    /// Returns the figures of the tasks that the background repeats by itself: what they did, and
    /// since when and why they fail.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskStat> {
        self.engine.tasks.stats()
    }

    /// Returns the first thousand damaged blocks that were found since the pool was opened and that
    /// are still in use. [`crate::PoolActivity::damaged_blocks`] counts all of them.
    #[must_use]
    pub fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        self.engine.healer.damaged_blocks(&self.engine.catalogue)
    }

    /// Records durably that blocks are damaged, so that none is shared before it is written anew.
    pub(crate) fn suspect(&self, pbns: &[Pbn]) {
        pbns.iter().for_each(|pbn| self.engine.healer.suspect(*pbn));
    }

    /// Returns a volume for reading and writing.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        Ok(Volume::new(Arc::clone(&self.engine), self.engine.catalogue.find(name)?))
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

    /// Changes the settings that an open pool can change: the interval of commits, both
    /// comparisons, the finder without its memory, and the rates of the collector and of the
    /// arranger. Volumes that exist keep what they have.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.engine.live.set(tuning);
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

    /// Sets the rates of all volumes together. No rate is kept any more when `unpaced` is raised.
    pub fn pace(&self, total: VolumeLimits, unpaced: StopFlag) {
        self.engine.total.set(total);
        // A pool is served once.
        let _ = self.engine.unpaced.set(unpaced);
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

    /// Enlarges the data store to this size in bytes, rounded down to whole blocks.
    ///
    /// # Errors
    /// Fails if the store is larger already, or if there is no space.
    pub fn grow(&self, capacity_bytes: u64) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.volumes.grow(capacity_bytes / u64::from(self.engine.superblock.block_bytes))
    }

    /// Makes durable all acknowledged writes of all volumes.
    ///
    /// # Errors
    /// Fails if a disk fails.
    pub fn flush(&self) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.log.flush()
    }

    /// Writes a checkpoint, so that the next opening has no journal to replay.
    ///
    /// # Errors
    /// Fails if the checkpoint cannot be written. Durable changes stay durable.
    pub fn checkpoint(&self) -> Result<()> {
        let _watch = self.engine.health.watch();
        self.engine.log.checkpoint()
    }

    /// Writes a checkpoint, makes freed blocks usable, and gives free space of the data store back
    /// to the system, at most `max_bytes_per_s`.
    ///
    /// # Errors
    /// Fails if the checkpoint or a discard fails, or if the work was stopped.
    pub fn gc(
        &self,
        max_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        let _watch = self.engine.health.watch();
        self.engine.collect(max_bytes_per_s, monitor, stop)
    }

    /// Counts all references again and compares. Returns descriptions of the differences, at most
    /// `most`. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.health.watch();
        self.engine.prove(most)
    }

    /// Counts all references again while requests wait, which takes about a second for ten million
    /// blocks in memory. Returns descriptions of the differences, at most `most`.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.health.watch();
        self.engine.prove_served(most)
    }

    /// Ends the background, writes a checkpoint and unlocks the pool. Requests to its volumes must
    /// have ended.
    ///
    /// # Errors
    /// Fails if the checkpoint cannot be written.
    pub fn close(self) -> Result<()> {
        self.workers.lock().clear();
        self.look_for_deletion();
        match self.engine.health.check_writable() {
            Ok(()) => {
                match self.engine.log.keep_index().and_then(|()| self.engine.log.checkpoint()) {
                    // The journal makes all changes durable, and the next opening replays it.
                    Err(VolumeError::NoSpace { .. }) => self.engine.log.flush(),
                    other => other,
                }
            }
            Err(VolumeError::ReadOnly | VolumeError::ReadableOnly { .. }) => Ok(()),
            // What was acknowledged before damage was found is made durable.
            Err(error) => self.engine.log.flush().and(Err(error)),
        }
    }
}
