//! A pool's directory: which files it has, and whose it is.

use super::{PoolDisks, PoolOptions};
use crate::disk::FileDisk;
use crate::error::{Result, VolumeError};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "lock";
const DATA: &str = "data";
const METADATA: &str = "metadata";
/// Bytes of the lock file that are read: a process id has fewer.
const MOST_HOLDER_BYTES: u64 = 32;

/// A pool's directory, which no other process has as long as this lives.
pub struct PoolDirectory {
    path: PathBuf,
    _lock: File,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> VolumeError {
    move |source| VolumeError::File { action, path: path.to_owned(), source }
}

impl PoolDirectory {
    /// Takes possession of a pool's directory.
    ///
    /// # Errors
    /// If another process has it, or it is not there.
    pub fn lock(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            let why = if path.exists() { "it is not a directory" } else { "there is no such directory" };
            return Err(VolumeError::NotAPool { why });
        }
        if !path.join(METADATA).exists() {
            return Err(VolumeError::NotAPool { why: "the directory has no metadata" });
        }
        Self::take(path)
    }

    fn take(path: &Path) -> Result<Self> {
        let name = path.join(LOCK);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&name)
            .map_err(failed("open", &name))?;
        if let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            if error != rustix::io::Errno::WOULDBLOCK {
                return Err(failed("lock", &name)(error.into()));
            }
            return Err(VolumeError::InUse { holder: holder(&mut lock) });
        }
        let write = |lock: &mut File| {
            lock.set_len(0)?;
            lock.rewind()?;
            writeln!(lock, "{}", std::process::id())
        };
        write(&mut lock).map_err(failed("write", &name))?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// Makes the directory and the files of a new pool, or links to where they are to be.
    pub(super) fn create(path: &Path, options: &PoolOptions) -> Result<Self> {
        options.check()?;
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed("make", path)(error));
            }
            _ => {}
        }
        for name in [METADATA, DATA] {
            let name = path.join(name);
            if name.symlink_metadata().is_ok() {
                return Err(VolumeError::Exists { path: name });
            }
        }
        let directory = Self::take(path)?;
        for (name, elsewhere) in [(DATA, &options.data), (METADATA, &options.metadata)] {
            let name = path.join(name);
            match elsewhere {
                None => drop(FileDisk::create(&name).map_err(failed("make", &name))?),
                Some(place) => link(place, &name)?,
            }
        }
        // The names have to be as durable as what is behind them.
        File::open(path).and_then(|folder| folder.sync_all()).map_err(failed("sync", path))?;
        Ok(directory)
    }

    /// The disks behind the names.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn open_disks(&self) -> Result<PoolDisks> {
        let open = |name: &str| {
            let name = self.path.join(name);
            FileDisk::open(&name).map_err(failed("open", &name)).map(Arc::new)
        };
        Ok(PoolDisks { data: open(DATA)?, metadata: open(METADATA)? })
    }
}

/// Makes a name for what is, or is to be, elsewhere. A file that is there and not empty is not touched.
fn link(place: &Path, name: &Path) -> Result<()> {
    match FileDisk::open(place) {
        Ok(_) => {
            let status = std::fs::metadata(place).map_err(failed("look at", place))?;
            if status.is_file() && status.len() > 0 {
                return Err(VolumeError::Exists { path: place.to_owned() });
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            drop(FileDisk::create(place).map_err(failed("make", place))?);
        }
        Err(error) => return Err(failed("open", place)(error)),
    }
    let place = std::fs::canonicalize(place).map_err(failed("look at", place))?;
    symlink(&place, name).map_err(failed("make", name))
}

/// Who says in the lock file that it has the pool.
fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    let read = lock.take(MOST_HOLDER_BYTES).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(process) if read.is_ok() => format!("process {process}"),
        _ => "another process".to_owned(),
    }
}
