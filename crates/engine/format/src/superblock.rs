//! The superblock: identity and shape of a pool. It is written in two copies when the pool is made.
//!
//! One number may change later, the place of the copy of block 0. It lies in one sector with the
//! checksum, so that a crash leaves the one superblock or the other.

use super::codec::Reader;
use super::regions::{COPIES, HeadPage, Reading, Regions, head_offsets, read_copies};
use super::{PAGE_BYTES, Page};
use crate::disks::DiskRole;
use crate::error::{FormatError, Result};
use crate::features::Features;
use crate::packed::{Compression, MAX_PACKED_BLOCK_BYTES, StoreKind};
use crate::types::{FingerprintKind, Pbn, WordForm};
use gemelo_disk::Disk;
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 8] = b"GEMELOSB";
/// The first bytes of a superblock.
pub const SUPERBLOCK_MAGIC: &[u8; 8] = MAGIC;
/// The first bytes of a data store.
pub const DATA_MAGIC: &[u8; 8] = b"GEMELODS";
const CHECKSUM_AT: usize = PAGE_BYTES - 8;
/// The copy of block 0 if it was moved since the pool was made.
const MOVED_COPY_AT: usize = CHECKSUM_AT - 8;
/// Bytes that a disk writes as a whole.
const SECTOR_BYTES: usize = 512;
/// The longest ring that a pool can be made with: a journal of 64 GiB has two of 32 GiB.
const MAX_RING_PAGES: u64 = (32 << 30) / PAGE_BYTES as u64;
/// Bytes at the start of block 0 of the data store that are in use.
const DATA_HEADER_BYTES: usize = 32;

/// The version of the format.
const VERSION: u32 = 1;
/// The incompatible feature of a pool whose map words are [`WordForm::Wide`].
const WIDE: u64 = 1;
/// The features that this program knows.
const KNOWN: Features = Features { incompatible: WIDE, read_compatible: 0, compatible: 0 };

/// Identity and shape of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// A random number that identifies the pool.
    pub pool_id: [u8; 16],
    /// The key of the fingerprints.
    pub key: [u8; 32],
    /// The kind of the fingerprints.
    pub fingerprint: FingerprintKind,
    /// Length of each ring of the journal in pages.
    pub ring_pages: u64,
    /// The block of the data store that holds a copy of block 0, if there was room for one.
    pub header_copy: Option<Pbn>,
    /// The kind of the data store.
    pub store: StoreKind,
    /// The form of the words of maps.
    pub words: WordForm,
    /// The features that this program does not know. None of a pool that was read is incompatible.
    pub unknown: Features,
}

impl Superblock {
    /// Encodes the superblock as a page.
    #[must_use]
    pub fn encode(&self) -> Box<Page> {
        let mut bytes = Vec::with_capacity(PAGE_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.block_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.pool_id);
        bytes.extend_from_slice(&self.key);
        let [algorithm, level] = match self.store {
            StoreKind::Plain => [0; 2],
            StoreKind::Packed(compression) => compression.bytes(),
        };
        let (fingerprint, store) = (self.fingerprint.byte(), self.store.byte());
        bytes.extend_from_slice(&[fingerprint, store, algorithm, level, 0, 0, 0, 0]);
        bytes.extend_from_slice(&self.ring_pages.to_le_bytes());
        bytes.extend_from_slice(&self.features().to_bytes());
        bytes.extend_from_slice(&self.header_copy.map_or(0, Pbn::number).to_le_bytes());
        bytes.resize(CHECKSUM_AT, 0);
        bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
        page_of(&bytes)
    }

    fn features(&self) -> Features {
        let wide = if self.words == WordForm::Wide { WIDE } else { 0 };
        Features { incompatible: wide | self.unknown.incompatible, ..self.unknown }
    }

    /// Checks that this program knows all features without which it may not write to the pool.
    ///
    /// # Errors
    /// Fails with the name of one that it does not know.
    pub fn check_writable(&self) -> Result<()> {
        match self.unknown.first_read_compatible() {
            Some(what) => Err(FormatError::ReadableOnly { what }),
            None => Ok(()),
        }
    }

