//! The engine of all metadata: pages on disk, behind a cache of a fixed size.
//!
//! Changes gather in memory: those of counts and identities in a delta, those of a volume's map in
//! a layer. A checkpoint freezes both, and new ones begin to fill. The checkpoint merges them into
//! the pages on disk in the order of the keys, so each page is read, changed and written once. A
//! look-up asks what is in memory, the newest first, and then the pages. The pages on disk are
//! exactly the state of the last checkpoint.
//!
//! Three parts own the state: [`maps`] the volumes with their maps, [`records`] the counts and
//! identities of blocks, and [`index`] what leads from contents to blocks. Maps share pages and
//! layers ([`sharing`]), and volumes that were cloned from one another share references
//! ([`family`]). All others borrow the parts: a change is checked and what it needs is read
//! ([`validate`], [`read_ahead`]), and then it is made ([`apply`], [`unmap`]). A content is looked
//! up in index and records ([`find`]). One that is moved takes its references with it ([`moved`]).
//! A checkpoint freezes the parts ([`checkpoint`]) and is merged beside them ([`merge`]).

mod answers;
mod apply;
mod array;
mod btree;
mod by_pbn;
mod cache;
mod catch_up;
mod checkpoint;
mod compact;
mod compare;
mod count_pages;
mod counts;
mod delta;
mod family;
mod find;
mod held;
mod image;
mod index;
mod known;
mod layer;
mod layer_words;
mod layout;
mod load;
mod map;
mod maps;
mod marks;
mod merge;
mod merge_layer;
mod moved;
mod neighbours;
mod pages;
mod parents;
mod parted;
mod prove;
mod read_ahead;
mod record_pages;
mod records;
mod recount;
mod salvage;
mod sharing;
mod stale;
mod stored;
mod table;
mod unmap;
mod validate;

use super::registry::{BackendContext, NewMetadata, Registration};
use super::{CacheSize, estimate};
use btree::BTreeLayout;
use cache::FRAME_BYTES;
use compact::CompactLayout;
pub(super) use compact::bytes_of as compact_index_bytes;
use gemelo_base::locks::Mutex;
use gemelo_format::{Policy, PoolSeed, Slot};
pub use held::{HeldPages, MissingPages};
use index::ContentIndex;
use layout::Layout;
use load::load;
use maps::Maps;
use merge::Merged;
use neighbours::Neighbours;
use pages::Pages;
use records::{Records, StoredRecords};
use std::sync::Arc;
use table::TableLayout;
use unmap::CheckedLeave;

/// The policy `dtb`.
pub(super) const DTB: Registration = Registration {
    about: "Arrays and a hash table on disk, with a cache",
    empty: |home, new| Box::new(CachedBackend::<TableLayout>::new(Policy::Dtb, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(load::<TableLayout>(home, root, options, damage)?))
    },
};

/// The policy `cbt`.
pub(super) const CBT: Registration = Registration {
    about: "Arrays and a copy-on-write B-tree on disk, with a cache",
    empty: |home, new| Box::new(CachedBackend::<BTreeLayout>::new(Policy::Cbt, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(load::<BTreeLayout>(home, root, options, damage)?))
    },
};

/// The policy `compact`.
pub(super) const COMPACT: Registration = Registration {
    about: "Arrays on disk, with a cache, and an index of 5 bytes a block in memory",
    empty: |home, new| Box::new(CachedBackend::<CompactLayout>::new(Policy::Compact, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(load::<CompactLayout>(home, root, options, damage)?))
    },
};

/// The policy `inram`.
pub(super) const INRAM: Registration = Registration {
    about: "Everything in memory; a checkpoint writes all of it",
    empty: |home, new| Box::new(CachedBackend::<CompactLayout>::new(Policy::InRam, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(load::<CompactLayout>(home, root, options, damage)?))
    },
};

