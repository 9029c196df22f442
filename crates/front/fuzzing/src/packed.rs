//! A fuzz target for blocks that compressed contents share.
//!
//! The input changes bytes of two blocks with three contents. A fuzzer does not guess checksums, so
//! those of contents that end in their block are made correct, if the input asks for it.

use crate::disk::{BLOCK_BYTES, disk_of};
use gemelo_format::{
    Compression, FingerprintKind, PACKED_MAGIC, PACKED_TABLE_BYTES, PackedPlace, Pbn, PoolSeed,
    SLOT_HEAD_BYTES, SPANNING_SLOT, SlotHead, StoreKind, Superblock, slot_offset,
};
use gemelo_store::{BlockStore, Codec, ContentRead, PackedStore, Store, StoreSetUp};
use std::sync::Arc;

/// The block in which the contents begin.
const BLOCK: u32 = 1;
/// A change of a byte: an offset in both blocks (2), and the new byte (1).
const PATCH_BYTES: usize = 3;

fn superblock() -> Superblock {
    Superblock {
        block_bytes: BLOCK_BYTES as u32,
        pool_id: [1; 16],
        key: [2; 32],
        fingerprint: FingerprintKind::Blake3,
        ring_pages: 8,
        words: gemelo_format::WordForm::Narrow,
        unknown: gemelo_format::Features::NONE,
        header_copy: None,
        store: StoreKind::Packed(Compression::Lz4),
    }
}

fn pbn_of(slot: u8) -> Option<Pbn> {
    PackedPlace { block: BLOCK, slot }.pbn()
}

/// Makes two blocks: the contents of slots 1 and 2 end in the first, that of slot 7 in the second.
fn blocks() -> Vec<u8> {
    let (seed, codec) = (PoolSeed::of(&superblock()), Codec::new(BLOCK_BYTES));
    let mut blocks = PACKED_MAGIC.to_vec();
    blocks.resize(PACKED_TABLE_BYTES, 0);
    let kinds =
        [(1, Compression::Lz4), (2, Compression::Zstd(1)), (SPANNING_SLOT, Compression::Lz4)];
    for (slot, compression) in kinds {
        // Different bytes at first, so that three contents are longer than a block.
        let content: Vec<u8> =
            (0..BLOCK_BYTES).map(|at| if at < 200 { (at * at / 3) as u8 } else { slot }).collect();
        let compressed = codec.compress(compression, &[&content]);
        let Some((algorithm, bytes)) = compressed.parts().next().flatten() else { continue };
        let Some(pbn) = pbn_of(slot) else { continue };
        let offset = (blocks.len() as u16).to_le_bytes();
        put(&mut blocks, 2 * usize::from(slot), &offset);
        blocks.extend_from_slice(&SlotHead::new(seed, pbn, algorithm, bytes).encode());
        blocks.extend_from_slice(bytes);
    }
    // The rest of the last content is behind the table of the next block.
    if blocks.len() > BLOCK_BYTES {
        let rest = blocks.split_off(BLOCK_BYTES);
        blocks.extend_from_slice(&PACKED_MAGIC);
        blocks.resize(BLOCK_BYTES + PACKED_TABLE_BYTES, 0);
        blocks.extend_from_slice(&rest);
    }
    blocks.resize(2 * BLOCK_BYTES, 0);
    blocks
}

fn put(bytes: &mut [u8], at: usize, part: &[u8]) {
    if let Some(to) = bytes.get_mut(at..at + part.len()) {
        to.copy_from_slice(part);
    }
}

/// Makes the checksum of a content right that ends in its block.
fn correct(block: &mut [u8], slot: u8) {
    let (Some(pbn), Some(offset)) = (pbn_of(slot), slot_offset(block, slot)) else { return };
    let Some((head, rest)) = block.get(offset..).and_then(<[u8]>::split_first_chunk) else {
        return;
    };
    let head = SlotHead::decode(*head);
    let Some(bytes) = rest.get(..usize::from(head.length)) else { return };
    let right = SlotHead::new(PoolSeed::of(&superblock()), pbn, head.algorithm, bytes);
    put(block, offset, &right.encode());
}

/// Reads the contents of two blocks whose bytes were changed.
pub(crate) fn block(bytes: &[u8]) {
    let mut blocks = blocks();
    let (is_corrected, patches) = match bytes.split_first() {
        Some((first, rest)) => (first % 2 == 0, rest),
        None => return,
    };
    for [low, high, byte] in patches.as_chunks::<PATCH_BYTES>().0 {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % blocks.len();
        put(&mut blocks, at, &[*byte]);
    }
    if is_corrected {
        let (first, _) = blocks.split_at_mut(BLOCK_BYTES);
        (1..=SPANNING_SLOT).for_each(|slot| correct(first, slot));
    }
    let disk = disk_of([&[0; BLOCK_BYTES][..], &blocks].concat());
    let below = BlockStore::open(disk, &superblock());
    let store = PackedStore::over(Arc::clone(&below), &superblock());
    (0..=SPANNING_SLOT).filter_map(pbn_of).for_each(|pbn| read(&store, pbn, &blocks));
}

/// Reads a content, which must be the same as that of its form, also after that was written again.
fn read(store: &PackedStore, pbn: Pbn, blocks: &[u8]) {
    let content = read_one(store, pbn);
    let (block, next) = blocks.split_at(BLOCK_BYTES);
    let form = PackedStore::form_in(pbn, block, Some(next));
    let of_form = form.as_ref().and_then(|form| store.content_of_form(pbn, form));
    assert!(of_form == content, "a form has another content");
    if let (Some(form), Some(_)) = (form, &content) {
        let unwritten = store.write_forms(&[(pbn, &form)]);
        assert!(unwritten.is_ok_and(|unwritten| unwritten.is_empty()), "a good form is refused");
        assert!(read_one(store, pbn) == content, "a content has changed");
    }
}

fn read_one(store: &PackedStore, pbn: Pbn) -> Option<Vec<u8>> {
    let mut content = vec![0; BLOCK_BYTES];
    let mut reads = [ContentRead::new(pbn, 0, &mut content)];
    store.read(&mut reads);
    let [read] = reads;
    read.outcome.is_ok().then_some(content)
}

/// Inputs that change nothing, a length, an offset and an algorithm.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const { assert!(SLOT_HEAD_BYTES == 8, "the places of the seeds") };
    vec![vec![1], vec![0, 16, 0, 255], vec![0, 2, 0, 255], vec![0, 18, 0, 2], vec![0, 30, 0, 77]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unchanged_blocks_have_three_contents() {
        let disk = disk_of([&[0; BLOCK_BYTES][..], &blocks()].concat());
        let below = BlockStore::open(disk, &superblock());
        let store = PackedStore::over(below, &superblock());
        let found =
            (1..=SPANNING_SLOT).filter(|slot| read_one(&store, pbn_of(*slot).unwrap()).is_some());
        assert_eq!(found.collect::<Vec<u8>>(), [1, 2, SPANNING_SLOT]);
    }
}
