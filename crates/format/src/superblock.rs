//! The superblock: identity and shape of a pool. It is written in two copies when the pool is made.

use super::codec::Reader;
use super::{PAGE_BYTES, Page};
use crate::DiskRole;
use crate::error::{FormatError, Result};
use crate::types::{BackendKind, FingerprintKind, Pbn};
use gemelo_disk::Disk;
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 8] = b"GEMELOSB";
/// The first bytes of a superblock.
pub const SUPERBLOCK_MAGIC: &[u8; 8] = MAGIC;
/// The first bytes of a data store.
pub const DATA_MAGIC: &[u8; 8] = b"GEMELODS";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
/// The longest journal that a pool can be made with: 64 GiB.
const MOST_JOURNAL_PAGES: u64 = (64 << 30) / PAGE_BYTES as u64;
/// Bytes at the start of block 0 of the data store that are in use.
const DATA_HEADER_BYTES: usize = 32;

/// The version of the format that a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Version 1: maps have no checksums, and the journal has one copy of each commit. It is only
    /// read for a conversion.
    V1,
    /// Version 2, which the engine reads and writes.
    V2,
}

impl Version {
    /// The number in the superblock.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// The number of copies of each commit in the journal.
    #[must_use]
    pub const fn commit_copies(self) -> u64 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}

/// Identity and shape of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// The version of the format.
    pub version: Version,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// A random number that identifies the pool.
    pub pool_id: [u8; 16],
    /// The key of the fingerprints.
    pub key: [u8; 32],
    /// The kind of the fingerprints.
    pub fingerprint: FingerprintKind,
    /// The backend of the metadata.
    pub backend: BackendKind,
    /// Length of the journal in pages.
    pub journal_pages: u64,
    /// The block of the data store that holds a copy of block 0, if there was room for one.
    pub header_copy: Option<Pbn>,
}

impl Superblock {
    /// Encodes the superblock as a page.
    #[must_use]
    pub fn encode(&self) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.version.number().to_le_bytes());
        bytes.extend_from_slice(&self.block_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.pool_id);
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&[self.fingerprint.byte(), self.backend.byte(), 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.journal_pages.to_le_bytes());
        bytes.extend_from_slice(&self.header_copy.map_or(0, Pbn::number).to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
        page_of(&bytes)
    }

    /// Blocks of the data store that hold no content: its header, and the copy of it.
    #[must_use]
    pub const fn reserved_blocks(&self) -> u64 {
        if self.header_copy.is_some() { 2 } else { 1 }
    }

    fn decode(page: &Page) -> Option<Self> {
        let (body, checksum) = page.split_at(CHECKSUM_AT);
        if XxHash3_64::oneshot(body).to_le_bytes() != checksum {
            return None;
        }
        let mut reader = Reader::new(body);
        if reader.array()? != *MAGIC {
            return None;
        }
        let version = Version::from_number(reader.u32()?)?;
        let block_bytes = reader.u32()?;
        let pool_id = reader.array()?;
        let key = reader.array()?;
        let [fingerprint, backend, ..] = reader.array::<8>()?;
        let journal_pages = reader.u64()?;
        let header_copy = Pbn::new(reader.u32()?);
        let fingerprint = FingerprintKind::from_byte(fingerprint)?;
        let backend = BackendKind::from_byte(backend)?;
        let fits = is_block_size(block_bytes) && (1..=MOST_JOURNAL_PAGES).contains(&journal_pages);
        fits.then_some(Self {
            version,
            block_bytes,
            pool_id,
            key,
            fingerprint,
            backend,
            journal_pages,
            header_copy,
        })
    }
}

/// Returns whether a block can have this size: a power of two from 512 bytes to 1 MiB.
#[must_use]
pub fn is_block_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes)
}

/// Makes a page that begins with these bytes.
pub(crate) fn page_of(bytes: &[u8]) -> Box<Page> {
    let mut page = Box::new([0; PAGE_BYTES]);
    for (to, from) in page.iter_mut().zip(bytes) {
        *to = *from;
    }
    page
}

/// Reads the superblock, or its copy. Adds descriptions of damaged ones to `damage`.
///
/// # Errors
/// Fails if neither copy is intact, or if the disk cannot be read.
pub fn read_superblock(disk: &dyn Disk, damage: &mut Vec<String>) -> Result<Superblock> {
    let mut found = None;
    for number in 0..2 {
        let mut page = [0; PAGE_BYTES];
        match disk.read_at(number * PAGE_BYTES as u64, &mut page) {
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(FormatError::io(DiskRole::Metadata, "read")(error));
            }
            _ => {}
        }
        match Superblock::decode(&page) {
            Some(superblock) => found = found.or(Some(superblock)),
            None => damage.push(format!("superblock {number} fails its checksum")),
        }
    }
    found.ok_or(FormatError::NotAPool {
        why: "its metadata has no superblock that passes its checksum",
    })
}

/// The header of the data store of this pool: the first bytes of block 0, and of its copy.
#[must_use]
pub fn data_header(superblock: &Superblock) -> [u8; DATA_HEADER_BYTES] {
    let mut header = [0; DATA_HEADER_BYTES];
    let (body, checksum) = header.split_at_mut(24);
    let (magic, id) = body.split_at_mut(8);
    magic.copy_from_slice(DATA_MAGIC);
    id.copy_from_slice(&superblock.pool_id);
    checksum.copy_from_slice(&XxHash3_64::oneshot(body).to_le_bytes());
    header
}
