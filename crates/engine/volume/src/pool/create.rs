//! Makes a pool on two empty disks.

use crate::engine::MIN_RESERVE_SLOTS;
use crate::error::{Result, VolumeError};
use gemelo_base::units::format_exact_size;
use gemelo_disk::DiskError;
use gemelo_format::{
    COPIES, Compression, DiskRole, FingerprintKind, FlushMark, FlushMarks, MAX_PACKED_BLOCK_BYTES,
    PAGE_BYTES, Page, Pbn, Policy, PoolSeed, Regions, Root, SlotWrite, StoreKind, Superblock,
    WordForm, is_block_size,
};
use gemelo_metadata::{
    BackendContext, CacheSize, IndexSampling, Needs, NewMetadata, PlannedPool, Sealed,
};
use gemelo_store::PoolDisks;
use std::path::PathBuf;
use std::sync::Arc;

/// The shortest journal: room for a few commits.
const MIN_JOURNAL_BYTES: u64 = 64 << 10;
/// The longest journal by default. It holds some 5 million writes between two checkpoints.
const MAX_JOURNAL_BYTES: u64 = 128 << 20;
/// The longest journal that an option may give.
const MAX_GIVEN_JOURNAL_BYTES: u64 = 64 << 30;
/// The fewest blocks of a data store: its header and one content.
const MIN_DATA_BLOCKS: u64 = 2;
/// The default journal has this share of the data store's size: 0.4 %.
const DATA_PER_JOURNAL: u64 = 256;
/// Bytes of zeros per write.
const ZEROS: usize = 1 << 20;

/// The options of a new pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Bytes of a block: a power of two from 512 to 1 MiB.
    pub block_bytes: u32,
    /// Size of the data store in bytes. A file is sparse; a device must be at least this large.
    pub capacity_bytes: u64,
    /// The size in bytes to which the data store may be grown; by default that of a pool without
    /// room for 2^32 blocks, or its capacity. A pool with room for more needs an
    /// index in memory, and its maps have checksums of 28 bits.
    pub max_capacity_bytes: Option<u64>,
    /// The hash of a content that is its fingerprint.
    pub fingerprint: FingerprintKind,
    /// The policy of the metadata.
    pub policy: Policy,
    /// Length of the journal in bytes; by default it follows from the capacity.
    pub journal_bytes: Option<u64>,
    /// Path of the data store, if it is outside of the pool's directory.
    pub data: Option<PathBuf>,
    /// Path of the metadata, if it is outside of the pool's directory.
    pub metadata: Option<PathBuf>,
    /// `true` to use a device even if it holds data.
    pub force: bool,
    /// The algorithm that compresses contents; `None` for a store that cannot compress any.
    pub compression: Option<Compression>,
    /// The key of the fingerprints; a random one by default.
    pub key: Option<[u8; 32]>,
}

/// A pool whose data store is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullPool {
    /// Contents that are stored.
    pub stored_blocks: u64,
    /// LBNs that refer to them.
    pub mapped_blocks: u64,
    /// The memory and the space on disk that the metadata need.
    pub needs: Needs,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            capacity_bytes: 64 << 30,
            max_capacity_bytes: None,
            fingerprint: FingerprintKind::Blake3,
            policy: Policy::Compact,
            journal_bytes: None,
            data: None,
            metadata: None,
            force: false,
            compression: None,
            key: None,
        }
    }
}

/// The block of the header and that of its copy.
const RESERVED_BLOCKS: u64 = 2;
/// Bytes of memory for 64 blocks in the maps of free and of freed blocks, where used blocks are
/// among them.
const FREE_BYTES: u64 = 17;

impl PoolOptions {
    pub(super) fn check(&self) -> Result<()> {
        let bad = |what, rule| Err(VolumeError::BadOption { what, rule });
        if !is_block_size(self.block_bytes) {
            return bad(
                format!("block size {}", format_exact_size(self.block_bytes.into())),
                "give a power of two from 512 bytes to 1 MiB".to_owned(),
            );
        }
        if self.compression.is_some() && self.block_bytes > MAX_PACKED_BLOCK_BYTES {
            return bad(
                format!("compression of blocks of {}", format_exact_size(self.block_bytes.into())),
                "give blocks of at most 64 KiB".to_owned(),
            );
        }
        if let Some(most) = self.max_capacity_bytes
            && most < self.capacity_bytes
        {
            let [what, rule] = [most, self.capacity_bytes].map(format_exact_size);
            return bad(
                format!("largest capacity {what}"),
                format!("give at least the capacity, {rule}"),
            );
        }
        let bytes = self.max_capacity_bytes.unwrap_or(self.capacity_bytes);
        let is_too_large = bytes / u64::from(self.block_bytes) > self.max_blocks();
        if self.data_blocks() < MIN_DATA_BLOCKS || is_too_large {
            let bytes = if is_too_large { bytes } else { self.capacity_bytes };
            return bad(format!("capacity {}", format_exact_size(bytes)), self.limit());
        }
        if let Some(bytes) = self.journal_bytes
            && !(MIN_JOURNAL_BYTES..=MAX_GIVEN_JOURNAL_BYTES).contains(&bytes)
        {
            return bad(
                format!("journal size {}", format_exact_size(bytes)),
                "give 64 KiB to 64 GiB".to_owned(),
            );
        }
        Ok(())
    }

