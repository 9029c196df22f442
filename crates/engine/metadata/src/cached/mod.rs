//! The engine of all metadata: pages on disk, behind a cache of a fixed size.
//!
//! Changes gather in memory: those of counts and identities in a delta, those of a volume's map in
//! a layer. A checkpoint freezes both, and new ones begin to fill. The checkpoint merges them into
//! the pages on disk in the order of the keys, so each page is read, changed and written once. A
//! look-up asks what is in memory, the newest first, and then the pages. The pages on disk are
//! exactly the state of the last checkpoint.
//!
//! Maps share pages and layers ([`sharing`]), and volumes that were cloned from one another share
//! references ([`family`]).

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
mod known;
mod layer;
mod layer_words;
mod layout;
mod load;
mod map;
mod merge;
mod merge_layer;
mod neighbours;
mod pages;
mod parents;
mod parted;
mod prove;
mod prove_slots;
mod records;
mod salvage;
mod sharing;
mod stale;
mod stored;
mod table;
mod validate;

use super::registry::{BackendContext, NewMetadata, Registration};
use super::{CacheSize, IndexSampling, estimate};
use crate::error::{MetadataError, Result};
use btree::BTreeLayout;
use cache::FRAME_BYTES;
use catch_up::Unread;
use compact::CompactLayout;
pub(super) use compact::bytes_of as compact_index_bytes;
use counts::StoredCounts;
use delta::{Delta, SpareDelta};
use family::Place;
use gemelo_base::locks::Mutex;
use gemelo_format::{
    Lbn, Part, Policy, PoolSeed, Slot, StoreKind, StoreTable, StoreVolume, VolumeId, VolumeRecord,
    WordForm,
};
pub use held::{HeldPages, MissingPages};
use layer::LayerId;
use layer_words::Added;
use layout::{IndexState, Layout};
use map::{MapState, MapView, Words};
use merge::Merged;
use neighbours::Neighbours;
use pages::Pages;
use parents::Parents;
use sharing::CheckedLeave;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use stored::{Array, Reader};
use table::TableLayout;

/// The policy `dtb`.
pub(super) const DTB: Registration = Registration {
    about: "Arrays and a hash table on disk, with a cache",
    empty: |home, new| Box::new(CachedBackend::<TableLayout>::new(Policy::Dtb, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(CachedBackend::<TableLayout>::load(home, root, options, damage)?))
    },
};

/// The policy `cbt`.
pub(super) const CBT: Registration = Registration {
    about: "Arrays and a copy-on-write B-tree on disk, with a cache",
    empty: |home, new| Box::new(CachedBackend::<BTreeLayout>::new(Policy::Cbt, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(CachedBackend::<BTreeLayout>::load(home, root, options, damage)?))
    },
};

/// The policy `compact`.
pub(super) const COMPACT: Registration = Registration {
    about: "Arrays on disk, with a cache, and an index of 5 bytes a block in memory",
    empty: |home, new| Box::new(CachedBackend::<CompactLayout>::new(Policy::Compact, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(CachedBackend::<CompactLayout>::load(home, root, options, damage)?))
    },
};

