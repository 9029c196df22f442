//! The two disks of a pool.

use gemelo_disk::Disk;
use std::fmt;
use std::sync::Arc;

/// One of a pool's two disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskRole {
    /// The disk that holds the contents.
    Data,
    /// The disk that holds everything else.
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

/// The two disks of a pool.
#[derive(Clone)]
pub struct PoolDisks {
    /// The disk that holds the contents.
    pub data: Arc<dyn Disk>,
    /// The disk that holds everything else.
    pub metadata: Arc<dyn Disk>,
}
