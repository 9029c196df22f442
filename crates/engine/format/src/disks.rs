//! The names of the two disks of a pool.

use std::fmt;

/// One of a pool's two disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRole {
    /// The disk that holds the contents.
    Data,
    /// The disk that holds the metadata.
    Metadata,
}

impl fmt::Display for DiskRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data store",
            Self::Metadata => "metadata disk",
        })
    }
}
