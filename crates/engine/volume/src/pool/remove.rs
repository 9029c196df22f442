//! The removal of a pool: planned first, so that the user can be asked, then carried out.
//!
//! Only files of the pool's directory are removed, by the names that a pool gives them, and no
//! symbolic link is followed to remove something. A device, or a file elsewhere that is a disk of
//! the pool, stays and loses its header. The metadata goes last, after the data store, and a mark
//! says that the removal has begun: what is left by a kill is removed by the next removal.

use super::directory::{DATA, METADATA, check_directory, failed, refuse_one_disk};
use crate::error::{Result, VolumeError};
use gemelo_disk::{Disk, DiskAccess, DiskError, FileDisk};
use gemelo_format::{Superblock, read_superblock};
use gemelo_store::{BlockStore, StoreSetUp};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that marks a pool whose removal has begun.
const MARK: &str = "removing";
/// The mode of the mark: the pool is its owner's alone.
const MARK_MODE: u32 = 0o600;

/// A step of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalStep {
    /// A file of the pool's directory is removed.
    Remove {
        /// The file, or the link to a disk elsewhere.
        path: PathBuf,
        /// Length of the file; 0 for a link or a socket.
        length_bytes: u64,
    },
    /// A device, or a file elsewhere, loses the header by which it is known for a pool's disk. It
    /// stays where it is.
    Wipe {
        /// The link of the pool's directory that leads there.
        link: PathBuf,
        /// The place that the link names.
        target: PathBuf,
        /// `true` for a block device.
        is_device: bool,
    },
}

/// A pool that can be removed, locked against every other use until then.
#[must_use = "a removal that is not run removes nothing"]
pub struct PoolRemoval {
    directory: PathBuf,
    steps: Vec<RemovalStep>,
    /// The disks to wipe, with the byte offsets of their headers.
    wiped: Vec<(PathBuf, Arc<FileDisk>, Vec<u64>)>,
    /// The other disks, which are locked as long as they are open.
    _held: Vec<Arc<FileDisk>>,
}

impl PoolRemoval {
    /// Locks a pool and plans its removal. `others` are the names of further files of the pool
    /// beside its disks. Nothing is changed.
    ///
    /// # Errors
    /// Fails if the directory is not a pool, or if another process uses it.
    pub fn plan(directory: &Path, others: &[&str]) -> Result<Self> {
        check_directory(directory)?;
        let is_begun = is_regular(&directory.join(MARK));
        let mut removal = Self {
            directory: directory.to_owned(),
            steps: Vec::new(),
            wiped: Vec::new(),
            _held: Vec::new(),
        };
        let metadata = removal.open(METADATA)?;
        let superblock = match &metadata {
            Some(disk) => read_superblock(&**disk, &mut Vec::new())
                .and_then(|superblock| superblock.check_writable().map(|()| superblock))
                .map_err(VolumeError::from),
            None => Err(VolumeError::NotAPool { why: "the directory has no metadata" }),
        };
        // A removal that was killed may have wiped the superblock already.
        let superblock = match superblock {
            Err(error @ VolumeError::NotAPool { .. }) if !is_begun => return Err(error),
            Err(VolumeError::NotAPool { .. }) => None,
            other => Some(other?),
        };
        refuse_one_disk(directory)?;
        let data = removal.open(DATA)?;
        for name in others {
            removal.add_file(name);
        }
        let store = match (&superblock, &data) {
            (Some(superblock), Some(disk)) => {
                let disk = Arc::clone(disk) as Arc<dyn Disk>;
                Some(BlockStore::new(disk, superblock)).filter(|store| store.check_labels().is_ok())
            }
            _ => None,
        };
        let is_ours = store.is_some();
        let headers = store.iter().flat_map(BlockStore::label_offsets).collect();
        removal.add_disk(DATA, data, is_ours, headers);
        removal.add_disk(METADATA, metadata, superblock.is_some(), Superblock::offsets().into());
        Ok(removal)
    }

    /// Returns the steps in the order in which they are taken.
    #[must_use]
    pub fn steps(&self) -> &[RemovalStep] {
        &self.steps
    }

    /// Removes the pool. Returns whether the directory was removed as well: it stays if it is a
    /// link, or if it holds other files.
    ///
    /// # Errors
    /// Fails if a file cannot be removed or a disk cannot be wiped. Another removal can remove the
    /// rest.
    pub fn run(self) -> Result<bool> {
        let mark = self.directory.join(MARK);
        begin(&mark)?;
        sync_directory(&self.directory)?;
        for step in &self.steps {
            match step {
                RemovalStep::Remove { path, .. } => remove_file(path)?,
                RemovalStep::Wipe { link, .. } => self.wipe(link)?,
            }
            // The order of the steps has to hold on the medium as well.
            sync_directory(&self.directory)?;
        }
        remove_file(&mark)?;
        Ok(std::fs::remove_dir(&self.directory).is_ok())
    }

    fn wipe(&self, link: &Path) -> Result<()> {
        let Some((_, disk, headers)) = self.wiped.iter().find(|(path, ..)| path == link) else {
            return Ok(());
        };
        let wipe = || -> io::Result<()> {
            for offset in headers {
                disk.write_at(*offset, &[0; HEADER_BYTES])?;
            }
            disk.wipe_labels()?;
            disk.sync()
        };
        wipe().map_err(failed("wipe", link))
    }

    /// Opens and locks a disk, if it is there.
    fn open(&self, name: &str) -> Result<Option<Arc<FileDisk>>> {
        match FileDisk::open(&self.directory.join(name), DiskAccess::Exclusive) {
            Ok(disk) => Ok(Some(Arc::new(disk))),
            Err(DiskError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Plans the removal of a file of the directory, if it is there and no directory itself.
    fn add_file(&mut self, name: &str) {
        let path = self.directory.join(name);
        if let Ok(status) = path.symlink_metadata()
            && !status.is_dir()
        {
            let length_bytes = if status.is_file() { status.len() } else { 0 };
            self.steps.push(RemovalStep::Remove { path, length_bytes });
        }
    }

    /// Plans the removal of a disk: its file, or its link after its header.
    fn add_disk(
        &mut self,
        name: &str,
        disk: Option<Arc<FileDisk>>,
        is_ours: bool,
        headers: Vec<u64>,
    ) {
        let link = self.directory.join(name);
        match (disk, std::fs::read_link(&link)) {
            (Some(disk), Ok(target)) if is_ours => {
                let (link, is_device) = (link, disk.is_device());
                self.wiped.push((link.clone(), disk, headers));
                self.steps.push(RemovalStep::Wipe { link, target, is_device });
            }
            (disk, _) => self._held.extend(disk),
        }
        self.add_file(name);
    }
}

/// Bytes of the header of a data store that are overwritten, at its beginning and at its copy.
const HEADER_BYTES: usize = 512;

fn is_regular(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|status| status.is_file())
}

/// Makes the mark, unless a removal has made it before.
fn begin(mark: &Path) -> Result<()> {
    let made = OpenOptions::new().write(true).create_new(true).mode(MARK_MODE).open(mark);
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_regular(mark) => Ok(()),
        other => other.map(drop).map_err(failed("make", mark)),
    }
}

/// Removes a name of the directory. A link goes, and not the thing that it leads to.
fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(failed("remove", path)),
    }
}

fn sync_directory(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|open| open.sync_all());
    synced.map_err(failed("sync", directory))
}
