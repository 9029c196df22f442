//! The reads of the metadata disk.

use super::pair::Pair;
use super::{checksum_of, record};
use crate::error::Result;
use crate::{HeldPages, MetadataBackend};
use gemelo_disk::testing::DiskLayer;
use gemelo_disk::{Disk, DiskRead};
use gemelo_format::{
    COUNT_PAGE_PBNS, Change, DIRECTORY_ENTRIES, Fingerprint, Lbn, MAP_PAGE_ENTRIES, MapEntry,
    PAGE_BYTES, Part, Pbn, Policy, VolumeId,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A cache of which a list of reads may fill the part that these tests need.
const LARGE_CACHE_BYTES: u64 = 32 << 20;
/// Most pages above the leaves.
const ABOVE_PAGES: u64 = 12;
/// Lists that a write needs, at most: one for each level of a map, of an index and of the records.
const MAX_LISTS: u64 = 12;

fn is_on_disk((kind, _): &(Policy, u64)) -> bool {
    *kind != Policy::InRam
}

/// Counts lists of reads, and the pages in them.
pub(super) struct CountingDisk {
    below: Arc<dyn Disk>,
    lists: AtomicU64,
    pub(super) pages: AtomicU64,
    /// Set once it was told that its reads are scattered.
    is_scattered: AtomicBool,
    /// The first pages of a list that fail.
    failing: AtomicU64,
}

impl CountingDisk {
    pub(super) fn over(below: Arc<dyn Disk>, failing: u64) -> Arc<Self> {
        let [lists, pages] = [0; 2].map(AtomicU64::new);
        let (is_scattered, failing) = (AtomicBool::new(false), AtomicU64::new(failing));
        Arc::new(Self { below, lists, pages, is_scattered, failing })
    }
}

impl DiskLayer for CountingDisk {
    fn below(&self) -> &dyn Disk {
        &*self.below
    }

    fn expect_scattered_reads(&self) {
        self.is_scattered.store(true, Ordering::Relaxed);
    }

    fn read_many(&self, reads: &mut [DiskRead<'_>]) {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.pages.fetch_add(reads.len() as u64, Ordering::Relaxed);
        self.below.read_many(reads);
        let is_list = reads.len() > 1;
        let failing = if is_list { self.failing.load(Ordering::Relaxed) as usize } else { 0 };
        for read in reads.iter_mut().take(failing) {
            read.buffer.fill(0xAA);
        }
    }
}

/// The number of LBNs, each with leaves of its own in the map and the fingerprints.
const LEAVES: u64 = 150;
/// PBNs between those of two leaves.
const LEAF_PBNS: u64 = 1024;
/// Pages with their counts.
const COUNT_PAGES: u64 = (LEAVES * LEAF_PBNS).div_ceil(COUNT_PAGE_PBNS);

fn pbn_of(leaf: u64) -> u64 {
    leaf * LEAF_PBNS + 1
}

fn lbn_of(leaf: u64) -> Lbn {
    Lbn(leaf * Part::Map.array_entries() as u64)
}

fn fingerprint_of(pbn: u64) -> Fingerprint {
    Fingerprint::of_hash(u128::from(pbn) << 96 | u128::from(pbn))
}

fn store(leaf: u64, pbn: u64) -> Change {
    Change::Store {
        volume: VolumeId(1),
        lbn: lbn_of(leaf),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: fingerprint_of(pbn),
        checksum: checksum_of(pbn),
    }
}

/// Opens a backend with these LBNs, after an opening that made the first pages of lists fail.
fn opened(kind: Policy, failing: u64) -> (Pair, Arc<CountingDisk>) {
    opened_with(kind, failing, LARGE_CACHE_BYTES)
}

/// Does the same with a cache of this size.
fn opened_with(kind: Policy, failing: u64, cache_bytes: u64) -> (Pair, Arc<CountingDisk>) {
    let mut pair = Pair::new(kind, 1);
    pair.apply(&Change::Create(record(1, LEAVES * MAP_PAGE_ENTRIES as u64 * 512)));
    for leaf in 0..LEAVES {
        pair.apply(&store(leaf, pbn_of(leaf)));
    }
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    let disk = CountingDisk::over(pair.metadata(), failing);
    pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, cache_bytes);
    (pair, disk)
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The used blocks are read in lists. The second copy replaces a damaged first one.
#[test]
fn used_blocks_are_read_ahead() {
    for (kind, failing) in
        [Policy::Dtb, Policy::Compact].map(|kind| [(kind, 0), (kind, 3)]).concat()
    {
        let (pair, disk) = opened(kind, failing);
        let (lists, pages) = (read(&disk.lists), read(&disk.pages));
        let mut used = 0;
        pair.backend.visit_used(Pbn::FIRST, &mut |_| used += 1).unwrap();
        assert_eq!(used, LEAVES);
        assert!(read(&disk.lists) - lists <= 2 + 2 * failing, "{kind:?}");
        assert!(read(&disk.pages) - pages <= COUNT_PAGES + 1 + 2 * failing, "{kind:?}");
        let beyond = Pbn::new(pbn_of(LEAVES)).unwrap();
        pair.backend.visit_used(beyond, &mut |_| used += 1).unwrap();
        assert_eq!(used, LEAVES, "nothing is there");
    }
}

/// The pages that the LBNs of a batch need are read in a list for each part of the metadata.
#[test]
fn a_list_of_look_ups_reads_its_pages_in_lists() {
    for (kind, failing) in
        Policy::ALL.iter().flat_map(|kind| [(*kind, 0), (*kind, 3)]).filter(is_on_disk)
    {
        let (pair, disk) = opened(kind, failing);
        while pair.backend.catch_up().unwrap() {}
        let lists = read(&disk.lists);
        let lbns: Vec<Lbn> = (0..LEAVES).map(lbn_of).collect();
        let (mut places, mut found) = (Vec::new(), Vec::new());
        pair.backend.look_up(VolumeId(1), &lbns, &mut places).unwrap();
        pair.backend.prefetch(VolumeId(1), &lbns, &places).unwrap();
        let (mut records, mut expected) = (Vec::new(), Vec::new());
        for leaf in 0..LEAVES {
            let pbn = pbn_of(leaf);
            expected.push(MapEntry::Stored(Pbn::new(pbn).unwrap(), checksum_of(pbn)));
            found.extend(Pbn::new(pbn));
        }
        pair.backend.records(&found, &mut records).unwrap();
        assert_eq!(places, expected, "{kind:?}");
        assert!(records.iter().all(|record| record.references == 1), "{kind:?}");
        // A list for the map, the counts and the fingerprints, and the pages above them.
        let lists = read(&disk.lists) - lists;
        assert!(lists <= 3 + ABOVE_PAGES + 2 * 3 * failing, "{kind:?}: {lists} lists");
    }
}

/// A replay and the checkpoint after it read in lists as well.
#[test]
fn a_replay_reads_its_pages_in_lists() {
    for (kind, _) in Policy::ALL.iter().map(|kind| (*kind, 0)).filter(is_on_disk) {
        let (mut pair, disk) = opened(kind, 0);
        let lists = read(&disk.lists);
        let changes: Vec<Change> = (0..LEAVES).map(|leaf| store(leaf, pbn_of(leaf) + 1)).collect();
        let mut freed = Vec::new();
        pair.backend.replay(&changes, &mut freed).unwrap();
        assert_eq!(freed.len() as u64, LEAVES, "{kind:?}");
        let lists = read(&disk.lists) - lists;
        assert!(lists <= 2 + ABOVE_PAGES, "{kind:?}: {lists} lists");
        assert_eq!(pair.backend.prove(1).unwrap(), Vec::<String>::new(), "{kind:?}");
    }
}

/// The pages of a replay are counted while its changes are made, also those of a snapshot that is
/// compared, and after a checkpoint that failed.
#[test]
fn a_replay_reads_as_many_pages_as_were_counted() {
    for kind in [Policy::Dtb, Policy::Compact] {
        let (mut pair, disk) = opened(kind, 0);
        let overwrite = |fresh| (0..LEAVES).map(move |leaf| store(leaf, pbn_of(leaf) + fresh));
        // An entry of the map for each LBN, later also one of the snapshot, and the counts.
        for (fresh, pages_of_leaf) in [(1, 1), (2, 2)] {
            let before = read(&disk.pages);
            pair.backend.replay(&overwrite(fresh).collect::<Vec<_>>(), &mut Vec::new()).unwrap();
            let pages = read(&disk.pages) - before;
            let counted = pair.backend.replay_reads();
            assert_eq!(counted, pages_of_leaf * LEAVES + COUNT_PAGES, "{kind:?}");
            assert!((counted..=counted + ABOVE_PAGES).contains(&pages), "{kind:?}: {pages} pages");
            pair.backend.freeze();
            pair.backend.abandon();
            assert_eq!(pair.backend.replay_reads(), counted, "{kind:?}");
            pair.apply(&Change::Clone {
                source: VolumeId(1),
                volume: VolumeId(1 + fresh as u32),
                name: format!("v{fresh}"),
                read_only: true,
                created_s: None,
            });
            overwrite(5).for_each(|change| drop(pair.apply(&change)));
            pair.backend.freeze();
            let root = pair.write();
            pair.backend.finish();
            assert_eq!(pair.backend.replay_reads(), 0, "{kind:?}");
            pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, LARGE_CACHE_BYTES);
        }
    }
}

/// What a write looks up: the places, the blocks with the same contents and their records, and what
/// the changes will need.
fn look(backend: &dyn MetadataBackend, lbns: &[Lbn], contents: &[Fingerprint]) -> Result<usize> {
    let (mut places, mut found, mut records) = (Vec::new(), Vec::new(), Vec::new());
    let places_known = backend.look_up(VolumeId(1), lbns, &mut places);
    backend.find(contents, &mut found)?;
    places_known?;
    let known: Vec<Pbn> = found.into_iter().flatten().map(|known| known.pbn).collect();
    backend.records(&known, &mut records)?;
    backend.prefetch(VolumeId(1), lbns, &places)?;
    Ok(known.len())
}

/// A look reads nothing. The pages that it misses are read in one list, and each look gets to those
/// below them. The thread holds them, so the change reads nothing either, in spite of a cache that
/// is too small.
#[test]
fn what_a_write_needs_is_read_between_the_looks() {
    for kind in [Policy::Cbt, Policy::Dtb, Policy::Compact] {
        for leaves in [1, LEAVES] {
            let (mut pair, disk) = opened_with(kind, 0, 0);
            while pair.backend.catch_up().unwrap() {}
            let lbns: Vec<Lbn> = (0..leaves).map(lbn_of).collect();
            // The last one is unknown.
            let known = (0..leaves).map(pbn_of).chain([pbn_of(LEAVES)]);
            let contents: Vec<Fingerprint> = known.map(fingerprint_of).collect();
            let held = HeldPages::hold();
            let mut lists = 0;
            let found = loop {
                let before = read(&disk.pages);
                let seen = held.look(|| look(&*pair.backend, &lbns, &contents));
                assert_eq!(read(&disk.pages), before, "{kind:?}: a look has read a page");
                if let Some(seen) = seen {
                    break seen.unwrap();
                }
                let before = read(&disk.lists);
                pair.backend.missing_pages().unwrap().read();
                assert_eq!(read(&disk.lists), before + 1, "{kind:?}");
                lists += 1;
            };
            // On disk all these contents have one tag.
            let wanted = if kind == Policy::Compact { leaves } else { leaves.min(16) };
            assert_eq!(found as u64, wanted, "{kind:?}");
            assert!((1..=MAX_LISTS).contains(&lists), "{kind:?}: {lists} lists");
            assert!(pair.backend.missing_pages().is_none(), "{kind:?}");
            let before = read(&disk.pages);
            let changes: Vec<Change> =
                (0..leaves).map(|leaf| store(leaf, pbn_of(leaf) + 1)).collect();
            for change in &changes {
                pair.backend.check_change(change).unwrap();
            }
            pair.backend.apply(&changes, &mut Vec::new()).unwrap();
            assert_eq!(read(&disk.pages), before, "{kind:?}: a change has read a page");
            drop(held);
            let seen = HeldPages::hold().look(|| look(&*pair.backend, &lbns, &contents));
            // A B-tree of this size fits the cache.
            let fits = leaves == 1 || kind == Policy::Cbt;
            assert!(fits || seen.is_none(), "{kind:?}: pages are held without a holder");
        }
    }
}

/// Pages read by the opening of a volume whose map has many pages above its leaves, and of clones
/// of it that differ in one block each.
fn read_with_clones(kind: Policy, clones: u32) -> u64 {
    /// LBNs below a page above the leaves.
    const APART: u64 = (DIRECTORY_ENTRIES * MAP_PAGE_ENTRIES) as u64;
    let store = |volume: u32, number: u64, pbn: u64| Change::Store {
        volume: VolumeId(volume),
        lbn: Lbn(number * APART),
        pbn: Pbn::new(pbn).unwrap(),
        fingerprint: fingerprint_of(pbn),
        checksum: checksum_of(pbn),
    };
    let mut pair = Pair::new(kind, 1);
    pair.apply(&Change::Create(record(1, LEAVES * APART * 512)));
    (0..LEAVES).for_each(|number| drop(pair.apply(&store(1, number, 1 + number))));
    for clone in 0..clones {
        pair.apply(&Change::Clone {
            source: VolumeId(1),
            volume: VolumeId(2 + clone),
            name: format!("v{clone}"),
            read_only: false,
            created_s: None,
        });
        pair.apply(&store(2 + clone, u64::from(clone), 1 + LEAVES + u64::from(clone)));
    }
    pair.backend.freeze();
    let root = pair.write();
    pair.backend.finish();
    let disk = CountingDisk::over(pair.metadata(), 0);
    // The next map finds no more than a half of the pages in the cache.
    let cache_bytes = LEAVES / 2 * PAGE_BYTES as u64;
    pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, cache_bytes);
    read(&disk.pages)
}

