//! The two disks of a pool, and the kind of store on one of them.

use crate::{BlockStore, OpenStore, Store};
use gemelo_disk::Disk;
use gemelo_format::Superblock;
use std::sync::Arc;

/// The two disks of a pool, and the kind of store that the data disk holds.
#[derive(Clone)]
pub struct PoolDisks {
    /// The disk that holds the contents.
    pub data: Arc<dyn Disk>,
    /// The disk that holds the metadata.
    pub metadata: Arc<dyn Disk>,
    open_store: OpenStore,
}

impl PoolDisks {
    /// Takes the disks of a pool whose contents are in a [`BlockStore`].
    #[must_use]
    pub fn new(data: Arc<dyn Disk>, metadata: Arc<dyn Disk>) -> Self {
        Self { data, metadata, open_store: BlockStore::open }
    }

    /// Returns the same disks, with the contents in another kind of store.
    #[must_use]
    pub fn with_store(self, open_store: OpenStore) -> Self {
        Self { open_store, ..self }
    }

    /// Returns the same data disk, with other metadata.
    #[must_use]
    pub fn with_metadata(self, metadata: Arc<dyn Disk>) -> Self {
        Self { metadata, ..self }
    }

    /// Opens the store of the pool with this superblock.
    #[must_use]
    pub fn store(&self, superblock: &Superblock) -> Arc<dyn Store> {
        (self.open_store)(Arc::clone(&self.data), superblock)
    }
}
