//! Objects in files: the bytes of an object are one file of a directory, and its keys another one,
//! which each change of them replaces. A later [`super::World`] over the directory has them again;
//! locks and fences are in memory, and end with the world.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BYTES: &str = ".bytes";
const KEYS: &str = ".keys";
/// The file that counts the worlds over a directory, so that no two clients have one name.
const WORLDS: &str = "worlds";

pub(super) type Keys = BTreeMap<String, Vec<u8>>;

/// The directory of a store.
#[derive(Debug, Clone)]
pub(super) struct Directory(PathBuf);

/// The bytes of an object.
#[derive(Debug)]
pub(super) enum Bytes {
    Memory(Vec<u8>),
    File(File),
}

impl Directory {
    /// Opens a directory, and returns which world over it this is.
    pub(super) fn open(path: &Path) -> io::Result<(Self, u64)> {
        fs::create_dir_all(path)?;
        let counter = path.join(WORLDS);
        let before = match fs::read_to_string(&counter) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            text => text?.trim().parse().map_err(io::Error::other)?,
        };
        fs::write(counter, format!("{}\n", before + 1))?;
        Ok((Self(path.to_owned()), before + 1))
    }

    /// Returns the names of the objects.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name()));
        let names = names.collect::<io::Result<Vec<_>>>()?;
        let object = |name: &std::ffi::OsString| Some(name.to_str()?.strip_suffix(BYTES)?.into());
        Ok(names.iter().filter_map(object).collect())
    }

    /// Opens the bytes of an object, which are created if there are none.
    pub(super) fn bytes(&self, object: &str) -> io::Result<Bytes> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options.open(self.path(object, BYTES)).map(Bytes::File)
    }

    pub(super) fn keys(&self, object: &str) -> io::Result<Keys> {
        match fs::read(self.path(object, KEYS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Keys::new()),
            bytes => decode(&bytes?).ok_or_else(|| io::ErrorKind::InvalidData.into()),
        }
    }

    pub(super) fn write_keys(&self, object: &str, keys: &Keys) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (key, value) in keys {
            for part in [key.as_bytes(), value] {
                bytes.extend((part.len() as u64).to_le_bytes());
                bytes.extend(part);
            }
        }
        fs::write(self.path(object, KEYS), bytes)
    }

    pub(super) fn remove(&self, object: &str) -> io::Result<()> {
        fs::remove_file(self.path(object, BYTES))?;
        match fs::remove_file(self.path(object, KEYS)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn path(&self, object: &str, what: &str) -> PathBuf {
        self.0.join(format!("{object}{what}"))
    }
}

/// Reads keys and values, each a length of 8 bytes and the bytes.
fn decode(bytes: &[u8]) -> Option<Keys> {
    let (mut keys, mut rest) = (Keys::new(), bytes);
    let mut part = || {
        let (length, others) = rest.split_first_chunk::<8>()?;
        let (part, others) = others.split_at_checked(u64::from_le_bytes(*length) as usize)?;
        rest = others;
        Some(part.to_vec())
    };
    while let Some(key) = part() {
        keys.insert(String::from_utf8(key).ok()?, part()?);
    }
    rest.is_empty().then_some(keys)
}

impl Bytes {
    pub(super) fn len(&self) -> io::Result<u64> {
        match self {
            Self::Memory(bytes) => Ok(bytes.len() as u64),
            Self::File(file) => Ok(file.metadata()?.len()),
        }
    }

    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let begin = offset.min(self.len()?);
        let length = (length as u64).min(self.len()? - begin) as usize;
        match self {
            Self::Memory(bytes) => {
                let begin = begin as usize;
                Ok(bytes.get(begin..begin + length).unwrap_or_default().to_vec())
            }
            Self::File(file) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, begin).map(|()| bytes)
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, new: &[u8]) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => {
                let begin = offset as usize;
                let end = begin + new.len();
                bytes.resize(bytes.len().max(end), 0);
                if let Some(range) = bytes.get_mut(begin..end) {
                    range.copy_from_slice(new);
                }
                Ok(())
            }
            Self::File(file) => file.write_all_at(new, offset),
        }
    }

    pub(super) fn set_len(&mut self, length: u64) -> io::Result<()> {
        match self {
            Self::Memory(bytes) => {
                bytes.resize(length as usize, 0);
                Ok(())
            }
            Self::File(file) => file.set_len(length),
        }
    }

    /// Makes a range read as zeros, up to the end.
    pub(super) fn zero(&mut self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.saturating_add(length).min(self.len()?);
        match end.checked_sub(offset) {
            Some(length) => self.write(offset, &vec![0; length as usize]),
            None => Ok(()),
        }
    }
}
