//! Pools: create, open, measure, grow and close them.

mod arrange;
mod copies;
mod create;
mod directory;
mod estimate;
mod find;
mod judge;
mod keep;
mod make;
mod open;
mod past_loss;
mod plan;
mod remove;
mod repair;
mod replayed_data;
mod scrub;
mod stat;

pub use create::{FullPool, PoolOptions};
pub use directory::PoolDirectory;
pub use estimate::FindEstimate;
pub use make::NewPool;
pub use past_loss::RenamedVolume;
pub use plan::{LossChoice, RepairCost, RepairOptions, RepairOutlook, RepairPlan};
pub use remove::{PoolRemoval, RemovalStep};
pub use repair::{record_damage, repair, repair_outlook};
pub use scrub::{DamagedContent, ScrubOptions, ScrubReport};
pub use stat::{PoolStat, VolumeSummary};

use crate::engine::{
    DamagedBlock, Engine, FinderPolicy, FinderTuning, GcReport, InlineOverload, LayoutTuning,
    SnapshotSpace, VolumeSpace, Worker,
};
use crate::error::{Result, StopReason, VolumeError};
use crate::volume::Volume;
use gemelo_base::panics::Panicked;
use gemelo_base::{Clock, Monitor, StopFlag};
use gemelo_disk::{DiskAccess, IoMode};
use gemelo_format::{DedupMode, DiskRole, Origin, Pbn};
use gemelo_store::PoolDisks;
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Settings of an open pool. They are not stored on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// The longest time until a change is made durable without a flush.
    pub commit_interval: Duration,
    /// `true` if every read compares contents with their checksums.
    pub verify_reads: bool,
    /// `true` if bytes are compared before a block is shared, with every kind of fingerprint.
    pub verify_bytes: bool,
    /// `true` if the pool takes no changes, because it is damaged or only inspected.
    pub read_only: bool,
    /// The most references to a block. Beyond it a content gets a fresh copy.
    pub max_references: u32,
    /// Memory in bytes for pages and changes of the metadata of a pool with the backend `table`,
    /// `btree` or `compact`: at least 64 KiB. The index of `compact` is not in it.
    pub cache_bytes: u64,
    /// `true` if commits, checkpoints and the search for duplicates run in the background.
    /// Otherwise each runs only when it is asked for or a request needs it.
    pub background: bool,
    /// The settings of the finder.
    pub finder: FinderTuning,
    /// The policy for blocks of in-line volumes while the write buffer is full.
    pub inline_overload: InlineOverload,
    /// The most freed bytes per second that the background gives back to the system; 0 for none.
    pub collect_bytes_per_s: u64,
    /// The way in which contents are written. Only a pool that is opened by its directory follows
    /// it.
    pub io: IoMode,
    /// Most bytes of memory for contents that are acknowledged and not written yet, and for those
    /// that were written lately, which readers find there. The memory grows as it is needed.
    pub write_buffer_bytes: u64,
    /// `true` to keep contents there after they were written, until newer ones need the memory.
    pub keeps_written: bool,
    /// Most bytes of new contents that a flush writes into the journal instead of syncing the data
    /// store; 0 for none, [`None`] for as many as suit the disk.
    pub max_journal_data_bytes: Option<u64>,
    /// Threads that write these contents, each a run of up to 1 MiB at a time.
    pub write_threads: usize,
    /// The settings of the arranger.
    pub layout: LayoutTuning,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_secs(5),
            verify_reads: true,
            verify_bytes: false,
            read_only: false,
            max_references: u32::MAX,
            cache_bytes: 256 << 20,
            background: true,
            finder: FinderTuning::default(),
            inline_overload: InlineOverload::default(),
            collect_bytes_per_s: 64 << 20,
            io: IoMode::Direct,
            write_buffer_bytes: 64 << 20,
            keeps_written: true,
            max_journal_data_bytes: None,
            // Direct writes of 1 MiB reach 1.1 GB/s with one thread on a virtual disk that reaches
            // 1.7 GB/s with four.
            write_threads: 4,
            layout: LayoutTuning::default(),
        }
    }
}

impl Tuning {
    /// The rules of the finder that concern each volume.
    pub(crate) fn finder_policy(&self) -> FinderPolicy {
        FinderPolicy {
            delay: self.finder.delay_bounds(),
            takes_deferred: self.inline_overload == InlineOverload::Defer,
        }
    }
}

/// An open pool. Dropping it without [`Pool::close`] leaves it on disk as a crash would.
///
/// A change of a whole volume is durable when its method returns without an error. A change that
/// cannot be made durable is an error, but stays in effect until a crash.
pub struct Pool {
    engine: Arc<Engine>,
    /// The background threads, until the pool is closed.
    workers: Mutex<Vec<Worker>>,
    /// Descriptions of damage that does not keep the pool from being served.
    damage: Vec<String>,
    disks: PoolDisks,
}

