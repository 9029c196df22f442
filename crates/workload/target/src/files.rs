//! Files and block devices as targets: makes places, opens queues on them, and removes the files
//! that it made.

use crate::error::AtPath;
use crate::queue::{Engine, OpenPlace, PsyncQueue, Queue, QueueOptions, UringQueue};
use crate::storage::Target;
use crate::{AtStart, PlaceAccess, PlaceLayout, TargetError};
use gemelo_base::FileIdentity;
use gemelo_base::ShowPath as _;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The kind of storage at a path.
#[derive(Debug)]
pub(crate) enum StorageAtPath {
    /// One file, which exists or will be made. Each process has a region of it.
    File(PathBuf),
    /// One file for each process, in a directory.
    Directory(Vec<PathBuf>),
    /// A block device. Each process has a region of it.
    Device(PathBuf),
}

/// Files or a device, ready to be opened.
pub(crate) struct Files {
    found: StorageAtPath,
    layout: PlaceLayout,
    /// The files that were made, with what proves that the file at a path is still that one.
    made: Vec<(PathBuf, FileIdentity)>,
}

impl Files {
    pub(crate) fn prepare(found: StorageAtPath, layout: PlaceLayout) -> Result<Self, TargetError> {
        let mut files = Self { found, layout, made: Vec::new() };
        if layout.access == PlaceAccess::Create {
            files.make_files()?;
        }
        Ok(files)
    }

    fn make_files(&mut self) -> Result<(), TargetError> {
        let (files, bytes) = match &self.found {
            StorageAtPath::Device(_) => return Ok(()),
            // A file that hosts share exists, because one of them would empty it under the others.
            StorageAtPath::File(_) if self.layout.is_shared() => return Ok(()),
            StorageAtPath::File(path) => (vec![path.clone()], self.layout.total_bytes()?),
            StorageAtPath::Directory(paths) => (paths.clone(), self.layout.place_bytes),
        };
        for path in files {
            let file = self.make_or_empty(&path)?;
            give_size(&file, bytes, self.layout.preallocate).at("give its size to", &path)?;
        }
        Ok(())
    }

    /// Makes a new file, which will be removed at the end, or empties an existing one, which will
    /// stay.
    fn make_or_empty(&mut self, path: &Path) -> Result<File, TargetError> {
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => {
                let identity = FileIdentity::of(&file).at("look at", path)?;
                self.made.push((path.to_owned(), identity));
                Ok(file)
            }
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && self.layout.force =>
            {
                OpenOptions::new().write(true).truncate(true).open(path).at("empty", path)
            }
            Err(error) => Err(error).at("create", path),
        }
    }

    fn path_and_start(&self, process: u32) -> (&Path, u64) {
        let start = self.layout.first_byte(process);
        match &self.found {
            StorageAtPath::File(path) | StorageAtPath::Device(path) => (path, start),
            StorageAtPath::Directory(paths) => {
                (paths.get(process as usize).map_or(Path::new(""), PathBuf::as_path), 0)
            }
        }
    }

    fn remove_made(&mut self) -> Result<(), TargetError> {
        let mut first_error = Ok(());
        for (path, identity) in self.made.drain(..) {
            if !identity.is_at(&path) {
                continue;
            }
            let removed = std::fs::remove_file(&path).at("remove", &path);
            first_error = first_error.and(removed);
        }
        first_error
    }
}

/// Gives a file its size: with allocated space if `preallocate` is set and the file system supports
/// that, else as a hole.
fn give_size(file: &File, bytes: u64, preallocate: bool) -> Result<(), Errno> {
    if preallocate {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            done => return done,
        }
    }
    rustix::fs::ftruncate(file, bytes)
}

impl Target for Files {
    fn place(&self, process: u32) -> String {
        self.path_and_start(process).0.shown().to_string()
    }

    fn holds_data(&self) -> bool {
        true
    }

    fn at_start(&self) -> AtStart {
        match (&self.found, self.layout.access) {
            (StorageAtPath::File(_), _) if self.layout.is_shared() => AtStart::Unknown,
            (StorageAtPath::File(_) | StorageAtPath::Directory(_), PlaceAccess::Create) => {
                AtStart::Zeros
            }
            _ => AtStart::Unknown,
        }
    }

    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError> {
        let (path, first_byte) = self.path_and_start(process);
        let flags = if self.layout.direct { OFlags::DIRECT } else { OFlags::empty() };
        let opened = OpenOptions::new()
            .read(true)
            .write(self.layout.access.writes())
            .custom_flags(flags.bits() as i32)
            .open(path);
        let file = opened.at("open", path)?;
        let place = OpenPlace { file, name: path.shown().to_string(), first_byte };
        Ok(match options.engine {
            Engine::Psync | Engine::Native => Box::new(PsyncQueue::new(place, options)),
            Engine::IoUring => Box::new(UringQueue::new(place, options)?),
        })
    }

    fn finish(&mut self, keep: bool) -> Result<(), TargetError> {
        if keep {
            self.made.clear();
        }
        self.remove_made()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // `finish` returns the error to callers that need it.
        let _ = self.remove_made();
    }
}
