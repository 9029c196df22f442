//! A disk that is a file or a block device, locked for as long as it is open.

use crate::cached::{CachedReads, MAX_SLICES};
use crate::direct::{DirectFile, IoMode};
use crate::error::{DiskError, Result};
use crate::lock::{self, DiskAccess};
use crate::medium::{MediumReads, MediumWrites};
use crate::{Disk, DiskRead, DiskWrite, SystemCache, usage};
use gemelo_base::ShowPath as _;
use gemelo_base::short_read;
use rustix::fs::{Advice, FallocateFlags, FileType, OFlags, Stat, fallocate};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The mode of a new file. Contents and the key of the fingerprints are readable by the owner
/// alone, whatever the umask.
const NEW_FILE_MODE: u32 = 0o600;
/// The unit in which the system tells the space of a file.
const STATUS_BLOCK_BYTES: u64 = 512;
/// Bytes at each end of a device that may hold labels. File systems, volume managers and partition
/// tables have theirs in the first MiB; GPT, ZFS and MD RAID also in the last.
pub(crate) const LABEL_BYTES: u64 = 1 << 20;
/// The kinds of file systems that keep files in memory alone: tmpfs and ramfs. They say nothing of
/// a device whose node lies in one.
const MEMORY_FILE_SYSTEMS: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// A file or block device, locked.
#[derive(Debug)]
pub struct FileDisk {
    file: File,
    /// The path at which it was opened, for messages.
    path: PathBuf,
    is_device: bool,
    /// `true` on a file system that has no medium but memory.
    is_memory: bool,
    reads: CachedReads,
    medium: MediumReads,
    unread: MediumWrites,
    /// Takes the writes that bypass the page cache.
    direct: Option<DirectFile>,
}

fn lies_in_memory(file: &File) -> bool {
    // A file system that does not tell its kind is taken for one on a medium.
    rustix::fs::fstatfs(file).is_ok_and(|status| MEMORY_FILE_SYSTEMS.contains(&status.f_type))
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    move |source| DiskError::File { action, path: path.to_owned(), source }
}

impl FileDisk {
    /// Opens and locks an existing file or device. Shared access needs no right to write and no
    /// space.
    ///
    /// # Errors
    /// Fails if the path does not exist, if it is neither a file nor a block device, if another
    /// process uses it, or if the device has another use.
    pub fn open(path: &Path, access: DiskAccess) -> Result<Self> {
        let status = rustix::fs::stat(path).map_err(|error| failed("open", path)(error.into()))?;
        // This check comes before the path is opened, because opening a pipe would wait for a
        // writer.
        let is_device = Self::is_device_at(path, &status)?;
        let mut options = OpenOptions::new();
        options.read(true).write(access == DiskAccess::Exclusive);
        if is_device && access == DiskAccess::Exclusive {
            // With this flag the kernel opens a device only if it is neither mounted nor part of
            // another device.
            options.custom_flags(OFlags::EXCL.bits().cast_signed());
        }
        match options.open(path) {
            Ok(file) => Self::locked(path, file, access),
            Err(error) if is_device && error.kind() == io::ErrorKind::ResourceBusy => {
                Err(busy_device(path, &status))
            }
            Err(error) => Err(failed("open", path)(error)),
        }
    }

