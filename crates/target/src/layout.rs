//! What a job asks of storage.

use crate::TargetError;
use serde::{Deserialize, Serialize};

/// What a job asks of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// How many processes, each with a place of its own.
    pub processes: u32,
    /// Bytes of each place.
    pub place_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// Whether blocks go past the page cache.
    pub direct: bool,
    /// Whether places are made or taken as they are.
    pub access: Access,
    /// Whether an existing file may be overwritten, and a block device that holds data.
    pub force: bool,
    /// Whether files get all their space before the run (`fallocate`), so that a full disk shows at once and a first
    /// write costs what a rewrite does; otherwise files begin as one hole. Where the file system cannot, they do too.
    pub preallocate: bool,
}

/// Whether places are made or taken as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Files are made; what is there is refused, or overwritten by force.
    Create,
    /// Places exist, are large enough, and are only read.
    Read,
    /// Places exist, are large enough, and are read and written, as a job after another one does.
    Update,
}

impl Access {
    /// Whether anything is written.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// What places hold before anything is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AtStart {
    /// Zeros: the files are fresh.
    Zeros,
    /// Nobody knows.
    Unknown,
}

impl Layout {
    /// Bytes of all places.
    ///
    /// # Errors
    /// If there are none, or more than a file can have.
    pub fn total_bytes(&self) -> Result<u64, TargetError> {
        let total = self.place_bytes.checked_mul(u64::from(self.processes));
        total
            .filter(|total| *total > 0 && i64::try_from(*total).is_ok())
            .ok_or(TargetError::Size { processes: self.processes, place_bytes: self.place_bytes })
    }
}