/// Shares of the configured memory: one half is for cached pages, an eighth each for the delta and
/// the frozen delta, a sixteenth for the neighbours of sampled contents. The rest is for a merge,
/// and for maps in memory while they grow.
const CACHE_SHARE: u64 = 2;
const DELTA_SHARE: u64 = 8;
const NEIGHBOURS_SHARE: u64 = 16;
/// Versions of a page in memory: that of the last checkpoint, and that of the one under way. Slots
/// that a checkpoint has left keep their pages until they are taken.
const VERSIONS: u64 = 2;
/// A change unmaps or copies at most one LBN for this many bytes of the delta's memory. Each LBN
/// takes far less, so a single change cannot fill the delta.
const PIECE_SHARE: u64 = 512;

/// Bytes of a cache that are for pages. An image has all of them in memory.
const fn page_share(policy: Policy, cache_bytes: u64) -> u64 {
    if policy.is_image() { u64::MAX } else { cache_bytes / CACHE_SHARE }
}

/// Bytes of a cache that a load of random writes uses, for so many pages: their old and new
/// versions as far as there is room, both deltas, and what a merge sorts, half as much as a delta.
/// An image has all pages in memory.
pub(super) fn used_cache_bytes(policy: Policy, cache_bytes: u64, pages: u64) -> u64 {
    let versions = pages.saturating_mul(VERSIONS * FRAME_BYTES as u64);
    let changes = cache_bytes / DELTA_SHARE;
    versions.min(page_share(policy, cache_bytes)) + 2 * changes + changes / 2
}

/// A backend that keeps its metadata on disk in the layout `L`.
pub(super) struct CachedBackend<L: Layout> {
    policy: Policy,
    pages: Arc<Pages>,
    maps: Maps,
    records: Records,
    index: ContentIndex<L>,
    /// The state that the checkpoint under way has written.
    merged: Arc<Mutex<Option<Merged<L::Index>>>>,
    /// The slots of the durable table, and of the table that the checkpoint under way has written.
    table: Vec<Slot>,
    sealed: Option<Vec<Slot>>,
    /// The size of the cache as it was asked for, and the bytes that it may take now.
    cache: CacheSize,
    cache_bytes: u64,
    /// What was computed for the change that was checked last.
    checked: Mutex<Option<CheckedLeave>>,
}

impl<L: Layout> CachedBackend<L> {
    /// Makes the backend of an empty pool.
    fn new(policy: Policy, home: &BackendContext<'_>, new: NewMetadata) -> Self {
        let NewMetadata { data_blocks, next_volume, cache } = new;
        let superblock = home.superblock;
        let cache_bytes = cache.bytes(0, estimate::full_pages(policy, data_blocks));
        let page_bytes = page_share(policy, cache_bytes);
        let pages = Arc::new(Pages::new(home, PoolSeed::of(superblock), page_bytes));
        let records = Records::new(&pages, superblock.store, data_blocks);
        let beside = Neighbours::new(cache_bytes / NEIGHBOURS_SHARE);
        Self {
            policy,
            maps: Maps::new(&pages, superblock, next_volume),
            index: ContentIndex::new(&pages, records.pbn_end(), home.sampling, beside),
            records,
            pages,
            merged: Arc::default(),
            table: Vec::new(),
            sealed: None,
            cache,
            cache_bytes,
            checked: Mutex::default(),
        }
    }

    /// Pages of the metadata when the pool is full.
    fn full_pages(&self) -> u64 {
        estimate::full_pages(self.policy, self.records.data_blocks)
    }

    const fn max_delta_bytes(&self) -> u64 {
        self.cache_bytes / DELTA_SHARE
    }

    /// Gives the cache the size that the metadata need by now.
    fn grow_cache(&mut self) {
        let bytes = self.cache.bytes(self.pages.in_use(), self.full_pages());
        if bytes > self.cache_bytes {
            self.cache_bytes = bytes;
            self.pages.grow_cache(page_share(self.policy, bytes));
            self.index.neighbours.get_mut().grow(bytes / NEIGHBOURS_SHARE);
        }
    }

    /// Takes the records and the index of a checkpoint.
    fn take_stored(&mut self, records: StoredRecords, index: L::Index) {
        self.records.stored = records;
        self.index.take(index);
        self.pages.note_fit();
        self.grow_cache();
    }
}
