//! Storage that is addressed by bytes: the trait [`Disk`], and files and block devices behind it.
//!
//! A pool reaches storage only through [`Disk`], so tests inject faults in this one place. A
//! [`FileDisk`] is locked while it is open. [`check_overwritable`] and [`check_unused`] refuse a
//! path that something else uses or that holds data. The contents of a disk are left to callers.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod direct;
mod error;
mod file;
mod lock;
mod overwrite;
mod request;
mod signature;
mod usage;

pub use direct::IoMode;
pub use error::DiskError;
pub use file::FileDisk;
pub use lock::DiskAccess;
pub use overwrite::{check_existing_device, check_overwritable};
pub use request::{DiskRead, DiskWrite};
pub use usage::{are_same, check_file_unused, check_no_user, check_unused};

use std::io;

/// Storage that is addressed by bytes. All methods may be called from many threads at once.
/// `docs/reference/format.md` says what state a pool assumes it to have after a crash.
pub trait Disk: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// If the system says so.
    fn len(&self) -> io::Result<u64>;

    /// Whether its length is 0.
    ///
    /// # Errors
    /// As [`Self::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Makes it this long; new bytes are zeros. A block device is left alone if it is long enough.
    ///
    /// # Errors
    /// If there is no space, or the device is too small.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Reserves space, so that later writes to the range need none. The disk may become longer, by
    /// zeros. Present contents stay. It does nothing where the system does not support it.
    ///
    /// # Errors
    /// If there is no space, or the system says so.
    fn allocate(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    /// Does all reads of a list, in any order, and sets the outcome of each. Requests whose ranges
    /// follow one another are best given in a row, so that a disk can merge them.
    fn read_many(&self, reads: &mut [DiskRead<'_>]);

    /// As [`Self::read_many`], with writes.
    fn write_many(&self, writes: &mut [DiskWrite<'_>]);

    /// Fills the buffer; bytes beyond the end are an error of kind `UnexpectedEof`.
    ///
    /// # Errors
    /// If the system says so.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut reads = [DiskRead::new(offset, buffer)];
        self.read_many(&mut reads);
        let [read] = reads;
        read.outcome
    }

    /// Writes the bytes. After an error any part may have been written.
    ///
    /// # Errors
    /// If there is no space, or the system says so.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all(&mut [DiskWrite::new(offset, bytes)])
    }

    /// As [`Self::write_many`], where one failure is the failure of the whole list.
    ///
    /// # Errors
    /// The first error of the list.
    fn write_all(&self, writes: &mut [DiskWrite<'_>]) -> io::Result<()> {
        self.write_many(writes);
        let mut outcomes =
            writes.iter_mut().map(|write| std::mem::replace(&mut write.outcome, Ok(())));
        outcomes.find(io::Result::is_err).unwrap_or(Ok(()))
    }

    /// Makes durable what was written before.
    ///
    /// # Errors
    /// If the system says so: then nothing is known of what was written since the last time.
    fn sync(&self) -> io::Result<()>;

    /// The content of the range is no longer needed; it reads as anything. Best effort.
    ///
    /// # Errors
    /// If the system says so; not if it cannot do it.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()>;
}
