//! The table of a checkpoint: the list of volumes, each with the root of its map, and the pages of
//! the records.

use super::codec::Reader;
use super::map::MapRef;
use super::regions::{Reading, read_slot};
use super::{NODE_REF_BYTES, NodeRef, PAGE_BYTES, Page, PoolSeed, Root, Slot, Superblock};
use crate::error::{FormatError, Result};
use crate::volume::VolumeRecord;
use gemelo_disk::Disk;

/// Bytes of a link: the slot of a page and its checksum, or zeros for none.
pub(crate) const LINK_BYTES: usize = NODE_REF_BYTES;
/// Bytes of the stream in each page.
const PIECE_BYTES: usize = PAGE_BYTES - LINK_BYTES;
/// Bytes of a [`PageRef`].
const PAGE_REF_BYTES: usize = 16;

pub(crate) fn encode_link(link: Option<NodeRef>) -> [u8; LINK_BYTES] {
    let mut bytes = [0; LINK_BYTES];
    let (slot, checksum) = bytes.split_at_mut(4);
    if let Some(link) = link {
        slot.copy_from_slice(&link.slot.number().to_le_bytes());
        checksum.copy_from_slice(&link.checksum.to_le_bytes());
    }
    bytes
}

pub(crate) fn decode_link(bytes: [u8; LINK_BYTES]) -> Option<NodeRef> {
    let mut reader = Reader::new(&bytes);
    let slot = Slot::new(reader.u32()?)?;
    Some(NodeRef { slot, checksum: reader.u64()? })
}

/// The place of a page of the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRef {
    /// The number of the page among the records.
    pub number: u32,
    /// The slot of the page.
    pub slot: Slot,
    /// The checksum of the page.
    pub checksum: u64,
}

impl PageRef {
    /// Returns the page's slot and checksum.
    #[must_use]
    pub const fn at(self) -> NodeRef {
        NodeRef { slot: self.slot, checksum: self.checksum }
    }
}

/// A volume in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableVolume {
    /// The record of the volume.
    pub record: VolumeRecord,
    /// The root of the volume's map, or `None` if nothing is mapped.
    pub root: Option<MapRef>,
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
            out.extend_from_slice(&MapRef::encode(volume.root));
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
            let root = MapRef::decode(reader.array()?)?;
            table.volumes.push(TableVolume { record, root });
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

/// A page to be written, with its slot.
pub type SlotWrite = (Slot, Box<Page>);

/// A stream cut into pages.
pub struct Chain {
    /// The pages, the last piece of the stream first.
    pub pages: Vec<SlotWrite>,
    /// The page with the first piece; `None` for an empty stream.
    pub first: Option<NodeRef>,
}

/// Cuts a stream into pages, each for the slot that `next_slot` returns. Returns `None` if there is
/// no slot left.
pub fn build_chain(
    stream: &[u8],
    seed: PoolSeed,
    mut next_slot: impl FnMut() -> Option<Slot>,
) -> Option<Chain> {
    let mut chain = Chain { pages: Vec::new(), first: None };
    for piece in stream.chunks(PIECE_BYTES).rev() {
        let mut page = Box::new([0; PAGE_BYTES]);
        let (head, body) = page.split_at_mut(LINK_BYTES);
        head.copy_from_slice(&encode_link(chain.first));
        let (body, _) = body.split_at_mut(piece.len());
        body.copy_from_slice(piece);
        let slot = next_slot()?;
        chain.first = Some(NodeRef { slot, checksum: seed.checksum(&*page) });
        chain.pages.push((slot, page));
    }
    Some(chain)
}

/// The contents and the slots of a chain.
pub struct ReadChain {
    /// The stream of bytes.
    pub stream: Vec<u8>,
    /// The slots of its pages.
    pub slots: Vec<Slot>,
    /// Slots with one copy that fails its checksum.
    pub damaged_copies: Vec<Slot>,
}

/// Reads the stream that was cut into pages.
///
/// # Errors
/// Fails if both copies of a page are damaged, or if the disk cannot be read.
pub fn read_chain(
    disk: &dyn Disk,
    superblock: &Superblock,
    root: &Root,
    seed: PoolSeed,
) -> Result<ReadChain> {
    let mut chain = ReadChain { stream: Vec::new(), slots: Vec::new(), damaged_copies: Vec::new() };
    let mut link = root.table;
    while (chain.stream.len() as u64) < root.table_bytes {
        let at = link.ok_or_else(|| FormatError::damaged("the table ends too early"))?;
        let read = read_slot(disk, superblock.regions(), at, seed, Reading::All)?;
        let page =
            read.page.ok_or_else(|| FormatError::damaged("both copies of a page of the table"))?;
        chain.slots.push(at.slot);
        chain.damaged_copies.extend((read.damaged_copies > 0).then_some(at.slot));
        let (head, body) = page
            .split_first_chunk()
            .ok_or_else(|| FormatError::damaged("a page of the table is too short for its link"))?;
        link = decode_link(*head);
        let left = root.table_bytes - chain.stream.len() as u64;
        let piece = body.iter().take(usize::try_from(left).unwrap_or(usize::MAX));
        chain.stream.extend(piece);
    }
    assert_eq!(chain.stream.len() as u64, root.table_bytes, "the stream has its whole length");
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::Compression;
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
                    compression: Compression::Off,
                    read_only: true,
                    is_hidden: true,
                    birth: Birth { created_s: Some(1_700_000_000), origin: Origin::Imported },
                },
                root: Some(MapRef { bits: 30, page: None }),
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
