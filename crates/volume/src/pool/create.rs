//! Making a pool on two empty disks.

use super::Pool;
use crate::backend::{self, BackendContext};
use crate::engine::LEAST_RESERVE_SLOTS;
use crate::error::{Result, VolumeError};
use gemelo_disk::DiskError;
use gemelo_format::{
    BackendKind, DiskRole, FingerprintKind, JOURNAL_PAGE, PAGE_BYTES, Page, Pbn, PoolSeed, Root,
    Superblock, Version, is_block_size,
};
use gemelo_store::PoolDisks;
use std::path::PathBuf;
use std::sync::Arc;

/// The shortest journal: room for a few commits.
const LEAST_JOURNAL_BYTES: u64 = 64 << 10;
/// The longest journal that is chosen: some 5 million writes between two checkpoints.
const MOST_JOURNAL_BYTES: u64 = 128 << 20;
/// A chosen journal has this share of the data store's size: 0.4 %.
const DATA_PER_JOURNAL: u64 = 256;
/// Pages behind the journal that the checkpoints of a pool with hardly anything in it need.
const LEAST_METADATA_PAGES: u64 = 64;
/// Bytes of zeros written at once.
const ZEROS: usize = 1 << 20;

/// What a pool is made as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolOptions {
    /// Bytes of a block: a power of two from 512 to 1 MiB.
    pub block_bytes: u32,
    /// Size of the data store in bytes; it is a sparse file, or at most the device's size.
    pub capacity_bytes: u64,
    /// Which hash of a content is its fingerprint.
    pub fingerprint: FingerprintKind,
    /// Where the metadata are kept.
    pub backend: BackendKind,
    /// Length of the journal in bytes; chosen by the capacity if not given.
    pub journal_bytes: Option<u64>,
    /// Where the data store is, if not in the pool's directory.
    pub data: Option<PathBuf>,
    /// Where the metadata are, if not in the pool's directory.
    pub metadata: Option<PathBuf>,
    /// Use a device although it holds something.
    pub force: bool,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4096,
            capacity_bytes: 64 << 30,
            fingerprint: FingerprintKind::Blake3,
            backend: BackendKind::Log,
            journal_bytes: None,
            data: None,
            metadata: None,
            force: false,
        }
    }
}

impl PoolOptions {
    pub(super) fn check(&self) -> Result<()> {
        let bad = |what, expected| Err(VolumeError::BadOption { what, expected });
        if !is_block_size(self.block_bytes) {
            return bad(
                format!("a block of {} bytes", self.block_bytes),
                "a power of two from 512 to 1 MiB",
            );
        }
        if !(2..=u64::from(Pbn::LAST.number()) + 1).contains(&self.data_blocks()) {
            return bad(
                format!("a capacity of {} bytes", self.capacity_bytes),
                "from 2 to 2^32 - 1 blocks",
            );
        }
        if self
            .journal_bytes
            .is_some_and(|bytes| !(LEAST_JOURNAL_BYTES..=64 << 30).contains(&bytes))
        {
            return bad("the journal's length".into(), "from 64 KiB to 64 GiB");
        }
        Ok(())
    }

    /// Bytes that a device has to have: the data store's, or those that metadata begin with.
    pub(super) fn least_bytes(&self, is_data: bool) -> u64 {
        let metadata_pages = JOURNAL_PAGE + self.journal_pages() + LEAST_METADATA_PAGES;
        if is_data {
            self.data_blocks() * u64::from(self.block_bytes)
        } else {
            metadata_pages * PAGE_BYTES as u64
        }
    }

    fn data_blocks(&self) -> u64 {
        self.capacity_bytes / u64::from(self.block_bytes)
    }

    /// The last block: it is as far from block 0 as there is room. A store of two blocks has none.
    fn header_copy(&self) -> Option<Pbn> {
        let last = self.data_blocks() - 1;
        u32::try_from(last).ok().filter(|last| *last > 1).and_then(Pbn::new)
    }

