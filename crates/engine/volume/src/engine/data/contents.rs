//! The store of a pool, with the buffer that a pool has which takes changes.

use gemelo_store::{Store, WriteBuffer};
use std::sync::Arc;

/// The store through which contents are read and written.
pub(crate) enum ContentStore {
    /// The store itself, of a pool that takes no changes.
    Plain(Arc<dyn Store>),
    /// A buffer over the store.
    Buffered(WriteBuffer),
}

impl ContentStore {
    pub(super) fn store(&self) -> &dyn Store {
        match self {
            Self::Plain(store) => &**store,
            Self::Buffered(buffer) => buffer,
        }
    }
}