    /// Makes a new file, readable by its owner alone, and locks it.
    ///
    /// # Errors
    /// Fails if the file exists already, or if it cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(NEW_FILE_MODE);
        match options.open(path) {
            Ok(file) => Self::locked(path, file, DiskAccess::Exclusive),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(DiskError::Exists { path: path.to_owned() })
            }
            Err(error) => Err(failed("make", path)(error)),
        }
    }

    fn locked(path: &Path, file: File, access: DiskAccess) -> Result<Self> {
        let status =
            rustix::fs::fstat(&file).map_err(|error| failed("look at", path)(error.into()))?;
        let is_device = Self::is_device_at(path, &status)?;
        if lock::take(&file, access, is_device).map_err(failed("lock", path))? {
            let (reads, medium) = (CachedReads::default(), MediumReads::default());
            let path = path.to_owned();
            // For a device, the file system is that of its node, which devtmpfs keeps in memory.
            let is_memory = !is_device && lies_in_memory(&file);
            let (unread, direct) = (MediumWrites::default(), None);
            return Ok(Self { file, path, is_device, is_memory, reads, medium, unread, direct });
        }
        Err(DiskError::Locked { path: path.to_owned(), holder: lock::holder(&file) })
    }

    /// Returns the same disk with this way of writing. Where the system has no direct writes, all
    /// writes stay buffered. So they do on a file system in memory, which takes direct writes and
    /// copies them all the same: rings would hand each to a thread of the kernel.
    #[must_use]
    pub fn with_io(self, mode: IoMode) -> Self {
        let direct = match mode {
            IoMode::Direct if !self.is_memory => DirectFile::open(&self.file),
            IoMode::Direct | IoMode::Buffered => None,
        };
        Self { direct, ..self }
    }

    /// Returns whether aligned writes bypass the page cache at present.
    #[must_use]
    pub fn has_direct_writes(&self) -> bool {
        self.direct.as_ref().is_some_and(DirectFile::is_taken)
    }

    #[cfg(test)]
    pub(crate) const fn direct(&self) -> Option<&DirectFile> {
        self.direct.as_ref()
    }

    /// Returns whether the path is a block device and not a file.
    ///
    /// # Errors
    /// Fails if the path is neither, because nothing else can be a disk.
    pub fn is_device_at(path: &Path, status: &Stat) -> Result<bool> {
        let found = match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => return Ok(true),
            FileType::RegularFile => return Ok(false),
            FileType::Directory => "a directory",
            FileType::CharacterDevice => "a character device",
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            _ => "something else",
        };
        Err(DiskError::NoDisk { path: path.to_owned(), found })
    }

    /// Returns whether the disk is a block device.
    #[must_use]
    pub const fn is_device(&self) -> bool {
        self.is_device
    }

    /// Describes the data where labels are on a device. Returns `None` if those ranges are blank.
    ///
    /// # Errors
    /// Fails if the device cannot be read.
    pub fn found_on_it(&self) -> io::Result<Option<String>> {
        crate::signature::found_on(&self.file, self.len()?)
    }

    /// Overwrites the ranges of labels on a device with zeros, so that no program recognises the
    /// data that the device held before.
    ///
    /// # Errors
    /// Fails if the device cannot be written.
    pub fn wipe_labels(&self) -> io::Result<()> {
        let length = self.len()?;
        let zeros = vec![0; LABEL_BYTES.min(length) as usize];
        self.write_at(0, &zeros)?;
        self.write_at(length - zeros.len() as u64, &zeros)
    }

    /// Gives reads beyond the end an error that says what was expected and what is there.
    fn name_short_reads(&self, reads: &mut [DiskRead<'_>]) {
        let is_short = |read: &&mut DiskRead<'_>| {
            read.outcome.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
        };
        for read in reads.iter_mut().filter(is_short) {
            // Without a length the plain error stays.
            let Ok(length) = self.len() else { return };
            let error = short_read(length, read.offset, read.buffer.len());
            let text = format!("'{}' is too short: {error}", self.path.shown());
            read.outcome = Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
    }

    fn write_buffered(&self, run: &mut [DiskWrite<'_>]) {
        if let [_, _, ..] = run
            && write_run(&self.file, run).is_ok()
        {
            return;
        }
        for write in run {
            write.outcome = self.file.write_all_at(write.bytes, write.offset);
        }
    }
}

/// Writes ranges that follow one another.
pub(crate) fn write_run(file: &File, run: &[DiskWrite<'_>]) -> rustix::io::Result<()> {
    let mut offset = run.first().map_or(0, |write| write.offset);
    let mut slices: Vec<IoSlice<'_>> = run.iter().map(|write| IoSlice::new(write.bytes)).collect();
    let mut slices = slices.as_mut_slice();
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let some = slices.get(..MAX_SLICES).unwrap_or(slices);
        match rustix::io::pwritev(file, some, offset) {
            // A system that takes none of a write's bytes would be asked for ever.
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                offset += written as u64;
                IoSlice::advance_slices(&mut slices, written);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Finds the reason why the kernel refuses to open a device.
fn busy_device(path: &Path, status: &Stat) -> DiskError {
    match usage::user_of(status) {
        Some(by) => DiskError::DeviceInUse { path: path.to_owned(), by },
        None => {
            let opened = File::open(path);
            let holder =
                opened.map_or_else(|_| "another process".to_owned(), |file| lock::holder(&file));
            DiskError::Locked { path: path.to_owned(), holder }
        }
    }
}

impl Disk for FileDisk {
    fn len(&self) -> io::Result<u64> {
        if self.is_device {
            // `stat` gives no length for a device, but seeking to its end does.
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
            // All space of a device is allocated.
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

    fn system_cache(&self) -> SystemCache {
        SystemCache { keeps_written: !self.has_direct_writes(), keeps_read: true }
    }

    fn is_deleted(&self) -> io::Result<bool> {
        // A device keeps its data without a name.
        Ok(!self.is_device && rustix::fs::fstat(&self.file)?.st_nlink == 0)
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.reads.read(&self.file, reads);
        self.name_short_reads(reads);
    }

    fn read_ready(&self, reads: &mut [DiskRead<'_>]) {
        self.reads.read_ready(&self.file, reads);
        self.name_short_reads(reads);
    }

    fn read_medium(&self, reads: &mut [DiskRead<'_>]) {
        self.medium.read(&self.file, reads);
        self.name_short_reads(reads);
    }

    /// Ranges that follow one another are written by one system call. If that fails, each is
    /// written alone, so that each outcome is its own.
    fn write_many(&self, writes: &mut [DiskWrite<'_>]) {
        let is_run = |one: &DiskWrite<'_>, next: &DiskWrite<'_>| {
            one.is_followed_by(next) && one.is_unread == next.is_unread
        };
        let mut left: Vec<_> = writes.chunk_by_mut(is_run).collect();
        if let Some(direct) = &self.direct {
            left = direct.write_runs(left);
        } else if !self.is_memory {
            let is_unread = |run: &&mut [DiskWrite<'_>]| run.iter().any(|write| write.is_unread);
            let (unread, mut read): (Vec<_>, Vec<_>) = left.into_iter().partition(is_unread);
            read.append(&mut self.unread.write(&self.file, unread));
            left = read;
        }
        left.into_iter().for_each(|run| self.write_buffered(run));
    }

    fn expect_scattered_reads(&self) {
        // A refusal costs time alone.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::Random);
    }

    fn start_write_back(&self) {
        let (file, all) = (self.file.as_raw_fd(), 0);
        // A failure is ignored, because the next sync does what was not begun.
        // SAFETY: the call takes no memory, and the descriptor is open as long as the file is.
        let _ = unsafe { libc::sync_file_range(file, 0, all, libc::SYNC_FILE_RANGE_WRITE) };
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

    fn allocated_bytes(&self) -> io::Result<Option<u64>> {
        if self.is_device {
            return Ok(None);
        }
        Ok(Some(self.file.metadata()?.blocks() * STATUS_BLOCK_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_the_space_of_what_was_written_and_not_discarded() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&directory.path().join("disk")).unwrap();
        disk.set_len(16 << 20).unwrap();
        let allocated = || disk.allocated_bytes().unwrap().unwrap();
        assert!(allocated() < 1 << 20);
        disk.write_at(4 << 20, &vec![1; 4 << 20]).unwrap();
        disk.sync().unwrap();
        assert!(allocated() >= 4 << 20);
        disk.discard(4 << 20, 4 << 20).unwrap();
        assert!(allocated() < 1 << 20);
    }

    /// A list of writes and one of reads, in runs longer than a system call takes and with gaps.
    #[test]
    fn lists_are_done_whatever_their_runs() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&directory.path().join("disk")).unwrap();
        disk.set_len(16384).unwrap();
        let bytes: Vec<u8> = (0..3000).map(|i| (i % 251) as u8).collect();
        let offset = |at: usize| 100 + at as u64 + if at < 2500 { 0 } else { 4000 };
        let mut writes: Vec<DiskWrite<'_>> = bytes
            .chunks(1)
            .enumerate()
            .map(|(at, byte)| DiskWrite::new(offset(at), byte))
            .collect();
        disk.write_all(&mut writes).unwrap();
        let mut back = vec![0; 3000];
        let mut reads: Vec<DiskRead<'_>> = back
            .chunks_mut(1)
            .enumerate()
            .map(|(at, byte)| DiskRead::new(offset(at), byte))
            .collect();
        disk.read_many(&mut reads);
        assert!(reads.iter().all(|read| read.outcome.is_ok()));
        assert_eq!(back, bytes);
        assert_eq!(disk.len().unwrap(), 16384);
        disk.discard(0, 4096).unwrap();
        disk.sync().unwrap();
    }

    /// The requests of a run before the end of the file succeed, even if the run goes beyond it.
    #[test]
    fn each_request_of_a_run_has_its_own_outcome() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&directory.path().join("disk")).unwrap();
        disk.write_at(0, &[7; 1000]).unwrap();
        let mut buffers = [[0; 400]; 3];
        let mut reads: Vec<DiskRead<'_>> = buffers
            .iter_mut()
            .zip([0, 400, 800])
            .map(|(buffer, offset)| DiskRead::new(offset, buffer))
            .collect();
        disk.read_many(&mut reads);
        let good: Vec<bool> = reads.iter().map(|read| read.outcome.is_ok()).collect();
        assert_eq!(good, [true, true, false]);
        assert!(buffers[1] == [7; 400]);
    }

    #[test]
    fn reading_beyond_the_end_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::create(&directory.path().join("disk")).unwrap();
        assert_eq!(disk.read_at(0, &mut [0]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(FileDisk::create(&directory.path().join("disk")).is_err());
    }
}
