//! From a name and a layout to a target: first everything is checked, then places are made.

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
    /// A process's place, for messages.
    fn place(&self, process: u32) -> String;

    /// Whether what was written can be read back.
    fn holds_data(&self) -> bool;

    /// What the places hold before anything is written.
    fn at_start(&self) -> AtStart;

    /// Opens a process's place, for the calling thread; more than one queue can be open on a place.
    ///
    /// # Errors
    /// If the place cannot be opened, or the engine is not available.
    fn open(&self, process: u32, options: &QueueOptions) -> Result<Box<dyn Queue>, TargetError>;

    /// How many queues may be open at once, on all places together.
    fn most_queues(&self) -> usize {
        usize::MAX
    }

    /// Has the storage do now what it does some time after it has acknowledged writes: an off-line volume looks for its
    /// duplicates. Figures taken afterwards are about all that was written.
    ///
    /// # Errors
    /// If that fails; what was written stays as it is.
    fn settle(&self, _monitor: &dyn Monitor, _stop: &StopFlag) -> Result<(), TargetError> {
        Ok(())
    }

    /// The pool that this process has open for the target, so that others can be told of it; `None`
    /// for all other storage.
    fn pool(&self) -> Option<OpenedPool> {
        None
    }

    /// What storage that deduplicates tells of itself; `None` for all other.
    fn pool_figures(&self) -> Option<PoolFigures> {
        None
    }

    /// Removes the files that were made for this target, unless they are to be kept. A target that is dropped without
    /// this removes them too. A pool is closed: all that was written is durable then.
    ///
    /// # Errors
    /// If a file cannot be removed, or a pool cannot be closed.
    fn finish(&mut self, keep: bool) -> Result<(), TargetError>;
}

/// A target that was checked and not yet touched.
#[derive(Debug)]
pub struct Plan {
    found: Checked,
    layout: Layout,
}

/// What a name turned out to be.
#[derive(Debug)]
enum Checked {
    Null,
    Storage(Found),
    Volume(FoundVolume),
    Export(FoundExport),
}

/// The size in bytes of storage that has one before anything is written to it: a block device, a volume, an export.
///
/// # Errors
/// If it cannot be measured.
pub fn capacity(uri: &TargetUri) -> Result<Option<u64>, TargetError> {
    match uri {
        TargetUri::Null => Ok(None),
        TargetUri::Path(path) => device::size_bytes(path),
        TargetUri::Pool(place) => pool::size_bytes(place).map(Some),
        TargetUri::Nbd(uri) => nbd::size_bytes(uri).map(Some),
    }
}

/// Checks that the storage can carry the layout. Nothing is touched.
///
/// # Errors
/// Everything that can be refused before a run is refused here: see [`TargetError`].
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
    /// Makes the places. What was made is removed again if this fails midway.
    ///
    /// # Errors
    /// If a file cannot be made, opened or given its size.
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
        _ => "of an unknown kind",
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
    // `missing/` looks like a folder to whoever wrote it.
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

/// The file of a process in a directory.
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

/// As [`gemelo_volume::disk::check_overwritable`].
///
/// # Errors
/// If it cannot be overwritten, or cannot be looked at.
pub fn check_overwritable(path: &Path, force: bool) -> Result<(), TargetError> {
    device::check_overwritable(path, force)
}

/// Bytes at the beginning of storage that nobody overwrites unasked unless they are zeros: file
/// systems, volume managers and partition tables all write to the first MiB.
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

/// Whether files that get their space at once will fit. Files that begin as holes may: how much storage takes that
/// compresses or deduplicates, nobody knows.
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
