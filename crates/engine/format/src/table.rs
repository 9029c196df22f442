//! The pages of the table of a checkpoint: a stream of bytes, cut into pages that lead to one
//! another.

use super::codec::Reader;
use super::regions::{Reading, read_slot};
use super::{NODE_REF_BYTES, NodeRef, PAGE_BYTES, Page, PoolSeed, Root, Slot, Superblock};
use crate::error::{FormatError, Result};
use gemelo_disk::Disk;

/// Bytes of a link: the slot of a page and its checksum, or zeros for none.
pub(crate) const LINK_BYTES: usize = NODE_REF_BYTES;
/// Bytes of the stream in each page.
const PIECE_BYTES: usize = PAGE_BYTES - LINK_BYTES;

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
