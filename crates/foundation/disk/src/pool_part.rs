//! Recognises what belongs to a pool: its directory, the files in it, and its disks elsewhere.
//!
//! A load or a result that is written there by its path would damage the pool or measure something
//! else, so commands refuse these places, also with `--force`. Only the removal of a pool removes
//! them. The marks of the superblock and of the data store tell, also of a pool that is damaged.

use crate::error::{DiskError, Result};
use crate::signature::{DATA_MARK, FAR_POOL_MARK_BYTE, POOL_MARK};
use gemelo_base::ShowPath as _;
use gemelo_base::read_exact_at;
use rustix::fs::{FileType, Mode, OFlags};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Names of the disks in the directory of a pool.
const DISKS: [&str; 2] = ["metadata", "data"];

/// The part of a pool at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolPart {
    /// The directory of a pool.
    Directory,
    /// A file in the directory of this pool, or a name for a new one.
    FileIn(PathBuf),
    /// A file or device that is a disk of a pool.
    Disk,
}

impl fmt::Display for PoolPart {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory => formatter.write_str("the directory of a pool"),
            Self::FileIn(pool) => {
                write!(formatter, "in the directory of the pool '{}'", pool.shown())
            }
            Self::Disk => formatter.write_str("a disk of a pool"),
        }
    }
}

/// Returns the part of a pool that is at a path. Nothing need be there.
#[must_use]
pub fn pool_part(path: &Path) -> Option<PoolPart> {
    if has_mark(path) {
        return Some(PoolPart::Disk).map(|disk| in_directory(path).unwrap_or(disk));
    }
    if is_pool(path) { Some(PoolPart::Directory) } else { in_directory(path) }
}

/// Refuses a path that belongs to a pool.
///
/// # Errors
/// Fails if it does.
pub fn check_no_pool(path: &Path) -> Result<()> {
    match pool_part(path) {
        Some(part) => Err(DiskError::OfPool { path: path.to_owned(), part }),
        None => Ok(()),
    }
}

/// Refuses a directory that is or has the directory of a pool, at any depth, because all of it is
/// about to be removed. Links are not followed, and what cannot be read cannot be removed.
///
/// # Errors
/// Fails if there is a pool, and names the first one.
pub fn check_no_pool_below(directory: &Path) -> Result<()> {
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        if DISKS.iter().any(|name| has_mark(&next.join(name))) {
            return Err(DiskError::OfPool { path: next, part: PoolPart::Directory });
        }
        let entries = std::fs::read_dir(&next).into_iter().flatten().flatten();
        pending.extend(
            entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()),
        );
    }
    Ok(())
}

fn in_directory(path: &Path) -> Option<PoolPart> {
    // A link is in a pool if the file is to which it leads; a new file has directories only.
    let file = path.canonicalize().or_else(|_| std::path::absolute(path)).ok()?;
    let directories = file.ancestors().skip(1);
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    directories.map(real).find(|directory| is_pool(directory)).map(PoolPart::FileIn)
}

/// Returns whether a directory has files or links with the names of both disks, of which one has
/// its mark. One name alone may be the disk of a pool elsewhere.
fn is_pool(directory: &Path) -> bool {
    let disks = DISKS.map(|name| directory.join(name));
    disks.iter().all(|disk| disk.symlink_metadata().is_ok())
        && disks.iter().any(|disk| has_mark(disk))
}

/// Returns whether a file or block device begins with a mark of a pool, or has the far copy.
fn has_mark(path: &Path) -> bool {
    let is_disk = |kind| matches!(kind, FileType::RegularFile | FileType::BlockDevice);
    let kind = rustix::fs::stat(path).map(|status| FileType::from_raw_mode(status.st_mode));
    if !kind.is_ok_and(is_disk) {
        return false;
    }
    // A pipe that has taken the place of the file is not waited for.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()).map(File::from) else {
        return false;
    };
    let has = |offset, marks: &[&[u8]]| {
        let mut bytes = [0; POOL_MARK.len()];
        read_exact_at(&file, &mut bytes, offset).is_ok() && marks.contains(&bytes.as_slice())
    };
    has(0, &[POOL_MARK, DATA_MARK]) || has(FAR_POOL_MARK_BYTE, &[POOL_MARK])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, write};
    use std::os::unix::fs::{FileExt, symlink};

    #[test]
    fn the_parts_of_a_pool_are_told_from_other_files() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        let pool = root.join("pool");
        create_dir(&pool).unwrap();
        assert_eq!(pool_part(&pool), None);
        write(pool.join("metadata"), b"something else, longer than a mark").unwrap();
        assert_eq!(pool_part(&pool.join("new")), None);
        write(pool.join("metadata"), POOL_MARK).unwrap();
        assert_eq!(pool_part(&pool.join("metadata")), Some(PoolPart::Disk));
        assert_eq!(pool_part(&pool.join("new")), None, "the metadata of a pool elsewhere");
        write(pool.join("data"), b"damaged").unwrap();
        let within = Some(PoolPart::FileIn(pool.clone()));
        assert_eq!(pool_part(&pool), Some(PoolPart::Directory));
        for name in ["metadata", "data", "new", "new/below"] {
            assert_eq!(pool_part(&pool.join(name)), within, "{name}");
        }
        symlink(pool.join("metadata"), root.join("link")).unwrap();
        symlink(&pool, root.join("pool-link")).unwrap();
        assert_eq!(pool_part(&root.join("link")), within);
        assert_eq!(pool_part(&root.join("pool-link")), Some(PoolPart::Directory));
        assert_eq!(pool_part(&root.join("pool-link/web")), within);
        // A data store elsewhere, and metadata whose beginning is gone.
        write(root.join("blocks"), DATA_MARK).unwrap();
        let damaged = File::create(root.join("damaged")).unwrap();
        damaged.write_all_at(POOL_MARK, FAR_POOL_MARK_BYTE).unwrap();
        for name in ["blocks", "damaged"] {
            assert_eq!(pool_part(&root.join(name)), Some(PoolPart::Disk), "{name}");
        }
        assert_eq!(pool_part(&root.join("none")), None);
        assert_eq!(pool_part(&root.join("no/such/path")), None);
    }

    #[test]
    fn a_pool_is_found_at_any_depth() {
        let place = tempfile::tempdir().unwrap();
        let pool = place.path().join("a/b/pool");
        std::fs::create_dir_all(&pool).unwrap();
        check_no_pool_below(place.path()).unwrap();
        write(pool.join("data"), DATA_MARK).unwrap();
        let found = check_no_pool_below(place.path()).unwrap_err().to_string();
        assert!(found.ends_with("a/b/pool' is the directory of a pool"), "{found}");
    }
}
