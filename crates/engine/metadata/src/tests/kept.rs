//! The index in memory that a clean stop leaves for the next opening.

use super::CACHE_BYTES;
use super::pair::Pair;
use super::reading::CountingDisk;
use crate::{IndexSampling, MetadataBackend};
use gemelo_disk::Disk;
use gemelo_format::{
    NodeRef, PAGE_BYTES, Policy, PoolSeed, Root, StoreTable, Tree, VolumeId, array_value,
    read_chain,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn pages(backend: &dyn MetadataBackend) -> u64 {
    backend.totals().pages
}

/// Writes a checkpoint, and the index with it.
fn stop(pair: &mut Pair) -> Root {
    pair.backend.keep_index(true).unwrap();
    let wanted = pair.backend.slots();
    let before = pages(&*pair.backend);
    pair.backend.freeze();
    let root = pair.write();
    let taken = pages(&*pair.backend) - before;
    assert!(taken <= wanted.next, "{taken} slots, {} foretold", wanted.next);
    pair.backend.finish();
    pair.generation += 1;
    root
}

fn filled(steps: u32) -> Pair {
    let mut pair = Pair::new(Policy::Compact, 3);
    pair.create(1);
    (0..steps).for_each(|_| pair.step(false));
    pair
}

/// The parts that an opening reads until the index is complete.
fn parts_until_complete(pair: &Pair) -> u32 {
    let mut parts = 0;
    while pair.backend.catch_up().unwrap() {
        parts += 1;
    }
    parts
}

/// Reopens a pair and reads its index. Returns the pages that were read.
fn reopened(pair: &mut Pair, root: &Root) -> u64 {
    let disk = CountingDisk::over(pair.metadata(), 0);
    pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, root, CACHE_BYTES);
    let before = disk.pages.load(Ordering::Relaxed);
    parts_until_complete(pair);
    disk.pages.load(Ordering::Relaxed) - before
}

fn tree_of(pair: &Pair, root: &Root) -> Tree {
    let superblock = &pair.superblock;
    let seed = PoolSeed::of(superblock);
    let chain = read_chain(&*pair.metadata(), superblock, root, seed).unwrap();
    StoreTable::decode(&chain.stream).unwrap().index
}

#[test]
fn an_opening_after_a_stop_reads_the_index_and_no_record() {
    let mut pair = filled(40_000);
    pair.backend.freeze();
    let computed_from = pair.write();
    pair.backend.finish();
    pair.generation += 1;
    let by_records = reopened(&mut pair, &computed_from);
    let root = stop(&mut pair);
    let by_pages = reopened(&mut pair, &root);
    assert_eq!(pair.backend.totals().index_entries, pair.live_fingerprints());
    // 16 bytes of a record, and 4 to 5 of an entry; a small index has slots that are not full.
    assert!(by_pages * 2 < by_records, "{by_pages} pages, {by_records} of records");
    pair.compare();
}

#[test]
fn what_does_not_change_is_not_written_again_and_what_changes_leaves_no_pages() {
    let mut pair = filled(20_000);
    let mut root = stop(&mut pair);
    pair.reload(&root);
    let (kept, before) = (tree_of(&pair, &root), pages(&*pair.backend));
    assert!(kept.root.is_some());
    for is_read in [false, true] {
        if is_read {
            parts_until_complete(&pair);
        }
        root = stop(&mut pair);
        assert_eq!(tree_of(&pair, &root), kept, "nothing has changed");
        assert_eq!(pages(&*pair.backend), before);
        pair.reload(&root);
    }
    for round in 0..6 {
        pair.free_unused();
        // Changes come before the index was read, or after it.
        for turn in 0..3 {
            if turn == round % 3 {
                parts_until_complete(&pair);
            }
            (0..200).for_each(|_| pair.step(false));
            pair.backend.freeze();
            root = pair.write();
            assert_eq!(tree_of(&pair, &root).root, None, "the pages lack what has changed");
            pair.backend.finish();
            pair.generation += 1;
        }
        (0..200).for_each(|_| pair.step(false));
        root = stop(&mut pair);
        assert!(tree_of(&pair, &root).root.is_some());
        let in_use = pages(&*pair.backend);
        pair.reload(&root);
        assert_eq!(pages(&*pair.backend), in_use, "no slot is lost");
        parts_until_complete(&pair);
        assert_eq!(pair.backend.totals().index_entries, pair.live_fingerprints(), "{round}");
        pair.compare();
    }
}

/// The next opening has another sample, or the pages are damaged.
#[test]
fn an_index_that_cannot_be_read_is_computed_and_kept_again() {
    let mut pair = filled(20_000);
    let root = stop(&mut pair);
    pair.sampling = IndexSampling::one_in(4).unwrap();
    let by_records = reopened(&mut pair, &root);
    let sampled = pair.backend.totals().index_entries;
    assert!((1..pair.live_fingerprints() / 2).contains(&sampled), "{sampled} entries");
    pair.sampling = IndexSampling::ALL;
    pair.reload(&root);
    let metadata = pair.metadata();
    let tree = tree_of(&pair, &root).root.unwrap();
    let mut directory = [0; PAGE_BYTES];
    let [first, _] = pair.superblock.regions().slot(tree.slot);
    metadata.read_at(first, &mut directory).unwrap();
    let leaf = NodeRef::from_bits(array_value(&directory, 1, 12));
    for at in [leaf.unwrap(), tree] {
        let offsets = pair.superblock.regions().slot(at.slot);
        let mut page = [0; PAGE_BYTES];
        metadata.read_at(offsets[0], &mut page).unwrap();
        let good = page;
        page[100] ^= 4;
        offsets.into_iter().for_each(|offset| metadata.write_at(offset, &page).unwrap());
        pair.reload(&root);
        parts_until_complete(&pair);
        assert_eq!(pair.backend.totals().index_entries, pair.live_fingerprints());
        pair.backend.prefetch(VolumeId(1), &[], &[]).expect("nothing is damaged");
        let later = stop(&mut pair);
        let pages = reopened(&mut pair, &later);
        assert!(pages < by_records / 2, "it is kept anew, and {pages} pages are read");
        pair.compare();
        offsets.into_iter().for_each(|offset| metadata.write_at(offset, &good).unwrap());
    }
}

#[test]
fn an_index_that_is_being_computed_is_not_kept() {
    let mut pair = filled(20_000);
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    pair.reload(&root);
    assert!(pair.backend.catch_up().unwrap());
    let root = stop(&mut pair);
    assert_eq!(tree_of(&pair, &root).root, None);
    for kind in [Policy::InRam, Policy::Dtb, Policy::Cbt] {
        let mut pair = Pair::new(kind, 1);
        pair.create(1);
        (0..100).for_each(|_| pair.step(false));
        pair.backend.keep_index(true).unwrap();
        pair.backend.freeze();
        let root = pair.write();
        pair.reload(&root);
        pair.compare();
    }
}
