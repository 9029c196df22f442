//! The directory of a pool: the names of its two disks, which are locked while the pool is open.

use crate::error::{Result, VolumeError};
use gemelo_disk::{DiskAccess, DiskError, FileDisk, IoMode};
use gemelo_format::{DATA_MAGIC, SUPERBLOCK_MAGIC};
use gemelo_store::PoolDisks;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub(super) const DATA: &str = "data";
pub(super) const METADATA: &str = "metadata";

/// The disks of a pool's directory. They are locked as long as one of them is open, so no other
/// process writes to them.
pub struct PoolDirectory {
    disks: PoolDisks,
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VolumeError {
    move |source| DiskError::File { action, path: path.to_owned(), source }.into()
}

impl PoolDirectory {
    /// Opens and locks the disks for reading and writing.
    ///
    /// # Errors
    /// Fails if another process uses a disk, or if a disk is missing.
    pub fn lock(path: &Path) -> Result<Self> {
        Self::open(path, DiskAccess::Exclusive)
    }

    /// Opens the disks for reading, together with other readers. Nothing is written, not even
    /// beside them.
    ///
    /// # Errors
    /// Fails if another process writes to a disk, or if a disk is missing.
    pub fn share(path: &Path) -> Result<Self> {
        Self::open(path, DiskAccess::Shared)
    }

    /// Does the same as [`Self::share`] or [`Self::lock`].
    ///
    /// # Errors
    /// Fails as they do.
    pub fn open(path: &Path, access: DiskAccess) -> Result<Self> {
        Self::open_with(path, access, IoMode::Buffered)
    }

    /// Does the same as [`Self::open`], and writes contents in this mode.
    ///
    /// # Errors
    /// Fails as [`Self::open`] does.
    pub fn open_with(path: &Path, access: DiskAccess, mode: IoMode) -> Result<Self> {
        check_directory(path)?;
        // This check comes before the disks are opened: the second lock on one file would be
        // refused because of the first.
        refuse_one_disk(path)?;
        let metadata = open_disk(path, METADATA, access)?;
        let data = open_disk(path, DATA, access)?;
        let data = data.with_io(mode);
        Ok(Self { disks: PoolDisks::new(Arc::new(data), Arc::new(metadata)) })
    }

    /// Returns the disks. They stay locked until the last copy of them is dropped.
    #[must_use]
    pub fn disks(&self) -> PoolDisks {
        self.disks.clone()
    }
}

fn open_disk(directory: &Path, name: &str, access: DiskAccess) -> Result<FileDisk> {
    let path = directory.join(name);
    match FileDisk::open(&path, access) {
        Err(DiskError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            match std::fs::read_link(&path) {
                Ok(target) => Err(VolumeError::LostDisk { path, target: directory.join(target) }),
                Err(_) => Err(without(directory, name)),
            }
        }
        other => Ok(other?),
    }
}

/// Returns the error of a directory without one of the files. If the other one is that of a pool,
/// the pool is damaged.
fn without(directory: &Path, name: &str) -> VolumeError {
    let (other, magic, why) = match name {
        METADATA => (DATA, DATA_MAGIC, "the directory has no metadata"),
        _ => (METADATA, SUPERBLOCK_MAGIC, "the directory has no data store"),
    };
    let present = directory.join(other);
    let mut begin = [0; 8];
    let is_read = File::open(&present).and_then(|mut file| file.read_exact(&mut begin));
    match is_read {
        Ok(()) if begin == *magic => {
            VolumeError::LostFile { missing: directory.join(name), present }
        }
        _ => VolumeError::NotAPool { why },
    }
}

/// Refuses a path that leads to no directory.
pub(super) fn check_directory(path: &Path) -> Result<()> {
    match (path.is_dir(), path.exists()) {
        (true, _) => Ok(()),
        (false, true) => Err(VolumeError::NotAPool { why: "it is not a directory" }),
        (false, false) => Err(VolumeError::NotAPool { why: "there is no such directory" }),
    }
}

/// Refuses a directory whose two names lead to the same disk.
pub(super) fn refuse_one_disk(directory: &Path) -> Result<()> {
    let data = directory.join(DATA);
    if gemelo_disk::are_same(&data, &directory.join(METADATA)) {
        return Err(VolumeError::OneDisk { path: data });
    }
    Ok(())
}
