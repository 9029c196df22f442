//! Changes that were acknowledged and are not durable yet, kept in memory that outlives this
//! process.
//!
//! The kernel takes a device with a cache for one that loses its cache only with the machine. A
//! server that is killed would lose acknowledged writes and the disk would go on, which no file
//! system expects. So each change is copied here before it is acknowledged, and the next server
//! makes the changes once more before it goes on with the device. A flush makes them superfluous.
//!
//! A file of a memory file system has a page with the state of the device, and for each queue a log
//! of its changes. Each change has a number, which grows over all queues: changes of the same place
//! are made again in their order. A log that is full is emptied by a flush of its own.

use gemelo_device::{BlockDevice, DeviceError, Durability, Operation, Request};
use memmap2::{MmapMut, MmapOptions};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"gemubk01");

/// Memory of all logs of a device, unless it has many queues.
const ALL_LOGS_BYTES: usize = 32 << 20;
/// Least memory of a log: some of the longest requests.
const MIN_LOG_BYTES: usize = 4 << 20;

const PAGE_BYTES: usize = 4096;
const WORD_BYTES: usize = 8;
/// The bytes of a change before its data: its number, its kind, its place and its length.
const HEAD_BYTES: usize = 4 * WORD_BYTES;

/// Most changes that are made again at once.
const BATCH: usize = 64;

/// Words of the page of the device.
const OWNER: usize = 1;
const QUEUES: usize = 2;
const WRITE_THROUGH: usize = 3;
const DURABLE: usize = 4;

/// A change of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change<'a> {
    Write { offset: u64, data: &'a [u8] },
    Zeroes { offset: u64, length: u64, may_free: bool },
    Trim { offset: u64, length: u64 },
}

impl<'a> Change<'a> {
    /// Returns the change that an operation makes.
    pub(crate) fn of(operation: &'a Operation<'_>) -> Option<Self> {
        match *operation {
            Operation::Write { offset, data, .. } => Some(Self::Write { offset, data }),
            Operation::WriteZeroes { offset, length, may_free, .. } => {
                Some(Self::Zeroes { offset, length, may_free })
            }
            Operation::Trim { offset, length, .. } => Some(Self::Trim { offset, length }),
            Operation::Read { .. } | Operation::Flush => None,
        }
    }

    const fn operation(self) -> Operation<'a> {
        let durability = Durability::Flushed;
        match self {
            Self::Write { offset, data } => Operation::Write { offset, data, durability },
            Self::Zeroes { offset, length, may_free } => {
                Operation::WriteZeroes { offset, length, may_free, durability }
            }
            Self::Trim { offset, length } => Operation::Trim { offset, length, durability },
        }
    }

    /// The kind, the offset and the length, and the data.
    const fn parts(self) -> ([u64; 3], &'a [u8]) {
        match self {
            Self::Write { offset, data } => ([1, offset, data.len() as u64], data),
            Self::Zeroes { offset, length, may_free: true } => ([2, offset, length], &[]),
            Self::Zeroes { offset, length, may_free: false } => ([3, offset, length], &[]),
            Self::Trim { offset, length } => ([4, offset, length], &[]),
        }
    }
}

/// The file of a device, opened.
pub(crate) struct Kept {
    file: File,
    page: MmapMut,
    queues: u16,
    /// Number of the next change.
    next: AtomicU64,
}

/// The log of a queue.
pub(crate) struct Log {
    map: MmapMut,
    used: usize,
    /// Number of its last change.
    last: u64,
}

const fn log_bytes(queues: u16) -> usize {
    let share = ALL_LOGS_BYTES / if queues == 0 { 1 } else { queues as usize };
    let bytes = if share < MIN_LOG_BYTES { MIN_LOG_BYTES } else { share };
    bytes - bytes % PAGE_BYTES
}

/// Returns a word of a map that several threads use, and that the next process reads.
fn word(map: &MmapMut, number: usize) -> &AtomicU64 {
    assert!((number + 1) * WORD_BYTES <= map.len(), "a word is within its map");
    let place = map.as_ptr().wrapping_add(number * WORD_BYTES).cast_mut().cast::<u64>();
    assert!(place.is_aligned(), "maps begin at a page");
    // SAFETY: the place is within the map, aligned, and lives as long as the map. Everything else
    // in the map is reached by exclusive borrows of other bytes.
    unsafe { AtomicU64::from_ptr(place) }
}

