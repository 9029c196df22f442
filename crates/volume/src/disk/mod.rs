//! The engine's only way to storage, hence the only place where faults are injected.
//!
//! [`FileDisk`] is the storage that there is: files and block devices, locked while they are open.
//! What a path must not be used for, because somebody else uses it or it holds something, is told
//! by [`check_overwritable`] and [`check_unused`].

mod file;
mod lock;
mod overwrite;
mod signature;
mod usage;

pub use file::FileDisk;
pub use lock::DiskAccess;
pub use overwrite::{check_existing_device, check_overwritable};
pub(crate) use usage::{are_same, check_no_user};
pub use usage::{check_file_unused, check_unused};

use std::io::{self, IoSlice};

/// Storage that is addressed by bytes. All methods may be called from many threads at once; what the engine assumes of
/// it after a crash is in `docs/reference/format.md`.
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

    /// Sees to it that writes to the range need no space any more; it may make the disk longer, by zeros. What is there
    /// stays. Where the system cannot do it, it does nothing.
    ///
    /// # Errors
    /// If there is no space, or the system says so.
    fn allocate(&self, _offset: u64, _length: u64) -> io::Result<()> {
        Ok(())
    }

    /// Fills the buffer; bytes beyond the end are an error of kind `UnexpectedEof`.
    ///
    /// # Errors
    /// If the system says so.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes the slices one after another. After an error any part may have been written.
    ///
    /// # Errors
    /// If there is no space, or the system says so.
    fn write_at(&self, offset: u64, slices: &mut [IoSlice<'_>]) -> io::Result<()>;

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
