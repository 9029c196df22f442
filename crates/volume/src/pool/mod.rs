//! Pools: made, opened, measured, grown, closed.

mod convert;
mod create;
mod directory;
mod find;
mod live;
mod make;
mod open;
mod remove;
mod repair;
mod stat;

pub use convert::{Conversion, convert};
pub use create::PoolOptions;
pub use directory::PoolDirectory;
pub use live::LiveCheck;
pub use make::NewPool;
pub use remove::{PoolRemoval, RemovalStep};
pub use repair::{RepairCost, record_damage, repair, repair_cost};
pub use stat::{PoolStat, VolumeSummary};

use crate::engine::{DamagedBlock, Engine, GcReport, SnapshotSpace, VolumeSpace, Worker};
use crate::error::{Result, VolumeError};
use crate::volume::Volume;
use gemelo_base::{Clock, Monitor, StopFlag};
use gemelo_disk::{DiskAccess, IoMode};
use gemelo_format::{DedupMode, Origin, Pbn};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How an open pool behaves; nothing of it is on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Nothing stays without being made durable for longer, even if nobody flushes.
    pub commit_interval: Duration,
    /// Compare contents with their checksums at every read.
    pub verify_reads: bool,
    /// Compare bytes before a block is shared, with every kind of fingerprint.
    pub verify_bytes: bool,
    /// No changes: for pools that are damaged, or only looked at.
    pub read_only: bool,
    /// References to a block from which on its content gets a fresh copy.
    pub most_references: u32,
    /// Memory for the metadata of a pool whose backend is `table` or `btree`, in bytes: at least 64 KiB.
    pub cache_bytes: u64,
    /// Commit, checkpoint and find duplicates in the background. Without, each is done only when it is asked for or a
    /// request needs it.
    pub background: bool,
    /// How long the finder leaves blocks alone after they were written: what is written again soon is not worth a look.
    pub finder_delay: Duration,
    /// What the finder reads at most in the background, in bytes per second.
    pub finder_bytes_per_s: Option<u64>,
    /// How much freed space the background gives back to the system a second, in bytes; 0 for none.
    pub collect_bytes_per_s: u64,
    /// Whether contents are written through the page cache. Only a pool that is opened by its
    /// directory follows it.
    pub io: IoMode,
    /// Memory for contents that are acknowledged and not written yet, in bytes. It grows to this as
    /// it is needed.
    pub write_buffer_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            commit_interval: Duration::from_secs(5),
            verify_reads: true,
            verify_bytes: false,
            read_only: false,
            most_references: u32::MAX,
            cache_bytes: 256 << 20,
            background: true,
            finder_delay: Duration::from_secs(5),
            finder_bytes_per_s: None,
            collect_bytes_per_s: 64 << 20,
            io: IoMode::Direct,
            write_buffer_bytes: 64 << 20,
        }
    }
}

/// An open pool. Dropping it without [`Pool::close`] leaves it as a crash would.
///
/// What changes a volume as a whole is durable when it returns without an error. If it cannot be made durable it is an error,
/// and the change is made all the same, until a crash.
pub struct Pool {
    engine: Arc<Engine>,
    /// The background, until the pool is closed.
    workers: Mutex<Vec<Worker>>,
    /// What was found damaged and can be served all the same.
    damage: Vec<String>,
}

impl Pool {
    /// Makes a pool in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// As [`NewPool::make`].
    pub fn create(directory: &Path, options: &PoolOptions) -> Result<()> {
        NewPool::make(directory, options)?.keep();
        Ok(())
    }

    /// Opens the pool of a directory. Until it is closed and its volumes are dropped, no other
    /// process writes to it; if it is opened read-only, others may read it meanwhile, and nothing
    /// is written.
    ///
    /// # Errors
    /// If another process has it, it is no pool, or it is damaged so that it cannot be served.
    pub fn open(directory: &Path, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        let access = if tuning.read_only { DiskAccess::Shared } else { DiskAccess::Exclusive };
        let directory = PoolDirectory::open_with(directory, access, tuning.io)?;
        Self::open_disks(directory.disks(), tuning, clock)
    }

