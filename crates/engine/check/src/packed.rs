//! Reading contents, compressed ones with code of its own.

use crate::walk::Walk;
use gemelo_format::{
    Checksum, Compression, DiskRole, FormatError, PACKED_TABLE_BYTES, PackedPlace, Pbn, PoolSeed,
    SLOT_HEAD_BYTES, SlotHead, StoreKind, Superblock, slot_offset,
};
use gemelo_store::{ContentRead, OverlaidStore, PoolDisks, Store};
use std::io;
use std::sync::Arc;

/// Bytes of the offset before a compressed content that a commit carries.
const OFFSET_BYTES: usize = 2;

/// A content, and the bytes that it takes in the data store.
pub(crate) type SizedContent = (Vec<u8>, u64);

/// Returns the content that a commit carries in this form.
pub(crate) fn content_in_the_journal(
    superblock: &Superblock,
    pbn: Pbn,
    form: Vec<u8>,
) -> Option<SizedContent> {
    if is_whole(superblock, pbn) {
        let bytes = form.len() as u64;
        return (bytes == u64::from(superblock.block_bytes)).then_some((form, bytes));
    }
    let (_, stored) = form.split_at_checked(OFFSET_BYTES)?;
    let (head, bytes) = split(stored)?;
    head.is_of(PoolSeed::of(superblock), pbn, bytes).then(|| unpack(superblock, stored))?
}

fn is_whole(superblock: &Superblock, pbn: Pbn) -> bool {
    superblock.store == StoreKind::Plain || PackedPlace::of(pbn).is_whole()
}

/// Returns a function that reads whole contents, and returns the bytes that each of them takes in
/// the data store, if it can be read. A content that lies elsewhere takes none.
pub(crate) fn reader(
    disks: &PoolDisks,
    walk: &Walk,
) -> impl Fn(&mut [ContentRead<'_>]) -> Vec<u64> {
    let superblock = &walk.superblock;
    let (store, blocks) = (disks.store(superblock), disks.blocks(superblock));
    let plain = OverlaidStore::over(Arc::clone(&store), Arc::clone(&walk.replayed_data));
    let free_veto = disks.free_veto();
    move |reads| {
        if superblock.store == StoreKind::Plain {
            plain.read(reads);
            return vec![u64::from(superblock.block_bytes); reads.len()];
        }
        let read_one = |read: &mut ContentRead<'_>| {
            if free_veto.as_ref().is_some_and(|free_veto| free_veto.is_elsewhere(read.pbn)) {
                store.read(std::slice::from_mut(read));
                return 0;
            }
            let replayed = walk.replayed_data.get(&read.pbn).cloned();
            let bytes = walk.replayed_bytes.get(&read.pbn).copied();
            let content = match replayed.zip(bytes) {
                Some(sized) => Ok(sized),
                None => content_of(&*blocks, superblock, read.pbn),
            };
            let bytes = content.as_ref().map_or(0, |(_, bytes)| *bytes);
            read.outcome = content.map(|(content, _)| read.buffer.copy_from_slice(&content));
            bytes
        };
        reads.iter_mut().map(read_one).collect()
    }
}

/// Returns whether the data store has all of these contents. A commit that was written beside them
/// counts only then. Other members know of a block only if its commit counts.
pub(crate) fn has_all(
    disks: &PoolDisks,
    superblock: &Superblock,
    contents: &[(Pbn, Checksum)],
) -> Result<bool, FormatError> {
    let free_veto = disks.free_veto();
    if contents.iter().any(|(pbn, _)| free_veto.iter().any(|veto| veto.is_kept(*pbn))) {
        return Ok(true);
    }
    let (blocks, seed) = (disks.blocks(superblock), PoolSeed::of(superblock));
    for (pbn, checksum) in contents {
        let content = match superblock.store {
            StoreKind::Plain => block_of(&*blocks, superblock, pbn.number()),
            StoreKind::Packed(_) => content_of(&*blocks, superblock, *pbn).map(|(bytes, _)| bytes),
        };
        let is_there = match content {
            Ok(content) => seed.of_content(&content) == *checksum,
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => false,
                _ => return Err(FormatError::io(DiskRole::Data, "read")(error)),
            },
        };
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the content of a packed store.
fn content_of(blocks: &dyn Store, superblock: &Superblock, pbn: Pbn) -> io::Result<SizedContent> {
    let place = PackedPlace::of(pbn);
    let block = block_of(blocks, superblock, place.block.into())?;
    if place.is_whole() {
        let bytes = block.len() as u64;
        return Ok((block, bytes));
    }
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let offset = slot_offset(&block, place.slot).ok_or_else(wrong)?;
    let mut stored = block.get(offset..).unwrap_or_default().to_vec();
    if place.is_spanning() {
        let next = block_of(blocks, superblock, (place.block + 1).into())?;
        stored.extend_from_slice(next.get(PACKED_TABLE_BYTES..).unwrap_or_default());
    }
    unpack(superblock, &stored).ok_or_else(wrong)
}

fn block_of(blocks: &dyn Store, superblock: &Superblock, block: u64) -> io::Result<Vec<u8>> {
    let number = Pbn::new(block).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; superblock.block_bytes as usize];
    let mut reads = [ContentRead::new(number, 0, &mut bytes)];
    blocks.read(&mut reads);
    let [read] = reads;
    read.outcome.map(|()| bytes)
}

/// Splits what begins with a head into the head and the compressed bytes.
fn split(stored: &[u8]) -> Option<(SlotHead, &[u8])> {
    let (head, rest) = stored.split_first_chunk::<SLOT_HEAD_BYTES>()?;
    let head = SlotHead::decode(*head);
    Some((head, rest.get(..usize::from(head.length))?))
}

/// Decompresses what begins with a head. The caller compares the content with its checksum, as a
/// read does, so that of the form does not count: a flipped bit in it loses nothing.
fn unpack(superblock: &Superblock, stored: &[u8]) -> Option<SizedContent> {
    let (head, bytes) = split(stored)?;
    let mut content = vec![0; superblock.block_bytes as usize];
    let length = if head.algorithm == Compression::Lz4.algorithm() {
        lz4_flex::block::decompress_into(bytes, &mut content).ok()
    } else {
        zstd::bulk::decompress_to_buffer(bytes, &mut content).ok()
    };
    let taken = (SLOT_HEAD_BYTES + bytes.len()) as u64;
    (length == Some(content.len())).then_some((content, taken))
}
