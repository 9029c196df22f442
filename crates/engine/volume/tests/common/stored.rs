//! The contents on the data disk of a pool, plain or packed: their places, and those that a flipped
//! bit destroys.

use super::BLOCK;
use super::simulated::{DATA, Simulation};
use gemelo_format::{
    PackedPlace, Pbn, SLOT_HEAD_BYTES, SPANNING_SLOT, StoreKind, Superblock, slot_offset,
};
use gemelo_store::{ContentRead, Store};
use std::sync::Arc;

/// A byte of a content whose loss no other one makes up for. A packed one is shorter.
const BYTE: usize = 33;

/// A content on the data disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    pub pbn: Pbn,
    /// A byte of the disk. A change of it destroys this content and no other.
    pub at: usize,
}

/// The contents that may have a part in a block.
fn pbns_of(kind: StoreKind, block: u32) -> Vec<Pbn> {
    if kind == StoreKind::Plain {
        return Pbn::new(block.into()).into_iter().collect();
    }
    let before = PackedPlace { block: block.saturating_sub(1), slot: SPANNING_SLOT };
    let own = (0..=SPANNING_SLOT).map(|slot| PackedPlace { block, slot });
    std::iter::once(before).chain(own).filter_map(PackedPlace::pbn).collect()
}

fn read(store: &dyn Store, pbn: Pbn) -> Option<Vec<u8>> {
    let mut content = vec![0; BLOCK];
    let mut reads = [ContentRead::new(pbn, 0, &mut content)];
    store.read(&mut reads);
    let [read] = reads;
    read.outcome.is_ok().then_some(content)
}

fn open(simulation: &Simulation) -> (Superblock, Arc<dyn Store>) {
    let disks = simulation.disks();
    let superblock = disks.read_superblock(&mut Vec::new()).unwrap();
    let store = disks.store(&superblock);
    (superblock, store)
}

/// Returns the places of a content, in the order of their blocks. The store keeps what was freed.
pub fn copies_of(simulation: &Simulation, content: &[u8]) -> Vec<Stored> {
    let images = simulation.images();
    let data = images[DATA].clone();
    let (superblock, store) = open(&Simulation::of_images(0, images));
    let blocks = (data.len() / BLOCK) as u32;
    let pbns = (1..blocks).flat_map(|block| pbns_of(superblock.store, block));
    let mut found: Vec<Stored> = pbns
        .filter(|pbn| read(&*store, *pbn).is_some_and(|found| found == content))
        .map(|pbn| Stored { pbn, at: byte_of(superblock.store, pbn, &data) })
        .collect();
    // A content that goes on in the next block is found in both.
    found.dedup();
    found
}

fn byte_of(kind: StoreKind, pbn: Pbn, data: &[u8]) -> usize {
    let place = PackedPlace::of(pbn);
    let start = kind.first_block(pbn) as usize * BLOCK;
    match kind {
        StoreKind::Packed(_) if !place.is_whole() => {
            let offset = slot_offset(&data[start..start + BLOCK], place.slot).unwrap();
            start + offset + SLOT_HEAD_BYTES + 1
        }
        _ => start + BYTE,
    }
}

/// Returns the contents of a block that a pool with the disks `before` has, and one with the disks
/// `after` has not.
pub fn destroyed(before: &Simulation, after: &Simulation, block: u32) -> Vec<Arc<[u8]>> {
    let (superblock, before) = open(before);
    let after = after.disks().store(&superblock);
    let pbns = pbns_of(superblock.store, block).into_iter();
    let contents = pbns.filter_map(|pbn| {
        let content = read(&*before, pbn)?;
        (read(&*after, pbn).as_ref() != Some(&content)).then(|| content.into())
    });
    contents.collect()
}