fn map(file: &File, offset: usize, length: usize) -> io::Result<MmapMut> {
    // SAFETY: only servers of this device open the file, whose directory is theirs alone, and the
    // driver lets one process at a time have the device. The file has its length and its memory.
    // Its pages are there already, and a fault for each would cost more than the copy to it.
    unsafe { MmapOptions::new().offset(offset as u64).len(length).populate().map_mut(file) }
}

fn strange() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it is not what a server of this device has left")
}

impl Kept {
    /// Makes the file of a device, and has memory for all of it.
    pub(crate) fn create(
        path: &Path,
        owner: u64,
        queues: u16,
        write_through: bool,
    ) -> io::Result<Self> {
        let directory = path.parent().ok_or_else(strange)?;
        match rustix::fs::mkdir(directory, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let user = rustix::process::geteuid().as_raw();
        let status = std::fs::symlink_metadata(directory)?;
        if !status.is_dir() || status.uid() != user || status.mode() & 0o077 != 0 {
            return Err(io::Error::other("others can write to its directory"));
        }
        remove(path)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        // Nothing is kept of a device that makes each change durable.
        let logs = if write_through { 0 } else { usize::from(queues) * log_bytes(queues) };
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, (PAGE_BYTES + logs) as u64)?;
        let page = map(&file, 0, PAGE_BYTES)?;
        word(&page, OWNER).store(owner, Ordering::Relaxed);
        word(&page, QUEUES).store(queues.into(), Ordering::Relaxed);
        word(&page, WRITE_THROUGH).store(write_through.into(), Ordering::Relaxed);
        word(&page, 0).store(MAGIC, Ordering::Release);
        Ok(Self { file, page, queues, next: AtomicU64::new(1) })
    }

