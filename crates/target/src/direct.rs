//! What direct I/O asks of sizes and offsets.

use crate::error::AtPath;
use crate::{Layout, TargetError};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::path::Path;

/// The sector size of a device or file system that does not say.
const LEAST_SECTOR_BYTES: u64 = 512;

/// Refuses sizes that direct I/O on this path cannot have. The path is a device, a file, or the folder in which files
/// will be made.
pub(crate) fn check(path: &Path, layout: &Layout) -> Result<(), TargetError> {
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
        // An unnamed file shows what a file here can do, and is gone when it is closed.
        OFlags::TMPFILE | OFlags::RDWR | OFlags::DIRECT
    } else {
        OFlags::RDONLY | OFlags::DIRECT
    };
    let probe = match rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
        Ok(probe) => probe,
        Err(Errno::INVAL) => return Err(TargetError::NoDirect { path: path.to_owned() }),
        // Unnamed files are not for every file system: opening the real ones will tell.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => return Ok(LEAST_SECTOR_BYTES),
        Err(error) => return Err(error).at("open", path),
    };
    let said = rustix::fs::statx(&probe, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let said = said.map_or(0, |status| u64::from(status.stx_dio_offset_align));
    Ok(said.max(LEAST_SECTOR_BYTES))
}

/// Whether the path may be written.
pub(crate) fn is_writable(path: &Path) -> bool {
    let access = rustix::fs::Access::WRITE_OK;
    let permitted = rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    // A block device has its own flag, and may lie on a read-only file system.
    let is_device = rustix::fs::stat(path)
        .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::BlockDevice);
    let mounted_read_only = !is_device
        && rustix::fs::statvfs(path)
            .is_ok_and(|status| status.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY));
    permitted && !mounted_read_only
}
