//! Turns a name and a layout into a target in two steps: [`plan`] checks everything, then
//! [`Plan::prepare`] makes the places.

use crate::error::AtPath;
use crate::figures::PoolFigures;
use crate::nbd::{self, FoundExport};
use crate::null::NullTarget;
use crate::pool::{self, FoundVolume, OpenedPool};
use crate::queue::{Queue, QueueOptions};
use crate::storage::{Found, Storage};
use crate::{Access, AtStart, Layout, TargetError, TargetUri, device, direct};
use gemelo_base::{Monitor, StopFlag};
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};

/// Storage with one place for each process.
pub trait Target: Send + Sync {
    /// Returns the name of a process's place, for messages.
    fn place(&self, process: u32) -> String;

    /// Returns whether written data can be read back.
    fn holds_data(&self) -> bool;

    /// Returns the content of the places before the job writes to them.
    fn at_start(&self) -> AtStart;

    /// Opens a process's place for the calling thread. Several queues can be open on one place.
    ///
    /// # Errors
    /// Fails if the place cannot be opened, or if the engine is not available.
    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError>;

    /// Returns the number of queues that may be open at once, on all places together.
    fn most_queues(&self) -> usize {
        usize::MAX
    }

    /// Completes the work that the storage does some time after it has acknowledged writes: an
    /// off-line volume searches for its duplicates. Figures taken afterwards cover all writes.
    ///
    /// # Errors
    /// Fails if that work fails. The written data stays as it is.
    fn settle(&self, _monitor: &dyn Monitor, _stop: &StopFlag) -> Result<(), TargetError> {
        Ok(())
    }

    /// Returns the pool that this process has opened for the target, so that its figures can be
    /// exported; `None` for all other storage, and for a pool opened read-only.
    fn pool(&self) -> Option<OpenedPool> {
        None
    }

    /// Returns the figures of storage that deduplicates; `None` for all other storage.
    fn pool_figures(&self) -> Option<PoolFigures> {
        None
    }

    /// Removes the files that were made for this target, unless `keep` is set, and closes the pool,
    /// which makes all writes durable. A target that is dropped without this call removes its files
    /// too.
    ///
    /// # Errors
    /// Fails if a file cannot be removed, or if a pool cannot be closed.
    fn finish(&mut self, keep: bool) -> Result<(), TargetError>;
}

/// A target that was checked, and in which nothing was changed yet.
#[derive(Debug)]
pub struct Plan {
    found: Checked,
    layout: Layout,
}

#[derive(Debug)]
enum Checked {
    Null,
    Storage(Found),
    Volume(FoundVolume),
    Export(FoundExport),
}

/// Returns the size in bytes of storage that has a fixed size: a block device, a volume or an
/// export.
///
/// # Errors
/// Fails if the storage cannot be opened or measured.
pub fn capacity(uri: &TargetUri) -> Result<Option<u64>, TargetError> {
    match uri {
        TargetUri::Null => Ok(None),
        TargetUri::Path(path) => device::size_bytes(path),
        TargetUri::Pool(place) => pool::size_bytes(place).map(Some),
        TargetUri::Nbd(uri) => nbd::size_bytes(uri).map(Some),
    }
}

/// Checks that the storage can carry the layout, and changes nothing in it.
///
/// # Errors
/// Fails with everything that can be refused before a run; see [`TargetError`].
pub fn plan(uri: &TargetUri, layout: &Layout) -> Result<Plan, TargetError> {
    let total_bytes = layout.total_bytes()?;
    let found = match uri {
        TargetUri::Null => Checked::Null,
        TargetUri::Path(path) => Checked::Storage(find(path, layout, total_bytes)?),
        TargetUri::Pool(place) => Checked::Volume(FoundVolume::check(place, layout, total_bytes)?),
        TargetUri::Nbd(uri) => Checked::Export(FoundExport::check(uri, layout, total_bytes)?),
    };
    Ok(Plan { found, layout: *layout })
}

impl Plan {
    /// Makes the places. If this fails midway, it removes the files that it has made.
    ///
    /// # Errors
    /// Fails if a file cannot be made, opened or given its size.
    pub fn prepare(self) -> Result<Box<dyn Target>, TargetError> {
        Ok(match self.found {
            Checked::Null => Box::new(NullTarget),
            Checked::Storage(found) => Box::new(Storage::prepare(found, self.layout)?),
            Checked::Volume(found) => Box::new(found.into_target(self.layout)),
            Checked::Export(found) => Box::new(found.into_target(self.layout)),
        })
    }
}

fn find(path: &Path, layout: &Layout, total_bytes: u64) -> Result<Found, TargetError> {
    let Ok(status) = rustix::fs::stat(path) else {
        return find_new_file(path, layout, total_bytes);
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => find_folder(path, layout, total_bytes),
        FileType::RegularFile => {
            check_existing_file(path, &status, layout, total_bytes)?;
            check_room(path, layout, total_bytes, allocated_bytes(&status))?;
            direct::check(path, layout)?;
            Ok(Found::File(path.to_owned()))
        }
        FileType::BlockDevice => {
            check_device(path, &status, layout, total_bytes)?;
            Ok(Found::Device(path.to_owned()))
        }
        kind => Err(TargetError::Kind { path: path.to_owned(), found: kind_name(kind) }),
    }
}

const fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::CharacterDevice => "a character device",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "of an unknown file type",
    }
}

fn find_new_file(path: &Path, layout: &Layout, total_bytes: u64) -> Result<Found, TargetError> {
    if layout.access != Access::Create {
        return Err(TargetError::Missing { path: path.to_owned() });
    }
    device::check_existing(path)?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A path such as `missing/` is meant as a directory.
    let wants_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if wants_folder || !folder.is_dir() {
        let missing = if wants_folder { path } else { folder };
        return Err(TargetError::NoFolder { path: missing.to_owned() });
    }
    check_writable(folder, layout)?;
    check_room(folder, layout, total_bytes, 0)?;
    direct::check(folder, layout)?;
    Ok(Found::File(path.to_owned()))
}

fn find_folder(path: &Path, layout: &Layout, total_bytes: u64) -> Result<Found, TargetError> {
    let files: Vec<PathBuf> =
        (0..layout.processes).map(|process| place_file(path, process)).collect();
    let mut reusable_bytes = 0;
    for file in &files {
        match rustix::fs::stat(file) {
            Ok(status) => {
                check_existing_file(file, &status, layout, layout.place_bytes)?;
                reusable_bytes += allocated_bytes(&status);
            }
            Err(_) if layout.access == Access::Create => {}
            Err(_) => return Err(TargetError::Missing { path: file.clone() }),
        }
    }
    check_writable(path, layout)?;
    check_room(path, layout, total_bytes, reusable_bytes)?;
    direct::check(path, layout)?;
    Ok(Found::Folder(files))
}

/// Returns the path of a process's file in a directory.
fn place_file(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("gemelo-{process:04}.data"))
}

fn check_existing_file(
    path: &Path,
    status: &Stat,
    layout: &Layout,
    need_bytes: u64,
) -> Result<(), TargetError> {
    let kind = FileType::from_raw_mode(status.st_mode);
    if kind != FileType::RegularFile {
        return Err(TargetError::Kind { path: path.to_owned(), found: kind_name(kind) });
    }
    let have_bytes = u64::try_from(status.st_size).unwrap_or(0);
    if layout.access == Access::Create && !layout.force {
        return Err(TargetError::Exists { path: path.to_owned() });
    }
    if layout.access != Access::Create && have_bytes < need_bytes {
        return Err(TargetError::TooSmall { path: path.to_owned(), have_bytes, need_bytes });
    }
    check_writable(path, layout)?;
    if layout.access.writes() { device::check_file_unused(path, status) } else { Ok(()) }
}

fn check_device(
    path: &Path,
    status: &Stat,
    layout: &Layout,
    need_bytes: u64,
) -> Result<(), TargetError> {
    if layout.access.writes() {
        device::check_unused(path, status)?;
    }
    check_writable(path, layout)?;
    let file = std::fs::File::open(path).at("open", path)?;
    let have_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).at("measure", path)?;
    if have_bytes < need_bytes {
        return Err(TargetError::TooSmall { path: path.to_owned(), have_bytes, need_bytes });
    }
    if layout.access == Access::Create {
        device::check_overwritable(path, layout.force)?;
    }
    direct::check(path, layout)
}

/// Refuses a block device that is in use, and, unless `force` is set, one that holds data, as
/// [`gemelo_disk::check_overwritable`] does.
///
/// # Errors
/// Fails if the device must not be overwritten, or if it cannot be examined.
pub fn check_overwritable(path: &Path, force: bool) -> Result<(), TargetError> {
    device::check_overwritable(path, force)
}

/// Bytes at the beginning of storage that are overwritten without `--force` only if they are zeros:
/// file systems, volume managers and partition tables all write to the first MiB.
pub(crate) const LABEL_BYTES: u64 = 1 << 20;

fn check_writable(path: &Path, layout: &Layout) -> Result<(), TargetError> {
    if layout.access.writes() && !direct::is_writable(path) {
        return Err(TargetError::ReadOnly { path: path.to_owned() });
    }
    Ok(())
}

fn allocated_bytes(status: &Stat) -> u64 {
    const STAT_UNIT_BYTES: u64 = 512;
    u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(STAT_UNIT_BYTES)
}

/// Checks that files whose space is allocated at once will fit. Files that start as holes are not
/// checked: their space depends on the compression and deduplication of the storage, which is
/// unknown here.
fn check_room(
    path: &Path,
    layout: &Layout,
    need_bytes: u64,
    reusable_bytes: u64,
) -> Result<(), TargetError> {
    if layout.access != Access::Create || !layout.preallocate {
        return Ok(());
    }
    let status = rustix::fs::statvfs(path).at("look at the file system of", path)?;
    let have_bytes = status.f_bavail.saturating_mul(status.f_frsize).saturating_add(reusable_bytes);
    if have_bytes < need_bytes {
        return Err(TargetError::TooSmall { path: path.to_owned(), have_bytes, need_bytes });
    }
    Ok(())
}
