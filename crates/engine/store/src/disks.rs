//! The two disks of a pool, the kind of store on one of them, and the veto of its blocks.

use crate::{BlockStore, Copies, FreeVeto, OpenStore, PackedStore, ReadCache, Store, VetoedStore};
use gemelo_disk::Disk;
use gemelo_format::{FormatError, StoreKind, Superblock, is_data_store, read_superblock};
use std::sync::Arc;

/// Returns the store of the kind that the superblock names, over the store of its blocks.
#[must_use]
pub fn store_of_kind(blocks: Arc<dyn Store>, superblock: &Superblock) -> Arc<dyn Store> {
    match superblock.store {
        StoreKind::Plain => blocks,
        StoreKind::Packed(_) => Arc::new(PackedStore::over(blocks, superblock)),
    }
}

/// The two disks of a pool, and the kind of store that the data disk holds.
#[derive(Clone)]
pub struct PoolDisks {
    /// The disk that holds the contents.
    pub data: Arc<dyn Disk>,
    /// The disk that holds the metadata.
    pub metadata: Arc<dyn Disk>,
    open_store: OpenStore,
    free_veto: Option<Arc<dyn FreeVeto>>,
    copies: Option<Arc<dyn Copies>>,
}

impl PoolDisks {
    /// Takes the disks of a pool whose contents are in a [`BlockStore`].
    #[must_use]
    pub fn new(data: Arc<dyn Disk>, metadata: Arc<dyn Disk>) -> Self {
        Self { data, metadata, open_store: BlockStore::open, free_veto: None, copies: None }
    }

    /// Returns the same disks, with the contents in another kind of store.
    #[must_use]
    pub fn with_store(self, open_store: OpenStore) -> Self {
        Self { open_store, ..self }
    }

    /// Returns the same disks of a pool that shares contents with others. The pool is used with its
    /// veto alone: without one, blocks that others use would be overwritten.
    #[must_use]
    pub fn with_free_veto(self, free_veto: Arc<dyn FreeVeto>) -> Self {
        Self { free_veto: Some(free_veto), ..self }
    }

    /// Returns the veto of the pool's blocks, if there is one.
    #[must_use]
    pub fn free_veto(&self) -> Option<Arc<dyn FreeVeto>> {
        self.free_veto.clone()
    }

    /// Returns the same disks of a pool whose damaged contents other pools may have as well.
    #[must_use]
    pub fn with_copies(self, copies: Arc<dyn Copies>) -> Self {
        Self { copies: Some(copies), ..self }
    }

    /// Returns the copies that other pools have, if there are such pools.
    #[must_use]
    pub fn copies(&self) -> Option<Arc<dyn Copies>> {
        self.copies.clone()
    }

    /// Reads the superblock, and adds descriptions of damaged copies to `damage`. Disks whose data
    /// store has a header are those of a damaged pool, and not of none.
    ///
    /// # Errors
    /// Fails as [`read_superblock`] does, or if the pool has lost all copies of its superblock.
    pub fn read_superblock(&self, damage: &mut Vec<String>) -> Result<Superblock, FormatError> {
        match read_superblock(&*self.metadata, damage) {
            Err(FormatError::NotAPool { .. } | FormatError::Damaged { .. })
                if is_data_store(&*self.data) =>
            {
                Err(FormatError::LostHeads {
                    what: "no copy of the superblock is whole, but the data store is that of a \
                           pool: restore both from a backup",
                })
            }
            other => other,
        }
    }

    /// Opens the store of the pool with this superblock.
    #[must_use]
    pub fn store(&self, superblock: &Superblock) -> Arc<dyn Store> {
        let medium = store_of_kind(self.blocks(superblock), superblock);
        self.under_veto(Arc::clone(&medium), medium, (superblock, None))
    }

    /// Opens the store of the blocks that [`Self::store`] lays contents out in.
    #[must_use]
    pub fn blocks(&self, superblock: &Superblock) -> Arc<dyn Store> {
        (self.open_store)(Arc::clone(&self.data), superblock)
    }

    /// Returns the store of contents over a buffer of these disks' blocks, with a cache of contents
    /// that lie elsewhere.
    #[must_use]
    pub fn store_over(
        &self,
        buffer: Arc<dyn Store>,
        superblock: &Superblock,
        cache: Option<Arc<ReadCache>>,
    ) -> Arc<dyn Store> {
        let medium = store_of_kind(self.blocks(superblock), superblock);
        self.under_veto(store_of_kind(buffer, superblock), medium, (superblock, cache))
    }

    fn under_veto(
        &self,
        store: Arc<dyn Store>,
        medium: Arc<dyn Store>,
        (superblock, cache): (&Superblock, Option<Arc<ReadCache>>),
    ) -> Arc<dyn Store> {
        match &self.free_veto {
            Some(free_veto) => {
                let kind = superblock.store;
                free_veto.store_over(VetoedStore { store, medium, kind, cache })
            }
            None => store,
        }
    }
}