/// The policy `inram`.
pub(super) const INRAM: Registration = Registration {
    about: "Everything in memory; a checkpoint writes all of it",
    empty: |home, new| Box::new(CachedBackend::<CompactLayout>::new(Policy::InRam, home, new)),
    load: |home, root, options, damage| {
        Ok(Box::new(CachedBackend::<CompactLayout>::load(home, root, options, damage)?))
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
/// Memory of a word in the table of its piece, the mean from one growth to the next, and that of a
/// piece of a layer.
const WORD_BYTES: u64 = 19;
const PIECE_BYTES: u64 = 90;
/// Memory of a mark or a cut in a layer, with its share of the nodes.
const MARK_BYTES: u64 = 40;
/// A change unmaps or copies at most one LBN for this many bytes of the delta's memory. Each LBN
/// takes far less, so a single change cannot fill the delta.
const PIECE_SHARE: u64 = 512;

struct CachedVolume {
    record: VolumeRecord,
    /// The number of LBNs that are not unmapped, and of those that have a block. While a volume is
    /// being removed, they may be too large.
    mapped: u64,
    stored: u64,
    map: MapState,
    place: Place,
}

impl CachedVolume {
    fn new(record: VolumeRecord, map: MapState) -> Self {
        Self { record, mapped: 0, stored: 0, map, place: Place::default() }
    }

    /// The volume as a checkpoint has it.
    fn frozen(&mut self) -> Self {
        self.map.seal();
        Self {
            record: self.record.clone(),
            mapped: self.mapped,
            stored: self.stored,
            map: self.map.share(),
            place: self.place,
        }
    }
}

/// The state on disk as of a checkpoint, without the maps.
#[derive(Clone)]
struct Version<I> {
    counts: Array,
    /// The counts for which `counts` has too few bits.
    many: Array,
    fingerprints: Array,
    index: I,
}

impl<I> Version<I> {
    /// The state of an empty pool.
    fn empty(index: I) -> Self {
        let [counts, many, fingerprints] = [(); 3].map(|()| Array::default());
        Self { counts, many, fingerprints, index }
    }
}

/// Changes of maps that no checkpoint has begun to write, counted.
#[derive(Debug, Clone, Copy, Default)]
struct Fresh {
    words: u64,
    /// Pieces and leaves of layers that have words.
    pieces: u64,
    leaves: u64,
    /// Pages directly above these leaves.
    directories: u64,
    cuts: u64,
    marks: u64,
    /// Layers that volumes share.
    shared_layers: u64,
    /// Leaves that a replay of the changes reads, at most.
    read_leaves: u64,
}

impl Fresh {
    /// Adds a word of a layer of a volume in this place.
    fn add(&mut self, added: Added, place: Place) {
        self.words += u64::from(added.word);
        self.pieces += u64::from(added.piece);
        self.leaves += u64::from(added.leaf);
        if added.leaf {
            self.read_leaf(place);
        }
    }

    /// Notes that a change reads a leaf of a volume in this place, and those of its neighbours.
    fn read_leaf(&mut self, Place { before, after, .. }: Place) {
        self.read_leaves += 1 + before.into_iter().chain(after).count() as u64;
    }

    const fn bytes(&self) -> u64 {
        self.words * WORD_BYTES + self.pieces * PIECE_BYTES + (self.cuts + self.marks) * MARK_BYTES
    }

    const fn and(self, other: Self) -> Self {
        Self {
            words: self.words + other.words,
            pieces: self.pieces + other.pieces,
            leaves: self.leaves + other.leaves,
            directories: self.directories + other.directories,
            cuts: self.cuts + other.cuts,
            marks: self.marks + other.marks,
            shared_layers: self.shared_layers + other.shared_layers,
            read_leaves: self.read_leaves + other.read_leaves,
        }
    }
}

/// The state that a checkpoint writes.
struct Frozen {
    delta: Delta,
    volumes: BTreeMap<VolumeId, CachedVolume>,
    /// The maps of removed volumes.
    removed: Vec<MapState>,
    fresh: Fresh,
    pbn_end: u64,
    /// Blocks with references.
    physical: u64,
    /// A key of each lost page, for trees that are no maps.
    lost: Vec<(Part, u64)>,
    /// `true` if all pages are written.
    is_image: bool,
    /// `true` if the index is written for the next opening.
    keeps_index: bool,
}

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
    block_bytes: u64,
    data_blocks: u64,
    store: StoreKind,
    words: WordForm,
    next_volume: u32,
    volumes: BTreeMap<VolumeId, CachedVolume>,
    references: u64,
    physical: u64,
    active: Delta,
    spare: SpareDelta,
    fresh: Fresh,
    next_layer: LayerId,
    parents: Parents,
    /// The maps of volumes that were removed. The next checkpoint retires their pages.
    removed: Vec<MapState>,
    frozen: Option<Arc<Frozen>>,
    version: Version<L::Index>,
    /// The state that the checkpoint under way has written.
    merged: Arc<Mutex<Option<Merged<L::Index>>>>,
    pages: Arc<Pages>,
    /// The size of the cache as it was asked for, and the bytes that it may take now.
    cache: CacheSize,
    cache_bytes: u64,
    /// The slots of the durable table, and of the table that the checkpoint under way has written.
    table: Vec<Slot>,
    sealed: Option<Vec<Slot>>,
    max_delta_bytes: u64,
    /// Off while the journal of a damaged pool is replayed: counts are computed at its end, because
    /// a replay past a lost commit may share blocks that nothing refers to, and use blocks twice.
    is_counting: bool,
    /// Keys whose pages were lost, for trees that are no maps. The next checkpoint replaces the
    /// pages. Only a salvaged pool has any.
    lost: Vec<(Part, Range<u64>)>,
    /// The records that the index in memory has not been told of.
    unread: Mutex<Unread>,
    /// The next checkpoint writes the index for the next opening.
    keeps_index: bool,
    /// The contents that the index has. Those beside them are in `neighbours`.
    sampling: IndexSampling,
    neighbours: Mutex<Neighbours>,
    /// What was computed for the change that was checked last.
    checked: Mutex<Option<CheckedLeave>>,
    layout: PhantomData<L>,
}

impl<L: Layout> CachedBackend<L> {
    /// A number above all PBNs of the data store.
    pub(super) const fn pbn_end(&self) -> u64 {
        self.store.pbn_end(self.data_blocks)
    }

    /// Makes the backend of an empty pool.
    fn new(policy: Policy, home: &BackendContext<'_>, new: NewMetadata) -> Self {
        let NewMetadata { data_blocks, next_volume, cache } = new;
        let (superblock, sampling) = (home.superblock, home.sampling);
        let seed = PoolSeed::of(superblock);
        let pbn_end = superblock.store.pbn_end(data_blocks);
        let full_pages = estimate::full_pages(policy, data_blocks);
        let cache_bytes = cache.bytes(0, full_pages);
        let page_bytes = page_share(policy, cache_bytes);
        Self {
            policy,
            block_bytes: u64::from(superblock.block_bytes),
            data_blocks,
            store: superblock.store,
            words: superblock.words,
            next_volume,
            volumes: BTreeMap::new(),
            references: 0,
            physical: 0,
            active: Delta::default(),
            spare: SpareDelta::default(),
            fresh: Fresh::default(),
            next_layer: LayerId(1),
            parents: Parents::default(),
            removed: Vec::new(),
            frozen: None,
            version: Version::empty(L::Index::empty(pbn_end, sampling)),
            merged: Arc::default(),
            pages: Arc::new(Pages::new(home, seed, page_bytes)),
            cache,
            cache_bytes,
            table: Vec::new(),
            sealed: None,
            max_delta_bytes: cache_bytes / DELTA_SHARE,
            is_counting: true,
            lost: Vec::new(),
            unread: Mutex::new(Unread::Nothing),
            keeps_index: false,
            sampling,
            neighbours: Mutex::new(Neighbours::new(cache_bytes / NEIGHBOURS_SHARE)),
            checked: Mutex::default(),
            layout: PhantomData,
        }
    }

    /// Pages of the metadata when the pool is full.
    fn full_pages(&self) -> u64 {
        estimate::full_pages(self.policy, self.data_blocks)
    }

    /// Gives the cache the size that the metadata need by now.
    fn grow_cache(&mut self) {
        let bytes = self.cache.bytes(self.pages.in_use(), self.full_pages());
        if bytes > self.cache_bytes {
            self.cache_bytes = bytes;
            self.pages.grow_cache(page_share(self.policy, bytes));
            self.max_delta_bytes = bytes / DELTA_SHARE;
            self.neighbours.get_mut().grow(bytes / NEIGHBOURS_SHARE);
        }
    }

    fn volume(&self, id: VolumeId) -> Result<&CachedVolume> {
        self.volumes.get(&id).ok_or_else(|| Self::unknown(id))
    }

    #[cold]
    fn unknown(id: VolumeId) -> MetadataError {
        MetadataError::damaged(format!("the metadata refer to volume {id}, which does not exist"))
    }

    fn frozen(&self) -> Option<&Delta> {
        self.frozen.as_ref().map(|frozen| &frozen.delta)
    }

    fn view<'m>(&'m self, map: &'m MapState) -> MapView<'m> {
        MapView { pages: &self.pages, map, form: self.words }
    }

    fn words(&self, id: VolumeId) -> Result<Words<'_>> {
        Ok(Words::new(self.view(&self.volume(id)?.map)))
    }

    fn stored_counts(&self) -> StoredCounts<'_> {
        StoredCounts::new(&self.pages, &self.version)
    }

    fn stored_fingerprints(&self) -> Reader<'_> {
        Reader::new(&self.pages, &self.version.fingerprints, Part::Fingerprints)
    }

    fn word(&self, id: VolumeId, lbn: Lbn) -> Result<u64> {
        self.words(id)?.get(lbn.0)
    }

    /// Returns the next LBN before `end` that is mapped.
    fn next_word(&self, id: VolumeId, from: Lbn, end: Lbn) -> Result<Option<Lbn>> {
        let view = self.view(&self.volume(id)?.map);
        Ok(map::next_mapped(view, from.0, end.0)?.map(Lbn))
    }

    /// The table of the checkpoint that was merged.
    fn table(&self) -> StoreTable {
        let (merged, frozen) = (self.merged.lock(), self.frozen.as_ref());
        let volumes = frozen.map_or(&self.volumes, |frozen| &frozen.volumes);
        let version = merged.as_ref().map_or(&self.version, |merged| &merged.version);
        let map = |id: &VolumeId| merged.as_ref().and_then(|merged| merged.maps.get(id)).copied();
        let volume = |(id, volume): (&VolumeId, &CachedVolume)| StoreVolume {
            record: volume.record.clone(),
            mapped: volume.mapped,
            stored: volume.stored,
            follows: volume.place.before,
            left: volume.place.left,
            map: map(id).unwrap_or(*volume.map.base),
        };
        let index = version.index.stored();
        StoreTable {
            volumes: volumes.iter().map(volume).collect(),
            counts: *version.counts,
            many: *version.many,
            fingerprints: *version.fingerprints,
            index: index.tree,
            buckets: index.buckets,
            index_entries: index.entries,
        }
    }
}
