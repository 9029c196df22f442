//! An open pool.

use super::create::format_disks;
use super::open::open_disks;
use super::stat::stat_of;
use super::{NewPool, PoolDirectory, PoolOptions, PoolStat, Tuning};
use crate::engine::{DamagedBlock, Engine, LeftBlocks, VolumesActivity};
use crate::error::{Result, StopReason, VolumeError};
use crate::load::Traffic;
use gemelo_base::background::{TaskStat, Worker};
use gemelo_base::locks::Mutex;
use gemelo_base::panics::Panicked;
use gemelo_base::{Clock, StopFlag};
use gemelo_disk::DiskAccess;
use gemelo_format::{DiskRole, Fingerprint, FingerprintKind, Fingerprinter, Pbn, VolumeLimits};
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

    /// Opens the pool on two disks. Where a part of the metadata is lost, or where the pool has a
    /// feature that a writer has to know, the pool is open for reading only.
    ///
    /// # Errors
    /// Fails if the disks hold no pool, or if the pool is too damaged to be served.
    pub fn open_disks(disks: PoolDisks, tuning: Tuning, clock: Arc<dyn Clock>) -> Result<Self> {
        open_disks(disks, tuning, clock)
    }

    /// Makes a pool on two disks and overwrites their contents. The superblock is written last, so
    /// an unfinished pool cannot be opened.
    ///
    /// # Errors
    /// Fails if an option is out of range, or if a disk cannot be written.
    pub fn format(disks: &PoolDisks, options: &PoolOptions) -> Result<()> {
        format_disks(disks, options)
    }

    /// Makes a pool in a directory, which is made if it does not exist.
    ///
    /// # Errors
    /// Fails as [`NewPool::make`] does.
    pub fn create(directory: &Path, options: &PoolOptions) -> Result<()> {
        NewPool::make(directory, options)?.keep();
        Ok(())
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

    /// Ends all changes, because a thread that works on the pool panicked.
    pub fn stop_by_panic(&self, panicked: Panicked) {
        self.engine.health.stop_by_panic(panicked);
    }

    /// Ends all changes, because the owner of the veto does not know any more which blocks others
    /// use. `why` completes "the pool stopped because".
    pub fn stop_by_owner(&self, why: String) {
        self.engine.health.stop_by_owner(why);
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

    /// Returns the figures of the tasks that the background repeats by itself: what they did, and
    /// since when and why they fail.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskStat> {
        self.engine.tasks.stats()
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.engine.superblock.block_bytes
    }

    /// Changes the settings that an open pool can change: the interval of commits, both
    /// comparisons, the finder without its memory, and the rates of the collector and of the
    /// arranger. Volumes that exist keep what they have.
    pub fn set_tuning(&self, tuning: Tuning) {
        self.engine.live.set(tuning);
    }

    /// Sets the rates of all volumes together. No rate is kept any more when `unpaced` is raised.
    pub fn pace(&self, total: VolumeLimits, unpaced: StopFlag) {
        self.engine.total.set(total);
        // A pool is served once.
        let _ = self.engine.unpaced.set(unpaced);
    }

    /// Returns the figures of the pool.
    ///
    /// # Errors
    /// Fails if the metadata disk cannot be measured.
    pub fn stat(&self) -> Result<PoolStat> {
        stat_of(&self.engine)
    }

    /// Returns the activity of all volumes together since the pool was opened. The sums never fall:
    /// removed volumes count as well.
    #[must_use]
    pub fn volumes_activity(&self) -> VolumesActivity {
        self.engine.catalogue.activity()
    }

    /// Returns the requests of all volumes.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.engine.catalogue.traffic()
    }

    /// Returns the number of blocks that new contents can take at once.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.engine.data.allocator.free_blocks()
    }

    /// Returns the fingerprint of each block, in the order of the list; `None` for a block that
    /// nothing refers to, that is not identified, or that is damaged.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn fingerprints_of(&self, pbns: &[Pbn]) -> Result<Vec<Option<Fingerprint>>> {
        let records = self.engine.log.records(pbns)?;
        let fit = |record: &gemelo_metadata::Record| {
            let is_fit =
                record.references > 0 && !record.fingerprint.is_none() && !record.is_suspect;
            is_fit.then_some(record.fingerprint)
        };
        Ok(records.iter().map(fit).collect())
    }

    /// Returns the contents in use, also those without fingerprints.
    #[must_use]
    pub fn used(&self) -> Vec<Pbn> {
        self.engine.data.allocator.used()
    }

    /// Returns the function that takes the fingerprints of contents.
    #[must_use]
    pub fn fingerprinter(&self) -> &Fingerprinter {
        &self.engine.fingerprinter
    }

    /// The kind and the key of the pool's fingerprints; [`None`] if equal ones do not prove equal
    /// contents.
    #[must_use]
    pub fn naming(&self) -> Option<(FingerprintKind, [u8; 32])> {
        let superblock = &self.engine.superblock;
        self.engine.reader.proves_equality().then_some((superblock.fingerprint, superblock.key))
    }

    /// Returns whether equal fingerprints prove equal contents.
    #[must_use]
    pub fn fingerprints_prove_equality(&self) -> bool {
        self.engine.reader.proves_equality()
    }

    /// Reads contents of the pool by their fingerprints; [`None`] for one that it does not have.
    ///
    /// # Errors
    /// Fails if metadata cannot be read.
    pub fn known_contents(&self, wanted: &[Fingerprint]) -> Result<Vec<Option<Vec<u8>>>> {
        self.engine.comparer.known_contents(wanted)
    }

    /// Writes the content of a damaged block that the veto keeps to that block again. Returns
    /// `false` if the pool takes no changes, or if the block cannot be written. It is durable after
    /// [`Self::sync_healed`].
    ///
    /// # Errors
    /// Fails if metadata cannot be read or changed.
    pub fn heal_kept(&self, pbn: Pbn, content: &[u8]) -> Result<bool> {
        assert_eq!(
            content.len(),
            self.engine.data.block_bytes(),
            "a content has the bytes of a block"
        );
        let _pin = self.engine.data.pin();
        self.engine.healer.write_again(pbn, content)
    }

    /// Makes contents durable that were written again.
    ///
    /// # Errors
    /// Fails if the pool cannot be written.
    pub fn sync_healed(&self) -> Result<()> {
        self.engine.healer.sync_healed()
    }

    /// Looks for blocks of these contents that have only contents that lie elsewhere, so that the
    /// owner of the veto may give the space of the blocks back.
    #[must_use]
    pub fn left_blocks(&self, pbns: &[Pbn], is_elsewhere: &dyn Fn(&Pbn) -> bool) -> LeftBlocks {
        self.engine.data.allocator.left_blocks(pbns, is_elsewhere)
    }

    /// Frees blocks that the veto held and that nothing refers to.
    pub fn free_kept(&self, pbns: &[Pbn]) {
        self.engine.data.allocator.free_held(pbns);
    }

    /// Returns the number of blocks that the veto holds and that nothing refers to.
    #[must_use]
    pub fn held_blocks(&self) -> u64 {
        self.engine.data.unmapped().held
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