/// An opening reads pages that maps share once, also ahead.
#[test]
fn an_opening_reads_pages_of_several_maps_once() {
    for kind in [Policy::Dtb, Policy::Compact] {
        let (alone, with_clones) = (read_with_clones(kind, 0), read_with_clones(kind, 4));
        assert!(alone > LEAVES, "{kind:?}: {alone} pages");
        assert!(with_clones <= alone + 4 * 5, "{kind:?}: {alone}, then {with_clones}");
    }
}

/// A backend that reads pages one by one has no use for what lies beside them.
#[test]
fn the_disk_is_told_whether_reads_are_scattered() {
    for kind in [Policy::Cbt, Policy::Dtb, Policy::Compact, Policy::InRam] {
        let (_, disk) = opened(kind, 0);
        assert!(disk.is_scattered.load(Ordering::Relaxed), "{kind:?}");
    }
}

/// A checkpoint of one change writes every page. What it has written is read as a whole at the next
/// opening, and nothing after it.
#[test]
fn an_image_is_written_as_a_whole_and_read_as_a_whole() {
    for kind in [Policy::InRam, Policy::Compact] {
        let is_image = kind == Policy::InRam;
        let (mut pair, _) = opened_with(kind, 0, 0);
        for volume in [2, 3] {
            pair.apply(&Change::Clone {
                source: VolumeId(1),
                volume: VolumeId(volume),
                name: format!("v{volume}"),
                read_only: true,
                created_s: None,
            });
        }
        pair.apply(&store(0, pbn_of(LEAVES)));
        let before = pair.backend.totals().pages;
        let wanted = pair.backend.slots().next;
        pair.backend.freeze();
        let written = pair.backend.merge().unwrap()().unwrap();
        assert_eq!(written >= before, is_image, "{kind:?}: {written} of {before} pages");
        let taken = pair.backend.totals().pages - before;
        assert!(taken <= wanted, "{kind:?}: {taken} slots, {wanted} foretold");
        let root = pair.write_table();
        pair.backend.finish();
        // Pages that volumes share are written once.
        let after = pair.backend.totals().pages;
        assert!((before..before + 16).contains(&after), "{kind:?}: {before} pages, then {after}");
        let disk = CountingDisk::over(pair.metadata(), 0);
        pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, 0);
        assert_eq!(pair.backend.totals().pages, after, "{kind:?}");
        assert_eq!(pair.backend.catch_up().unwrap(), !is_image, "{kind:?}: the index is complete");
        while pair.backend.catch_up().unwrap() {}
        let opened = read(&disk.pages);
        let lbns: Vec<Lbn> = (1..LEAVES).map(lbn_of).collect();
        let contents: Vec<Fingerprint> = (1..LEAVES).map(pbn_of).map(fingerprint_of).collect();
        let found = look(&*pair.backend, &lbns, &contents).unwrap();
        assert_eq!(found as u64, LEAVES - 1, "{kind:?}");
        assert_eq!(read(&disk.pages) == opened, is_image, "{kind:?}");
        assert_eq!(pair.backend.prove(5).unwrap(), Vec::<String>::new());
    }
}

