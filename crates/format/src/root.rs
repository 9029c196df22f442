//! Roots: each names a checkpoint and the first commit after it.

use super::codec::Reader;
use super::superblock::page_of;
use super::{Link, PAGE_BYTES, Page, PoolSeed, Superblock};
use crate::DiskRole;
use crate::error::{FormatError, Result};
use crate::types::Pbn;
use gemelo_disk::Disk;

const MAGIC: &[u8; 8] = b"GEMELORT";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
const FIRST_PAGE: u64 = 2;
const FIRST_COPY: u64 = 4;
/// Bound of generations and commit numbers. No pool exists long enough to reach it.
const LAST_NUMBER: u64 = 1 << 62;

/// The root of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Number of the checkpoint, from 1. The root with the highest one is valid.
    pub generation: u64,
    /// The first commit that the checkpoint does not contain.
    pub next_commit: u64,
    /// Offset of that commit in bytes from the journal's start, whether it exists yet or not.
    pub journal_offset: u64,
    /// Link to the first page of the table.
    pub table: Link,
    /// Length of the table in bytes.
    pub table_bytes: u64,
    /// Size of the data store in blocks, block 0 included.
    pub data_blocks: u64,
    /// The id of the next volume.
    pub next_volume: u32,
    /// LBNs that have a PBN.
    pub references: u64,
    /// PBNs that have a reference.
    pub physical: u64,
}

impl Root {
    /// Encodes the root as a page.
    #[must_use]
    pub fn encode(&self, superblock: &Superblock, seed: PoolSeed) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&superblock.pool_id);
        for number in [self.generation, self.next_commit, self.journal_offset] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.table.encode());
        bytes.extend_from_slice(&self.table_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.data_blocks.to_le_bytes());
        bytes.extend_from_slice(&self.next_volume.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&self.references.to_le_bytes());
        bytes.extend_from_slice(&self.physical.to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend_from_slice(&seed.checksum(&bytes).to_le_bytes());
        page_of(&bytes)
    }

    fn decode(page: &Page, superblock: &Superblock, seed: PoolSeed) -> Option<Self> {
        let (body, checksum) = page.split_at(CHECKSUM_AT);
        if seed.checksum(body).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.array()? != *MAGIC || reader.array()? != superblock.pool_id {
            return None;
        }
        let root = Self {
            generation: reader.u64()?,
            next_commit: reader.u64()?,
            journal_offset: reader.u64()?,
            table: Link::decode(reader.array()?),
            table_bytes: reader.u64()?,
            data_blocks: reader.u64()?,
            next_volume: (reader.u64()? & u64::from(u32::MAX)) as u32,
            references: reader.u64()?,
            physical: reader.u64()?,
        };
        root.can_be(superblock).then_some(root)
    }

    /// Checks every field against its bounds, so later arithmetic cannot overflow.
    fn can_be(&self, superblock: &Superblock) -> bool {
        let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
        self.journal_offset <= ring_bytes
            && self.journal_offset.is_multiple_of(PAGE_BYTES as u64)
            && (1..=u64::from(Pbn::LAST.number()) + 1).contains(&self.data_blocks)
            && self.generation.max(self.next_commit) < LAST_NUMBER
            && self.next_commit > 0
    }

    /// Offsets of the root and of its copy on the metadata disk, in bytes.
    #[must_use]
    pub const fn offsets(generation: u64) -> [u64; 2] {
        let parity = generation % 2;
        [(FIRST_PAGE + parity) * PAGE_BYTES as u64, (FIRST_COPY + parity) * PAGE_BYTES as u64]
    }
}

/// The roots that were found.
#[derive(Debug)]
pub struct RootSearch {
    /// The root with the highest number.
    pub newest: Root,
    /// The newest root before that one.
    pub older: Option<Root>,
    /// Offsets in bytes of damaged copies of the newest root. A copy that a crash kept from being
    /// written is not among them: it still holds an earlier root.
    pub to_repair: Vec<u64>,
}

/// Finds the newest root.
///
/// # Errors
/// Fails if no root is intact, or if the disk cannot be read.
pub fn find_roots(disk: &dyn Disk, superblock: &Superblock, seed: PoolSeed) -> Result<RootSearch> {
    let mut pages: Vec<(u64, Box<Page>)> = Vec::new();
    for offset in [0, 1].into_iter().flat_map(Root::offsets) {
        let mut page = Box::new([0; PAGE_BYTES]);
        disk.read_at(offset, page.as_mut_slice())
            .map_err(FormatError::io(DiskRole::Metadata, "read"))?;
        pages.push((offset, page));
    }
    let roots: Vec<Root> =
        pages.iter().filter_map(|(_, page)| Root::decode(page, superblock, seed)).collect();
    let newest = roots
        .iter()
        .max_by_key(|root| root.generation)
        .cloned()
        .ok_or_else(|| FormatError::damaged("no root passes its checksum"))?;
    // The copy of the newest root may still hold the root before the older one.
    let older = roots
        .into_iter()
        .filter(|root| root.generation < newest.generation)
        .max_by_key(|root| root.generation);
    let image = newest.encode(superblock, seed);
    let [first, copy] = Root::offsets(newest.generation);
    let page_at = |place: u64| pages.iter().find(|(offset, _)| *offset == place);
    let is_written = |place: u64| page_at(place).is_some_and(|(_, page)| *page == image);
    let is_early = |place: u64| {
        page_at(place).is_some_and(|(_, page)| is_torn(page, &image, superblock, newest.generation))
    };
    let mut to_repair = Vec::new();
    if !is_written(first) {
        to_repair.push(first);
    }
    let is_copy_good = is_written(copy) || is_written(first) && is_early(copy);
    if !is_copy_good {
        to_repair.push(copy);
    }
    Ok(RootSearch { newest, older, to_repair })
}

/// Returns whether a crash during the write of a root can leave this page. Then each of its sectors
/// is from the new root, from an earlier root, or from a page that had no root before generation 3.
fn is_torn(page: &Page, new: &Page, superblock: &Superblock, generation: u64) -> bool {
    const SECTOR_BYTES: usize = 512;
    let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
    let is_blank = |sector: &[u8]| generation < 3 && is_zero(sector);
    let is_old_head = |sector: &[u8]| {
        let mut reader = Reader::new(sector);
        reader.array() == Some(*MAGIC)
            && reader.array() == Some(superblock.pool_id)
            && reader.u64().is_some_and(|earlier| earlier < generation)
    };
    let sectors = page.chunks(SECTOR_BYTES).zip(new.chunks(SECTOR_BYTES));
    let last = PAGE_BYTES / SECTOR_BYTES - 1;
    sectors.enumerate().all(|(number, (sector, new))| {
        let is_old = match number {
            0 => is_old_head(sector),
            // In every root, this sector has zeros except for the checksum.
            at if at == last => is_zero(sector.get(..SECTOR_BYTES - 8).unwrap_or_default()),
            _ => false,
        };
        sector == new || is_blank(sector) || is_old
    })
}
