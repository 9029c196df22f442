//! Clones share the nodes of maps, in memory, on disk and after a restart, and a map takes memory
//! by what is mapped. The accounting is exact: what a clone adds is counted, not timed.

use super::{
    VOLUME, backend, disk, load, new_backend, place, store, stored, superblock, write_checkpoint,
};
use crate::log::LogBackend;
use crate::log::nodes::{Content, Node, NodeId};
use crate::tests::record;
use crate::{
    BackendContext, Checkpoint, Damage, LoadOptions, Map, MetadataBackend, Repair, Sealed, Totals,
    Volumes,
};
use gemelo_base::random::Random;
use gemelo_disk::{Disk, FileDisk};
use gemelo_format::{BackendKind, Change, Lbn, MapEntry, Pbn, Root, Slot, VolumeId};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The most bytes of the table for a clone with a short name that is never written.
const CLONE_BYTES: u64 = 100;

fn clone_of(source: VolumeId, volume: u32) -> Change {
    Change::Clone {
        source,
        volume: VolumeId(volume),
        name: format!("clone-{volume}"),
        read_only: true,
        created_s: Some(1_700_000_000),
    }
}

fn change(backend: &mut LogBackend, change: Change) -> Vec<Pbn> {
    let mut freed = Vec::new();
    backend.apply(&[change], &mut freed).unwrap();
    freed
}

/// A backend with a volume of 5000 blocks.
fn filled() -> LogBackend {
    let mut backend = backend();
    let stores: Vec<Change> = (0..5000).map(|lbn| store(lbn, lbn + 1)).collect();
    backend.apply(&stores, &mut Vec::new()).unwrap();
    backend
}

fn checkpoint(backend: &mut LogBackend, disk: &FileDisk) -> (Sealed, Totals) {
    backend.freeze();
    let totals = backend.totals();
    let sealed = write_checkpoint(backend, disk);
    backend.finish();
    (sealed, totals)
}

fn nodes(backend: &LogBackend) -> usize {
    backend.nodes.all().count()
}

fn is_sound(backend: &LogBackend) {
    assert_eq!(backend.prove(9).unwrap(), Vec::<String>::new());
}

#[test]
fn clones_that_are_never_written_cost_their_record() {
    for clones in [100, 10_000] {
        let (_directory, disk) = disk();
        let mut backend = filled();
        let (before, totals_before) = checkpoint(&mut backend, &disk);
        let (nodes_before, pages_before) = (nodes(&backend), backend.totals().pages);
        for volume in 2..clones + 2 {
            change(&mut backend, clone_of(VOLUME, volume));
        }
        let (sealed, totals) = checkpoint(&mut backend, &disk);
        let table_bytes = sealed.table_bytes - before.table_bytes;
        assert!(table_bytes <= u64::from(clones) * CLONE_BYTES, "{table_bytes} bytes");
        let table_pages = |sealed: Sealed| sealed.table_bytes.div_ceil(4084);
        assert_eq!(
            backend.totals().pages - pages_before,
            table_pages(sealed) - table_pages(before),
            "a clone writes no page but its part of the table"
        );
        assert_eq!(totals.memory_bytes, totals_before.memory_bytes);
        assert_eq!(nodes(&backend), nodes_before);

        let mut loaded = load(&disk, sealed, totals);
        assert_eq!(nodes(&loaded), nodes_before, "each node is read once");
        assert_eq!(loaded.totals().references, 5000 * u64::from(clones + 1));
        assert_eq!(loaded.totals().physical, 5000);
        assert_eq!(loaded.totals().pages, backend.totals().pages);
        is_sound(&loaded);

        for volume in 2..clones + 2 {
            let end = loaded.piece_end(VolumeId(volume), Lbn(0), 512);
            assert!(end.0 >= gemelo_format::MAX_VOLUME_BLOCKS, "one change drops all of it");
            assert_eq!(change(&mut loaded, Change::Remove { volume: VolumeId(volume) }), []);
        }
        assert_eq!((nodes(&loaded), loaded.totals().references), (nodes_before, 5000));
        is_sound(&loaded);
    }
}

