//! Where a checkpoint is, and up to which commit it goes.

use super::codec::Reader;
use super::superblock::page_of;
use super::{Link, PAGE_BYTES, Page, PoolSeed, Superblock};
use crate::disk::Disk;
use crate::error::{DiskRole, Result, VolumeError};
use crate::types::Pbn;

const MAGIC: &[u8; 8] = b"GEMELORT";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
const FIRST_PAGE: u64 = 2;
const FIRST_COPY: u64 = 4;
/// No pool lives to count this far.
const LAST_NUMBER: u64 = 1 << 62;

/// A root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// From 1; the root with the highest counts.
    pub generation: u64,
    /// The first commit that the checkpoint does not contain.
    pub next_commit: u64,
    /// Where in the journal that commit begins, or will: bytes from the journal's start.
    pub journal_offset: u64,
    /// The first page of the table.
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
    /// As a page.
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

    /// Whether its numbers are such as the engine writes, so that nobody has to fear an overflow.
    fn can_be(&self, superblock: &Superblock) -> bool {
        let ring_bytes = superblock.journal_pages * PAGE_BYTES as u64;
        self.journal_offset <= ring_bytes
            && self.journal_offset.is_multiple_of(PAGE_BYTES as u64)
            && (1..=u64::from(Pbn::LAST.number()) + 1).contains(&self.data_blocks)
            && self.generation.max(self.next_commit) < LAST_NUMBER
            && self.next_commit > 0
    }

    /// Where on the metadata disk it is, in bytes: itself, and its copy.
    #[must_use]
    pub const fn offsets(generation: u64) -> [u64; 2] {
        let parity = generation % 2;
        [(FIRST_PAGE + parity) * PAGE_BYTES as u64, (FIRST_COPY + parity) * PAGE_BYTES as u64]
    }
}

/// The roots that are there.
#[derive(Debug)]
pub struct RootSearch {
    /// The newest one.
    pub newest: Root,
    /// The newest one before it.
    pub older: Option<Root>,
    /// Places of the newest root, in bytes, that are damaged. A copy that a crash kept from being written
    /// is not among them.
    pub damaged: Vec<u64>,
}

/// What a place of a root holds.
enum Held {
    /// Zeros, as in a new pool.
    Nothing,
    Damage,
    Root(Root),
}

impl Held {
    fn read(disk: &dyn Disk, offset: u64, superblock: &Superblock, seed: PoolSeed) -> Result<Self> {
        let mut page = [0; PAGE_BYTES];
        disk.read_at(offset, &mut page).map_err(VolumeError::io(DiskRole::Metadata, "read"))?;
        Ok(match Root::decode(&page, superblock, seed) {
            Some(root) => Self::Root(root),
            None if page == [0; PAGE_BYTES] => Self::Nothing,
            None => Self::Damage,
        })
    }

    const fn root(&self) -> Option<&Root> {
        if let Self::Root(root) = self { Some(root) } else { None }
    }
}

impl RootSearch {
    /// Whether the copy of the newest root may hold this although nothing is damaged, because a crash
    /// came between the root and its copy: what was there before.
    fn can_be_behind(&self, held: &Held) -> bool {
        match held {
            Held::Root(root) => root.generation < self.newest.generation,
            // The first root has the other pages.
            Held::Nothing => self.older.as_ref().is_some_and(|older| older.generation == 1),
            Held::Damage => false,
        }
    }
}

/// Finds the newest root.
///
/// # Errors
/// If there is none, or the disk cannot be read.
pub fn find_roots(disk: &dyn Disk, superblock: &Superblock, seed: PoolSeed) -> Result<RootSearch> {
    let mut places = Vec::new();
    for offset in [0, 1].into_iter().flat_map(Root::offsets) {
        places.push((offset, Held::read(disk, offset, superblock, seed)?));
    }
    let roots = || places.iter().filter_map(|(_, held)| held.root());
    let newest = roots()
        .max_by_key(|root| root.generation)
        .cloned()
        .ok_or_else(|| VolumeError::damaged("no root passes its checksum"))?;
    let older = roots()
        .filter(|root| root.generation < newest.generation)
        .max_by_key(|root| root.generation)
        .cloned();
    let mut found = RootSearch { newest, older, damaged: Vec::new() };
    let [page, copy] = Root::offsets(found.newest.generation);
    for (offset, held) in places.iter().filter(|(offset, _)| [page, copy].contains(offset)) {
        let is_whole = held.root() == Some(&found.newest);
        let is_behind = *offset == copy && found.can_be_behind(held);
        if !is_whole && !is_behind {
            found.damaged.push(*offset);
        }
    }
    Ok(found)
}