    fn journal_pages(&self) -> u64 {
        let chosen =
            (self.capacity_bytes / DATA_PER_JOURNAL).clamp(LEAST_JOURNAL_BYTES, MOST_JOURNAL_BYTES);
        self.journal_bytes.unwrap_or(chosen) / PAGE_BYTES as u64
    }
}

/// Returns random bytes for a key.
fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    gemelo_base::random::fresh_bytes().map_err(|source| {
        let path = PathBuf::from("random bytes of the system");
        DiskError::File { action: "read", path, source }.into()
    })
}

impl Pool {
    /// Makes a pool on two disks; what they had is gone. The superblock comes last: before it there is no pool.
    ///
    /// # Errors
    /// If an option is out of range, or the disks cannot be written.
    pub fn format(disks: &PoolDisks, options: &PoolOptions) -> Result<()> {
        options.check()?;
        let superblock = Superblock {
            version: Version::V2,
            block_bytes: options.block_bytes,
            pool_id: random_bytes()?,
            key: random_bytes()?,
            fingerprint: options.fingerprint,
            backend: options.backend,
            journal_pages: options.journal_pages(),
            header_copy: options.header_copy(),
        };
        let store = disks.store(&superblock);
        store.enlarge(options.data_blocks()).map_err(VolumeError::io(DiskRole::Data, "enlarge"))?;
        store.write_labels()?;
        format_metadata(disks, &superblock, options.data_blocks())
    }
}

/// Makes the metadata of an empty pool. The superblock comes last: before it there is no pool.
pub(super) fn format_metadata(
    disks: &PoolDisks,
    superblock: &Superblock,
    data_blocks: u64,
) -> Result<()> {
    clear_metadata(disks, superblock)?;
    write_checkpoint(disks, superblock, data_blocks)?;
    // Room for getting out of a file system that gets full.
    let slots_at = (JOURNAL_PAGE + superblock.journal_pages) * PAGE_BYTES as u64;
    disks
        .metadata
        .allocate(slots_at, 2 * LEAST_RESERVE_SLOTS * PAGE_BYTES as u64)
        .map_err(VolumeError::io(DiskRole::Metadata, "enlarge"))?;
    let page = superblock.encode();
    for copy in 0..2 {
        write_page(disks, copy * PAGE_BYTES as u64, &page)?;
    }
    disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))
}

/// Zeros from the first page to the journal's end: nothing that was there before is taken for a commit or a root, and
/// commits are written to space that is there.
fn clear_metadata(disks: &PoolDisks, superblock: &Superblock) -> Result<()> {
    let end = (JOURNAL_PAGE + superblock.journal_pages) * PAGE_BYTES as u64;
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

/// The checkpoint of an empty pool.
fn write_checkpoint(disks: &PoolDisks, superblock: &Superblock, data_blocks: u64) -> Result<()> {
    let seed = PoolSeed::of(superblock);
    let home = BackendContext { disk: Arc::clone(&disks.metadata), superblock };
    let mut backend = backend::empty(&home, data_blocks);
    let mut writes = Vec::new();
    let (table, table_bytes) = match backend.local_pages_mut() {
        Some(pages) => pages.seal(&mut writes)?,
        None => Default::default(),
    };
    for (slot, page) in &writes {
        write_page(disks, slot.offset(superblock.journal_pages), page)?;
    }
    let root = Root {
        generation: 1,
        next_commit: 1,
        journal_offset: 0,
        table,
        table_bytes,
        data_blocks,
        next_volume: backend.totals().next_volume,
        references: 0,
        physical: 0,
    };
    let page = root.encode(superblock, seed);
    for offset in Root::offsets(root.generation) {
        write_page(disks, offset, &page)?;
    }
    disks.metadata.sync().map_err(VolumeError::io(DiskRole::Metadata, "sync"))
}

fn write_page(disks: &PoolDisks, offset: u64, page: &Page) -> Result<()> {
    disks
        .metadata
        .write_at(offset, page.as_slice())
        .map_err(VolumeError::io(DiskRole::Metadata, "write"))
}
