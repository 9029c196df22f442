//! The places of a new pool: its directory, its files, its links to files and devices elsewhere.
//!
//! All checks come before anything is made. If a later step fails, everything that was made by then
//! is removed. A directory or an empty file that existed before stays, and is as it was.

use super::PoolOptions;
use super::create::format_disks;
use super::directory::{DATA, METADATA, failed};
use crate::error::{Result, VolumeError};
use gemelo_disk::{
    Disk, DiskAccess, DiskError, FileDisk, are_same, check_existing_device, check_no_user,
};
use gemelo_store::PoolDisks;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode of a new pool's directory: the pool is its owner's alone, whatever the umask.
const NEW_DIRECTORY_MODE: u32 = 0o700;

/// A pool that was made and is not settled yet: dropped, it is removed again.
///
/// ```no_run
/// # use gemelo_volume::{NewPool, PoolOptions, VolumeError};
/// let new = NewPool::make("pool".as_ref(), &PoolOptions::default())?;
/// // Other files of the directory are written here.
/// new.keep();
/// # Ok::<(), VolumeError>(())
/// ```
#[must_use = "a pool that is not kept is removed"]
pub struct NewPool {
    made: Made,
}

impl NewPool {
    /// Makes a pool in a directory, which is made if it does not exist.
    ///
    /// # Errors
    /// Fails if there is a pool already, if an option is out of range, if a device is in use or
    /// holds data, or if the files cannot be made. A failure leaves nothing behind.
    pub fn make(path: &Path, options: &PoolOptions) -> Result<Self> {
        options.check()?;
        let places = DiskPlaces::check(path, options)?;
        let mut made = Made::default();
        let disks = places.take(&mut made)?;
        format_disks(&disks, options)?;
        made.sync_names(path)?;
        Ok(Self { made })
    }

    /// Keeps the pool, which is otherwise removed when this is dropped.
    pub fn keep(self) {
        let Self { mut made } = self;
        made.is_kept = true;
    }
}

/// The places of a pool's disks. Each is a path elsewhere, or `None` for a file of the directory.
struct DiskPlaces<'a> {
    directory: &'a Path,
    options: &'a PoolOptions,
    data: Option<PathBuf>,
    metadata: Option<PathBuf>,
}

impl<'a> DiskPlaces<'a> {
    /// Makes all checks that need nothing to be made.
    fn check(directory: &'a Path, options: &'a PoolOptions) -> Result<Self> {
        for name in [METADATA, DATA] {
            let name = directory.join(name);
            if name.symlink_metadata().is_ok() {
                return Err(DiskError::Exists { path: name }.into());
            }
        }
        let place = |place: &Option<PathBuf>, name: &str| -> Result<Option<PathBuf>> {
            let Some(place) = place else { return Ok(None) };
            let there = std::path::absolute(place).map_err(failed("find", place))?;
            check_existing_device(&there)?;
            // A path that names the default file counts as no path.
            Ok((resolved(&there) != resolved(&directory.join(name))).then_some(there))
        };
        let (data, metadata) = (place(&options.data, DATA)?, place(&options.metadata, METADATA)?);
        let places = Self { directory, options, data, metadata };
        let (data, metadata) = (places.path_of(DATA), places.path_of(METADATA));
        if resolved(&data) == resolved(&metadata) || are_same(&data, &metadata) {
            return Err(VolumeError::OneDisk { path: data });
        }
        Ok(places)
    }

    fn elsewhere(&self, name: &str) -> Option<&Path> {
        if name == DATA { self.data.as_deref() } else { self.metadata.as_deref() }
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.elsewhere(name).map_or_else(|| self.directory.join(name), Path::to_owned)
    }

    /// Opens the disks that exist, and makes the others.
    fn take(&self, made: &mut Made) -> Result<PoolDisks> {
        let existing =
            |name| self.elsewhere(name).map(|place| self.open_existing(place, name)).transpose();
        let (data, metadata) = (existing(DATA)?.flatten(), existing(METADATA)?.flatten());
        made.directory(self.directory)?;
        let data = self.or_new(data, DATA, made)?;
        let metadata = self.or_new(metadata, METADATA, made)?;
        for (disk, name) in [(&data, DATA), (&metadata, METADATA)] {
            if disk.is_device() {
                disk.wipe_labels().map_err(failed("write", &self.path_of(name)))?;
            }
        }
        Ok(PoolDisks::new(data, metadata))
    }

