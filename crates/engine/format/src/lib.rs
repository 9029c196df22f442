//! A pool on disk, as `docs/internals/format.md` specifies it: numbers, structs, checksums and
//! fingerprints.
//!
//! The engine and the checker both decode structs with this crate, and share no other code. Callers
//! decide when something is written.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod change;
mod codec;
mod commit;
mod counts;
mod disks;
mod each_policy;
mod error;
mod features;
mod fingerprint;
mod hash_many;
mod journal;
mod limits;
mod mark;
mod packed;
mod regions;
mod root;
mod store;
mod superblock;
mod table;
mod types;
mod volume;

pub use change::{BadChange, Change};
pub use commit::{
    COMMIT_HEADER_BYTES, Commit, CommitHeader, CommitOrder, NewCommit, append_freed, build_commit,
    freed_bytes,
};
pub use counts::{COUNT_PAGE_PBNS, CountAt, MANY, counted_pbns};
pub use disks::DiskRole;
pub use error::FormatError;
pub use features::Features;
pub use fingerprint::Fingerprinter;
pub use journal::{
    AtLoss, GivenUp, LastCommit, LostHistory, ReplayOptions, Replayed, ReplayedCommit,
    replay_journal,
};
pub use limits::{Holds, VolumeLimits};
pub use mark::{FlushMark, FlushMarks};
pub use packed::{
    Compression, MAX_PACKED_BLOCK_BYTES, PACKED_MAGIC, PACKED_TABLE_BYTES, PackedPlace,
    SLOT_HEAD_BYTES, SPANNING_SLOT, SlotHead, StoreKind, WHOLE_SLOT, slot_offset,
};
pub use regions::{COPIES, MAX_DAMAGED_BYTES, Reading, Regions, RingPiece, SlotPage, read_slot};
pub use root::{Root, RootSearch, find_roots};
pub use store::{
    BUCKET_ENTRIES, DIRECTORY_ENTRIES, MAX_LEVELS, NODE_REF_BYTES, Node, NodeRef, Part, StoreTable,
    StoreVolume, Tree, array_value, bucket_entries, bucket_of, bucket_page, index_entry,
    set_array_value,
};
pub use superblock::{
    DATA_MAGIC, SUPERBLOCK_MAGIC, Superblock, data_header, is_block_size, is_data_store,
    move_header_copy, read_superblock,
};
pub use table::{Chain, ReadChain, SlotWrite, build_chain, read_chain};
pub use types::{
    Checksum, DedupMode, Fingerprint, FingerprintKind, Identity, IndexForm, Lbn, MAX_NAME_BYTES,
    MAX_VOLUME_BLOCKS, MapEntry, Pbn, Policy, VolumeId, WordForm,
};
pub use volume::{Birth, Origin, Receiving, SnapshotId, VolumeRecord};

use twox_hash::XxHash3_64;

/// Bytes of a page, the unit of the metadata disk.
pub const PAGE_BYTES: usize = 4096;
/// Map entries of a map page: each is a word of 8 bytes.
pub const MAP_PAGE_ENTRIES: usize = PAGE_BYTES / 8;

/// Bound of generations and commit numbers in what is read. No pool exists long enough to reach it.
pub const LAST_NUMBER: u64 = 1 << 62;

/// A page of the metadata disk.
pub type Page = [u8; PAGE_BYTES];

/// The seed of all checksums of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSeed {
    seed: u64,
    /// The form of the words that have the checksums of contents.
    words: WordForm,
}

impl PoolSeed {
    /// Computes the seed of the pool with this superblock.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let mut bytes = [0; 48];
        let (id, key) = bytes.split_at_mut(16);
        id.copy_from_slice(&superblock.pool_id);
        key.copy_from_slice(&superblock.key);
        Self { seed: XxHash3_64::oneshot(&bytes), words: superblock.words }
    }

    /// Computes the checksum of these bytes.
    #[must_use]
    pub fn checksum(self, bytes: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_seed(self.seed, bytes)
    }

    /// Computes the checksum of a block's content, as the map stores it.
    #[inline]
    #[must_use]
    pub fn of_content(self, content: &[u8]) -> Checksum {
        Checksum(self.checksum(content) as u32 & self.words.checksum_mask())
    }
}

/// The number of a slot. The first is 1, and `None` is 0 on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(std::num::NonZeroU32);

impl Slot {
    /// Returns the slot of this number, unless it is 0.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        match std::num::NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number that pages have for this slot, which is never 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0.get()
    }
}
