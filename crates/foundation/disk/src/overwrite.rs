//! Checks that a path named by a user may be overwritten.

use crate::error::{DiskError, Result};
use crate::{signature, usage};
use rustix::fs::{FileType, SeekFrom};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Checks that a block device can be overwritten: it has no other use, and its ranges of labels are
/// blank or `force` is set. Other paths are left to the caller, except for a device that does not
/// exist.
///
/// # Errors
/// Fails if the device must not be overwritten, or cannot be read.
pub fn check_overwritable(path: &Path, force: bool) -> Result<()> {
    let Ok(status) = rustix::fs::stat(path) else { return check_existing_device(path) };
    if FileType::from_raw_mode(status.st_mode) != FileType::BlockDevice {
        return Ok(());
    }
    usage::check_unused(path, &status)?;
    if force {
        return Ok(());
    }
    let failed = |source| DiskError::File { action: "read", path: path.to_owned(), source };
    let found = File::open(path).and_then(|device| {
        let length = rustix::fs::seek(&device, SeekFrom::End(0))?;
        signature::found_on(&device, length)
    });
    match found.map_err(failed)? {
        Some(what) => Err(DiskError::HoldsData { path: path.to_owned(), what }),
        None => Ok(()),
    }
}

/// Refuses a path that can only be a misspelt device: it does not exist, and its directory is
/// `/dev` or below. A file made there would be in memory, and lost when the machine stops.
/// `/dev/shm` is meant for files.
///
/// # Errors
/// Fails if the path is such a one.
pub fn check_existing_device(path: &Path) -> Result<()> {
    // A link without a target does not exist either.
    let is_missing = rustix::fs::stat(path).is_err();
    let place = std::path::absolute(link_target(path)).unwrap_or_else(|_| path.to_owned());
    let directory = place.parent().unwrap_or(Path::new("/"));
    // The directory may be misspelt as well.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    if is_missing && directory.starts_with("/dev") && !directory.starts_with("/dev/shm") {
        return Err(DiskError::NoDevice { path: path.to_owned() });
    }
    Ok(())
}

/// The target of a link, which may not exist, or the path itself if it is not a link.
fn link_target(path: &Path) -> PathBuf {
    let target = std::fs::read_link(path).ok();
    let directory = path.parent().unwrap_or(Path::new("/"));
    target.map_or_else(|| path.to_owned(), |target| directory.join(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_device_is_told_from_a_file_to_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/no-such-disk", &link).unwrap();
        for path in [Path::new("/dev/no-such-disk"), Path::new("/dev/disk/by-id/no/such"), &link] {
            let refused = check_existing_device(path);
            assert!(matches!(refused, Err(DiskError::NoDevice { .. })), "{path:?}: {refused:?}");
            assert!(check_overwritable(path, true).is_err(), "{path:?}");
        }
        for path in [
            Path::new("/dev/shm/no-such-file"),
            &directory.path().join("file"),
            Path::new("/dev/null"),
        ] {
            check_overwritable(path, false).unwrap();
        }
    }
}
