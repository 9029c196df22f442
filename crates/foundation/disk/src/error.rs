//! Errors of files and block devices: the kind, and the path.

use crate::pool_part::PoolPart;
use gemelo_base::{Classified, Remedy, ShowPath as _, text_of_name};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why a file or block device is refused, or cannot be used.
#[derive(Debug, Error, Classified)]
pub enum DiskError {
    /// A system call failed.
    #[kind(source)]
    #[error("cannot {action} '{path}'", path = path.shown())]
    File {
        /// The attempted action, as a verb.
        action: &'static str,
        /// The file or device.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The path of a new file is taken.
    #[kind(BadInput)]
    #[error("'{path}' exists already", path = path.shown())]
    Exists {
        /// The path at which something exists already.
        path: PathBuf,
    },
    /// Another process has locked the file or device.
    #[kind(InUse)]
    #[error("'{path}' is in use by {holder}", path = path.shown())]
    Locked {
        /// The file or device.
        path: PathBuf,
        /// "process 123 (gemelo)", or "another process" if the system does not tell.
        holder: String,
    },
    /// Something else uses the device or file, such as a mount.
    #[kind(InUse)]
    #[error("'{path}' is in use: {by}", path = path.shown())]
    DeviceInUse {
        /// The device or file.
        path: PathBuf,
        /// The use, such as "mounted at /mnt".
        by: String,
    },
    /// The device holds data, which would be overwritten.
    #[kind(BadInput, remedy = Overwrite)]
    #[error("'{path}' holds {what}", path = path.shown())]
    HoldsData {
        /// The path of the device.
        path: PathBuf,
        /// The kind of data, such as "an XFS file system", or just "data".
        what: String,
    },
    /// The path belongs to a pool, which nothing but the pool may write.
    #[kind(BadInput, remedy = target_volume)]
    #[error("'{path}' is {part}", path = path.shown())]
    OfPool {
        /// The path that was to be written.
        path: PathBuf,
        /// The part of the pool that is there.
        part: PoolPart,
    },
    /// The path is below `/dev`, and no device is there.
    #[kind(BadInput)]
    #[error(
        "there is no device '{path}': files are not made in /dev, where they would be in memory", path = path.shown())]
    NoDevice {
        /// The path that was to be opened.
        path: PathBuf,
    },
    /// The path is neither a file nor a block device.
    #[kind(BadInput)]
    #[error("'{path}' is {found}: name a file or a block device", path = path.shown())]
    NoDisk {
        /// The path that was to be opened.
        path: PathBuf,
        /// The kind of file at the path.
        found: &'static str,
    },
}

impl DiskError {
    /// Returns the volume that was meant: a path in the directory of a pool is often a target
    /// without `pool:`.
    fn target_volume(&self) -> Option<Remedy> {
        let Self::OfPool { path, part } = self else { return None };
        let name = path.file_name().filter(|_| !path.exists()).map(text_of_name);
        let (pool, volume) = match (part, path.parent()) {
            (PoolPart::Directory, _) => (Some(path.as_path()), None),
            (PoolPart::FileIn(real), Some(pool))
                if !path.is_symlink()
                    && std::fs::canonicalize(Path::new(".").join(pool))
                        .is_ok_and(|pool| pool == *real) =>
            {
                let is_here = pool.as_os_str().is_empty();
                (Some(if is_here { Path::new(".") } else { pool }), name)
            }
            (PoolPart::FileIn(pool), _) => (Some(pool.as_path()), None),
            (PoolPart::Disk, _) => (None, None),
        };
        Some(Remedy::TargetVolume { pool: pool.map(|pool| pool.shown().to_string()), volume })
    }
}

/// The result of most functions of this crate.
pub(crate) type Result<T> = std::result::Result<T, DiskError>;
