//! Checks that files, a directory or a block device can carry a layout, without changing anything.

use crate::error::AtPath;
use crate::files::{Files, StorageAtPath};
use crate::storage::{PlannedTarget, Storage, Target};
use crate::{PlaceAccess, PlaceLayout, TargetError, device, direct};
use rustix::fs::{FileType, Stat};
use std::path::{Path, PathBuf};

/// A directory, a file or a block device. The path need not exist, because a job can make files.
#[derive(Debug)]
pub struct FileStorage {
    path: PathBuf,
}

impl FileStorage {
    /// Names the storage at a path.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }
}

impl Storage for FileStorage {
    fn capacity(&self) -> Result<Option<u64>, TargetError> {
        device::size_bytes(&self.path)
    }

    fn current_bytes(&self) -> Result<Option<u64>, TargetError> {
        match self.path.metadata() {
            Ok(data) if data.is_file() && data.len() > 0 => Ok(Some(data.len())),
            _ => self.capacity(),
        }
    }

    fn plan(&self, layout: &PlaceLayout) -> Result<Box<dyn PlannedTarget>, TargetError> {
        let found = find(&self.path, layout, layout.total_bytes()?)?;
        Ok(Box::new(FilePlan { found, layout: *layout }))
    }
}

/// Files or a device that were checked, and in which nothing was changed yet.
#[derive(Debug)]
struct FilePlan {
    found: StorageAtPath,
    layout: PlaceLayout,
}

impl PlannedTarget for FilePlan {
    fn prepare(self: Box<Self>) -> Result<Box<dyn Target>, TargetError> {
        Ok(Box::new(Files::prepare(self.found, self.layout)?))
    }
}

fn find(path: &Path, layout: &PlaceLayout, total_bytes: u64) -> Result<StorageAtPath, TargetError> {
    gemelo_disk::check_no_pool(path).map_err(TargetError::Device)?;
    let Ok(status) = rustix::fs::stat(path) else {
        return find_new_file(path, layout, total_bytes);
    };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::Directory => find_directory(path, layout, layout.own_bytes()?),
        FileType::RegularFile => {
            check_shared_file(path, &status, layout, total_bytes)?;
            check_existing_file(path, &status, layout, total_bytes)?;
            check_room(path, layout, total_bytes, allocated_bytes(&status))?;
            direct::check(path, layout)?;
            Ok(StorageAtPath::File(path.to_owned()))
        }
        FileType::BlockDevice => {
            check_device(path, &status, layout, total_bytes)?;
            Ok(StorageAtPath::Device(path.to_owned()))
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

fn find_new_file(
    path: &Path,
    layout: &PlaceLayout,
    total_bytes: u64,
) -> Result<StorageAtPath, TargetError> {
    if layout.access != PlaceAccess::Create {
        return Err(TargetError::Missing { path: path.to_owned() });
    }
    device::check_existing(path)?;
    if layout.is_shared() {
        return Err(TargetError::SharedFile { path: path.to_owned(), need_bytes: total_bytes });
    }
    let directory = match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    // A path such as `missing/` is meant as a directory.
    let wants_directory = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    if wants_directory || !directory.is_dir() {
        let missing = if wants_directory { path } else { directory };
        return Err(TargetError::NoDirectory { path: missing.to_owned() });
    }
    check_writable(directory, layout)?;
    check_room(directory, layout, total_bytes, 0)?;
    direct::check(directory, layout)?;
    Ok(StorageAtPath::File(path.to_owned()))
}

fn find_directory(
    path: &Path,
    layout: &PlaceLayout,
    total_bytes: u64,
) -> Result<StorageAtPath, TargetError> {
    let files: Vec<PathBuf> = (0..layout.processes)
        .map(|process| place_file(path, layout.place_number(process)))
        .collect();
    let mut reusable_bytes = 0;
    for file in &files {
        match rustix::fs::stat(file) {
            Ok(status) => {
                check_existing_file(file, &status, layout, layout.place_bytes)?;
                reusable_bytes += allocated_bytes(&status);
            }
            Err(_) if layout.access == PlaceAccess::Create => {}
            Err(_) => return Err(TargetError::Missing { path: file.clone() }),
        }
    }
    check_writable(path, layout)?;
    check_room(path, layout, total_bytes, reusable_bytes)?;
    direct::check(path, layout)?;
    Ok(StorageAtPath::Directory(files))
}

/// Refuses a file that hosts share and that has not its whole size yet: the hosts cannot agree on
/// the one that makes it.
fn check_shared_file(
    path: &Path,
    status: &Stat,
    layout: &PlaceLayout,
    total_bytes: u64,
) -> Result<(), TargetError> {
    let have_bytes = u64::try_from(status.st_size).unwrap_or(0);
    if layout.is_shared() && have_bytes < total_bytes {
        return Err(TargetError::SharedFile { path: path.to_owned(), need_bytes: total_bytes });
    }
    Ok(())
}

/// Returns the path of a process's file in a directory.
fn place_file(directory: &Path, process: u32) -> PathBuf {
    directory.join(format!("gemelo-{process:04}.data"))
}

fn check_existing_file(
    path: &Path,
    status: &Stat,
    layout: &PlaceLayout,
    need_bytes: u64,
) -> Result<(), TargetError> {
    let kind = FileType::from_raw_mode(status.st_mode);
    if kind != FileType::RegularFile {
        return Err(TargetError::Kind { path: path.to_owned(), found: kind_name(kind) });
    }
    let have_bytes = u64::try_from(status.st_size).unwrap_or(0);
    if layout.access == PlaceAccess::Create && !layout.force {
        return Err(TargetError::Exists { path: path.to_owned() });
    }
    if layout.access != PlaceAccess::Create && have_bytes < need_bytes {
        return Err(TargetError::TooSmall { path: path.to_owned(), have_bytes, need_bytes });
    }
    check_writable(path, layout)?;
    if layout.access.writes() { device::check_file_unused(path, status) } else { Ok(()) }
}

fn check_device(
    path: &Path,
    status: &Stat,
    layout: &PlaceLayout,
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
    if layout.access == PlaceAccess::Create {
        device::check_overwritable(path, layout.force)?;
    }
    direct::check(path, layout)
}

/// Refuses a path that belongs to a pool, also with `force`, a block device that is in use, and,
/// unless `force` is set, one that holds data, as [`gemelo_disk::check_overwritable`] does.
///
/// # Errors
/// Fails if the device must not be overwritten, or if it cannot be examined.
pub fn check_overwritable(path: &Path, force: bool) -> Result<(), TargetError> {
    gemelo_disk::check_no_pool(path).map_err(TargetError::Device)?;
    device::check_overwritable(path, force)
}

fn check_writable(path: &Path, layout: &PlaceLayout) -> Result<(), TargetError> {
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
    layout: &PlaceLayout,
    need_bytes: u64,
    reusable_bytes: u64,
) -> Result<(), TargetError> {
    if layout.access != PlaceAccess::Create || !layout.preallocate {
        return Ok(());
    }
    let status = rustix::fs::statvfs(path).at("look at the file system of", path)?;
    let have_bytes = status.f_bavail.saturating_mul(status.f_frsize).saturating_add(reusable_bytes);
    if have_bytes < need_bytes {
        return Err(TargetError::TooSmall { path: path.to_owned(), have_bytes, need_bytes });
    }
    Ok(())
}
