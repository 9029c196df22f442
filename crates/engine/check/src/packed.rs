//! Reading contents, compressed ones with code of its own.

use crate::walk::Walk;
use gemelo_format::{
    Compression, PACKED_TABLE_BYTES, PackedPlace, Pbn, PoolSeed, SLOT_HEAD_BYTES, SlotHead,
    StoreKind, Superblock, slot_offset,
};
use gemelo_store::{ContentRead, OverlaidStore, Store};
use std::io;
use std::sync::Arc;

/// Bytes of the offset before a compressed content that a commit carries.
const OFFSET_BYTES: usize = 2;

/// Returns the content that a commit carries in this form.
pub(crate) fn content_in_the_journal(
    superblock: &Superblock,
    pbn: Pbn,
    form: Vec<u8>,
) -> Option<Vec<u8>> {
    if is_whole(superblock, pbn) {
        return (form.len() == superblock.block_bytes as usize).then_some(form);
    }
    let (_, stored) = form.split_at_checked(OFFSET_BYTES)?;
    unpack(superblock, pbn, stored)
}

fn is_whole(superblock: &Superblock, pbn: Pbn) -> bool {
    superblock.store == StoreKind::Plain || PackedPlace::of(pbn).is_whole()
}

/// Returns a function that reads whole contents.
pub(crate) fn reader(blocks: Arc<dyn Store>, walk: &Walk) -> impl Fn(&mut [ContentRead<'_>]) {
    let superblock = &walk.superblock;
    let plain = OverlaidStore::over(Arc::clone(&blocks), Arc::clone(&walk.replayed_data));
    move |reads| {
        if superblock.store == StoreKind::Plain {
            return plain.read(reads);
        }
        for read in reads {
            let read_content = || match walk.replayed_data.get(&read.pbn) {
                Some(content) => Ok(content.clone()),
                None => content_of(&*blocks, superblock, read.pbn),
            };
            read.outcome = read_content().map(|content| read.buffer.copy_from_slice(&content));
        }
    }
}

/// Reads the content of a packed store.
fn content_of(blocks: &dyn Store, superblock: &Superblock, pbn: Pbn) -> io::Result<Vec<u8>> {
    let place = PackedPlace::of(pbn);
    let block = block_of(blocks, superblock, place.block)?;
    if place.is_whole() {
        return Ok(block);
    }
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let offset = slot_offset(&block, place.slot).ok_or_else(wrong)?;
    let mut stored = block.get(offset..).unwrap_or_default().to_vec();
    if place.is_spanning() {
        let next = block_of(blocks, superblock, place.block + 1)?;
        stored.extend_from_slice(next.get(PACKED_TABLE_BYTES..).unwrap_or_default());
    }
    unpack(superblock, pbn, &stored).ok_or_else(wrong)
}

fn block_of(blocks: &dyn Store, superblock: &Superblock, block: u32) -> io::Result<Vec<u8>> {
    let number = Pbn::new(block).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; superblock.block_bytes as usize];
    let mut reads = [ContentRead::new(number, 0, &mut bytes)];
    blocks.read(&mut reads);
    let [read] = reads;
    read.outcome.map(|()| bytes)
}

/// Decompresses what begins with a head.
fn unpack(superblock: &Superblock, pbn: Pbn, stored: &[u8]) -> Option<Vec<u8>> {
    let (head, rest) = stored.split_first_chunk::<SLOT_HEAD_BYTES>()?;
    let head = SlotHead::decode(*head);
    let bytes = rest.get(..usize::from(head.length))?;
    let is_own = head.is_of(PoolSeed::of(superblock), pbn, bytes);
    let mut content = vec![0; superblock.block_bytes as usize];
    let length = match head.algorithm {
        _ if !is_own => None,
        algorithm if algorithm == Compression::Lz4.algorithm() => {
            lz4_flex::block::decompress_into(bytes, &mut content).ok()
        }
        _ => zstd::bulk::decompress_to_buffer(bytes, &mut content).ok(),
    };
    (length == Some(content.len())).then_some(content)
}