impl Pool {
    /// Makes a pool in a directory, which is made if it does not exist.
    ///
    /// # Errors
    /// Fails as [`NewPool::make`] does.
    pub fn create(directory: &Path, options: &PoolOptions) -> Result<()> {
        NewPool::make(directory, options)?.keep();
        Ok(())
    }

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
        self.engine.is_read_only()
    }

    /// Ends all changes, because a thread that works on the pool panicked.
    pub fn stop_by_panic(&self, panicked: Panicked) {
        self.engine.stop_by_panic(panicked);
    }

    /// Returns the reason why the pool takes no changes any more, if it has stopped. Looks first
    /// whether the file of a disk was deleted: what is written to such a pool is lost, so it takes
    /// no changes from then on. Its volumes can still be read.
    #[must_use]
    pub fn stopped(&self) -> Option<StopReason> {
        self.look_for_deletion();
        self.engine.stop_reason().cloned()
    }

    fn look_for_deletion(&self) {
        let PoolDisks { data, metadata, .. } = &self.disks;
        for (role, disk) in [(DiskRole::Data, data), (DiskRole::Metadata, metadata)] {
            // A disk that cannot tell does not count as deleted: its next request fails.
            if !self.is_read_only() && disk.is_deleted().is_ok_and(|is_deleted| is_deleted) {
                self.engine.stop_deleted(role);
            }
        }
    }

    /// Returns descriptions of the damage that was found when the pool was opened.
    #[must_use]
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// Returns the first thousand damaged blocks that were found since the pool was opened and that
    /// are still in use. [`crate::PoolActivity::damaged_blocks`] counts all of them.
    #[must_use]
    pub fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        self.engine.damaged_blocks()
    }

    /// Records durably that blocks are damaged, so that none is shared before it is written anew.
    pub(crate) fn suspect(&self, pbns: &[Pbn]) {
        pbns.iter().for_each(|pbn| self.engine.suspect(*pbn));
    }

    /// Returns a volume for reading and writing.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        Ok(Volume::new(Arc::clone(&self.engine), self.engine.volume(name)?))
    }

    /// Creates a volume, which takes no space before it is written. The size is in bytes, a
    /// multiple of the block size.
    ///
    /// # Errors
    /// Fails if the pool has a volume of this name already, or if the name or the size is invalid.
    pub fn create_volume(&self, name: &str, size_bytes: u64, mode: DedupMode) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.create_volume(name, size_bytes, mode, Origin::Empty)
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
        let _watch = self.engine.watch();
        self.engine.create_volume(name, size_bytes, mode, Origin::Imported)
    }

    /// Removes a volume. Requests under way end first; later ones fail.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or if the removal cannot be made durable.
    pub fn remove_volume(&self, name: &str) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.remove_volume(name)
    }

    /// Renames a volume.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or has one of the new name already.
    pub fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.rename_volume(name, new)
    }

    /// Sets the size of a volume in bytes. Contents beyond a new, lower end are dropped.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name, or if the size is invalid.
    pub fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.resize_volume(name, size_bytes)
    }

    /// Sets the deduplication of a volume's further writes.
    ///
    /// # Errors
    /// Fails if the pool has no volume of this name.
    pub fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.set_mode(name, mode)
    }

    /// Creates a volume with the present contents of another. The new volume takes no writes.
    ///
    /// # Errors
    /// Fails if the pool has no volume `source`, if it has a volume `name` already, or if a
    /// reference count would exceed its limit.
    pub fn snapshot_volume(&self, source: &str, name: &str) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.clone_volume(source, name, true)
    }

    /// Creates a volume that begins with the present contents of another.
    ///
    /// # Errors
    /// Fails as [`Self::snapshot_volume`] does.
    pub fn clone_volume(&self, source: &str, name: &str) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.clone_volume(source, name, false)
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
        self.engine.volume_space(name, stop)
    }

    /// Counts the blocks of the pool with and without its snapshots. Requests go on meanwhile; the
    /// result is exact if they change nothing. Takes a walk over all maps for each 256 Mi blocks of
    /// the data store, and 32 MiB of memory.
    ///
    /// # Errors
    /// Fails if metadata cannot be read, or if the work was stopped.
    pub fn snapshot_space(&self, stop: &StopFlag) -> Result<SnapshotSpace> {
        self.engine.snapshot_space(stop)
    }

    /// Enlarges the data store to this size in bytes, rounded down to whole blocks.
    ///
    /// # Errors
    /// Fails if the store is larger already, or if there is no space.
    pub fn grow(&self, capacity_bytes: u64) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.grow(capacity_bytes / u64::from(self.engine.superblock().block_bytes))
    }

    /// Makes durable all acknowledged writes of all volumes.
    ///
    /// # Errors
    /// Fails if a disk fails.
    pub fn flush(&self) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.flush()
    }

    /// Writes a checkpoint, so that the next opening has no journal to replay.
    ///
    /// # Errors
    /// Fails if the checkpoint cannot be written. Durable changes stay durable.
    pub fn checkpoint(&self) -> Result<()> {
        let _watch = self.engine.watch();
        self.engine.checkpoint()
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
        let _watch = self.engine.watch();
        self.engine.collect(max_bytes_per_s, monitor, stop)
    }

    /// Counts all references again and compares. Returns descriptions of the differences, at most
    /// `most`. Nothing may be written meanwhile.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.watch();
        self.engine.prove(most)
    }

    /// Counts all references again while requests wait, which takes about a second for ten million
    /// blocks in memory. Returns descriptions of the differences, at most `most`.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn prove_served(&self, most: usize) -> Result<Vec<String>> {
        let _watch = self.engine.watch();
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
        match self.engine.check_writable() {
            Ok(()) => match self.engine.checkpoint() {
                // The journal makes all changes durable, and the next opening replays it.
                Err(VolumeError::NoSpace { .. }) => self.engine.flush(),
                other => other,
            },
            Err(VolumeError::ReadOnly) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
