//! The places on the metadata disk of a pool in a test.

use super::simulated::Simulation;
use gemelo_format::{COPIES, PAGE_BYTES, Regions, Slot, Superblock, read_superblock};
use std::ops::Range;

/// Pages of each ring of a pool with the shortest journal.
const SHORT_RING_PAGES: u64 = (64 << 10) / (COPIES * PAGE_BYTES) as u64;

/// The bytes of the two rings of a pool with the shortest journal.
pub fn short_rings() -> [Range<u64>; COPIES] {
    let regions = Regions::new(SHORT_RING_PAGES);
    let ring = regions.ring(0, regions.ring_bytes() as usize).next();
    // So short a journal is in one piece.
    ring.unwrap().offsets.map(|start| start..start + regions.ring_bytes())
}

/// The places of the first slots of such a pool, which are the first that a checkpoint writes.
pub fn first_slots() -> Range<u64> {
    short_rings()[0].end..Superblock::offsets()[1]
}

/// The superblock of a metadata disk.
pub fn superblock_of(metadata: &[u8]) -> Superblock {
    let simulation = Simulation::of_images(1, [Vec::new(), metadata.to_vec()]);
    read_superblock(&*simulation.disks().metadata, &mut Vec::new()).unwrap()
}

/// The byte offsets of both copies of every page of a metadata disk.
pub fn twins(metadata: &[u8]) -> Vec<[usize; COPIES]> {
    let regions = superblock_of(metadata).regions();
    let page = PAGE_BYTES as u64;
    let [first, second] = Superblock::offsets();
    let heads = [0, 1, 2, 3].map(|number| [first + number * page, second + number * page]);
    let pages = (0..regions.ring_bytes()).step_by(PAGE_BYTES);
    let rings = pages.flat_map(|at| regions.ring(at, PAGE_BYTES)).map(|piece| piece.offsets);
    let slots = (1..).map(|number| regions.slot(Slot::new(number).unwrap()));
    let is_there = |pair: &[u64; COPIES]| pair[0] + page <= metadata.len() as u64;
    let all = heads.into_iter().chain(rings).chain(slots.take_while(is_there));
    let whole = all.filter(|pair| pair[1] + page <= metadata.len() as u64);
    whole.map(|pair| pair.map(|offset| offset as usize)).collect()
}

/// The pages of a metadata disk that are not zeros, by their numbers.
pub fn used_pages(metadata: &[u8]) -> Vec<usize> {
    let pages = metadata.chunks(PAGE_BYTES).enumerate();
    pages.filter(|(_, page)| page.iter().any(|byte| *byte != 0)).map(|(number, _)| number).collect()
}

/// The places of the slots that a checkpoint takes first.
pub fn first_slots_of(simulation: &Simulation) -> Range<u64> {
    let [_, metadata] = simulation.images();
    let regions = superblock_of(&metadata).regions();
    let [first, last] = [1, 100].map(|number| regions.slot(Slot::new(number).unwrap())[0]);
    first..last
}