    /// Opens a disk that exists, without writing to it. Refuses anything but an empty file or a
    /// blank device.
    fn open_existing(&self, place: &Path, name: &str) -> Result<Option<FileDisk>> {
        let Ok(status) = rustix::fs::stat(place) else { return Ok(None) };
        if FileDisk::is_device_at(place, &status)? {
            check_no_user(place, &status)?;
        }
        let in_use = |error| match error {
            DiskError::Locked { path, holder } => DiskError::DeviceInUse { path, by: holder },
            error => error,
        };
        let disk = FileDisk::open(place, DiskAccess::Exclusive).map_err(in_use)?;
        let have_bytes = disk.len().map_err(failed("measure", place))?;
        if disk.is_device() {
            let need_bytes = self.options.min_bytes(name == DATA);
            if have_bytes < need_bytes {
                return Err(VolumeError::SmallDevice {
                    path: place.to_owned(),
                    have_bytes,
                    need_bytes,
                });
            }
            let found = disk.found_on_it().map_err(failed("read", place))?;
            if let (Some(what), false) = (found, self.options.force) {
                return Err(DiskError::HoldsData { path: place.to_owned(), what }.into());
            }
        } else if have_bytes > 0 {
            return Err(DiskError::Exists { path: place.to_owned() }.into());
        }
        Ok(Some(disk))
    }

    /// Returns the opened disk, or makes a new file. Makes a link in the directory if the disk is
    /// elsewhere.
    fn or_new(
        &self,
        opened: Option<FileDisk>,
        name: &str,
        made: &mut Made,
    ) -> Result<Arc<FileDisk>> {
        let place = self.path_of(name);
        let disk = match opened {
            Some(disk) => {
                if !disk.is_device() {
                    made.undo.push(Undo::Empty(place.clone()));
                }
                Arc::new(disk)
            }
            None => {
                let disk = FileDisk::create(&place)?;
                made.undo.push(Undo::Remove(place.clone()));
                Arc::new(disk)
            }
        };
        made.held.push(Arc::clone(&disk));
        if self.elsewhere(name).is_some() {
            // The link holds the path as the user gave it: names such as those in /dev/disk/by-id
            // exist because device names change.
            let link = self.directory.join(name);
            symlink(&place, &link).map_err(failed("make", &link))?;
            made.undo.push(Undo::Remove(link));
        }
        Ok(disk)
    }
}

/// A path whose directory has its links resolved. It is the same for all names of a file that may
/// not exist yet, except for links to the file.
fn resolved(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent().and_then(|directory| directory.canonicalize().ok()), path.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => path,
    }
}

/// The way to undo a step.
enum Undo {
    Remove(PathBuf),
    RemoveDirectory(PathBuf),
    /// Truncates a file that was empty before.
    Empty(PathBuf),
}

/// The steps taken, in order. They are undone in reverse when this is dropped, unless they are
/// kept.
#[derive(Default)]
struct Made {
    undo: Vec<Undo>,
    /// The disks, which stay locked until all steps are undone.
    held: Vec<Arc<FileDisk>>,
    is_kept: bool,
}

impl Made {
    /// Makes the names that were made as durable as the disks, and that of the pool's directory.
    fn sync_names(&self, pool: &Path) -> Result<()> {
        let made = self.undo.iter().filter_map(|step| match step {
            Undo::Remove(path) | Undo::RemoveDirectory(path) => Some(path.as_path()),
            Undo::Empty(_) => None,
        });
        let mut directories = BTreeSet::new();
        for name in made.chain([pool]) {
            let name = std::path::absolute(name).map_err(failed("find", name))?;
            directories.extend(name.parent().map(Path::to_owned));
        }
        directories.iter().try_for_each(|directory| {
            let synced = File::open(directory).and_then(|open| open.sync_all());
            synced.map_err(failed("sync", directory))
        })
    }

    fn directory(&mut self, path: &Path) -> Result<()> {
        match DirBuilder::new().mode(NEW_DIRECTORY_MODE).create(path) {
            Ok(()) => self.undo.push(Undo::RemoveDirectory(path.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if !path.is_dir() {
                    return Err(DiskError::Exists { path: path.to_owned() }.into());
                }
            }
            Err(error) => return Err(failed("make", path)(error)),
        }
        Ok(())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        for step in self.undo.drain(..).rev() {
            // The error that led here is the one to report.
            let _ = match step {
                Undo::Remove(path) => std::fs::remove_file(path),
                Undo::RemoveDirectory(path) => std::fs::remove_dir(path),
                Undo::Empty(path) => {
                    File::options().write(true).open(path).and_then(|file| file.set_len(0))
                }
            };
        }
    }
}
