//! Reads and writes past the page cache, which leave it to those who use the data: reads for checks
//! of what is really there, and for a second look at what the cache may have wrong; writes of what
//! nobody is expected to read.

use crate::cached::read_run;
use crate::direct::{ALIGNMENT_BYTES, DirectFile, open_direct};
use crate::{DiskRead, DiskWrite};
use rustix::fs::{Advice, OFlags};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Most bytes of one system call: enough for the full rate of a disk.
const MAX_BYTES: usize = 1 << 20;
/// Most reads of a list in flight at once, each by a thread of its own. A disk with a queue serves
/// scattered reads several times as fast as one after another.
const MAX_THREADS: usize = 4;
/// Runs of a list for each thread: fewer are read sooner than a thread starts.
const RUNS_A_THREAD: usize = 4;

/// The way of a disk's reads from the medium.
#[derive(Debug, Default)]
pub(crate) struct MediumReads {
    /// A descriptor for direct reads, once it was asked for; `None` where the system has none.
    direct: OnceLock<Option<File>>,
    /// Memory for system calls at present unused. It is kept because memory is slow at its first
    /// use.
    memory: Mutex<Vec<Memory>>,
}

impl MediumReads {
    /// Executes a list of reads.
    pub(crate) fn read(&self, file: &File, reads: &mut [DiskRead<'_>]) {
        let runs: Vec<_> = reads.chunk_by_mut(DiskRead::is_followed_by).collect();
        let Some(direct) = self.direct.get_or_init(|| open_direct(file, OFlags::RDONLY)) else {
            return runs.into_iter().for_each(|run| read_dropped(file, run));
        };
        let threads = (runs.len() / RUNS_A_THREAD).clamp(1, MAX_THREADS);
        let runs = Mutex::new(runs.into_iter());
        let work = || {
            let mut memory = lock(&self.memory).pop().unwrap_or_default();
            let next = || lock(&runs).next();
            while let Some(run) = next() {
                read_direct(direct, file, run, memory.aligned());
            }
            lock(&self.memory).push(memory);
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // The others do the work of a thread that cannot be started.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
    }
}

/// The way of a disk's writes that nobody is expected to read.
#[derive(Debug, Default)]
pub(crate) struct MediumWrites {
    /// A descriptor for direct writes, once it was asked for; `None` where the system has none.
    direct: OnceLock<Option<DirectFile>>,
    memory: Mutex<Vec<Memory>>,
}

impl MediumWrites {
    /// Writes runs, each of ranges that follow one another, from aligned copies. Returns those that
    /// it could not write.
    pub(crate) fn write<'r, 'w>(
        &self,
        file: &File,
        runs: Vec<&'r mut [DiskWrite<'w>]>,
    ) -> Vec<&'r mut [DiskWrite<'w>]> {
        let direct = if runs.is_empty() { return runs } else { &self.direct };
        let Some(direct) = direct.get_or_init(|| DirectFile::open(file)) else { return runs };
        let mut memory = lock(&self.memory).pop().unwrap_or_default();
        let (mut left, mut parts, mut free) = (Vec::new(), Vec::new(), MAX_BYTES);
        for mut run in runs {
            while let Some(first) = run.first() {
                if first.bytes.len() > free && !parts.is_empty() {
                    left.append(&mut write_direct(direct, parts, memory.aligned()));
                    (parts, free) = (Vec::new(), MAX_BYTES);
                }
                let mut fits = |write: &&DiskWrite<'_>| {
                    let rest = free.checked_sub(write.bytes.len());
                    free = rest.unwrap_or(free);
                    rest.is_some()
                };
                let count = run.iter().take_while(|write| fits(write)).count();
                let (part, later) = run.split_at_mut(count.max(1));
                if count > 0 { &mut parts } else { &mut left }.push(part);
                run = later;
            }
        }
        left.append(&mut write_direct(direct, parts, memory.aligned()));
        lock(&self.memory).push(memory);
        left
    }
}

/// Writes parts of runs, which the memory can hold. Returns those that could not be written.
fn write_direct<'r, 'w>(
    direct: &DirectFile,
    parts: Vec<&'r mut [DiskWrite<'w>]>,
    mut memory: &mut [u8],
) -> Vec<&'r mut [DiskWrite<'w>]> {
    let mut copies = Vec::with_capacity(parts.len());
    for part in &parts {
        let bytes = part.iter().map(|write| write.bytes.len()).sum();
        let (copy, rest) = memory.split_at_mut(bytes);
        let mut left = &mut *copy;
        for write in &**part {
            let (to, later) = left.split_at_mut(write.bytes.len());
            to.copy_from_slice(write.bytes);
            left = later;
        }
        copies.push(DiskWrite::new(part.first().map_or(0, |write| write.offset), copy));
        memory = rest;
    }
    let refused = direct.write_runs(copies.chunks_mut(1).collect());
    let refused: Vec<u64> = refused.iter().flat_map(|run| run.iter()).map(|w| w.offset).collect();
    let is_left = |copy: &DiskWrite<'_>| copy.outcome.is_err() || refused.contains(&copy.offset);
    let all = parts.into_iter().zip(copies);
    all.filter(|(_, copy)| is_left(copy)).map(|(part, _)| part).collect()
}

