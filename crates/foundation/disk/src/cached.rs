//! Reads through the page cache. What is cached is copied at once, and what is not is read from the
//! medium with all misses of a list in flight together.
//!
//! A plain read of a page that is not cached waits for the medium, so a list of scattered reads
//! would take one wait after another. Here the first pass reads without waiting, the second asks
//! the kernel to read all that was missing, and the third waits for it. `io_uring` could do the
//! same, but it costs a ring for each thread and is forbidden in many containers.

use crate::DiskRead;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Slices that one system call takes (`IOV_MAX` of Linux).
pub(crate) const MAX_SLICES: usize = 1024;
/// Longest gap between two ranges that the medium reads as one. A disk of 50,000 scattered reads
/// and 1 GB a second takes as long for 20 KiB as for one read more.
const MAX_GAP_BYTES: u64 = 16 << 10;

/// The way of a disk's reads.
#[derive(Debug, Default)]
pub(crate) struct CachedReads {
    /// `true` once the system has refused to read without waiting.
    is_refused: AtomicBool,
}

impl CachedReads {
    /// Executes a list of reads. Ranges that follow one another are a run, and are read by one
    /// system call. If that fails, each is read alone, so that each outcome is its own.
    pub(crate) fn read(&self, file: &File, reads: &mut [DiskRead<'_>]) {
        let is_one_run = reads.is_sorted_by(DiskRead::is_followed_by);
        if is_one_run || self.is_refused.load(Ordering::Relaxed) {
            reads.chunk_by_mut(DiskRead::is_followed_by).for_each(|run| read_run(file, run));
            return;
        }
        let mut missing = Vec::new();
        for run in reads.chunk_by_mut(DiskRead::is_followed_by) {
            if !self.read_cached(file, run) {
                missing.push(run);
            }
        }
        if let [_, _, ..] = missing.as_slice() {
            start(file, missing.iter().map(|run| range_of(run)));
        }
        missing.into_iter().for_each(|run| read_run(file, run));
    }

    /// Executes the reads of a list whose pages are cached. The others are started, and get an
    /// outcome of the kind `WouldBlock`.
    pub(crate) fn read_ready(&self, file: &File, reads: &mut [DiskRead<'_>]) {
        let mut left = Vec::new();
        for run in reads.chunk_by_mut(DiskRead::is_followed_by) {
            if self.is_refused.load(Ordering::Relaxed) {
                read_run(file, run);
                continue;
            }
            let (filled, ended) = fill(file, run, ReadWriteFlags::NOWAIT);
            match ended {
                Ok(()) => {}
                Err(Errno::AGAIN) => left.push(leave(run, filled)),
                Err(error) => {
                    self.note_refusal(error);
                    read_run(file, run);
                }
            }
        }
        start(file, left.into_iter());
    }

    /// Reads a run if all its pages are cached.
    fn read_cached(&self, file: &File, run: &mut [DiskRead<'_>]) -> bool {
        let read = preadv(file, run, ReadWriteFlags::NOWAIT);
        read.inspect_err(|error| self.note_refusal(*error)).is_ok()
    }

    /// Notes whether the system cannot read without waiting.
    fn note_refusal(&self, error: Errno) {
        if matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) {
            self.is_refused.store(true, Ordering::Relaxed);
        }
    }
}

/// Says in their outcomes that the reads of a run are left that the first `filled` bytes do not
/// cover. Returns their range.
fn leave(run: &mut [DiskRead<'_>], filled: u64) -> Range<u64> {
    let begin = run.first().map_or(0, |read| read.offset) + filled;
    let is_done = |read: &DiskRead<'_>| read.offset + read.buffer.len() as u64 <= begin;
    let done = run.iter().take_while(|read| is_done(read)).count();
    let rest = run.get_mut(done..).unwrap_or_default();
    rest.iter_mut().for_each(|read| read.outcome = Err(io::ErrorKind::WouldBlock.into()));
    range_of(rest)
}

/// The bytes of a run.
fn range_of(run: &[DiskRead<'_>]) -> Range<u64> {
    let end = |read: &DiskRead<'_>| read.offset + read.buffer.len() as u64;
    run.first().map_or(0, |read| read.offset)..run.last().map_or(0, end)
}

/// Asks the kernel to read ranges, near ones together. It does not wait, and a refusal only costs
/// time.
fn start(file: &File, ranges: impl Iterator<Item = Range<u64>>) {
    for range in near_together(ranges) {
        if let Some(bytes) = NonZeroU64::new(range.end.saturating_sub(range.start)) {
            let _ = rustix::fs::fadvise(file, range.start, Some(bytes), Advice::WillNeed);
        }
    }
}

/// Makes one range of those that begin at or right behind the one before.
fn near_together(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut together: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let is_near = |before: &&mut Range<u64>| {
            let reach = before.end.saturating_add(MAX_GAP_BYTES);
            (before.start..=reach).contains(&range.start)
        };
        match together.last_mut().filter(is_near) {
            Some(before) => before.end = before.end.max(range.end),
            None => together.push(range),
        }
    }
    together
}

/// Reads a run by one system call, or each part alone if that fails.
pub(crate) fn read_run(file: &File, run: &mut [DiskRead<'_>]) {
    if let [_, _, ..] = run
        && preadv(file, run, ReadWriteFlags::empty()).is_ok()
    {
        return;
    }
    for read in run {
        read.outcome = file.read_exact_at(read.buffer, read.offset);
    }
}

/// Fills all buffers of a run.
fn preadv(file: &File, run: &mut [DiskRead<'_>], flags: ReadWriteFlags) -> rustix::io::Result<()> {
    fill(file, run, flags).1
}

/// Fills the buffers of a run, as far as it succeeds. Returns the number of bytes as well.
fn fill(
    file: &File,
    run: &mut [DiskRead<'_>],
    flags: ReadWriteFlags,
) -> (u64, rustix::io::Result<()>) {
    let mut filled = 0;
    let mut offset = run.first().map_or(0, |read| read.offset);
    let mut slices: Vec<IoSliceMut<'_>> =
        run.iter_mut().map(|read| IoSliceMut::new(read.buffer)).collect();
    let mut slices = slices.as_mut_slice();
    IoSliceMut::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let most = slices.len().min(MAX_SLICES);
        let some = slices.get_mut(..most).unwrap_or_default();
        assert!(some.len() == most, "a system call has something to fill");
        let read = if flags.is_empty() {
            rustix::io::preadv(file, some, offset)
        } else {
            rustix::io::preadv2(file, some, offset, flags)
        };
        match read {
            // The file ends here.
            Ok(0) => return (filled, Err(Errno::IO)),
            Ok(read) => {
                offset += read as u64;
                filled += read as u64;
                IoSliceMut::advance_slices(&mut slices, read);
            }
            Err(Errno::INTR) => {}
            Err(error) => return (filled, Err(error)),
        }
    }
    (filled, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    const PAGES: usize = 64;

    /// A file with a byte pattern by page, on the medium and not in the cache.
    fn cold_file() -> File {
        // The sources are on a medium; the folder of temporary files may be memory.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        for page in 0..PAGES {
            file.write_all_at(&[page as u8; PAGE], (page * PAGE) as u64).unwrap();
        }
        file.sync_data().unwrap();
        make_cold(&file);
        file
    }

    fn make_cold(file: &File) {
        rustix::fs::fadvise(file, 0, None, Advice::DontNeed).unwrap();
    }

    fn list<'a>(buffers: &'a mut [[u8; PAGE]], pages: &[usize]) -> Vec<DiskRead<'a>> {
        let requests = buffers.iter_mut().zip(pages);
        requests.map(|(buffer, page)| DiskRead::new((page * PAGE) as u64, buffer)).collect()
    }

    #[test]
    fn each_read_has_its_outcome_whatever_is_cached() {
        let file = cold_file();
        let pages = [40, 41, 3, 63, 64, 9, 10, 11, 80, 5];
        let mut buffers = vec![[0xff; PAGE]; pages.len()];
        for round in 0..4 {
            if round % 2 == 0 {
                make_cold(&file);
            }
            // Some pages are cached, among them a part of a run.
            file.read_exact_at(&mut [0; PAGE], (10 * PAGE) as u64).unwrap();
            let reads = CachedReads { is_refused: AtomicBool::new(round == 3) };
            let mut requests = list(&mut buffers, &pages);
            reads.read(&file, &mut requests);
            let good: Vec<bool> = requests.iter().map(|read| read.outcome.is_ok()).collect();
            assert_eq!(good, pages.map(|page| page < PAGES));
            for (buffer, page) in buffers.iter_mut().zip(pages).filter(|(_, page)| *page < PAGES) {
                assert!(*buffer == [page as u8; PAGE], "round {round}, page {page}");
                buffer.fill(0xff);
            }
        }
    }

    /// Cached pages are read, also at the front of a run. The others are left, and become cached
    /// although nobody reads them.
    #[test]
    fn reads_that_would_wait_are_left_and_started() {
        let file = cold_file();
        let pages = [40, 3, 9, 10, 11, 80, 5];
        for page in [9, 10, 5] {
            // Without the pages behind it, which the kernel would read ahead.
            rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
            file.read_exact_at(&mut [0; PAGE], (page * PAGE) as u64).unwrap();
        }
        let mut buffers = vec![[0xff; PAGE]; pages.len()];
        let reads = CachedReads::default();
        let mut requests = list(&mut buffers, &pages);
        reads.read_ready(&file, &mut requests);
        if reads.is_refused.load(Ordering::Relaxed) {
            eprintln!("skipped: the file system of the sources has no reads without waiting");
            return;
        }
        let kinds = |requests: &[DiskRead<'_>]| -> Vec<Option<io::ErrorKind>> {
            requests.iter().map(|read| read.outcome.as_ref().err().map(io::Error::kind)).collect()
        };
        let left = Some(io::ErrorKind::WouldBlock);
        let beyond = Some(io::ErrorKind::UnexpectedEof);
        assert_eq!(kinds(&requests), [left, left, None, None, left, beyond, None]);
        drop(requests);
        assert!([2, 3, 6].iter().all(|at| buffers[*at] == [pages[*at] as u8; PAGE]));
        // In the end all are cached.
        loop {
            let mut requests = list(&mut buffers, &pages);
            reads.read_ready(&file, &mut requests);
            if kinds(&requests).iter().all(|kind| *kind != left) {
                break;
            }
            std::thread::yield_now();
        }
        let good = buffers.iter().zip(pages).filter(|(_, page)| *page < PAGES);
        good.for_each(|(buffer, page)| assert!(*buffer == [page as u8; PAGE], "page {page}"));
    }

    #[test]
    fn where_the_system_cannot_tell_nothing_is_left() {
        let file = cold_file();
        let mut buffers = vec![[0xff; PAGE]; 3];
        let mut requests = list(&mut buffers, &[7, 8, 30]);
        CachedReads { is_refused: AtomicBool::new(true) }.read_ready(&file, &mut requests);
        assert!(requests.iter().all(|read| read.outcome.is_ok()));
        assert!(buffers == [[7; PAGE], [8; PAGE], [30; PAGE]]);
    }

    #[test]
    fn near_ranges_are_one_read_of_the_medium() {
        let together = |ranges: &[(u64, u64)]| {
            let ranges = ranges.iter().map(|(first, end)| first << 10..end << 10);
            let together = near_together(ranges).into_iter();
            together.map(|range| (range.start >> 10, range.end >> 10)).collect::<Vec<_>>()
        };
        assert_eq!(together(&[]), []);
        assert_eq!(together(&[(8, 12), (12, 16), (32, 36)]), [(8, 36)]);
        assert_eq!(together(&[(8, 12), (29, 32), (33, 34)]), [(8, 12), (29, 34)]);
        assert_eq!(together(&[(8, 12), (4, 8)]), [(8, 12), (4, 8)], "not in order");
        assert_eq!(together(&[(8, 12), (8, 9)]), [(8, 12)], "the same block twice");
    }

    /// After a start without a wait, the page becomes cached although nobody reads it.
    #[test]
    fn a_started_read_goes_on_by_itself() {
        let file = cold_file();
        let mut buffers = [[0; PAGE]];
        let mut run = list(&mut buffers, &[33]);
        start(&file, std::iter::once(range_of(&run)));
        let outcome = loop {
            match preadv(&file, &mut run, ReadWriteFlags::NOWAIT) {
                Err(Errno::AGAIN) => std::thread::yield_now(),
                outcome => break outcome,
            }
        };
        if outcome == Err(Errno::OPNOTSUPP) {
            eprintln!("skipped: the file system of the sources has no reads without waiting");
            return;
        }
        assert_eq!(outcome, Ok(()));
        assert!(buffers[0] == [33; PAGE]);
    }
}
