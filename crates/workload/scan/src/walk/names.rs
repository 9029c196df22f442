//! The names of files, in one allocation for those of a directory.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File names in one directory, or a single path.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(super) directory: Option<Arc<Path>>,
    pub(super) bytes: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn push(&mut self, name: &CStr) {
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        self.ends.push(self.bytes.len());
    }

    pub(crate) fn get(&self, index: usize) -> Option<&CStr> {
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        CStr::from_bytes_with_nul(self.bytes.get(start..*self.ends.get(index)?)?).ok()
    }

    /// Returns the whole path of a name.
    pub(crate) fn path(&self, index: usize) -> PathBuf {
        let name =
            self.get(index).map_or(OsStr::new(""), |name| OsStr::from_bytes(name.to_bytes()));
        self.directory
            .as_ref()
            .map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
    }
}
