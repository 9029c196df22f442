//! The walk: it lists the directories below the given paths and passes file names on in batches,
//! usually without a system call for a single file.
//!
//! The order is that of the directories' own lists, with each directory's files before its
//! subdirectories. It does not depend on the number of reading threads.

mod directories;
mod mounts;
mod names;
mod roots;

pub(crate) use directories::{Directories, DirectoryNumber};
pub(crate) use mounts::{Identity, Mounts};
pub(crate) use names::Names;
pub(crate) use roots::{Root, RootKind, roots_of};

use crate::halt::Halt;
use crate::options::ScanOptions;
use crate::trouble::Troubles;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::process::Resource;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of files in a batch: enough to make the cost of the queue negligible, and few enough
/// to occupy all threads.
const BATCH_FILES: usize = 128;

/// The bytes of directory entries that are read at once.
const LIST_BYTES: usize = 1 << 16;

/// Files to scan, all in one directory.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The number of the batch in the order of the walk.
    pub(crate) sequence: u32,
    pub(crate) names: Arc<Names>,
    pub(crate) place: BatchPlace,
}

/// The place of the files of a batch.
#[derive(Debug, Clone)]
pub(crate) struct BatchPlace {
    /// The open directory; `None` for a path that the user gave.
    pub(crate) directory: Option<Arc<OwnedFd>>,
    /// The only file system on which files may be, if the scan is limited to one.
    pub(crate) device: Option<u64>,
    /// The directory with which the files count.
    pub(crate) counted_with: DirectoryNumber,
}

/// The counts of the walk.
#[derive(Debug, Default)]
pub(crate) struct WalkCounts {
    pub(crate) directories: AtomicU64,
    pub(crate) symbolic_links: AtomicU64,
    pub(crate) special: AtomicU64,
    pub(crate) excluded: AtomicU64,
    pub(crate) other_file_systems: AtomicU64,
    pub(crate) repeated: AtomicU64,
}

