//! The identity of a file or directory, as proof that the thing at a path is the one that was made
//! there.
//!
//! A path is no proof, because another thing may have it by now, and neither is an inode, because
//! file systems use its number again at once. The time of birth tells two users of one inode apart.

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// The identity of a file, a directory or a socket.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct FileIdentity {
    /// Major and minor number of the device of the file system.
    device: (u32, u32),
    inode: u64,
    /// Seconds and nanoseconds of the birth, if the file system knows them.
    birth: Option<(i64, u32)>,
}

impl FileIdentity {
    /// Returns the identity of the thing at a path. A link is not followed.
    ///
    /// # Errors
    /// Fails if nothing is there, or if the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::ask(CWD, path, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Returns the identity of an open file.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        Self::ask(file, Path::new(""), AtFlags::EMPTY_PATH)
    }

    fn ask(from: impl AsFd, path: &Path, flags: AtFlags) -> io::Result<Self> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        Ok(Self::from_status(&statx(from, path, flags, wanted)?))
    }

    fn from_status(status: &Statx) -> Self {
        let has_birth = status.stx_mask & StatxFlags::BTIME.bits() != 0;
        let birth = (status.stx_btime.tv_sec, status.stx_btime.tv_nsec);
        Self {
            device: (status.stx_dev_major, status.stx_dev_minor),
            inode: status.stx_ino,
            birth: has_birth.then_some(birth),
        }
    }

    /// Returns whether this thing is at the path now.
    #[must_use]
    pub fn is_at(&self, path: &Path) -> bool {
        Self::at(path).is_ok_and(|found| found == *self)
    }

    /// Returns the device of the file system and the inode, as `losetup` lists them.
    #[must_use]
    pub const fn device_and_inode(&self) -> ((u32, u32), u64) {
        (self.device, self.inode)
    }
}

/// The numbers of some devices change at a restart of the system, so births decide where both are
/// known.
impl PartialEq for FileIdentity {
    fn eq(&self, other: &Self) -> bool {
        let is_same_birth = match (self.birth, other.birth) {
            (Some(one), Some(two)) => one == two,
            (None, None) => self.device == other.device,
            _ => false,
        };
        self.inode == other.inode && is_same_birth
    }
}

impl Eq for FileIdentity {}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: FileIdentity =
        FileIdentity { device: (8, 1), inode: 12, birth: Some((1_000, 5)) };

    #[test]
    fn a_thing_keeps_its_identity_and_another_at_its_path_has_another() {
        let place = tempfile::tempdir().unwrap();
        let (path, moved) = (place.path().join("made"), place.path().join("moved"));
        std::fs::create_dir(&path).unwrap();
        let made = FileIdentity::at(&path).unwrap();
        assert!(made.is_at(&path));
        assert_eq!(FileIdentity::of(std::fs::File::open(&path).unwrap()).unwrap(), made);
        std::fs::rename(&path, &moved).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(made.is_at(&moved) && !made.is_at(&path));
        std::os::unix::fs::symlink(&moved, place.path().join("link")).unwrap();
        assert!(!made.is_at(&place.path().join("link")), "a link is another thing");
    }

    #[test]
    fn an_inode_that_is_used_again_is_another_thing() {
        let later = FileIdentity { birth: Some((1_000, 6)), ..DIRECTORY };
        assert_ne!(DIRECTORY, later);
        assert_ne!(DIRECTORY, FileIdentity { inode: 13, ..DIRECTORY });
        assert_ne!(DIRECTORY, FileIdentity { birth: None, ..DIRECTORY });
        let other_number = FileIdentity { device: (8, 2), ..DIRECTORY };
        assert_eq!(DIRECTORY, other_number, "numbers of devices change at a restart");
        let unknown = FileIdentity { birth: None, ..DIRECTORY };
        assert_ne!(unknown, FileIdentity { device: (8, 2), ..unknown });
    }
}