    /// Blocks of the data store that hold no content: its header, and the copy of it.
    #[must_use]
    pub const fn reserved_blocks(&self) -> u64 {
        if self.header_copy.is_some() { 2 } else { 1 }
    }

    /// Returns whether a part of this content is in the block that holds the copy of block 0, where
    /// no pool has one.
    #[must_use]
    pub fn is_in_header_copy(&self, pbn: Pbn) -> bool {
        let blocks = self.store.first_block(pbn)..=self.store.last_block(pbn);
        self.header_copy.is_some_and(|copy| blocks.contains(&copy.number()))
    }

    /// Returns the places on the metadata disk.
    #[must_use]
    pub const fn regions(&self) -> Regions {
        Regions::new(self.ring_pages)
    }

    /// Returns the byte offsets of both copies of the superblock.
    #[must_use]
    pub const fn offsets() -> [u64; COPIES] {
        head_offsets(HeadPage::Superblock)
    }

    /// Decodes a page, or returns `None` if it holds no superblock of any version.
    fn decode(page: &Page) -> Option<Result<Self>> {
        let (body, checksum) = page.split_at(CHECKSUM_AT);
        let mut reader = Reader::new(body);
        if XxHash3_64::oneshot(body).to_le_bytes() != checksum || reader.array()? != *MAGIC {
            return None;
        }
        let version = reader.u32()?;
        let moved_copy = u64::from_le_bytes(*body.get(MOVED_COPY_AT..)?.first_chunk()?);
        if version != VERSION {
            let what = format!("format version {version}");
            return Some(Err(FormatError::Unknown { what }));
        }
        Some(Self::of_fields(&mut reader, moved_copy).unwrap_or_else(|| {
            Err(FormatError::damaged("the superblock has numbers out of bounds"))
        }))
    }

    fn of_fields(reader: &mut Reader<'_>, moved_copy: u64) -> Option<Result<Self>> {
        let block_bytes = reader.u32()?;
        let pool_id = reader.array()?;
        let key = reader.array()?;
        let [fingerprint, store, algorithm, level, ..] = reader.array::<8>()?;
        let ring_pages = reader.u64()?;
        let features = Features::from_bytes(&reader.array()?)?;
        let header_copy = reader.u64()?;
        let unknown = features.without(KNOWN);
        if let Some(what) = unknown.first_incompatible() {
            return Some(Err(FormatError::Unknown { what }));
        }
        let unknown_kind = |what: &str, kind: u8| {
            Some(Err(FormatError::Unknown { what: format!("{what} of kind {kind}") }))
        };
        if !Compression::is_algorithm(algorithm) {
            return unknown_kind("compression", algorithm);
        }
        let compression = Compression::from_bytes([algorithm, level])?;
        let store = match store {
            0 => StoreKind::Plain,
            1 => StoreKind::Packed(compression),
            other => return unknown_kind("data stores", other),
        };
        let Some(fingerprint) = FingerprintKind::from_byte(fingerprint) else {
            return unknown_kind("fingerprints", fingerprint);
        };
        let words =
            if features.incompatible & WIDE == 0 { WordForm::Narrow } else { WordForm::Wide };
        let is_packed = store != StoreKind::Plain;
        // It is the number of a block in a store of either kind.
        let header_copy = match if moved_copy > 0 { moved_copy } else { header_copy } {
            0 => None,
            number => Some(Pbn::new(number).filter(|_| number < store.max_blocks(words))?),
        };
        let fits = is_block_size(block_bytes)
            && (1..=MAX_RING_PAGES).contains(&ring_pages)
            && (!is_packed || block_bytes <= MAX_PACKED_BLOCK_BYTES && words == WordForm::Narrow);
        fits.then_some(Ok(Self {
            block_bytes,
            pool_id,
            key,
            fingerprint,
            ring_pages,
            header_copy,
            store,
            words,
            unknown,
        }))
    }
}

