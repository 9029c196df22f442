//! Small texts that a pool keeps beside its disks: in a file of its directory, or in a value of the
//! member.

use crate::failure::RequestFailure;
use gemelo_base::ShowPath as _;
use gemelo_place::{PlacedPool, PoolPlace};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// Permissions of the files: the owner's alone, as of all files of a pool.
const MODE: u32 = 0o600;

/// The place of a text.
pub(crate) enum KeptText {
    File(PathBuf),
    /// A value of the member, with its name.
    Value(PoolPlace, Weak<PlacedPool>, &'static str),
}

impl KeptText {
    pub(crate) fn new(place: &PoolPlace, placed: &Arc<PlacedPool>, name: &'static str) -> Self {
        match place.directory() {
            Some(directory) => Self::File(directory.join(name)),
            None => Self::Value(place.clone(), Arc::downgrade(placed), name),
        }
    }

    /// Reads the text. One that cannot be read, or has more than `most` bytes, is none.
    pub(crate) fn read(&self, most: u64) -> Option<String> {
        match self {
            Self::File(path) => {
                let is_small = fs::metadata(path).is_ok_and(|status| status.len() <= most);
                is_small.then(|| fs::read_to_string(path).ok()).flatten()
            }
            Self::Value(place, _, name) => place.read_text(name).ok()?.ok().flatten(),
        }
    }

    /// Writes the text. It is there as a whole, or as before.
    pub(crate) fn write(&self, text: &str) -> Result<(), RequestFailure> {
        match self {
            Self::File(path) => replace(path, text)
                .map_err(|error| RequestFailure::of(&path.shown().to_string(), &error)),
            Self::Value(_, placed, name) => {
                let Some(placed) = placed.upgrade() else { return Ok(()) };
                Ok(placed.write_value(name, text)?)
            }
        }
    }
}

fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut options = OpenOptions::new();
    let mut written = options.write(true).create(true).truncate(true).mode(MODE).open(&new)?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