#[test]
fn a_chain_of_snapshots_costs_what_differs() {
    const SNAPSHOTS: u32 = 1000;
    let (_directory, disk) = disk();
    let mut backend = filled();
    let memory_before = backend.totals().memory_bytes;
    let mut words = Vec::new();
    for number in 0..SNAPSHOTS {
        change(&mut backend, clone_of(VOLUME, number + 2));
        let lbn = u64::from(number) * 7 % 5000;
        words.push((lbn, place(&backend, lbn)));
        change(&mut backend, store(lbn, 5001 + u64::from(number)));
        if number % 100 == 50 {
            checkpoint(&mut backend, &disk);
        }
    }
    // A leaf of 4 KiB and two nodes above it, rounded up.
    let most = u64::from(SNAPSHOTS) * (4096 + 2048);
    assert!(backend.totals().memory_bytes - memory_before < most);
    is_sound(&backend);
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let mut loaded = load(&disk, sealed, totals);
    assert_eq!(nodes(&loaded), nodes(&backend));
    is_sound(&loaded);
    for (number, (lbn, right)) in (2..).zip(&words) {
        let mut places = Vec::new();
        loaded.look_up(VolumeId(number), &[Lbn(*lbn)], &mut places).unwrap();
        assert_eq!(places, [*right], "snapshot {number}");
    }
    for number in (2..SNAPSHOTS + 2).step_by(2) {
        change(&mut loaded, Change::Remove { volume: VolumeId(number) });
    }
    is_sound(&loaded);
    for number in (3..SNAPSHOTS + 2).step_by(2).chain([VOLUME.0]) {
        change(&mut loaded, Change::Remove { volume: VolumeId(number) });
    }
    is_sound(&loaded);
    assert_eq!((loaded.totals().physical, nodes(&loaded)), (0, 0));
}

#[test]
fn a_clone_that_is_written_beyond_the_map_of_its_source_does_not_change_it() {
    let mut backend = new_backend(10_000);
    change(&mut backend, Change::Create(record(VOLUME.0, 512 << 30)));
    change(&mut backend, store(0, 1));
    change(&mut backend, clone_of(VOLUME, 2));
    change(&mut backend, store(1 << 20, 2));
    assert_eq!(backend.mapped_blocks(VolumeId(2)), 1);
    let mut places = Vec::new();
    backend.look_up(VolumeId(2), &[Lbn(0), Lbn(1 << 20)], &mut places).unwrap();
    assert_eq!(places, [stored(1), MapEntry::Unmapped]);
    assert_eq!([0, 1 << 20].map(|lbn| place(&backend, lbn)), [stored(1), stored(2)]);
    is_sound(&backend);
}

#[test]
fn volumes_change_while_a_checkpoint_is_under_way() {
    let (_directory, disk) = disk();
    let mut backend = filled();
    change(&mut backend, clone_of(VOLUME, 2));
    backend.freeze();
    let totals = backend.totals();
    change(&mut backend, store(9, 6000));
    change(&mut backend, clone_of(VOLUME, 3));
    change(&mut backend, store(10, 6001));
    change(&mut backend, Change::Remove { volume: VolumeId(2) });
    change(&mut backend, Change::Remove { volume: VOLUME });
    let sealed = write_checkpoint(&mut backend, &disk);
    backend.finish();
    let frozen = load(&disk, sealed, totals);
    assert_eq!(frozen.volumes().len(), 2);
    assert_eq!([9, 10].map(|lbn| place(&frozen, lbn)), [stored(10), stored(11)]);
    is_sound(&frozen);
    is_sound(&backend);
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let loaded = load(&disk, sealed, totals);
    assert_eq!(loaded.volumes().len(), 1);
    let mut places = Vec::new();
    loaded.look_up(VolumeId(3), &[Lbn(9), Lbn(10)], &mut places).unwrap();
    assert_eq!(places, [stored(6000), stored(11)]);
    assert_eq!(loaded.totals().pages, backend.totals().pages, "no slot is lost");
    is_sound(&loaded);
}