/// Notes another block of the data store that has a copy of block 0, in both copies of the
/// superblock, one after the other.
///
/// # Errors
/// Fails if no copy is good, or if a system call fails.
pub fn move_header_copy(disk: &dyn Disk, to: Pbn) -> Result<()> {
    let io = |action| FormatError::io(DiskRole::Metadata, action);
    let pages = Superblock::offsets().map(|offset| {
        let mut page = Box::new([0; PAGE_BYTES]);
        let is_good = disk.read_at(offset, page.as_mut_slice()).is_ok()
            && matches!(Superblock::decode(&page), Some(Ok(_)));
        is_good.then_some(page)
    });
    let Some(good) = pages.iter().flatten().next().cloned() else {
        return Err(FormatError::damaged("no superblock is good"));
    };
    for (offset, page) in Superblock::offsets().into_iter().zip(pages) {
        // A damaged copy is written as a whole, and only the last sector of a good one.
        let first = if page.is_some() { PAGE_BYTES - SECTOR_BYTES } else { 0 };
        let mut page = page.unwrap_or_else(|| good.clone());
        page[MOVED_COPY_AT..CHECKSUM_AT].copy_from_slice(&to.number().to_le_bytes());
        let checksum = XxHash3_64::oneshot(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        disk.write_at(offset + first as u64, &page[first..]).map_err(io("write"))?;
        disk.sync().map_err(io("sync"))?;
    }
    Ok(())
}

/// Returns whether a block can have this size: a power of two from 512 bytes to 1 MiB.
#[must_use]
pub fn is_block_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (512..=1 << 20).contains(&bytes)
}

/// Makes a page that begins with these bytes.
pub(crate) fn page_of(bytes: &[u8]) -> Box<Page> {
    let mut page = Box::new([0; PAGE_BYTES]);
    assert!(bytes.len() <= PAGE_BYTES, "{} bytes fit in a page", bytes.len());
    let (head, _) = page.split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    page
}

/// Reads the superblock from either copy. Adds descriptions of damaged ones to `damage`.
///
/// # Errors
/// Fails with [`FormatError::NotAPool`] only if both copies could be read and neither is a
/// superblock. Fails if the only copies are of a version or have a feature that this program does
/// not know, or if none is good and the disk cannot read one.
pub fn read_superblock(disk: &dyn Disk, damage: &mut Vec<String>) -> Result<Superblock> {
    let copied = read_copies(disk, Superblock::offsets(), Reading::All, Superblock::decode);
    let bad = copied.bad.clone();
    let superblock = copied.or_error()?.ok_or(FormatError::NotAPool {
        why: "its metadata has no superblock that passes its checksum",
    })??;
    damage.extend(bad.iter().map(|offset| format!("the superblock at byte {offset}")));
    Ok(superblock)
}

/// The header of the data store of this pool: the first bytes of block 0, and of its copy.
#[must_use]
pub fn data_header(superblock: &Superblock) -> [u8; DATA_HEADER_BYTES] {
    header_with_id(&superblock.pool_id)
}

fn header_with_id(pool_id: &[u8; 16]) -> [u8; DATA_HEADER_BYTES] {
    let mut header = [0; DATA_HEADER_BYTES];
    let (body, checksum) = header.split_at_mut(24);
    let (magic, id) = body.split_at_mut(8);
    magic.copy_from_slice(DATA_MAGIC);
    id.copy_from_slice(pool_id);
    checksum.copy_from_slice(&XxHash3_64::oneshot(body).to_le_bytes());
    header
}