/// Locks something whose content is sound at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for one system call.
#[derive(Debug, Default)]
struct Memory(Vec<u8>);

impl Memory {
    /// Returns [`MAX_BYTES`] of the alignment that direct reads need.
    fn aligned(&mut self) -> &mut [u8] {
        self.0.resize(MAX_BYTES + ALIGNMENT_BYTES, 0);
        let before = self.0.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        let part = self.0.get_mut(before..before + MAX_BYTES).unwrap_or_default();
        assert!(part.len() == MAX_BYTES, "the memory of a system call has its length");
        part
    }
}

/// Reads a run by direct reads of as much as the memory holds.
fn read_direct(direct: &File, file: &File, run: &mut [DiskRead<'_>], memory: &mut [u8]) {
    let mut rest = run;
    while let Some(first) = rest.first() {
        let aligned = first.offset - first.offset % ALIGNMENT_BYTES as u64;
        let end = |read: &DiskRead<'_>| read.offset + read.buffer.len() as u64;
        let fits = |read: &DiskRead<'_>| end(read) - aligned <= memory.len() as u64;
        let count = rest.iter().take_while(|read| fits(read)).count();
        let (some, later) = rest.split_at_mut(count.max(1));
        let bytes = some.last().map_or(0, end) - aligned;
        let is_read = count > 0 && {
            let bytes = bytes.next_multiple_of(ALIGNMENT_BYTES as u64) as usize;
            let got = memory.get_mut(..bytes).map(|part| fill(direct, aligned, part));
            got.is_some_and(|got| got.is_ok_and(|got| copy_out(memory, got, aligned, some)))
        };
        if !is_read {
            read_dropped(file, some);
        }
        rest = later;
    }
}

/// Reads up to the end of the buffer or of the file. Returns the number of bytes.
fn fill(direct: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match direct.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Gives each read of a list its part of what was read. Returns `false` if that was too little.
fn copy_out(memory: &[u8], got: usize, aligned: u64, reads: &mut [DiskRead<'_>]) -> bool {
    reads.iter_mut().all(|read| {
        let begin = (read.offset - aligned) as usize;
        let part = memory.get(..got).and_then(|got| got.get(begin..begin + read.buffer.len()));
        part.is_some_and(|part| {
            read.buffer.copy_from_slice(part);
            read.outcome = Ok(());
            true
        })
    })
}

/// Reads a run without direct reads: takes it out of the cache first, as far as it is unchanged.
fn read_dropped(file: &File, run: &mut [DiskRead<'_>]) {
    let bytes = run.iter().map(|read| read.buffer.len() as u64).sum();
    if let (Some(first), Some(bytes)) = (run.first(), NonZeroU64::new(bytes)) {
        let _ = rustix::fs::fadvise(file, first.offset, Some(bytes), Advice::DontNeed);
    }
    read_run(file, run);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, DiskRead, FileDisk};
    use std::path::Path;

    const PAGE: usize = 4096;

    /// Reads of a list of ranges, aligned and not, give the bytes of the file and its end.
    fn check(folder: &Path) {
        let disk = FileDisk::create(&folder.join("disk")).unwrap();
        let bytes: Vec<u8> = (0..3 * MAX_BYTES + 100).map(|at| (at / 7 % 251) as u8).collect();
        disk.write_at(0, &bytes).unwrap();
        let ranges = [
            (5, 10),
            (15, PAGE),
            (PAGE + 15, MAX_BYTES),
            (2 * MAX_BYTES, PAGE),
            (2 * MAX_BYTES + PAGE, MAX_BYTES),
            (3 * MAX_BYTES, 100),
            (3 * MAX_BYTES + 90, 11),
            (0, 2 * MAX_BYTES),
        ];
        let mut buffers: Vec<Vec<u8>> = ranges.iter().map(|(_, length)| vec![0; *length]).collect();
        let requests = ranges.iter().zip(&mut buffers);
        let mut reads: Vec<DiskRead<'_>> =
            requests.map(|((offset, _), buffer)| DiskRead::new(*offset as u64, buffer)).collect();
        disk.read_medium(&mut reads);
        let outcomes: Vec<bool> = reads.iter().map(|read| read.outcome.is_ok()).collect();
        for (((offset, length), is_good), buffer) in ranges.iter().zip(outcomes).zip(&buffers) {
            assert_eq!(is_good, offset + length <= bytes.len(), "{offset} {length}");
            assert!(!is_good || **buffer == bytes[*offset..offset + length], "{offset} {length}");
        }
    }

    #[test]
    fn lists_are_read_with_and_without_direct_reads() {
        check(tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap().path());
        check(tempfile::tempdir_in("/dev/shm").unwrap().path());
    }

    #[test]
    fn scattered_reads_are_read_by_several_threads() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disk = FileDisk::create(&folder.path().join("disk")).unwrap();
        let pages = 3 * MAX_THREADS * RUNS_A_THREAD;
        for page in 0..2 * pages {
            disk.write_at((page * PAGE) as u64, &[page as u8; PAGE]).unwrap();
        }
        let mut buffers = vec![[0; PAGE]; pages];
        let requests = buffers.iter_mut().enumerate();
        let mut reads: Vec<DiskRead<'_>> =
            requests.map(|(at, buffer)| DiskRead::new((2 * at * PAGE) as u64, buffer)).collect();
        disk.read_medium(&mut reads);
        assert!(reads.iter().all(|read| read.outcome.is_ok()));
        assert!(buffers.iter().enumerate().all(|(at, page)| *page == [2 * at as u8; PAGE]));
    }

    #[test]
    fn a_read_from_the_medium_leaves_no_page_in_the_cache() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("disk");
        let disk = FileDisk::create(&path).unwrap();
        disk.write_at(0, &[7; 16 * PAGE]).unwrap();
        disk.sync().unwrap();
        let file = File::open(&path).unwrap();
        if open_direct(&file, OFlags::RDONLY).is_none() {
            eprintln!("skipped: the file system of the sources has no direct reads");
            return;
        }
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut buffer = [0; 4 * PAGE];
        disk.read_medium(&mut [DiskRead::new(0, &mut buffer)]);
        assert!(buffer == [7; 4 * PAGE]);
        assert!(!is_cached(&file, 0));
    }

    /// Returns whether a page is in the page cache. A read that must not wait would bring it there.
    fn is_cached(file: &File, page: usize) -> bool {
        let (access, flags) = (rustix::mm::ProtFlags::READ, rustix::mm::MapFlags::SHARED);
        let (offset, mut is_there) = ((page * PAGE) as u64, 0);
        // SAFETY: the range is mapped anew, is not looked into, and is unmapped before the end.
        unsafe {
            let at = rustix::mm::mmap(std::ptr::null_mut(), PAGE, access, flags, file, offset);
            let at = at.unwrap();
            assert_eq!(libc::mincore(at, PAGE, &mut is_there), 0);
            rustix::mm::munmap(at, PAGE).unwrap();
        }
        is_there & 1 == 1
    }

    /// A list of writes of which every other one is not read soon: runs longer than the memory,
    /// ranges longer than it, ranges side by side, and some that are not aligned.
    fn check_unread(folder: &Path) {
        let disk = FileDisk::create(&folder.join("disk")).unwrap();
        let bytes: Vec<u8> = (0..5 * MAX_BYTES).map(|at| (at / 5 % 253) as u8).collect();
        disk.write_at(0, &vec![0; bytes.len()]).unwrap();
        let lengths = [PAGE, PAGE, 3 * PAGE, MAX_BYTES - PAGE, MAX_BYTES + PAGE, PAGE - 1, 1, PAGE];
        let (mut list, mut offset) = (Vec::new(), 0);
        for (number, length) in lengths.into_iter().enumerate() {
            let write = DiskWrite::new(offset as u64, &bytes[offset..offset + length]);
            list.push(if number % 2 == 0 { write } else { write.unread() });
            offset += length;
        }
        for page in offset / PAGE..bytes.len() / PAGE {
            let at = page * PAGE;
            list.push(DiskWrite::new(at as u64, &bytes[at..at + PAGE]).unread());
        }
        disk.write_all(&mut list).unwrap();
        let mut back = vec![0; bytes.len()];
        disk.read_at(0, &mut back).unwrap();
        assert!(back == bytes);
    }

    #[test]
    fn what_nobody_reads_soon_is_written_as_all() {
        check_unread(tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap().path());
        check_unread(tempfile::tempdir_in("/dev/shm").unwrap().path());
    }

    #[test]
    fn what_nobody_reads_soon_takes_no_room_in_the_cache() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = folder.path().join("disk");
        let disk = FileDisk::create(&path).unwrap();
        let file = File::open(&path).unwrap();
        if open_direct(&file, OFlags::RDONLY).is_none() {
            eprintln!("skipped: the file system of the sources has no direct writes");
            return;
        }
        let page = [7; PAGE];
        let mut list = [DiskWrite::new(0, &page), DiskWrite::new(PAGE as u64, &page).unread()];
        disk.write_all(&mut list).unwrap();
        assert!(is_cached(&file, 0));
        assert!(!is_cached(&file, 1));
    }
}
