//! The table of a checkpoint: the list of volumes, and the slots of the pages of maps and records.

use super::codec::Reader;
use super::{PAGE_BYTES, Page, PoolSeed, Slot};
use crate::DiskRole;
use crate::error::{FormatError, Result};
use crate::volume::VolumeRecord;
use gemelo_disk::Disk;

/// Bytes of a link.
const LINK_BYTES: usize = 16;
/// Bytes of the stream in each page.
const PIECE_BYTES: usize = PAGE_BYTES - LINK_BYTES;
/// Bytes of a [`PageRef`].
const PAGE_REF_BYTES: usize = 16;

/// The slots of the two copies of a page of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// The slots of the copies.
    pub slots: [Option<Slot>; 2],
    /// The checksum of the page.
    pub checksum: u64,
}

impl Link {
    pub(crate) fn encode(self) -> [u8; LINK_BYTES] {
        let mut bytes = [0; LINK_BYTES];
        let (slots, checksum) = bytes.split_at_mut(8);
        for (to, slot) in slots.chunks_exact_mut(4).zip(self.slots) {
            to.copy_from_slice(&slot.map_or(0, Slot::number).to_le_bytes());
        }
        checksum.copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: [u8; LINK_BYTES]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        let slots = [Slot::new(bits as u32), Slot::new((bits >> 32) as u32)];
        Self { slots, checksum: (bits >> 64) as u64 }
    }
}

/// The place of a page of a map or of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRef {
    /// The number of the page in its map or among the records.
    pub number: u32,
    /// The slot of the page.
    pub slot: Slot,
    /// The checksum of the page.
    pub checksum: u64,
}

/// A volume in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableVolume {
    /// The record of the volume.
    pub record: VolumeRecord,
    /// The pages of the volume's map.
    pub pages: Vec<PageRef>,
}

/// The table of volumes, as a checkpoint has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// The volumes, in the order of their numbers.
    pub volumes: Vec<TableVolume>,
    /// The pages of the records.
    pub records: Vec<PageRef>,
}

impl Table {
    /// Encodes the table as a stream of bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&(self.volumes.len() as u32).to_le_bytes());
        for volume in &self.volumes {
            volume.record.encode(&mut out);
            put_pages(&mut out, &volume.pages);
        }
        put_pages(&mut out, &self.records);
        out
    }

    /// Decodes the table from a stream of bytes.
    #[must_use]
    pub fn decode(stream: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(stream);
        let volumes = reader.u32()?;
        let mut table = Self::default();
        for _ in 0..volumes {
            let record = VolumeRecord::decode(&mut reader)?;
            let pages = pages_from(&mut reader)?;
            table.volumes.push(TableVolume { record, pages });
        }
        table.records = pages_from(&mut reader)?;
        reader.is_empty().then_some(table)
    }
}

fn put_pages(out: &mut Vec<u8>, pages: &[PageRef]) {
    out.extend_from_slice(&(pages.len() as u64).to_le_bytes());
    for page in pages {
        out.extend_from_slice(&page.number.to_le_bytes());
        out.extend_from_slice(&page.slot.number().to_le_bytes());
        out.extend_from_slice(&page.checksum.to_le_bytes());
    }
}

fn pages_from(reader: &mut Reader<'_>) -> Option<Vec<PageRef>> {
    let count = usize::try_from(reader.u64()?).ok()?;
    let bytes = reader.bytes(count.checked_mul(PAGE_REF_BYTES)?)?;
    let mut reader = Reader::new(bytes);
    let mut pages = Vec::with_capacity(count);
    for _ in 0..count {
        let (number, slot, checksum) = (reader.u32()?, reader.u32()?, reader.u64()?);
        pages.push(PageRef { number, slot: Slot::new(slot)?, checksum });
    }
    Some(pages)
}

/// The pages of a chain, each with its slot.
pub type ChainPages = Vec<(Slot, Box<Page>)>;