    /// Whether the pool takes no changes: it was opened so, or it is damaged.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.engine.is_read_only()
    }

    /// What was found damaged when it was opened, in words.
    #[must_use]
    pub fn damage(&self) -> &[String] {
        &self.damage
    }

    /// The damaged blocks that were found since the pool was opened and that are still in use: the first
    /// thousand. [`crate::PoolActivity::damaged_blocks`] counts all.
    #[must_use]
    pub fn damaged_blocks(&self) -> Vec<DamagedBlock> {
        self.engine.damaged_blocks()
    }

    /// Writes down that blocks are damaged, so that nothing shares them before they are written anew.
    pub(crate) fn suspect(&self, pbns: &[Pbn]) {
        pbns.iter().for_each(|pbn| self.engine.suspect(*pbn));
    }

    /// A volume, to be read and written.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        Ok(Volume::new(Arc::clone(&self.engine), self.engine.volume(name)?))
    }

    /// Makes a volume; it takes no space before it is written. The size is in bytes, a multiple of the block size.
    ///
    /// # Errors
    /// If there is one of this name, or name or size cannot be.
    pub fn create_volume(&self, name: &str, size_bytes: u64, mode: DedupMode) -> Result<()> {
        self.engine.create_volume(name, size_bytes, mode, Origin::Empty)
    }

    /// Makes a volume that an import is going to fill: as [`Self::create_volume`], and its origin says
    /// that it was imported.
    ///
    /// # Errors
    /// As [`Self::create_volume`].
    pub fn create_imported_volume(
        &self,
        name: &str,
        size_bytes: u64,
        mode: DedupMode,
    ) -> Result<()> {
        self.engine.create_volume(name, size_bytes, mode, Origin::Imported)
    }

    /// Removes a volume. Requests under way end first; later ones fail.
    ///
    /// # Errors
    /// If there is none, or it cannot be made durable.
    pub fn remove_volume(&self, name: &str) -> Result<()> {
        self.engine.remove_volume(name)
    }

    /// Gives a volume another name.
    ///
    /// # Errors
    /// If there is none, or one of the new name.
    pub fn rename_volume(&self, name: &str, new: &str) -> Result<()> {
        self.engine.rename_volume(name, new)
    }

    /// Gives a volume another size in bytes. What is beyond the new end is gone.
    ///
    /// # Errors
    /// If there is none, or the size cannot be.
    pub fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<()> {
        self.engine.resize_volume(name, size_bytes)
    }

    /// Turns deduplication of a volume's further writes on or off.
    ///
    /// # Errors
    /// If there is none.
    pub fn set_mode(&self, name: &str, mode: DedupMode) -> Result<()> {
        self.engine.set_mode(name, mode)
    }

    /// Makes a volume that is what another is now, and takes no writes.
    ///
    /// # Errors
    /// If there is no such volume, one of the new name, or a block has as many references as can be counted.
    pub fn snapshot_volume(&self, source: &str, name: &str) -> Result<()> {
        self.engine.clone_volume(source, name, true)
    }

    /// Makes a volume that begins as what another is now.
    ///
    /// # Errors
    /// As [`Self::snapshot_volume`].
    pub fn clone_volume(&self, source: &str, name: &str) -> Result<()> {
        self.engine.clone_volume(source, name, false)
    }

    /// Computes the space that only this volume holds, which removing it would free, and the space that
    /// it shares with others. Requests go on meanwhile; the result is exact if they change nothing.
    /// Takes a walk over the volume's map for each 32 Mi blocks of the data store, and 32 MiB of
    /// memory.
    ///
    /// # Errors
    /// If there is no such volume, metadata cannot be read, or the work was stopped.
    pub fn volume_space(&self, name: &str, stop: &StopFlag) -> Result<VolumeSpace> {
        self.engine.volume_space(name, stop)
    }

    /// Counts the blocks of the pool with and without its snapshots. Requests go on meanwhile; the
    /// result is exact if they change nothing. Takes a walk over all maps for each 256 Mi blocks of
    /// the data store, and 32 MiB of memory.
    ///
    /// # Errors
    /// If metadata cannot be read, or the work was stopped.
    pub fn snapshot_space(&self, stop: &StopFlag) -> Result<SnapshotSpace> {
        self.engine.snapshot_space(stop)
    }

    /// Makes the data store larger: its new size in bytes, rounded down to whole blocks.
    ///
    /// # Errors
    /// If it is that large already, or there is no space.
    pub fn grow(&self, capacity_bytes: u64) -> Result<()> {
        self.engine.grow(capacity_bytes / u64::from(self.engine.superblock().block_bytes))
    }

    /// Makes durable all that was acknowledged, in all volumes.
    ///
    /// # Errors
    /// If it cannot be.
    pub fn flush(&self) -> Result<()> {
        self.engine.flush()
    }

    /// Writes a checkpoint, so that the next opening has no journal to replay.
    ///
    /// # Errors
    /// If it cannot be written; all that is durable stays so.
    pub fn checkpoint(&self) -> Result<()> {
        self.engine.checkpoint()
    }

    /// Writes a checkpoint, makes freed blocks usable, and gives free space of the data store back to
    /// the system, at most `most_bytes_per_s`.
    ///
    /// # Errors
    /// If the checkpoint or a discard fails, or the work was stopped.
    pub fn gc(
        &self,
        most_bytes_per_s: Option<u64>,
        monitor: &dyn Monitor,
        stop: &StopFlag,
    ) -> Result<GcReport> {
        self.engine.collect(most_bytes_per_s, monitor, stop)
    }

    /// Counts all references again and compares: the differences in words, at most `most`. Nothing may be written
    /// meanwhile.
    ///
    /// # Errors
    /// If metadata cannot be read.
    pub fn prove(&self, most: usize) -> Result<Vec<String>> {
        self.engine.prove(most)
    }

    /// Ends the background, writes a checkpoint and lets go of the pool. Requests to its volumes must have ended.
    ///
    /// # Errors
    /// If the checkpoint cannot be written.
    pub fn close(self) -> Result<()> {
        self.workers.lock().clear();
        match self.engine.check_writable() {
            Ok(()) => match self.engine.checkpoint() {
                // All is durable with the journal, and the next opening replays it.
                Err(VolumeError::NoSpace { .. }) => self.engine.flush(),
                other => other,
            },
            Err(VolumeError::ReadOnly) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
