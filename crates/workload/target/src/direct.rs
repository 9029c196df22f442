//! Checks that sizes and paths allow direct I/O.

use crate::error::AtPath;
use crate::{PlaceLayout, TargetError};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::path::Path;

/// Sector size in bytes that is assumed if the device or file system reports none.
const MIN_SECTOR_BYTES: u64 = 512;

/// Refuses sizes that are not multiples of the sector size that direct I/O needs here. `path` is a
/// device, a file, or the directory in which files will be made.
pub(crate) fn check(path: &Path, layout: &PlaceLayout) -> Result<(), TargetError> {
    if !layout.direct {
        return Ok(());
    }
    let sector_bytes = sector_bytes(path)?;
    let sizes =
        [("the block size", layout.block_bytes as u64), ("the file size", layout.place_bytes)];
    for (what, bytes) in sizes {
        if bytes % sector_bytes != 0 {
            return Err(TargetError::Sector { what, bytes, sector_bytes, path: path.to_owned() });
        }
    }
    Ok(())
}

fn sector_bytes(path: &Path) -> Result<u64, TargetError> {
    let flags = if path.is_dir() {
        // An unnamed file has the same properties as the files of the job. It vanishes when it is
        // closed.
        OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT
    } else {
        OFlags::RDONLY | OFlags::DIRECT
    };
    let probe = match rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(probe) => probe,
        Err(Errno::INVAL) => return Err(TargetError::NoDirect { path: path.to_owned() }),
        // Not every file system has unnamed files. Opening the real files shows whether it has
        // direct I/O.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => return Ok(MIN_SECTOR_BYTES),
        Err(error) => return Err(error).at("open", path),
    };
    let said = rustix::fs::statx(&probe, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let said = said.map_or(0, |status| u64::from(status.stx_dio_offset_align));
    Ok(said.max(MIN_SECTOR_BYTES))
}

/// Returns whether the path can be written to.
pub(crate) fn is_writable(path: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    let permitted = rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    // A block device has its own read-only flag. The file system of its device node does not
    // matter.
    let is_device = rustix::fs::stat(path)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice);
    let mounted_read_only = !is_device
        && rustix::fs::statvfs(path)
            .is_ok_and(|status| status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    permitted && !mounted_read_only
}
