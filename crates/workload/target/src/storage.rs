//! The steps from a name to storage that load can use: [`Storage`] is found, [`PlannedTarget`] was
//! checked, [`Target`] is ready.

use crate::queue::{Queue, QueueOptions};
use crate::{AtStart, PlaceLayout, PoolStats, TargetError};
use gemelo_base::{Monitor, StopFlag};
use std::fmt;

/// Bytes at the beginning of storage that are overwritten without `--force` only if they are zeros:
/// file systems, volume managers and partition tables all write to the first MiB.
pub const LABEL_BYTES: u64 = 1 << 20;

/// Storage of a valid name. It was neither opened nor checked yet.
pub trait Storage: Send + Sync {
    /// Returns whether the user can choose an [`crate::Engine`]. Storage with an interface of its
    /// own, such as a volume or an export, has none to choose.
    fn has_engines(&self) -> bool {
        true
    }

    /// Returns whether written data can be read back.
    fn holds_data(&self) -> bool {
        true
    }

    /// Returns the size in bytes of storage that has a fixed size, such as a block device.
    ///
    /// # Errors
    /// Fails if the storage cannot be opened or measured.
    fn capacity(&self) -> Result<Option<u64>, TargetError>;

    /// Returns the size in bytes that the storage has now: its capacity, or the length of a file
    /// that exists. It is `None` for storage that a job makes.
    ///
    /// # Errors
    /// Fails if the storage cannot be opened or measured.
    fn current_bytes(&self) -> Result<Option<u64>, TargetError> {
        self.capacity()
    }

    /// Checks that the storage can carry the layout, and changes nothing in it.
    ///
    /// # Errors
    /// Fails with everything that can be refused before a run; see [`TargetError`].
    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError>;
}

/// A target that was checked, and in which nothing was changed yet.
pub trait PlannedTarget: fmt::Debug {
    /// Makes the places. If this fails midway, it removes the files that it has made.
    ///
    /// # Errors
    /// Fails if a file cannot be made, opened or given its size.
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError>;
}

/// Storage with one place for each process.
pub trait Target: Send + Sync {
    /// Returns the name of a process's place, for messages.
    fn place(&self, process: u32) -> String;

    /// Returns whether written data can be read back.
    fn holds_data(&self) -> bool;

    /// Returns the content of the places before the job writes to them.
    fn at_start(&self) -> AtStart;

    /// Opens a process's place for the calling thread. Several queues can be open on one place.
    ///
    /// # Errors
    /// Fails if the place cannot be opened, or if the engine is not available.
    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError>;

    /// Returns the number of queues that may be open at once, on all places together.
    fn max_queues(&self) -> usize {
        usize::MAX
    }

    /// Completes the work that the storage does some time after it has acknowledged writes: an
    /// off-line volume searches for its duplicates. Stats taken afterwards cover all writes.
    ///
    /// # Errors
    /// Fails if that work fails. The written data stays as it is.
    fn settle(&self, _monitor: &dyn Monitor, _stop: &StopFlag) -> Result<(), TargetError> {
        Ok(())
    }

    /// Returns the figures of storage that deduplicates; `None` for all other storage.
    fn pool_figures(&self) -> Option<PoolStats> {
        None
    }

    /// Removes the files that were made for this target, unless `keep` is set, and closes the
    /// storage, which makes all writes durable. A target that is dropped without this call removes
    /// its files too.
    ///
    /// # Errors
    /// Fails if a file cannot be removed, or if the storage cannot be closed.
    fn finish(&mut self, keep: bool) -> Result<(), TargetError>;
}