/// Cuts a stream into pages, the last piece first, each for the two slots that `next_slot` returns.
pub fn build_chain(
    stream: &[u8],
    seed: PoolSeed,
    mut next_slot: impl FnMut() -> Option<Slot>,
) -> Option<(ChainPages, Link)> {
    let mut pages = Vec::new();
    let mut link = Link::default();
    for piece in stream.chunks(PIECE_BYTES).rev() {
        let mut page = Box::new([0; PAGE_BYTES]);
        let (head, body) = page.split_at_mut(LINK_BYTES);
        head.copy_from_slice(&link.encode());
        for (to, from) in body.iter_mut().zip(piece) {
            *to = *from;
        }
        let slots = [next_slot()?, next_slot()?];
        link = Link { slots: slots.map(Some), checksum: seed.checksum(&*page) };
        pages.push((slots[0], page.clone()));
        pages.push((slots[1], page));
    }
    Some((pages, link))
}

/// The contents and the slots of a chain.
pub struct ReadChain {
    /// The stream of bytes.
    pub stream: Vec<u8>,
    /// The slots of its pages, copies included.
    pub slots: Vec<Slot>,
    /// Copies that fail their checksums: the slot, and the page that belongs there.
    pub damaged_copies: Vec<(Slot, Box<Page>)>,
}

/// Reads the stream that was cut into pages.
///
/// # Errors
/// Fails if both copies of a page are damaged, or if the disk cannot be read.
pub fn read_chain(
    disk: &dyn Disk,
    journal_pages: u64,
    first: Link,
    stream_bytes: u64,
    seed: PoolSeed,
) -> Result<ReadChain> {
    let mut chain = ReadChain { stream: Vec::new(), slots: Vec::new(), damaged_copies: Vec::new() };
    let mut link = first;
    while (chain.stream.len() as u64) < stream_bytes {
        let mut good: Option<Box<Page>> = None;
        let mut bad = Vec::new();
        for slot in link.slots.into_iter().flatten() {
            chain.slots.push(slot);
            match read_slot(disk, journal_pages, slot, link.checksum, seed)? {
                Some(page) => good = good.or(Some(page)),
                None => bad.push(slot),
            }
        }
        let page =
            good.ok_or_else(|| FormatError::damaged("both copies of a page of the table"))?;
        chain.damaged_copies.extend(bad.into_iter().map(|slot| (slot, page.clone())));
        let mut reader = Reader::new(page.as_slice());
        link = Link::decode(reader.array().unwrap_or_default());
        let left = usize::try_from(stream_bytes - chain.stream.len() as u64).unwrap_or(usize::MAX);
        chain.stream.extend_from_slice(reader.bytes(left.min(PIECE_BYTES)).unwrap_or_default());
    }
    Ok(chain)
}

/// Reads the page in a slot. Returns `None` if it fails its checksum or is beyond the end of the
/// disk.
fn read_slot(
    disk: &dyn Disk,
    journal_pages: u64,
    slot: Slot,
    checksum: u64,
    seed: PoolSeed,
) -> Result<Option<Box<Page>>> {
    let mut page = Box::new([0; PAGE_BYTES]);
    match disk.read_at(slot.offset(journal_pages), page.as_mut_slice()) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other.map_err(FormatError::io(DiskRole::Metadata, "read"))?,
    }
    Ok((seed.checksum(&*page) == checksum).then_some(page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{DedupMode, VolumeId};
    use crate::volume::{Birth, Origin};
    use proptest::prelude::*;

    #[test]
    fn a_table_comes_back() {
        let page = |number| PageRef { number, slot: Slot::new(number + 1).unwrap(), checksum: 77 };
        let table = Table {
            volumes: vec![TableVolume {
                record: VolumeRecord {
                    id: VolumeId(3),
                    name: "größer".into(),
                    size_bytes: 1 << 40,
                    mode: DedupMode::Inline,
                    read_only: true,
                    is_hidden: true,
                    birth: Birth { created_s: Some(1_700_000_000), origin: Origin::Imported },
                },
                pages: vec![page(0), page(9)],
            }],
            records: vec![page(1)],
        };
        let stream = table.encode();
        assert_eq!(Table::decode(&stream), Some(table));
        assert_eq!(Table::decode(&stream[..stream.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes: Vec<u8>) {
            let _ = Table::decode(&bytes);
        }
    }
}