    /// The limit that the capacity exceeds. It follows from the block size.
    fn limit(&self) -> String {
        let size = |blocks| format_exact_size(blocks * u64::from(self.block_bytes));
        if self.data_blocks() < MIN_DATA_BLOCKS {
            return format!(
                "a pool of {} blocks needs at least {}",
                size(1),
                size(MIN_DATA_BLOCKS)
            );
        }
        let of_compact = Self { policy: Policy::Compact, ..self.clone() }.max_blocks();
        let way_out = match self.max_blocks() < of_compact {
            true => "larger blocks, or the policy compact, allow more",
            false => "larger blocks allow more",
        };
        let most = size(self.max_blocks());
        format!("such a pool of {} blocks holds {most} at most; {way_out}", size(1))
    }

    /// The most blocks of a data store with this policy.
    fn max_blocks(&self) -> u64 {
        let forms = [WordForm::Narrow, WordForm::Wide].into_iter();
        let possible = forms.filter(|words| self.policy.has_words(*words));
        possible.map(|words| self.store().max_blocks(words)).max().unwrap_or(0)
    }

    /// Returns whether PBNs may have more than 32 bits.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.words() == WordForm::Wide
    }

    /// The form of the words of maps, which follows from the size that the pool may get.
    pub(super) fn words(&self) -> WordForm {
        let bytes = self.max_capacity_bytes.unwrap_or(self.capacity_bytes);
        match bytes / u64::from(self.block_bytes) > self.store().max_blocks(WordForm::Narrow) {
            true => WordForm::Wide,
            false => WordForm::Narrow,
        }
    }

    /// The least size of a device: that of the data store, or of the metadata of a new pool.
    pub(super) fn min_bytes(&self, is_data: bool) -> u64 {
        if is_data {
            self.data_blocks() * u64::from(self.block_bytes)
        } else {
            Regions::new(self.ring_pages()).fixed_bytes()
        }
    }

    /// Estimates the memory and the space that the metadata of such a pool need when it is full,
    /// with the journal and the map of free blocks. Each stored content has `dedup_ratio`
    /// references on average, the cache has this size, and an index in memory has this
    /// sample.
    ///
    /// # Errors
    /// Fails if an option is out of range.
    pub fn needs(
        &self,
        dedup_ratio: f64,
        (cache, sampling): (CacheSize, IndexSampling),
    ) -> Result<FullPool> {
        self.check()?;
        let data_blocks = self.data_blocks();
        let stored_blocks = data_blocks - RESERVED_BLOCKS;
        let mapped_blocks = (stored_blocks as f64 * dedup_ratio) as u64;
        let pool = PlannedPool {
            data_blocks: self.store().pbn_end(data_blocks),
            used_blocks: stored_blocks,
            mapped_blocks,
            cache,
            sampling,
        };
        let needs = gemelo_metadata::estimate(self.policy, &pool);
        let needs = Needs {
            memory_bytes: needs.memory_bytes + data_blocks / 64 * FREE_BYTES,
            disk_bytes: needs.disk_bytes + Regions::new(self.ring_pages()).fixed_bytes(),
            ..needs
        };
        Ok(FullPool { stored_blocks, mapped_blocks, needs })
    }

    fn store(&self) -> StoreKind {
        self.compression.map_or(StoreKind::Plain, StoreKind::Packed)
    }

    fn data_blocks(&self) -> u64 {
        self.capacity_bytes / u64::from(self.block_bytes)
    }

    /// The block of the header's copy: the last block, which is the farthest from block 0. A store
    /// of two blocks has no copy.
    fn header_copy(&self) -> Option<Pbn> {
        let last = self.data_blocks() - 1;
        Some(last).filter(|last| *last > 1).and_then(Pbn::new)
    }

    fn ring_pages(&self) -> u64 {
        let chosen =
            (self.capacity_bytes / DATA_PER_JOURNAL).clamp(MIN_JOURNAL_BYTES, MAX_JOURNAL_BYTES);
        self.journal_bytes.unwrap_or(chosen) / (PAGE_BYTES * COPIES) as u64
    }
}

