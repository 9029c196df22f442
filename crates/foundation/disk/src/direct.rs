//! Writes that bypass the page cache.
//!
//! They go through a second descriptor of the same file or device. Reads stay in the page cache.
//! Both see the same bytes: the kernel writes back and drops the cached pages of a range before a
//! direct write to it, and drops them again after it, so that a page that was read meanwhile does
//! not stay. Only a read that overlaps a write in time may see either content, as with any two
//! requests at once.

use crate::DiskWrite;
use crate::file::write_run;
use crate::ring::Rings;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Alignment in bytes of offsets, lengths and memory that any device accepts.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// The way of a disk's writes: past the page cache or through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IoMode {
    /// Aligned writes bypass it, where the system supports that.
    Direct,
    /// All writes go through it.
    Buffered,
}

impl IoMode {
    /// Both modes, the default first.
    pub const ALL: [Self; 2] = [Self::Direct, Self::Buffered];

    /// Returns the name by which users choose the mode.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Buffered => "buffered",
        }
    }

    /// Returns the mode of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A descriptor for direct writes.
#[derive(Debug)]
pub(crate) struct DirectFile {
    file: File,
    /// `true` once the system has refused an aligned direct write.
    is_refused: AtomicBool,
    rings: Rings,
}

impl DirectFile {
    /// Opens the same file again. `None` where the system has no direct writes, and for a disk that
    /// is open for reading only.
    pub(crate) fn open(file: &File) -> Option<Self> {
        let is_writable = rustix::fs::fcntl_getfl(file).ok()?.contains(OFlags::RDWR);
        let file = is_writable.then(|| open_direct(file, OFlags::WRONLY)).flatten()?;
        Some(Self { file, is_refused: AtomicBool::new(false), rings: Rings::default() })
    }

    pub(crate) fn is_taken(&self) -> bool {
        !self.is_refused.load(Ordering::Relaxed)
    }

