//! The layout of a job's places and the way it accesses them.

use crate::TargetError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The sizes that a job needs and the way it accesses storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceLayout {
    /// Number of processes that use the target from here. Each has a place of its own.
    pub processes: u32,
    /// Places of the target that processes on other hosts use at the same time.
    pub others: OtherPlaces,
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

/// The places of a target that processes on other hosts use, by their number on each side of the
/// places of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OtherPlaces {
    /// Places before those of this host.
    pub before: u32,
    /// Places after those of this host.
    pub after: u32,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtStart {
    /// Zeros, because the files or the volume are new.
    Zeros,
    /// Unknown, because the storage existed before.
    Unknown,
}

impl PlaceLayout {
    /// Returns the number of all places, those of other hosts included.
    #[must_use]
    pub const fn all_places(&self) -> u32 {
        self.others.before.saturating_add(self.processes).saturating_add(self.others.after)
    }

    /// Returns whether other hosts use the target, too.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.all_places() > self.processes
    }

    /// Returns the number of a process's place in the whole target.
    #[must_use]
    pub const fn place_number(&self, process: u32) -> u32 {
        self.others.before.saturating_add(process)
    }

    /// Returns the first byte of a process's region in storage that all processes share.
    #[must_use]
    pub const fn first_byte(&self, process: u32) -> u64 {
        self.place_number(process) as u64 * self.place_bytes
    }

    /// Returns the size of all places together in bytes, those of other hosts included.
    ///
    /// # Errors
    /// Fails if the size is zero, or larger than a file can be.
    pub fn total_bytes(&self) -> Result<u64, TargetError> {
        self.bytes_of(self.all_places())
    }

    /// Returns the size of the places of this host together in bytes.
    ///
    /// # Errors
    /// Fails if the size is zero, or larger than a file can be.
    pub fn own_bytes(&self) -> Result<u64, TargetError> {
        self.bytes_of(self.processes)
    }

    fn bytes_of(&self, places: u32) -> Result<u64, TargetError> {
        let total = self.place_bytes.checked_mul(u64::from(places));
        total
            .filter(|total| *total > 0 && i64::try_from(*total).is_ok())
            .ok_or(TargetError::Size { processes: places, place_bytes: self.place_bytes })
    }
}