    /// Opens the file that another server of a device has left.
    pub(crate) fn open(path: &Path, owner: u64, queues: u16) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        let status = file.metadata()?;
        let user = rustix::process::geteuid().as_raw();
        if status.uid() != user || !status.is_file() || status.len() < PAGE_BYTES as u64 {
            return Err(strange());
        }
        let page = map(&file, 0, PAGE_BYTES)?;
        let kept = Self { file, page, queues, next: AtomicU64::new(1) };
        let logs = if kept.is_write_through() { 0 } else { log_bytes(queues) as u64 };
        let said = [0, OWNER, QUEUES].map(|number| kept.word(number));
        let length = PAGE_BYTES as u64 + u64::from(queues) * logs;
        if said != [MAGIC, owner, queues.into()] || status.len() != length {
            return Err(strange());
        }
        Ok(kept)
    }

    fn word(&self, number: usize) -> u64 {
        word(&self.page, number).load(Ordering::Acquire)
    }

    /// Returns whether the kernel was told that the device has no cache.
    pub(crate) fn is_write_through(&self) -> bool {
        self.word(WRITE_THROUGH) != 0
    }

    /// Returns the number below which all changes are executed, before a flush of the device.
    pub(crate) fn before_flush(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// Notes that a flush has made all changes below this number durable.
    pub(crate) fn after_flush(&self, number: u64) {
        word(&self.page, DURABLE).fetch_max(number, Ordering::AcqRel);
    }

    /// Maps the log of a queue.
    fn map_log(&self, queue: u16) -> io::Result<MmapMut> {
        let bytes = log_bytes(self.queues);
        map(&self.file, PAGE_BYTES + usize::from(queue) * bytes, bytes)
    }

    /// Opens the empty log of a queue, unless nothing is kept.
    pub(crate) fn log(&self, queue: u16) -> io::Result<Option<Log>> {
        if self.is_write_through() {
            return Ok(None);
        }
        let mut log = Log { map: self.map_log(queue)?, used: 0, last: 0 };
        log.empty();
        Ok(Some(log))
    }

    /// Makes the changes once more that are not durable, and makes them durable. Returns their
    /// number.
    pub(crate) fn make_again(&self, device: &dyn BlockDevice) -> Result<usize, DeviceError> {
        if self.is_write_through() {
            return Ok(0);
        }
        let maps: Vec<MmapMut> =
            (0..self.queues).map(|queue| self.map_log(queue)).collect::<io::Result<_>>()?;
        let durable = self.word(DURABLE);
        let mut changes = Vec::new();
        for map in &maps {
            let used = word(map, 0).load(Ordering::Acquire);
            let used = usize::try_from(used).ok().filter(|used| *used <= map.len() - WORD_BYTES);
            let records = &map[WORD_BYTES..][..used.ok_or_else(strange)?];
            read(records, &mut changes)?;
        }
        changes.retain(|(number, _)| *number >= durable);
        changes.sort_by_key(|(number, _)| *number);
        for some in changes.chunks(BATCH) {
            match execute(device, some.iter().map(|(_, change)| change.operation())) {
                // The volume was cut meanwhile.
                Ok(()) | Err(DeviceError::OutOfRange { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        execute(device, std::iter::once(Operation::Flush))?;
        let made = changes.len();
        // A server that is killed here leaves either all changes or none to the next one.
        word(&self.page, DURABLE).store(u64::MAX, Ordering::Release);
        maps.iter().for_each(|map| word(map, 0).store(0, Ordering::Release));
        word(&self.page, DURABLE).store(0, Ordering::Release);
        Ok(made)
    }

    /// Makes all changes durable, because the device goes without a server for a while.
    pub(crate) fn flush(&self, device: &dyn BlockDevice) -> Result<(), DeviceError> {
        let number = self.before_flush();
        execute(device, std::iter::once(Operation::Flush))?;
        self.after_flush(number);
        Ok(())
    }
}

/// Removes the file of a device, if there is one.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The file of a device in this directory.
pub(crate) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(number.to_string())
}

fn execute<'a>(
    device: &dyn BlockDevice,
    operations: impl Iterator<Item = Operation<'a>>,
) -> Result<(), DeviceError> {
    let request = |operation| Request { operation, outcome: Ok(()) };
    let mut batch: Vec<Request<'_>> = operations.map(request).collect();
    device.execute(&mut batch);
    let outcomes = batch.into_iter().map(|request| request.outcome);
    // One that has to stop the caller comes before others.
    let is_bad = |outcome: &Result<(), DeviceError>| {
        !matches!(outcome, Ok(()) | Err(DeviceError::OutOfRange { .. }))
    };
    let (bad, others): (Vec<_>, Vec<_>) = outcomes.partition(is_bad);
    bad.into_iter().chain(others).collect()
}

/// Reads the changes of a log.
fn read<'a>(mut records: &'a [u8], changes: &mut Vec<(u64, Change<'a>)>) -> io::Result<()> {
    while !records.is_empty() {
        let (head, rest) = records.split_at_checked(HEAD_BYTES).ok_or_else(strange)?;
        let mut words = head.chunks_exact(WORD_BYTES).map(|bytes| {
            let mut word = [0; WORD_BYTES];
            word.copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        });
        let mut next = || words.next().unwrap_or_default();
        let (number, kind, offset, length) = (next(), next(), next(), next());
        let data_bytes = if kind == 1 { usize::try_from(length).ok() } else { Some(0) };
        let room = data_bytes.and_then(|bytes| bytes.checked_next_multiple_of(WORD_BYTES));
        let (data, after) =
            room.and_then(|room| rest.split_at_checked(room)).ok_or_else(strange)?;
        let change = match kind {
            1 => Change::Write { offset, data: &data[..data_bytes.unwrap_or_default()] },
            2 | 3 => Change::Zeroes { offset, length, may_free: kind == 2 },
            4 => Change::Trim { offset, length },
            _ => return Err(strange()),
        };
        changes.push((number, change));
        records = after;
    }
    Ok(())
}

impl Log {
    fn empty(&mut self) {
        self.used = 0;
        word(&self.map, 0).store(0, Ordering::Release);
    }

    /// Keeps a change that the device has executed. Empties the log by a flush if it is full.
    pub(crate) fn keep(
        &mut self,
        kept: &Kept,
        change: Change<'_>,
        device: &dyn BlockDevice,
    ) -> Result<(), DeviceError> {
        let ([kind, offset, length], data) = change.parts();
        let bytes = HEAD_BYTES + data.len().next_multiple_of(WORD_BYTES);
        if self.used > 0 && self.last < kept.word(DURABLE) {
            self.empty();
        }
        let room = self.map.len() - WORD_BYTES;
        assert!(bytes <= room, "a log has room for the longest request");
        if bytes > room - self.used {
            kept.flush(device)?;
            self.empty();
        }
        let number = kept.next.fetch_add(1, Ordering::AcqRel);
        let place = &mut self.map[WORD_BYTES + self.used..][..bytes];
        let (head, rest) = place.split_at_mut(HEAD_BYTES);
        for (to, word) in head.chunks_exact_mut(WORD_BYTES).zip([number, kind, offset, length]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        rest[..data.len()].copy_from_slice(data);
        self.used += bytes;
        self.last = number;
        // Only now the next server sees the change.
        word(&self.map, 0).store(self.used as u64, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