    /// Writes runs, each of ranges that follow one another, and sets the outcome of each range.
    /// Returns those that it has not written because they are not aligned, or the system refuses
    /// direct writes.
    pub(crate) fn write_runs<'r, 'w>(
        &self,
        runs: Vec<&'r mut [DiskWrite<'w>]>,
    ) -> Vec<&'r mut [DiskWrite<'w>]> {
        let can_take = |run: &&mut [DiskWrite<'w>]| self.is_taken() && run.iter().all(is_aligned);
        let (taken, mut left): (Vec<_>, Vec<_>) = runs.into_iter().partition(can_take);
        let are_written = match taken.as_slice() {
            [_, _, ..] => self.rings.write(&self.file, &taken),
            _ => vec![false; taken.len()],
        };
        assert_eq!(are_written.len(), taken.len(), "each run has an outcome");
        for (run, is_written) in taken.into_iter().zip(are_written) {
            // A run that failed is written once more, so that each range has its own outcome.
            if !is_written && !self.write(run) {
                left.push(run);
            }
        }
        left
    }

    /// Writes ranges that follow one another, and sets the outcome of each. Writes nothing and
    /// gives `false` if the system refuses direct writes.
    fn write(&self, run: &mut [DiskWrite<'_>]) -> bool {
        if !self.is_taken() {
            return false;
        }
        match write_run(&self.file, run) {
            Ok(()) => return true,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => {
                self.is_refused.store(true, Ordering::Relaxed);
                return false;
            }
            Err(_) => {}
        }
        // Each alone, so that each outcome is its own.
        for write in run {
            let alone = std::slice::from_ref(write);
            let outcome = write_run(&self.file, alone);
            write.outcome = outcome.map_err(Into::into);
        }
        true
    }
}

/// Opens a file again, for direct input and output. `None` where the system has none.
pub(crate) fn open_direct(file: &File, access: OFlags) -> Option<File> {
    // By its descriptor: the path may lead to another file by now.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

fn is_aligned(write: &DiskWrite<'_>) -> bool {
    write.offset.is_multiple_of(ALIGNMENT_BYTES as u64)
        && write.bytes.len().is_multiple_of(ALIGNMENT_BYTES)
        && (write.bytes.as_ptr() as usize).is_multiple_of(ALIGNMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use crate::{Disk, DiskRead, DiskWrite, FileDisk, IoMode, SystemCache};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    const PAGE: usize = 4096;

    #[repr(align(4096))]
    struct Pages([u8; 4 * PAGE]);

    fn disk(folder: &Path) -> FileDisk {
        let disk = FileDisk::create(&folder.join("disk")).unwrap().with_io(IoMode::Direct);
        disk.set_len(64 * PAGE as u64).unwrap();
        disk
    }

    /// The folder of the build is on a file system with direct writes, or the test says that not.
    fn folder_with_direct_writes() -> Option<tempfile::TempDir> {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        if disk(folder.path()).has_direct_writes() {
            std::fs::remove_file(folder.path().join("disk")).unwrap();
            return Some(folder);
        }
        eprintln!("skipped: the file system of the sources has no direct writes");
        None
    }

    fn read(disk: &FileDisk, offset: usize, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        disk.read_at(offset as u64, &mut buffer).unwrap();
        buffer
    }

    /// Reads through the cache see direct writes, and buffered writes that follow them, whatever
    /// was cached before.
    fn check_lists(disk: &FileDisk) {
        let mut pages = Box::new(Pages([1; 4 * PAGE]));
        for round in 1..20u8 {
            read(disk, 0, 16 * PAGE);
            pages.0.fill(round);
            let (first, rest) = pages.0.split_at(PAGE);
            let (second, third) = rest.split_at(2 * PAGE);
            let mut list = [
                DiskWrite::new(0, first),
                DiskWrite::new(PAGE as u64, second),
                DiskWrite::new(8 * PAGE as u64, third),
                // Neither the offset nor the memory is aligned.
                DiskWrite::new(12 * PAGE as u64 + 5, &first[3..100]),
            ];
            disk.write_all(&mut list).unwrap();
            assert!(read(disk, 0, 3 * PAGE).iter().all(|byte| *byte == round));
            assert!(read(disk, 8 * PAGE, PAGE).iter().all(|byte| *byte == round));
            assert!(read(disk, 12 * PAGE + 5, 97).iter().all(|byte| *byte == round));
            disk.write_at(7, &[0; 10]).unwrap();
            assert_eq!(read(disk, 6, 12), [&[round][..], &[0; 10], &[round]].concat());
        }
        disk.sync().unwrap();
    }

    #[test]
    fn direct_and_buffered_requests_see_one_another() {
        if let Some(folder) = folder_with_direct_writes() {
            let disk = disk(folder.path());
            check_lists(&disk);
            assert!(disk.has_direct_writes());
        }
    }

    /// Writes every other page of the disk, more runs than are in flight at once.
    fn write_scattered(disk: &FileDisk, round: u8) {
        let mut pages = Box::new(Pages([round; 4 * PAGE]));
        pages.0[..PAGE].fill(round + 1);
        let mut list: Vec<DiskWrite<'_>> = (0..100)
            .map(|at| {
                DiskWrite::new(2 * at * PAGE as u64, &pages.0[at as usize % 2 * PAGE..][..PAGE])
            })
            .collect();
        disk.write_all(&mut list).unwrap();
        for at in 0..100 {
            let expected = if at % 2 == 0 { round + 1 } else { round };
            assert!(read(disk, 2 * at * PAGE, PAGE).iter().all(|byte| *byte == expected));
        }
    }

    #[test]
    fn separate_runs_are_in_flight_together_where_there_are_rings() {
        let Some(folder) = folder_with_direct_writes() else { return };
        let disk = disk(folder.path());
        let rings = &disk.direct().unwrap().rings;
        disk.write_at(0, &Pages([1; 4 * PAGE]).0).unwrap();
        assert_eq!(rings.kept(), 0, "one run takes no ring");
        write_scattered(&disk, 3);
        write_scattered(&disk, 5);
        assert_eq!(rings.kept(), 1);
        rings.refuse();
        write_scattered(&disk, 7);
    }

    /// One run of a list cannot be written. The others are, and only its ranges fail.
    #[test]
    fn a_run_that_fails_among_others_fails_alone() {
        let Some(folder) = folder_with_direct_writes() else { return };
        let (disk, pages) = (disk(folder.path()), Box::new(Pages([9; 4 * PAGE])));
        // Beyond the longest file of any common file system.
        let too_far = 1 << 60;
        let (one, rest) = pages.0.split_at(PAGE);
        let mut list = [
            DiskWrite::new(0, one),
            DiskWrite::new(too_far, one),
            DiskWrite::new(8 * PAGE as u64, &rest[..PAGE]),
            DiskWrite::new(9 * PAGE as u64, &rest[PAGE..]),
        ];
        disk.write_many(&mut list);
        let good: Vec<bool> = list.iter().map(|write| write.outcome.is_ok()).collect();
        assert_eq!(good, [true, false, true, true]);
        assert!(read(&disk, 8 * PAGE, 3 * PAGE).iter().all(|byte| *byte == 9));
        assert!(disk.has_direct_writes());
    }

    #[test]
    fn the_system_keeps_what_was_not_written_directly_to_a_medium() {
        let kept = |keeps_written| SystemCache { keeps_written, keeps_read: true };
        let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
        assert_eq!(disk(in_memory.path()).system_cache(), kept(true));
        let Some(folder) = folder_with_direct_writes() else { return };
        let direct = disk(folder.path());
        assert_eq!(direct.system_cache(), kept(false));
        assert_eq!(direct.with_io(IoMode::Buffered).system_cache(), kept(true));
    }

    #[test]
    fn where_there_are_no_direct_writes_all_are_buffered() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let in_memory = disk(folder.path());
        check_lists(&in_memory);
        assert!(!in_memory.has_direct_writes(), "nothing bypasses a file system in memory");
        check_lists(&disk(tempfile::tempdir().unwrap().path()).with_io(IoMode::Buffered));
    }

    #[test]
    fn a_direct_write_leaves_no_page_in_the_cache() {
        let Some(folder) = folder_with_direct_writes() else { return };
        let (direct, pages) = (disk(folder.path()), Box::new(Pages([7; 4 * PAGE])));
        direct.write_at(0, &pages.0).unwrap();
        // A direct read of another descriptor sees it without a sync.
        let mut options = std::fs::OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc_direct());
        let file = options.read(true).open(folder.path().join("disk")).unwrap();
        let mut back = Box::new(Pages([0; 4 * PAGE]));
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut back.0, 0).unwrap();
        assert!(back.0 == pages.0);
    }

    fn libc_direct() -> i32 {
        rustix::fs::OFlags::DIRECT.bits().cast_signed()
    }

    /// While one thread reads a range all the time, so that its pages are cached again and again,
    /// each finished direct write is what the next read sees.
    #[test]
    fn readers_leave_no_old_page_behind_a_direct_write() {
        let Some(folder) = folder_with_direct_writes() else { return };
        let (disk, is_done) = (disk(folder.path()), AtomicBool::new(false));
        disk.write_at(0, &[0; 64 * PAGE]).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut buffer = vec![0; 16 * PAGE];
                while !is_done.load(Ordering::Relaxed) {
                    disk.read_many(&mut [DiskRead::new(0, &mut buffer)]);
                }
            });
            let mut pages = Box::new(Pages([0; 4 * PAGE]));
            for round in 1..200u8 {
                pages.0.fill(round);
                disk.write_at(4 * PAGE as u64, &pages.0).unwrap();
                let back = read(&disk, 4 * PAGE, 4 * PAGE);
                assert!(back.iter().all(|byte| *byte == round), "round {round}");
            }
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
