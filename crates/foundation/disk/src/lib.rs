//! Storage that is addressed by bytes: the trait [`Disk`], and files and block devices behind it.
//!
//! A pool reaches storage only through [`Disk`], so tests inject faults in this one place. A
//! [`FileDisk`] is locked while it is open. [`check_overwritable`] and [`check_unused`] refuse a
//! path that something else uses or that holds data. The contents of a disk are left to callers.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cached;
mod direct;
mod error;
mod file;
mod lock;
mod medium;
mod overwrite;
mod pool_part;
mod request;
mod ring;
mod signature;
#[cfg(feature = "testing")]
pub mod testing;
mod usage;

pub use direct::IoMode;
pub use error::DiskError;
pub use file::FileDisk;
pub use lock::DiskAccess;
pub use overwrite::{check_existing_device, check_overwritable};
pub use pool_part::{PoolPart, check_no_pool, check_no_pool_below, pool_part};
pub use request::{DiskRead, DiskWrite};
pub use signature::FAR_POOL_MARK_BYTE;
pub use usage::{are_same, check_file_unused, check_no_user, check_not_open, check_unused};

use std::io;

/// Bytes that a disk of this machine writes in the time of a sync. Solid-state disks write 1 to 2
/// GB/s, and sync in 0.1 to 1 ms.
const LOCAL_BYTES_PER_SYNC: u64 = 128 << 10;

/// The contents of a disk that the system keeps in memory by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemCache {
    /// `true` if it keeps what was written lately.
    pub keeps_written: bool,
    /// `true` if it keeps what was read lately.
    pub keeps_read: bool,
}

/// Storage that is addressed by bytes. All methods may be called from many threads at once.
/// `docs/internals/format.md` says what state a pool assumes it to have after a crash.
pub trait Disk: Send + Sync {
    /// Returns the length in bytes.
    ///
    /// # Errors
    /// Fails if a system call fails.
    fn len(&self) -> io::Result<u64>;

    /// Returns whether the length is 0.
    ///
    /// # Errors
    /// Fails as [`Self::len`] does.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Sets the length; new bytes are zeros. A block device that is long enough stays as it is.
    ///
    /// # Errors
    /// Fails if there is no space, or if the device is too small.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Reserves space, so that later writes to the range need none. The disk may become longer, by
    /// zeros. Present contents stay. It does nothing where the system does not support it.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    fn allocate(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    /// Executes all reads of a list, in any order, and sets the outcome of each. Requests whose
    /// ranges follow one another should be adjacent in the list, so that a disk can merge them.
    fn read_many(&self, reads: &mut [DiskRead<'_>]);

    /// Executes the reads of a list that do not have to wait for the medium. Each of the others
    /// gets an outcome of the kind [`io::ErrorKind::WouldBlock`], and is started, so that it may
    /// soon be executed without a wait. A disk that cannot tell executes all reads.
    fn read_ready(&self, reads: &mut [DiskRead<'_>]) {
        self.read_many(reads);
    }

    /// Returns what the system keeps in memory.
    fn system_cache(&self) -> SystemCache {
        SystemCache::default()
    }

    /// Executes all reads of a list from the medium, past any cache of the system that can be
    /// passed. What was written before is read, and nothing becomes cached.
    fn read_medium(&self, reads: &mut [DiskRead<'_>]) {
        self.read_many(reads);
    }

    /// Executes all writes of a list, as [`Self::read_many`] does with reads.
    fn write_many(&self, writes: &mut [DiskWrite<'_>]);

    /// Has the system read what is asked for from now on, and nothing beside it. For scattered
    /// reads of pages it would read twice as much, in the place of pages in use.
    fn expect_scattered_reads(&self) {}

    /// Has the system begin to bring all earlier writes to the medium, and does not wait. It makes
    /// nothing durable, but leaves less to the next sync, for which others may wait.
    fn start_write_back(&self) {}

    /// Fills the buffer. Reading beyond the end is an error of kind `UnexpectedEof`.
    ///
    /// # Errors
    /// Fails if a system call fails.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut reads = [DiskRead::new(offset, buffer)];
        self.read_many(&mut reads);
        let [read] = reads;
        read.outcome
    }

    /// Writes the bytes. After an error any part may have been written.
    ///
    /// # Errors
    /// Fails if there is no space, or if a system call fails.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all(&mut [DiskWrite::new(offset, bytes)])
    }

    /// Executes all writes of a list, and fails if any of them fails.
    ///
    /// # Errors
    /// Returns the first error of the list.
    fn write_all(&self, writes: &mut [DiskWrite<'_>]) -> io::Result<()> {
        self.write_many(writes);
        let mut outcomes =
            writes.iter_mut().map(|write| std::mem::replace(&mut write.outcome, Ok(())));
        outcomes.find(io::Result::is_err).unwrap_or(Ok(()))
    }

    /// Returns the number of bytes whose writing takes about as long as a sync with nothing to
    /// write. A caller that saves a sync by writing fewer bytes more gains by it.
    fn bytes_per_sync(&self) -> u64 {
        LOCAL_BYTES_PER_SYNC
    }

    /// Returns whether a write is durable when it returns without an error, so that a sync has
    /// nothing to do.
    fn writes_durably(&self) -> bool {
        false
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// Fails if a system call fails. Then it is unknown which writes since the last sync are
    /// durable.
    fn sync(&self) -> io::Result<()>;

    /// Returns whether the disk has lost its last name. What it holds is then lost when the last
    /// process that has it open ends.
    ///
    /// # Errors
    /// Fails if a system call fails.
    fn is_deleted(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Gives up the content of the range, which may then read as anything. A disk may ignore it.
    ///
    /// # Errors
    /// Fails if a system call fails, but not if the system does not support it.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;

    /// Returns the bytes of space that the disk takes below; [`None`] if it cannot tell.
    ///
    /// # Errors
    /// Fails if a system call fails.
    fn allocated_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}