/// Returns whether a disk begins with the header of a data store, of whatever pool. A disk that
/// cannot be read does not.
#[must_use]
pub fn is_data_store(disk: &dyn Disk) -> bool {
    let mut header = [0; DATA_HEADER_BYTES];
    let is_read = disk.read_at(0, &mut header).is_ok();
    let [_, _, _, _, _, _, _, _, id @ .., _, _, _, _, _, _, _, _] = header;
    is_read && header == header_with_id(&id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PackedPlace, SPANNING_SLOT};

    fn superblock() -> Superblock {
        Superblock {
            block_bytes: 4096,
            pool_id: [1; 16],
            key: [2; 32],
            fingerprint: FingerprintKind::Blake3,
            ring_pages: 8,
            header_copy: Pbn::new(7),
            store: StoreKind::Packed(Compression::Zstd(3)),
            words: WordForm::Narrow,
            unknown: Features::NONE,
        }
    }

    /// Reads a superblock with changed bytes and a right checksum.
    fn read_changed(at: usize, bytes: &[u8]) -> Option<Result<Superblock>> {
        let mut page = superblock().encode();
        page[at..at + bytes.len()].copy_from_slice(bytes);
        let checksum = XxHash3_64::oneshot(&page[..CHECKSUM_AT]);
        page[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        Superblock::decode(&page)
    }

    #[test]
    fn a_superblock_comes_back() {
        assert_eq!(read_changed(0, &[]).unwrap().unwrap(), superblock());
        assert!(read_changed(0, b"X").is_none());
        let plain = read_changed(65, &[0, 0, 0]).unwrap().unwrap();
        assert_eq!((plain.store, plain.words), (StoreKind::Plain, WordForm::Narrow));
        let none = read_changed(72, &[0; 8]).unwrap();
        assert!(none.is_err(), "a journal has at least a page");
    }

    #[test]
    fn a_content_is_where_the_copy_of_the_header_is_with_each_of_its_parts() {
        let is_in_copy = |block, slot| {
            superblock().is_in_header_copy(PackedPlace { block, slot }.pbn().unwrap())
        };
        let blocks = |slot| (4..10).filter(|block| is_in_copy(*block, slot)).collect::<Vec<u32>>();
        assert_eq!((blocks(0), blocks(SPANNING_SLOT)), (vec![7], vec![6, 7]));
    }

    #[test]
    fn what_this_program_does_not_know_is_refused_by_name() {
        let refused = |at, bytes: &[u8]| read_changed(at, bytes).unwrap().unwrap_err().to_string();
        assert!(refused(8, &[9]).contains("format version 9"));
        assert!(refused(80, &[0b100_0000]).contains("the incompatible feature 6"));
        assert!(refused(87, &[0x80]).contains("the incompatible feature 63"));
        assert!(refused(64, &[77]).contains("has fingerprints of kind 77"));
        assert!(refused(65, &[7]).contains("has data stores of kind 7"));
        assert!(refused(66, &[7]).contains("has compression of kind 7"));
        assert!(refused(67, &[20]).contains("out of bounds"));
        assert!(refused(80, &[1]).contains("out of bounds"), "a packed store with wide words");
        assert!(refused(104 + 3, &[0x20]).contains("out of bounds"), "a copy of block 0 too far");
    }

    #[test]
    fn unknown_features_that_let_a_pool_be_read_are_kept() {
        let changed = read_changed(88, &[0b1000]).unwrap().unwrap();
        let said = changed.check_writable().unwrap_err().to_string();
        assert!(said.contains("the read-compatible feature 3"), "{said}");
        assert_eq!(changed.encode()[88], 0b1000);
        let changed = read_changed(103, &[0x80]).unwrap().unwrap();
        assert!(changed.check_writable().is_ok());
        assert_eq!(changed.encode()[103], 0x80);
        assert_eq!(Superblock { unknown: Features::NONE, ..changed }, superblock());
    }

    #[test]
    fn a_moved_copy_of_block_0_is_noted_in_one_sector_of_each_superblock() {
        let disk = gemelo_disk::testing::MemoryDisk::default();
        let page = superblock().encode();
        Superblock::offsets().iter().for_each(|at| disk.write_at(*at, page.as_slice()).unwrap());
        move_header_copy(&disk, Pbn::new(5).unwrap()).unwrap();
        let [first, second] = Superblock::offsets().map(|offset| {
            let mut page = [0; PAGE_BYTES];
            disk.read_at(offset, &mut page).unwrap();
            page
        });
        assert_eq!(first[..PAGE_BYTES - SECTOR_BYTES], page[..PAGE_BYTES - SECTOR_BYTES]);
        assert!(first == second && first != *page);
        let moved = Superblock { header_copy: Pbn::new(5), ..superblock() };
        assert_eq!(read_superblock(&disk, &mut Vec::new()).unwrap(), moved);
        // A damaged one is mended by the next move.
        disk.write_at(Superblock::offsets()[0], &[7; 600]).unwrap();
        move_header_copy(&disk, Pbn::new(4).unwrap()).unwrap();
        let mut damage = Vec::new();
        let header_copy = read_superblock(&disk, &mut damage).unwrap().header_copy;
        assert_eq!((header_copy, damage.len()), (Pbn::new(4), 0));
    }
}
