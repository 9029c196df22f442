//! The layout of a job's places and the way it accesses them.

use crate::TargetError;
use serde::{Deserialize, Serialize};

/// The sizes that a job needs and the way it accesses storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceLayout {
    /// Number of processes. Each has a place of its own.
    pub processes: u32,
    /// Size of each place in bytes.
    pub place_bytes: u64,
    /// Size of a block in bytes.
    pub block_bytes: usize,
    /// `true` if reads and writes bypass the page cache (direct I/O).
    pub direct: bool,
    /// The way the job makes and accesses its places.
    pub access: PlaceAccess,
    /// `true` if the job may overwrite existing files, and block devices that hold data.
    pub force: bool,
    /// `true` if files get all their space before the run (`fallocate`). A full disk is then
    /// noticed at once, and a first write costs as much as a rewrite. Otherwise, and on file
    /// systems without `fallocate`, files start as one hole.
    pub preallocate: bool,
}

/// The way a job makes and accesses its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceAccess {
    /// The job makes its files. It refuses existing files and data unless [`PlaceLayout::force`] is
    /// set.
    Create,
    /// The places exist, are large enough, and are only read.
    Read,
    /// The places exist, are large enough, and are read and written.
    Update,
}

impl PlaceAccess {
    /// Returns whether the job writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// The content of the places before the job writes to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtStart {
    /// Zeros, because the files or the volume are new.
    Zeros,
    /// Unknown, because the storage existed before.
    Unknown,
}

impl PlaceLayout {
    /// Returns the size of all places together in bytes.
    ///
    /// # Errors
    /// Fails if the size is zero, or larger than a file can be.
    pub fn total_bytes(&self) -> Result<u64, TargetError> {
        let total = self.place_bytes.checked_mul(u64::from(self.processes));
        total
            .filter(|total| *total > 0 && i64::try_from(*total).is_ok())
            .ok_or(TargetError::Size { processes: self.processes, place_bytes: self.place_bytes })
    }
}
