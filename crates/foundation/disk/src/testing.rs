//! Disks for tests and benchmarks: one in memory, one that makes contents, one that forgets, one
//! that writes to wrong places, and layers over other disks.

mod misdirecting;
mod synthetic;

pub use misdirecting::MisdirectingDisk;
pub use synthetic::{SyntheticDisk, renumber, synthesize};

use crate::{Disk, DiskRead, DiskWrite, SystemCache};
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A disk over another one, which hands on every call. A test states the calls that differ.
pub trait DiskLayer: Send + Sync {
    /// Returns the disk below.
    fn below(&self) -> &dyn Disk;

    /// See [`Disk::len`].
    ///
    /// # Errors
    /// Fails as the disk below does, which holds for all methods.
    fn len(&self) -> io::Result<u64> {
        self.below().len()
    }

    /// See [`Disk::is_empty`].
    ///
    /// # Errors
    /// Fails as the disk below does.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// See [`Disk::set_len`].
    ///
    /// # Errors
    /// Fails as the disk below does.
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.below().set_len(length)
    }

    /// See [`Disk::allocate`].
    ///
    /// # Errors
    /// Fails as the disk below does.
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        self.below().allocate(offset, length)
    }

    /// See [`Disk::read_many`].
    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.below().read_many(reads);
    }

    /// See [`Disk::read_ready`].
    fn read_ready(&self, reads: &mut [DiskRead<'_>]) {
        self.read_many(reads);
    }

    /// See [`Disk::read_medium`].
    fn read_medium(&self, reads: &mut [DiskRead<'_>]) {
        self.read_many(reads);
    }

    /// See [`Disk::write_many`].
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        self.below().write_many(writes);
    }

    /// See [`Disk::expect_scattered_reads`].
    fn expect_scattered_reads(&self) {
        self.below().expect_scattered_reads();
    }

    /// See [`Disk::start_write_back`].
    fn start_write_back(&self) {
        self.below().start_write_back();
    }

    /// See [`Disk::sync`].
    ///
    /// # Errors
    /// Fails as the disk below does.
    fn sync(&self) -> io::Result<()> {
        self.below().sync()
    }

    /// See [`Disk::discard`].
    ///
    /// # Errors
    /// Fails as the disk below does.
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.below().discard(offset, length)
    }
}

impl<L: DiskLayer> Disk for L {
    fn len(&self) -> io::Result<u64> {
        DiskLayer::len(self)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        DiskLayer::set_len(self, length)
    }
    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        DiskLayer::allocate(self, offset, length)
    }
    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        DiskLayer::read_many(self, reads);
    }
    fn read_ready(&self, reads: &mut [DiskRead<'_>]) {
        DiskLayer::read_ready(self, reads);
    }
    fn read_medium(&self, reads: &mut [DiskRead<'_>]) {
        DiskLayer::read_medium(self, reads);
    }
    fn system_cache(&self) -> SystemCache {
        self.below().system_cache()
    }
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        DiskLayer::write_many(self, writes);
    }
    fn expect_scattered_reads(&self) {
        DiskLayer::expect_scattered_reads(self);
    }
    fn start_write_back(&self) {
        DiskLayer::start_write_back(self);
    }
    fn bytes_per_sync(&self) -> u64 {
        self.below().bytes_per_sync()
    }
    fn writes_durably(&self) -> bool {
        self.below().writes_durably()
    }
    fn sync(&self) -> io::Result<()> {
        DiskLayer::sync(self)
    }
    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        DiskLayer::discard(self, offset, length)
    }
}

/// A disk in memory, of a limited length.
pub struct MemoryDisk {
    bytes: Mutex<Vec<u8>>,
    max_bytes: u64,
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new(Vec::new(), u64::MAX)
    }
}

impl MemoryDisk {
    /// Makes a disk with these bytes that does not become longer than `max_bytes`.
    #[must_use]
    pub const fn new(bytes: Vec<u8>, max_bytes: u64) -> Self {
        Self { bytes: Mutex::new(bytes), max_bytes }
    }

    /// Returns a copy of the bytes.
    #[must_use]
    pub fn image(&self) -> Vec<u8> {
        self.bytes().clone()
    }

    /// Returns the bytes, which stay locked meanwhile.
    pub fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grow(&self, bytes: &mut Vec<u8>, end: u64) -> io::Result<()> {
        match usize::try_from(end) {
            Ok(length) if end <= self.max_bytes => bytes.resize(length.max(bytes.len()), 0),
            _ => return Err(ErrorKind::StorageFull.into()),
        }
        Ok(())
    }

    fn write(&self, bytes: &mut Vec<u8>, write: &DiskWrite<'_>) -> io::Result<()> {
        let length = write.bytes.len();
        let end = write.offset.checked_add(length as u64).ok_or(ErrorKind::StorageFull)?;
        self.grow(bytes, end)?;
        let to = bytes.get_mut(end as usize - length..end as usize);
        to.ok_or(ErrorKind::StorageFull)?.copy_from_slice(write.bytes);
        Ok(())
    }
}

impl Disk for MemoryDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut bytes = self.bytes();
        self.grow(&mut bytes, length)?;
        bytes.truncate(length as usize);
        Ok(())
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let bytes = self.bytes();
        for read in reads {
            let start = usize::try_from(read.offset).ok();
            let from = start.and_then(|start| bytes.get(start..)?.get(..read.buffer.len()));
            match from {
                Some(from) => read.buffer.copy_from_slice(from),
                None => read.outcome = Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let mut bytes = self.bytes();
        for write in writes {
            write.outcome = self.write(&mut bytes, write);
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A disk that keeps only its first bytes, which identify it, for pools whose contents nobody
/// reads.
pub struct SinkDisk {
    first: Mutex<Vec<u8>>,
    length: u64,
}

impl SinkDisk {
    /// Makes a disk of this length that keeps `kept_bytes`.
    #[must_use]
    pub fn new(length: u64, kept_bytes: usize) -> Self {
        Self { first: Mutex::new(vec![0; kept_bytes]), length }
    }

    fn first(&self) -> MutexGuard<'_, Vec<u8>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SinkDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        let first = self.first();
        for read in reads {
            read.buffer.iter_mut().zip(first.iter()).for_each(|(to, from)| *to = *from);
        }
    }

    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        for write in writes.iter().filter(|write| write.offset == 0) {
            self.first().iter_mut().zip(write.bytes).for_each(|(to, from)| *to = *from);
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
