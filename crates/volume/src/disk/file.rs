//! A disk that is a file or a block device.

use super::Disk;
use rustix::fs::{FallocateFlags, FileType, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Slices that one system call takes (`IOV_MAX` of Linux).
const MAX_SLICES: usize = 1024;

/// A file or block device.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    is_device: bool,
}

impl FileDisk {
    /// Opens what exists.
    ///
    /// # Errors
    /// If it does not, or cannot be written.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of_file(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// Makes a new file.
    ///
    /// # Errors
    /// If there is one already, or it cannot be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::of_file(OpenOptions::new().read(true).write(true).create_new(true).open(path)?)
    }

    fn of_file(file: File) -> io::Result<Self> {
        let status = rustix::fs::fstat(&file)?;
        let is_device = FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
        Ok(Self { file, is_device })
    }
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        if self.is_device {
            // A device's metadata has no length, its end has.
            return Ok(rustix::fs::seek(&self.file, rustix::fs::SeekFrom::End(0))?);
        }
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        if !self.is_device {
            return self.file.set_len(length);
        }
        if self.len()? < length {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, length: u64) -> io::Result<()> {
        if self.is_device {
            // A device has its space, to its end.
            return if self.len()? < offset.saturating_add(length) {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            } else {
                Ok(())
            };
        }
        match fallocate(&self.file, FallocateFlags::empty(), offset, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, mut offset: u64, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            let some = slices.get(..MAX_SLICES).unwrap_or(slices);
            match rustix::io::pwritev(&self.file, some, offset) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(written) => {
                    offset += written as u64;
                    IoSlice::advance_slices(&mut slices, written);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, offset, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_land_one_after_another_however_many() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&folder.path().join("disk")).unwrap();
        disk.set_len(8192).unwrap();
        let bytes: Vec<u8> = (0..3000).map(|i| (i % 251) as u8).collect();
        let mut slices: Vec<IoSlice<'_>> =
            bytes.iter().map(|b| IoSlice::new(std::slice::from_ref(b))).collect();
        disk.write_at(100, &mut slices).unwrap();
        let mut back = vec![0; 3000];
        disk.read_at(100, &mut back).unwrap();
        assert_eq!(back, bytes);
        assert_eq!(disk.len().unwrap(), 8192);
        disk.discard(0, 4096).unwrap();
        disk.sync().unwrap();
    }

    #[test]
    fn reading_beyond_the_end_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&folder.path().join("disk")).unwrap();
        assert_eq!(disk.read_at(0, &mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(FileDisk::create(&folder.path().join("disk")).is_err());
    }
}