/// Raises the limit of open files to its maximum, because every directory on the way down and every
/// waiting batch is open. If the limit cannot be raised, the walk reports the directories that it
/// cannot open.
pub(crate) fn raise_open_files() {
    let mut limit = rustix::process::getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _may_fail = rustix::process::setrlimit(Resource::Nofile, limit);
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A directory that is being walked.
struct Frame {
    directory: Arc<OwnedFd>,
    path: Arc<Path>,
    /// The path relative to the root, to which exclude globs are applied.
    below: PathBuf,
    /// The subdirectories that are yet to be walked, in reverse order.
    subdirectories: Vec<CString>,
    /// The directory with which the files count.
    counted_with: DirectoryNumber,
    /// `true` if the files were met at another place.
    is_repeated: bool,
}

impl Frame {
    fn new(fd: OwnedFd, path: Arc<Path>, counted_with: DirectoryNumber) -> Self {
        let (directory, below) = (Arc::new(fd), PathBuf::new());
        let subdirectories = Vec::new();
        Self { directory, path, below, subdirectories, counted_with, is_repeated: false }
    }
}

/// The signal that the walk must end early.
pub(crate) struct Ended;

/// Receives batches. An `Err` ends the walk.
pub(crate) type Sink<'sink> = dyn FnMut(Batch) -> Result<(), Ended> + 'sink;

pub(crate) struct Walker<'scan> {
    pub(crate) options: &'scan ScanOptions,
    pub(crate) counts: &'scan WalkCounts,
    pub(crate) troubles: &'scan Troubles<'scan>,
    pub(crate) halt: &'scan Halt,
    /// The directories with figures of their own.
    pub(crate) directories: Directories,
    mounts: &'scan Mounts,
    /// The directories that were listed, if mounts can repeat them.
    listed: HashSet<Identity>,
    sequence: u32,
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl<'scan> Walker<'scan> {
    pub(crate) fn new(
        options: &'scan ScanOptions,
        counts: &'scan WalkCounts,
        troubles: &'scan Troubles<'scan>,
        halt: &'scan Halt,
        mounts: &'scan Mounts,
    ) -> Self {
        let directories = Directories::new(options.request().directory_depth);
        Self {
            options,
            counts,
            troubles,
            halt,
            directories,
            mounts,
            listed: HashSet::new(),
            sequence: 0,
        }
    }

    /// Walks all roots.
    pub(crate) fn walk(&mut self, roots: &[Root], sink: &mut Sink<'_>) -> Result<(), Ended> {
        for root in roots {
            match root.kind {
                RootKind::File | RootKind::BlockDevice => {
                    let mut names = Names::default();
                    if let Ok(path) = CString::new(root.path.as_os_str().as_bytes()) {
                        names.push(&path);
                    }
                    let counted_with = self.directories.root(&root.path);
                    let place = BatchPlace { directory: None, device: None, counted_with };
                    self.send(place, names, sink)?;
                }
                RootKind::Directory => self.walk_root(root, sink)?,
            }
        }
        Ok(())
    }

    fn send(&mut self, place: BatchPlace, names: Names, sink: &mut Sink<'_>) -> Result<(), Ended> {
        if names.len() == 0 {
            return Ok(());
        }
        let sequence = self.sequence;
        self.sequence = sequence.checked_add(1).ok_or(Ended)?;
        sink(Batch { sequence, names: Arc::new(names), place })
    }

    fn walk_root(&mut self, root: &Root, sink: &mut Sink<'_>) -> Result<(), Ended> {
        let opened = rustix::fs::open(&root.path, DIRECTORY_FLAGS, Mode::empty());
        let device = self.options.request().one_file_system.then_some(root.device);
        let mut frames = Vec::new();
        match opened {
            Ok(fd) => {
                let counted_with = self.directories.root(&root.path);
                let frame = Frame::new(fd, Arc::from(root.path.as_path()), counted_with);
                frames.push(self.first_met(frame, device, sink)?);
            }
            Err(error) => self.troubles.unreadable(&root.path, &error.into()),
        }
        loop {
            let level = frames.len() as u32;
            let Some(frame) = frames.last_mut() else { return Ok(()) };
            let Some(name) = frame.subdirectories.pop() else {
                frames.pop();
                continue;
            };
            let os_name = OsStr::from_bytes(name.to_bytes());
            let path = frame.path.join(os_name);
            let flags = DIRECTORY_FLAGS | OFlags::NOFOLLOW;
            match rustix::fs::openat(&*frame.directory, &name, flags, Mode::empty()) {
                Ok(fd) if self.is_elsewhere(&fd, device) => count(&self.counts.other_file_systems),
                Ok(fd) => {
                    let below =
                        if self.excludes() { frame.below.join(os_name) } else { PathBuf::new() };
                    let counted_with = self.directories.below(frame.counted_with, level, &path);
                    let next = Frame { below, ..Frame::new(fd, Arc::from(path), counted_with) };
                    frames.push(self.first_met(next, device, sink)?);
                }
                Err(error) => self.troubles.unreadable(&path, &error.into()),
            }
        }
    }

    /// Lists a directory. Of one that mounts have shown before, only the directories below are
    /// looked at, because another mount may have hidden some of them there, or shows another one
    /// here.
    fn first_met(
        &mut self,
        mut frame: Frame,
        device: Option<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<Frame, Ended> {
        if self.mounts.can_repeat && self.is_listed(&frame.directory) {
            count(&self.counts.repeated);
            frame.is_repeated = true;
        }
        self.list(frame, device, sink)
    }

    /// Remembers a directory. Returns whether it was known.
    fn is_listed(&mut self, directory: &OwnedFd) -> bool {
        let stat = rustix::fs::fstat(directory);
        stat.is_ok_and(|stat| !self.listed.insert((stat.st_dev, stat.st_ino)))
    }

    fn is_elsewhere(&self, fd: &OwnedFd, device: Option<u64>) -> bool {
        device.is_some_and(|device| rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_dev != device))
    }

    fn excludes(&self) -> bool {
        !self.options.exclude().is_empty()
    }

    /// Lists a directory: sends its files as batches and collects its subdirectories.
    fn list(
        &mut self,
        mut frame: Frame,
        device: Option<u64>,
        sink: &mut Sink<'_>,
    ) -> Result<Frame, Ended> {
        if !frame.is_repeated {
            count(&self.counts.directories);
        }
        let directory = Arc::clone(&frame.directory);
        let place = BatchPlace {
            directory: Some(Arc::clone(&directory)),
            device,
            counted_with: frame.counted_with,
        };
        let mut names = Names { directory: Some(Arc::clone(&frame.path)), ..Names::default() };
        let mut buffer = vec![MaybeUninit::uninit(); LIST_BYTES];
        let mut entries = RawDir::new(&*directory, &mut buffer);
        while let Some(entry) = entries.next() {
            if self.halt.is_raised() {
                return Err(Ended);
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    self.troubles.unreadable(&frame.path, &error.into());
                    break;
                }
            };
            self.sort_entry(&mut frame, &mut names, entry.file_name(), entry.file_type());
            if names.len() == BATCH_FILES {
                let full = std::mem::replace(
                    &mut names,
                    Names { directory: Some(Arc::clone(&frame.path)), ..Names::default() },
                );
                self.send(place.clone(), full, sink)?;
            }
        }
        self.send(place, names, sink)?;
        frame.subdirectories.reverse();
        Ok(frame)
    }

    fn sort_entry(&self, frame: &mut Frame, names: &mut Names, name: &CStr, kind: FileType) {
        if matches!(name.to_bytes(), b"." | b"..") {
            return;
        }
        if self.excludes() {
            let below = frame.below.join(OsStr::from_bytes(name.to_bytes()));
            if self.options.exclude().is_match(&below) {
                return count(&self.counts.excluded);
            }
        }
        match self.known_kind(frame, name, kind) {
            Some(FileType::Directory) => frame.subdirectories.push(name.to_owned()),
            // All else in a directory that was listed before was counted there, unless a mounted
            // file hid a file: then files are known by themselves.
            Some(FileType::RegularFile) if self.mounts.has_files => names.push(name),
            Some(_) if frame.is_repeated => {}
            Some(FileType::RegularFile) => names.push(name),
            Some(FileType::Symlink) => count(&self.counts.symbolic_links),
            Some(_) => count(&self.counts.special),
            None => {}
        }
    }

    /// Returns the type of an entry. Some file systems do not report it in their lists, so it takes
    /// a system call.
    fn known_kind(&self, frame: &Frame, name: &CStr, kind: FileType) -> Option<FileType> {
        if kind != FileType::Unknown {
            return Some(kind);
        }
        match rustix::fs::statat(&*frame.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
            Err(error) => {
                self.troubles.unreadable(
                    &frame.path.join(OsStr::from_bytes(name.to_bytes())),
                    &error.into(),
                );
                None
            }
        }
    }
}