/// A comparison with a snapshot reads a page of each map for each leaf that differs, and none of
/// those that both maps share.
#[test]
fn a_comparison_reads_the_leaves_that_differ() {
    const CHANGED: u64 = 9;
    for kind in [Policy::Dtb, Policy::Compact, Policy::Cbt] {
        let (mut pair, disk) = opened(kind, 0);
        let (volume, snapshot) = (VolumeId(1), VolumeId(2));
        pair.apply(&Change::Clone {
            source: volume,
            volume: snapshot,
            name: "snapshot".into(),
            read_only: true,
            created_s: None,
        });
        let changed: Vec<u64> = (0..CHANGED).map(|number| number * LEAVES / CHANGED).collect();
        changed.iter().for_each(|leaf| drop(pair.apply(&store(*leaf, pbn_of(*leaf) + 1))));
        pair.backend.freeze();
        let root = pair.write();
        pair.backend.finish();
        pair.reload_from(Arc::clone(&disk) as Arc<dyn Disk>, &root, LARGE_CACHE_BYTES);
        let before = read(&disk.pages);
        let all = Lbn(0)..Lbn(u64::MAX);
        let found = pair.backend.differences(volume, Some(snapshot), all.clone(), 1000).unwrap();
        let lbns: Vec<Lbn> = found.entries.iter().map(|entry| entry.lbn).collect();
        assert_eq!(lbns, changed.iter().map(|leaf| lbn_of(*leaf)).collect::<Vec<_>>(), "{kind:?}");
        let pages = read(&disk.pages) - before;
        assert!((2 * CHANGED..=2 * CHANGED + ABOVE_PAGES).contains(&pages), "{kind:?}: {pages}");
        let same = pair.backend.differences(volume, Some(volume), all, 1000).unwrap();
        assert!(same.entries.is_empty() && read(&disk.pages) - before == pages, "{kind:?}");
    }
}