/// Returns random bytes for a key.
fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    gemelo_base::random::fresh_bytes().map_err(|source| {
        let path = PathBuf::from("random bytes of the system");
        DiskError::File { action: "read", path, source }.into()
    })
}

/// Makes a pool on two disks.
pub(super) fn format_disks(disks: &PoolDisks, options: &PoolOptions) -> Result<()> {
    options.check()?;
    let superblock = Superblock {
        block_bytes: options.block_bytes,
        pool_id: random_bytes()?,
        key: options.key.map_or_else(random_bytes, Ok)?,
        fingerprint: options.fingerprint,
        ring_pages: options.ring_pages(),
        header_copy: options.header_copy(),
        store: options.store(),
        words: options.words(),
        unknown: gemelo_format::Features::NONE,
    };
    let store = disks.store(&superblock);
    store.enlarge(options.data_blocks()).map_err(VolumeError::io(DiskRole::Data, "enlarge"))?;
    store.write_labels()?;
    format_metadata(disks, &superblock, options)
}

/// Makes the metadata of an empty pool. The superblock is written last, so an unfinished pool
/// cannot be opened.
pub(super) fn format_metadata(
    disks: &PoolDisks,
    superblock: &Superblock,
    options: &PoolOptions,
) -> Result<()> {
    clear_metadata(disks, superblock)?;
    write_checkpoint(disks, superblock, options)?;
    // Allocates the reserve, so that volumes can be removed when the file system is full.
    for range in superblock.regions().slot_ranges(0..2 * MIN_RESERVE_SLOTS) {
        let length = range.end - range.start;
        let allocated = disks.metadata.allocate(range.start, length);
        allocated.map_err(VolumeError::io(DiskRole::Metadata, "enlarge"))?;
    }
    let page = superblock.encode();
    write_page(disks, Superblock::offsets(), &page)?;
    disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))
}

/// Writes zeros to all places that are fixed. Earlier bytes then never look like a commit or a
/// root, and the space of the journal and of the first slots is allocated.
fn clear_metadata(disks: &PoolDisks, superblock: &Superblock) -> Result<()> {
    let end = superblock.regions().fixed_bytes();
    let io = |action| VolumeError::io(DiskRole::Metadata, action);
    if disks.metadata.len().map_err(io("measure"))? < end {
        disks.metadata.set_len(end).map_err(io("enlarge"))?;
    }
    let zeros = vec![0; ZEROS];
    let mut offset = 0;
    while offset < end {
        let part = zeros.get(..(end - offset).min(ZEROS as u64) as usize).unwrap_or(&zeros);
        disks.metadata.write_at(offset, part).map_err(io("write"))?;
        offset += part.len() as u64;
    }
    disks.metadata.sync().map_err(io("sync"))
}

/// Writes the checkpoint of an empty pool.
fn write_checkpoint(
    disks: &PoolDisks,
    superblock: &Superblock,
    options: &PoolOptions,
) -> Result<()> {
    let seed = PoolSeed::of(superblock);
    let home = BackendContext::new(Arc::clone(&disks.metadata), superblock);
    let new = NewMetadata {
        data_blocks: options.data_blocks(),
        next_volume: 1,
        cache: CacheSize::Given(0),
    };
    let mut backend = gemelo_metadata::empty(options.policy, &home, new);
    let mut writes: Vec<SlotWrite> = Vec::new();
    let Sealed { table, table_bytes } = backend.seal(&mut writes)?;
    for (slot, page) in &writes {
        write_page(disks, superblock.regions().slot(*slot), page)?;
    }
    let root = Root {
        generation: 1,
        next_commit: 1,
        journal_offset: 0,
        policy: backend.policy(),
        table,
        table_bytes,
        data_blocks: options.data_blocks(),
        next_volume: backend.totals().next_volume,
        references: 0,
        physical: 0,
    };
    let page = root.encode(superblock, seed);
    write_page(disks, Root::offsets(root.generation), &page)?;
    let mark = FlushMark { commit: 0, generation: root.generation };
    let page = mark.encode(&superblock.pool_id, seed);
    write_page(disks, FlushMarks::OFFSETS, &page)?;
    disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))
}

/// Writes all copies of a page.
fn write_page(
    disks: &PoolDisks,
    offsets: impl IntoIterator<Item = u64>,
    page: &Page,
) -> Result<()> {
    let write = |offset| disks.metadata.write_at(offset, page.as_slice());
    let written = offsets.into_iter().try_for_each(write);
    written.map_err(VolumeError::io(DiskRole::Metadata, "write"))
}
