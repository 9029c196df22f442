//! Checks of block devices and files as targets: their size and whether something else uses them.
//! The crate `gemelo-disk` finds the users of a device and the data on it, because a pool makes the
//! same checks for its disks.

use crate::TargetError;
use crate::error::AtPath;
use gemelo_disk::DiskError;
use rustix::fs::{FileType, Stat};
use std::path::Path;

/// Returns the size of a block device in bytes, and `None` if the path is not a block device.
pub(crate) fn size_bytes(path: &Path) -> Result<Option<u64>, TargetError> {
    let is_device =
        |status: &Stat| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice;
    if !rustix::fs::stat(path).is_ok_and(|status| is_device(&status)) {
        return Ok(None);
    }
    let device = std::fs::File::open(path).at("open", path)?;
    rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0)).at("measure", path).map(Some)
}

/// Refuses a block device that something else uses.
pub(crate) fn check_unused(path: &Path, status: &Stat) -> Result<(), TargetError> {
    gemelo_disk::check_unused(path, status).map_err(refused)
}

/// Refuses a file that something else uses: as swap space, behind a loop device, or as the disk of
/// an open pool.
pub(crate) fn check_file_unused(path: &Path, status: &Stat) -> Result<(), TargetError> {
    gemelo_disk::check_file_unused(path, status).map_err(refused)
}

/// Refuses a path below `/dev` that names no existing device. A file created there would fill
/// memory.
pub(crate) fn check_existing(path: &Path) -> Result<(), TargetError> {
    gemelo_disk::check_existing_device(path).map_err(refused)
}

/// Refuses a block device that is in use, and, unless `force` is set, one that holds data.
pub(crate) fn check_overwritable(path: &Path, force: bool) -> Result<(), TargetError> {
    gemelo_disk::check_overwritable(path, force).map_err(refused)
}

fn refused(error: DiskError) -> TargetError {
    match error {
        DiskError::DeviceInUse { path, by } => TargetError::InUse { path, by },
        DiskError::HoldsData { path, what } => TargetError::HoldsData { path, what },
        DiskError::File { action, path, source } => TargetError::Io { action, path, source },
        error => TargetError::Device(error),
    }
}