#[test]
fn a_removal_gives_up_what_no_other_volume_has() {
    let mut backend = filled();
    change(&mut backend, clone_of(VOLUME, 2));
    change(&mut backend, store(700, 6000));
    let end = backend.piece_end(VOLUME, Lbn(0), 512);
    assert!(end.0 < 5000, "the leaf of its own is a piece: {end:?}");
    let mut freed = Vec::new();
    let mut next = Lbn(0);
    let mut pieces = 0;
    while let Some(first) = backend.next_mapped(VOLUME, next, Lbn(u64::MAX)).unwrap() {
        next = backend.piece_end(VOLUME, first, 512);
        let unmap = Change::Unmap { volume: VOLUME, first, count: next.0 - first.0 };
        freed.extend(change(&mut backend, unmap));
        pieces += 1;
    }
    assert_eq!(freed, [Pbn::new(6000).unwrap()]);
    assert!(pieces <= 12, "{pieces} pieces for ten leaves");
    is_sound(&backend);
    assert_eq!(backend.mapped_blocks(VolumeId(2)), 5000);
}

#[test]
fn a_sparse_volume_takes_memory_by_what_is_mapped() {
    const BLOCKS: u64 = 10 << 28;
    const MAPPED: u64 = 60_000;
    let (_directory, disk) = disk();
    let mut backend = new_backend(100_000);
    let memory_before = backend.nodes.memory_bytes();
    backend.apply(&[Change::Create(record(VOLUME.0, 512 * BLOCKS))], &mut Vec::new()).unwrap();
    let mut random = Random::new(1);
    let mut right = BTreeMap::new();
    for pbn in 1..=MAPPED {
        let lbn = random.below(BLOCKS);
        change(&mut backend, store(lbn, pbn));
        right.insert(lbn, pbn);
    }
    let bytes = backend.nodes.memory_bytes() - memory_before;
    assert!(bytes < 40 * MAPPED, "{bytes} bytes");
    is_sound(&backend);
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let map_pages = nodes(&backend);
    assert!(map_pages < 60_000 / 120, "{map_pages} pages");
    let mut loaded = load(&disk, sealed, totals);
    is_sound(&loaded);
    assert_eq!(loaded.mapped_blocks(VOLUME), right.len() as u64);
    let mut next = Lbn(0);
    for (lbn, pbn) in &right {
        assert_eq!(loaded.next_mapped(VOLUME, next, Lbn(BLOCKS)).unwrap(), Some(Lbn(*lbn)));
        assert_eq!(place(&loaded, *lbn), stored(*pbn));
        next = Lbn(lbn + 1);
    }
    let unmap = Change::Unmap { volume: VOLUME, first: Lbn(0), count: BLOCKS };
    assert_eq!(change(&mut loaded, unmap).len(), right.len());
    assert_eq!(nodes(&loaded), 0);
    is_sound(&loaded);
}

#[test]
fn a_dense_volume_has_a_page_for_each_512_blocks() {
    let backend = filled();
    let dense = |node: &&Node| matches!(node.content, Content::Dense(..));
    assert_eq!(backend.nodes.all().map(|(_, node)| node).filter(dense).count(), 10);
    assert_eq!(nodes(&backend), 11, "an inner node is above the ten leaves");
}

/// Damages both copies of the pages of nodes.
fn damage(disk: &FileDisk, slots: &[Slot]) {
    for offset in slots.iter().flat_map(|slot| superblock().regions().slot(*slot)) {
        disk.write_at(offset, &[0xAA; 4096]).unwrap();
    }
}

fn slot(backend: &LogBackend, id: NodeId) -> Slot {
    let (_, at) = backend.nodes.get(id).written.unwrap().page.unwrap();
    at.slot
}

fn load_damaged(disk: &Arc<FileDisk>, sealed: Sealed, totals: Totals) -> (LogBackend, Damage) {
    let root = Root {
        backend: BackendKind::Log,
        generation: 1,
        next_commit: 1,
        journal_offset: 0,
        table: sealed.table,
        table_bytes: sealed.table_bytes,
        data_blocks: totals.data_blocks,
        next_volume: totals.next_volume,
        references: totals.references,
        physical: totals.physical,
    };
    let (superblock, mut damage) = (superblock(), Damage::default());
    let home = BackendContext::new(Arc::clone(disk) as Arc<dyn Disk>, &superblock);
    let options = LoadOptions { cache_bytes: 0, salvages: true };
    let mut backend = LogBackend::load(&home, &root, false, options, &mut damage).unwrap();
    backend.settle().unwrap();
    (backend, damage)
}

#[test]
fn a_lost_node_is_damage_of_every_volume_that_has_it() {
    let (_directory, disk) = disk();
    let mut backend = filled();
    (2..5).for_each(|volume| drop(change(&mut backend, clone_of(VOLUME, volume))));
    // One clone has a leaf of its own there.
    let own = Change::Share {
        volume: VolumeId(4),
        lbn: Lbn(0),
        pbn: Pbn::new(2).unwrap(),
        checksum: gemelo_format::Checksum(2),
    };
    change(&mut backend, own);
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let has_first = |(_, node): &(NodeId, &Node)| match &node.content {
        Content::Dense(words, _) => words[0] == gemelo_format::WordForm::Narrow.word(stored(1)),
        _ => false,
    };
    let (first_leaf, _) = backend.nodes.all().find(has_first).unwrap();
    damage(&disk, &[slot(&backend, first_leaf)]);
    let (mut loaded, found) = load_damaged(&disk, sealed, totals);
    let lost = |name: &str| format!("where blocks 0 to 511 of volume '{name}' are");
    assert_eq!(found.lost, [lost("v1"), lost("clone-2"), lost("clone-3")]);
    let places = |backend: &LogBackend, volume| {
        let mut places = Vec::new();
        backend.look_up(VolumeId(volume), &[Lbn(0), Lbn(511), Lbn(512)], &mut places).unwrap();
        places
    };
    let damaged = [MapEntry::Damaged, MapEntry::Damaged, stored(513)];
    assert_eq!([1, 2, 3].map(|volume| places(&loaded, volume)), [(); 3].map(|()| damaged.to_vec()));
    assert_eq!(places(&loaded, 4), [stored(2), stored(512), stored(513)]);
    is_sound(&loaded);

    // The loss is kept, and takes a page no more. A write ends it for its block.
    let (sealed, totals) = checkpoint(&mut loaded, &disk);
    let (mut loaded, found) = load_damaged(&disk, sealed, totals);
    assert_eq!((found.lost, found.harmless), (Vec::new(), Vec::new()));
    assert_eq!(places(&loaded, 2), damaged);
    assert_eq!(loaded.mapped_blocks(VolumeId(2)), 5000);
    change(&mut loaded, store(0, 7000));
    assert_eq!(places(&loaded, 1), [stored(7000), MapEntry::Damaged, stored(513)]);
    assert_eq!(places(&loaded, 2), damaged);
    is_sound(&loaded);
}

#[test]
fn a_lost_leaf_of_a_long_stretch_ends_with_the_volume() {
    let (_directory, disk) = disk();
    let mut backend = backend();
    change(&mut backend, store(3, 1));
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let (leaf, _) = backend.nodes.all().next().unwrap();
    damage(&disk, &[slot(&backend, leaf)]);
    let (mut loaded, found) = load_damaged(&disk, sealed, totals);
    assert_eq!(found.lost, ["where blocks 0 to 4999 of volume 'v1' are"]);
    assert_eq!(loaded.mapped_blocks(VOLUME), 5000);
    is_sound(&loaded);
    change(&mut loaded, Change::Resize { volume: VOLUME, size_bytes: 512 * 6000 });
    let at = [0, 4999, 5000, 5999].map(|lbn| place(&loaded, lbn));
    assert_eq!(at, [MapEntry::Damaged, MapEntry::Damaged, MapEntry::Unmapped, MapEntry::Unmapped]);
    change(&mut loaded, store(4000, 9));
    let unmap = Change::Unmap { volume: VOLUME, first: Lbn(100), count: 4800 };
    change(&mut loaded, unmap);
    assert_eq!(loaded.mapped_blocks(VOLUME), 200);
    is_sound(&loaded);
}

#[test]
fn a_lost_content_is_marked_in_a_shared_leaf() {
    let (_directory, disk) = disk();
    let mut backend = filled();
    change(&mut backend, clone_of(VOLUME, 2));
    let nodes_before = nodes(&backend);
    backend.restore(&[], &HashSet::from([stored(8)])).unwrap();
    let (sealed, totals) = checkpoint(&mut backend, &disk);
    let loaded = load(&disk, sealed, totals);
    for volume in [VOLUME, VolumeId(2)] {
        let mut places = Vec::new();
        loaded.look_up(volume, &[Lbn(7), Lbn(8)], &mut places).unwrap();
        assert_eq!(places, [MapEntry::Damaged, stored(9)]);
    }
    assert_eq!((nodes(&loaded), loaded.totals().references), (nodes_before, 2 * 4999));
    is_sound(&loaded);
}
